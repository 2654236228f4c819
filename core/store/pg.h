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
 * - read: queries; after a lost connection they are sent again
 * - write: single statements that write; after a lost connection, never sent again once sent
 * - unit: transactions known in advance, which share a commit; after a lost connection like write
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

/* The SQLSTATE of a module's statement that ended a transaction or changed the session. */
#define PG_NOT_ALLOWED "25000"

/* Rows of a statement as modules see them. */
struct bb_rows {
    PGresult *result; /* owned, unless it is shared; NULL: none yet */
    struct pg_shared
        *shared;      /* the shared execution that `result` is from, see pg_merge.c; or NULL */
    const int *order; /* indexes of the rows; NULL: all rows of `result` */
    int count;
};

/* A statement with its values in libpq's format. */
struct pg_op {
    struct pg_op *next;
    const struct bb_sql *sql;
    const struct bb_host *host; /* the module that issued it */
    struct account *account;    /* its account, which outlives `host` */
    int count;
    const char **values;
    int *lengths;
    int *formats;
    struct bb_rows rows; /* owned until taken */
    bool preparing;      /* the next result is for preparing, not for executing */
};

struct pg_request {
    struct pg_request *next;
    struct fair_entry queued; /* also has the owner while the request is in progress */
    struct pg_pool *pool;     /* set while it has an owner */
    struct core_request *rq;  /* NULL: abandoned */
    struct pg_op *ops, *last;
    size_t bytes;                   /* size of its values */
    uint64_t key;                   /* unit pool: determines the connection */
    unsigned tries;                 /* number of times it was sent */
    int64_t asked_us, sent_us;      /* monotonic; sent_us 0: not yet */
    bool write;                     /* must not be sent again after a lost connection */
    bool alone;                     /* must be in a separate batch */
    bool single;                    /* must not share executions with other requests */
    bool uses_earlier_result;       /* shares the executions of an earlier request of its batch */
    unsigned members;               /* requests sharing executions; 0: none, or not the first */
    struct pg_request *next_member; /* the next of these requests */
    bool sent;                      /* is part of a batch in progress */
    bool running;                   /* counts as in progress for its owner */
    bool large;                     /* a unit in the long pool, in this list: */
    LIST_ENTRY(pg_request) large_link;
    bool done; /* the caller may take the results */
    struct failure failure;
    struct arena *memory; /* contains the request itself and its values */
};

struct pg_pool;
struct pg_tx; /* a checked out connection */

/*
 * Connects to the replicas of the loop's settings (pg_replica.c). -1: out of memory. If this is not
 * called, as in a command, all statements run on the primary.
 */
int pg_replicas_open(struct pg *pg);
extern const char *const pg_replica_states[]; /* index 0: the replica is in use */

/*
 * Runs a statement with BB_SQL_REPLICA on a replica that has everything that is committed now.
 * Returns NULL, without a failure, if the statement must run on the primary. Fiber only.
 */
struct bb_rows *pg_replica_query(struct core_request *rq, const struct bb_sql *sql,
                                 const struct bb_value *values, size_t count);

/* Creates the pools by the loop's settings of `database`. NULL: out of memory. */
struct pg *pg_new(struct loop *loop);
void pg_free(struct pg *pg);

/* Stores the state of the pools in the loop's statistics, see struct loop_stats. */
void pg_publish(const struct pg *pg);

/* Sends the waiting requests of a struct pg that fit into the next batches. Once per iteration. */
void pg_flush(void *of);

/* Create a request without or with a statement. Out of memory: `rq` is ended. Fiber only. */
struct pg_request *pg_request_new(struct core_request *rq);
struct pg_request *pg_request_one(struct core_request *rq, const struct bb_sql *sql,
                                  const struct bb_value *values, size_t count);

/* Adds a statement; copies the values. NULL: out of memory. */
struct pg_op *pg_request_add(struct pg_request *request, const struct bb_sql *sql,
                             const struct bb_value *values, size_t count);

/*
 * Adds a request to the queue of a pool (pg NULL: no database is configured). Returns 0, or -1 with
 * the caller's failure set: FAILED_UNAVAILABLE, FAILED_BUSY, FAILED_SHARE or FAILED_MEMORY.
 */
int pg_submit(struct pg *pg, enum pg_pool_kind pool, struct pg_request *request);

/* Frees the request, for which no caller waits any more, now or when its results have arrived. */
void pg_request_abandon(struct pg_request *request);

/* Frees a request; NULL is allowed. A function for request_defer(). */
void pg_request_free(void *request);

/* Frees the result of a struct bb_rows. A function for request_defer(). */
void pg_rows_drop(void *rows);

/* Allocates rows in the caller's arena, which drops them later. Fiber only. */
struct bb_rows *pg_rows_new(struct core_request *rq);

/* Moves the statement's rows to `rows`. Returns `rows`, or NULL if the statement has no result. */
struct bb_rows *pg_rows_take(struct core_request *rq, struct bb_rows *rows, struct pg_op *op);

/* Drops all rows of pg_rows_new() in the arena. */
void pg_rows_release(struct arena *arena);

/*
 * Checks out a connection of the tx pool for the caller, and waits for one if necessary. Returns
 * NULL with the failure set. pg_tx_end() returns the connection to the pool, or closes it if a
 * statement is in progress.
 */
struct pg_tx *pg_tx_begin(struct core_request *rq);
/* Runs a request's statements. Returns 0, or -1: the request must not be used any more then. */
int pg_tx_run_request(struct pg_tx *tx, struct pg_request *request);
/* Runs a statement. Returns its rows, which the caller owns, or NULL with the failure set. */
struct bb_rows *pg_tx_run(struct pg_tx *tx, const struct bb_sql *sql, const struct bb_value *values,
                          size_t count);
void pg_tx_end(struct pg_tx *tx);
/* Like pg_tx_end(), but closes the connection, which releases its locks. For arena_defer(). */
void pg_tx_drop(void *tx);

/* Fills a failure from an error result of `op` (NULL: of the commit). */
void pg_failure(struct failure *failure, const struct pg_op *op, const PGresult *result);

#endif
