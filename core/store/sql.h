/*
 * Implements <busbar/sql.h> and <busbar/event.h>: queries and ids (sql.c), units and interactive
 * transactions (tx.c), events (bus.c). Call these functions on a fiber, unless noted.
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

/* A function that was passed to bb_before(), and its memory `state`. */
struct tx_before {
    struct tx_before *next;
    struct bb_host *host;
    int (*last)(struct bb_request *, struct bb_tx *, void *);
    void *state;
};

struct bb_tx {
    struct core_request *rq;
    struct bb_tx *next;         /* in the request's list */
    struct pg_tx *checked_out;  /* the connection of an interactive transaction; NULL in a unit */
    struct pg_request *request; /* statements of a unit, or waiting statements of `within` hooks */
    int first_hook_statement;   /* index in `results` of the first waiting statement of a hook */
    bool over;                  /* a unit was sent, so it cannot be used any more */
    int count;                  /* number of statements added so far */
    struct bb_rows **results;   /* rows of each statement; a unit has them only after its commit */
    size_t results_room;
    struct tx_before *before;
    struct tx_after *after, **after_end;
    struct raised *raised, **raised_end;
};

/*
 * Returns whether the transaction is in the request's list and still open; otherwise logs an error
 * and answers with 500. `what` is the function's name. `rq` is NULL if no request is running.
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

/*
 * Answers with the response stored for the request's key, or with 422 if the key was used for a
 * different request, and returns the status. Returns 0 if nothing is stored. Parks.
 */
int idempotency_look(struct core_request *rq);

/* Deletes expired idempotency keys. The host runs this as a job. */
void idempotency_expire(struct core_request *rq);

/*
 * Forgets the ids that the loop has reserved. Called when a connection is lost, because a promoted
 * standby that lacks the reservation may give the same ids to another host.
 */
void sql_ids_forget(struct loop *loop);

/* Frees the memory of the reserved ids. Call it on the loop's thread, or after the thread's end. */
void sql_ids_free(struct loop *loop);

/* Starts the committed hooks of a transaction (bus.c). */
void bus_committed(struct bb_tx *tx);

/* Returns the number of hooks that could not be started since the process began. Any thread. */
uint64_t bus_hooks_lost(void);

#endif
