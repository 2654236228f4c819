/*
 * PostgreSQL in a loop.
 *
 * The unit of work is a struct pg_request, in core/store called a *request*: one or more statements
 * that belong together (a query is a request with one statement, a unit a request with several).
 * The *caller* of a request is the HTTP request, job, hook or command (struct core_request) that
 * waits for it. Requests wait in a *pool* of connections and are sent in *batches*: at the end of a
 * loop iteration, a connection takes up to 64 of its waiting requests, with up to 64 KiB of values
 * (conn_make_batch() in pg_conn.c, with pg_conn_next() in pg_pool.c). A batch ends with one Sync,
 * and is therefore one transaction. A connection of the first three pools has at most two batches
 * in progress; requests that arrive until one is complete share the next batch. The pools:
 *
 * - read: queries; if the connection is lost, they are sent again
 * - write: single statements that write; if the connection is lost after sending, they fail
 * - unit: transactions known in advance, which share a commit; they fail like writes
 * - long: statements that may take long, requests with more than 64 KiB of values, and units with
 *   the key of such a unit; one at a time per connection, so that no batch waits for them
 * - tx: interactive transactions, each with a connection checked out by one caller (pg_tx.c)
 *
 * If a request of a batch fails, PostgreSQL skips the rest of the batch and rolls all of it back.
 * The other requests are sent again, writes one by one; reads that already have a result keep it.
 *
 * Waiting requests are served round robin by owner, and each owner has a share of a pool (quota.h):
 * of the queue, of each batch, of long statements in progress, and of checked out connections.
 *
 * A request can outlive its caller: a caller that no longer waits calls pg_request_abandon(), and
 * the results are dropped when they arrive. All functions must be called on the loop's thread.
 */
#ifndef CORE_PG_H
#define CORE_PG_H

#include <libpq-fe.h>

#include <busbar/sql.h>

#include "core/lib/loop.h"
#include "core/module/request.h"

enum pg_pool_kind { PG_READ, PG_WRITE, PG_UNIT, PG_LONG, PG_TX, PG_POOLS };
extern const char *const pg_pool_names[PG_POOLS];

/* A flag of the host's own BEGIN, COMMIT and ROLLBACK, which no module may send. */
#define PG_SQL_OF_HOST (1U << 31)

/* The SQLSTATE that a module gets if its statement ended a transaction or changed the session. */
#define PG_NOT_ALLOWED "25000"

/* Rows of a statement as modules see them. */
struct bb_rows {
    PGresult *result; /* NULL until it arrives; if `shared` is NULL, freed with these rows */
    struct pg_shared
        *shared;      /* the owner of `result` if several requests share it (pg_merge.c); or NULL */
    const int *order; /* indexes of these rows in `result`; NULL: all rows of `result` */
    int count;
};

/* A statement with its values in libpq's format. */
struct pg_op {
    struct pg_op *next;
    const struct bb_sql *sql;
    const struct bb_host *host; /* the module that issued it */
    struct account *account;    /* counters of this module, which outlive `host` */
    int count;
    const char **values;
    int *lengths;
    int *formats;
    struct bb_rows rows; /* freed with the request, unless pg_rows_take() has moved them */
    bool preparing;      /* PostgreSQL's next result reports that the statement was prepared */
};

struct pg_request {
    struct pg_request *next;
    struct fair_entry queued; /* place in a queue; `owner` stays set until pg_request_leave() */
    struct pg_pool *pool;     /* valid while queued.owner is set */
    struct core_request *rq;  /* the caller; NULL: pg_request_abandon() was called */
    struct pg_op *ops, *last;
    size_t bytes;              /* size of all values of its statements */
    uint64_t key;              /* of a unit: units with the same key use the same connection */
    unsigned tries;            /* number of times it was sent */
    int64_t asked_us, sent_us; /* monotonic times; sent_us is 0 until it is sent */
    bool write;                /* must not be sent again after a lost connection */
    bool alone;                /* must be in a separate batch */
    bool single;               /* must not share executions with other requests */
    bool uses_earlier_result;  /* is not sent: gets rows of an earlier request of its batch */
    unsigned members; /* first request of a shared execution: number of members; others: 0 */
    struct pg_request *next_member; /* the next request of the same shared execution */
    bool sent;                      /* is part of a batch in progress */
    bool running;                   /* is counted in `running` of its owner (long pool) */
    bool large;                     /* is a unit in the long pool, and in the list pg.large */
    LIST_ENTRY(pg_request) large_link;
    bool done; /* the caller may read the results or the failure */
    struct failure failure;
    struct arena *memory; /* contains this struct, its statements and their values */
};

