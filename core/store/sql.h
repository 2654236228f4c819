/*
 * Implements <busbar/sql.h> and <busbar/event.h>: queries and ids (sql.c), units and interactive
 * transactions (tx.c), events (bus.c). All run on the request's fiber, unless noted.
 */
#ifndef CORE_SQL_H
#define CORE_SQL_H

#include "core/module/request.h"
#include "core/store/pg.h"

/* Key of the advisory lock for migrations. */
#define MIGRATION_LOCK "7094709482943872001"

/* An event of a transaction, kept for the committed hooks until the commit. */
struct raised {
    struct raised *next;
    const struct core_event *event;
    struct bb_event descriptor;
    json_t *payload; /* owned */
};

/* A call of bb_after(). */
struct tx_after {
    struct tx_after *next;
    struct bb_host *host;
    void (*then)(struct bb_request *, struct bb_tx *, void *);
    void *arg;
};

/* A call of bb_before(), with its memory. */
struct tx_before {
    struct tx_before *next;
    struct bb_host *host;
    int (*last)(struct bb_request *, struct bb_tx *, void *);
    void *state;
};

struct bb_tx {
    struct core_request *rq;
    struct bb_tx *next;         /* in the request's list */
    struct pg_tx *checked_out;  /* interactive: the connection */
    struct pg_request *request; /* a unit's statements; interactive: statements of hooks */
    int first_hook_statement;   /* interactive: the index of the first statement of `request` */
    bool over;                  /* unit: committed, or the commit failed */
    int count;                  /* number of statements */
    struct bb_rows **results;   /* one for each statement; a unit has them after its commit */
    size_t results_room;
    struct tx_before *before;
    struct tx_after *after, **after_end;
    struct raised *raised, **raised_end;
};

/*
 * Returns whether the transaction is in the request's list and still open; otherwise logs an error
 * and answers with 500. `what` is the function's name. rq NULL: no request runs.
 */
bool tx_usable(struct core_request *rq, const struct bb_tx *tx, const char *what);

/*
 * Records the failure of the request's statement; in a job, a hook or a command, also logs it. If a
 * table, column or function is undefined, asks PostgreSQL whether a migration is running.
 */
void sql_failed(struct core_request *rq, const struct failure *failure);

struct bb_rows *sql_query(struct core_request *rq, const struct bb_sql *sql,
                          const struct bb_value *values, size_t count);

/*
 * Checks the Idempotency-Key of a request; `target` is its raw path with the query, `body` its raw
 * body. Returns 0 if the request must be processed. Otherwise answers with the stored response or
 * an error, and returns the status. Parks.
 */
int idempotency_begin(struct core_request *rq, const struct bb_route *route, const char *target,
                      const char *key, const char *body, size_t body_length);

/* Deletes expired keys; a job of the host. */
void idempotency_expire(struct core_request *rq);

/*
 * Forgets the ids that the loop holds, because a promoted standby may lack the record that they
 * were taken, and may give them to another host.
 */
void sql_ids_forget(struct loop *loop);

/* Frees the blocks of ids that the loop holds. Loop's thread, or after it has ended. */
void sql_ids_free(struct loop *loop);

/* Starts the committed hooks of a transaction (bus.c). */
void bus_committed(struct bb_tx *tx);

/* Returns the number of hooks that could not be started since the process began. Any thread. */
uint64_t bus_hooks_lost(void);

#endif
