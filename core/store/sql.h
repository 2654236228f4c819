/*
 * The public functions of <busbar/sql.h> and <busbar/event.h>: queries and ids (sql.c), units and
 * interactive transactions (tx.c), events (bus.c). All run on the request's fiber, unless noted.
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
    struct bb_tx *next;        /* in the request's list */
    struct pg_tx *checked_out; /* interactive: the connection */
    struct pg_request *entry;  /* a unit's statements; interactive: statements that hooks have
                                * added */
    int first_hook_statement;  /* interactive: the index of the first statement of `entry` */
    bool over;                 /* unit: committed, or the commit failed */
    int count;                 /* number of statements */
    struct bb_rows **results;  /* by statement; a unit's after its commit */
    size_t results_room;
    struct tx_before *before;
    struct tx_after *after, *after_last;
    struct raised *raised, *raised_last;
};

/*
 * Whether the transaction is in the request's list and still open; otherwise an error is logged and
 * the request answered 500. `what` is the function's name. rq NULL: no request runs.
 */
bool tx_usable(struct core_request *rq, const struct bb_tx *tx, const char *what);

/*
 * The request's statement failed. In a job, a hook or a command this is logged at
 * once. If a table, column or function is undefined, it asks PostgreSQL whether a migration is
 * running.
 */
void sql_failed(struct core_request *rq, const struct failure *failure);

struct bb_rows *sql_query(struct core_request *rq, const struct bb_sql *sql,
                          const struct bb_value *values, size_t count);

/* Frees the blocks of ids that the loop holds. Loop's thread, or after it has ended. */
void sql_ids_free(struct loop *loop);

/* Starts the committed hooks of a transaction (bus.c). */
void bus_committed(struct bb_tx *tx);

/* Number of hooks that could not be started since the process began. Any thread. */
uint64_t bus_hooks_lost(void);

struct bb_rows *api_query(struct bb_request *rq, const struct bb_sql *sql,
                          const struct bb_value *values, size_t count);
size_t api_rows_count(const struct bb_rows *rows);
size_t api_rows_affected(const struct bb_rows *rows);
const char *api_rows_text(const struct bb_rows *rows, size_t row, size_t column);
size_t api_rows_length(const struct bb_rows *rows, size_t row, size_t column);
const char *api_sqlstate(struct bb_request *rq);
const char *api_constraint(struct bb_request *rq);
struct bb_tx *api_unit(struct bb_request *rq, uint64_t key);
int api_add(struct bb_tx *tx, const struct bb_sql *sql, const struct bb_value *values,
            size_t count);
int api_commit(struct bb_request *rq, struct bb_tx *unit, int status, json_t *json);
struct bb_rows *api_unit_rows(struct bb_tx *unit, int index);
int api_transaction(struct bb_request *rq, int (*work)(struct bb_request *, struct bb_tx *, void *),
                    void *arg);
struct bb_rows *api_tx_query(struct bb_tx *tx, const struct bb_sql *sql,
                             const struct bb_value *values, size_t count);
void api_after(struct bb_tx *tx, void (*then)(struct bb_request *, struct bb_tx *, void *),
               void *arg);
void *api_before(struct bb_tx *tx, int (*last)(struct bb_request *, struct bb_tx *, void *),
                 size_t size);
int64_t api_next_id(struct bb_request *rq, const char *sequence);
int api_emit(struct bb_tx *tx, const char *name, json_t *payload,
             const struct bb_audience *audience);

#endif