struct pg_pool;
struct pg_tx; /* a connection that pg_tx_begin() has checked out */

/*
 * Begins to connect to the replicas in the loop's settings. Returns 0, or -1 if memory ran out.
 * Commands do not call this: without it, all statements run on the primary.
 */
int pg_replicas_open(struct pg *pg);
extern const char *const pg_replica_states[]; /* a text for each enum replica_state */

/*
 * Runs a statement with BB_SQL_REPLICA on a replica that has every commit made before this call.
 * Returns NULL, without a failure, if the statement must run on the primary. Fiber only.
 */
struct bb_rows *pg_replica_query(struct core_request *rq, const struct bb_sql *sql,
                                 const struct bb_value *values, size_t count);

/* Creates the pools according to the settings `database`. Returns NULL if memory ran out. */
struct pg *pg_new(struct loop *loop);
void pg_free(struct pg *pg);

/* Stores the state of the pools in the loop's statistics, see struct loop_stats. */
void pg_publish(const struct pg *pg);

/* Sends waiting requests in batches. Called at the end of each iteration; `of` is a struct pg. */
void pg_flush(void *of);

/* Create a request, without or with a statement. If memory runs out, end `rq`. Fiber only. */
struct pg_request *pg_request_new(struct core_request *rq);
struct pg_request *pg_request_one(struct core_request *rq, const struct bb_sql *sql,
                                  const struct bb_value *values, size_t count);

/* Adds a statement and copies the values. Returns NULL if memory ran out. */
struct pg_op *pg_request_add(struct pg_request *request, const struct bb_sql *sql,
                             const struct bb_value *values, size_t count);

/*
 * Adds a request to the queue of a pool. `pg` may be NULL (no database). Returns 0, or -1 with the
 * failure FAILED_UNAVAILABLE, FAILED_BUSY, FAILED_SHARE or FAILED_MEMORY in request->rq.
 */
int pg_submit(struct pg *pg, enum pg_pool_kind pool, struct pg_request *request);

/* For a caller that no longer waits: frees the request now, or as soon as its results arrive. */
void pg_request_abandon(struct pg_request *request);

/* Frees a request; NULL is allowed. Has the type that request_defer() needs. */
void pg_request_free(void *request);

/* Frees the result of a struct bb_rows. Has the type that request_defer() needs. */
void pg_rows_drop(void *rows);

/* Allocates empty rows in the arena of `rq`; their result is freed with the arena. Fiber only. */
struct bb_rows *pg_rows_new(struct core_request *rq);

/* Moves the statement's rows to `rows`. Returns `rows`, or NULL if the statement has no result. */
struct bb_rows *pg_rows_take(struct core_request *rq, struct bb_rows *rows, struct pg_op *op);

/* Frees the results of all rows that pg_rows_new() has allocated in the arena. */
void pg_rows_release(struct arena *arena);

/*
 * Checks out a connection of the tx pool for the caller, and waits for one if necessary. On failure
 * sets rq->failure and returns NULL. pg_tx_end() returns the connection to the pool, or closes it
 * if a statement or transaction is still in progress.
 */
struct pg_tx *pg_tx_begin(struct core_request *rq);
/* Runs the statements of a request. Returns 0, or -1: then the caller no longer owns `request`. */
int pg_tx_run_request(struct pg_tx *tx, struct pg_request *request);
/* Runs a statement. Returns its rows (see pg_rows_new()), or NULL with tx->rq->failure set. */
struct bb_rows *pg_tx_run(struct pg_tx *tx, const struct bb_sql *sql, const struct bb_value *values,
                          size_t count);
void pg_tx_end(struct pg_tx *tx);
/* Like pg_tx_end(), but always closes the connection. Has the type that arena_defer() needs. */
void pg_tx_drop(void *tx);

/* Fills a failure from an error result of `op` (NULL: of the commit). */
void pg_failure(struct failure *failure, const struct pg_op *op, const PGresult *result);

#endif
