/* Internals of pg.h: connections, batches and pools. */
#ifndef CORE_PG_POOL_H
#define CORE_PG_POOL_H

#include "core/store/dial.h"
#include "core/store/pg.h"

enum { PG_REPORTED = 10 /* number of settings, see pg_session_has_changed() */ };

enum pg_state { PG_DOWN, PG_CONNECTING, PG_READY };

/* Maximum size in bytes of the values of a batch with more than one request. */
enum { PG_BATCH_BYTES = 65536 };

/* Requests that are followed by one Sync. */
struct pg_batch {
    struct pg_batch *next; /* the batch sent after this one */
    struct pg_request *requests;
    size_t count;
    bool failed;
    /* the next result belongs to `op` of `request`; op NULL: it is the result of the Sync */
    struct pg_request *request;
    struct pg_op *op;
    struct pg_request *rest; /* the requests after `request` */
};

struct pg_conn {
    struct watch watch; /* first, because conn_ready() casts it to struct pg_conn */
    struct pg_pool *pool;
    unsigned index;    /* index in the pool */
    PGconn *pg;        /* set in the state PG_READY */
    struct dial *dial; /* set in the state PG_CONNECTING */
    enum pg_state state;
    struct timer timer; /* starts the next attempt to connect */
    int64_t backoff_ms; /* delay before the next attempt; 0 after a success */
    bool recycle;       /* prepared statements or settings are stale: reconnect when idle */
    const char *fault;  /* NULL, or why the connection must be closed at once */
    const char *end;    /* NULL, or why it must be closed after reading the results that arrived */
    uint64_t reported[PG_REPORTED]; /* hashes of the settings at the beginning of the session */
    struct pg_batch *oldest;        /* list of the batches in progress, oldest first */
    size_t batches;                 /* number of batches in progress */
    int64_t oldest_ms;              /* when `oldest` became the oldest batch in progress */
    int64_t charged_us;             /* monotonic time until which modules were charged */
    void *prepared;                 /* tree of the prepared statements, see pg_conn.c */
    struct pg_tx *checked_out;      /* in the tx pool: the user of the connection, or NULL */
    struct fair_queue queue;        /* requests that wait for this connection */
    struct pg_request *again;       /* requests that are sent before those in `queue` */
    size_t waiting_count;           /* number of requests in `queue` and `again` */
    unsigned round;                 /* number of the current batch of this connection */
    size_t places;                  /* maximum number of requests of one owner in this batch */
    size_t gathered_bytes;          /* size of the values in this batch */
};

struct pg_pool {
    struct pg *pg;
    struct pg_replica *replica; /* NULL: the pool connects to the primary */
    enum pg_pool_kind kind;
    struct pg_conn *conns;
    unsigned count;
    size_t depth;     /* maximum number of batches in progress per connection */
    size_t batch_max; /* maximum number of requests in a batch */
    size_t queued;    /* waiting requests, and in the tx pool callers that wait for a connection */
    size_t shared, sharers;      /* number of shared executions so far, and of requests in them */
    struct quota_table owners;   /* owners of requests (waiting or not) and of connections */
    TAILQ_HEAD(, pg_tx) waiters; /* tx pool: callers that wait for a connection, oldest first */
};

struct pg {
    struct loop *loop;
    struct pg_pool pools[PG_POOLS];
    struct timer sweep; /* runs pool_sweep() */
    struct timer rest;  /* sends waiting long statements when the first pause of an owner ends */
    struct quota_owner last; /* owner of the newest request, ignoring the host's own requests */
    int64_t shared_us;       /* monotonic time at which `last` changed to another owner */
    /* units in the long pool; pg_submit() adds new units with their keys to the same pool */
    LIST_HEAD(, pg_request) large;
    int64_t heard_ms; /* when a connection to the primary last received something */
    struct pg_replica *replicas;
    unsigned replica_count, next_replica;
    struct timer replica_check; /* starts the next check of all replicas */
};

/* The connections of a loop to a replica. */
struct pg_replica {
    struct pg_pool pools[2]; /* of the kinds PG_READ and PG_LONG */
    unsigned index;
    bool checking;
    int64_t current_ms; /* when the last successful check began (monotonic) */
    struct replica_stats *stats;
};

/* pg_conn.c */
void pg_conn_open(struct pg_conn *conn, struct pg_pool *pool, unsigned index);
void pg_conn_close(struct pg_conn *conn);
/* Closes the connection, decides the outcome of its batches, and schedules a new connection. */
void pg_conn_lost(struct pg_conn *conn, const char *reason);
/* Returns whether `conn` is ready, or makes its first attempt: then requests may wait for it. */
bool pg_conn_usable(const struct pg_conn *conn);
/*
 * Like pg_conn_usable(), but also returns true if PostgreSQL responds to the listener, so that the
 * next attempt to connect, within half a second, is likely to succeed.
 */
bool pg_conn_expected(const struct pg_conn *conn);
/* Sends the requests that wait for the connection, in batches. */
void pg_conn_flush(struct pg_conn *conn);
/*
 * Returns whether settings have changed since the session began, and logs this. `rq` is the caller
 * whose statement changed them; NULL if statements of several callers have run.
 */
bool pg_session_has_changed(const struct pg_conn *conn, const struct core_request *rq);

/*
 * pg_merge.c: requests of a batch with the same keyed statements share one execution of each. These
 * requests are called members. Only the first one is sent; the others get rows from its results.
 */
/* Finds the members in a batch. Of units with the same key, only the first can be a member. */
void pg_merge(struct pg_pool *pool, struct pg_request *requests);
/* Removes a request from its shared execution, before it is sent again. */
void pg_merge_forget(struct pg_request *request);
/* Returns an array literal of the texts, such as {"a","b",NULL}; NULL if memory ran out. */
const char *pg_texts_array(struct arena *memory, const char *const *texts, size_t count);
/* Returns an array literal of the members' values for each parameter of `op`; NULL on failure. */
const char *const *pg_merge_values(struct pg_request *first, const struct pg_op *op);
/* Gives each member its rows. Takes ownership of the result. Returns 0, or -1 if memory ran out. */
int pg_merge_distribute(struct pg_request *first, const struct pg_op *op, PGresult *result);
/* Marks all members so that each is executed separately, because the shared execution failed. */
void pg_merge_failed(struct pg_request *first, const PGresult *result);
/* A result shared by several requests; the last release frees it. */
struct pg_shared {
    PGresult *result;
    unsigned holders;
    int order[]; /* indexes of its rows, sorted by member */
};
void pg_shared_release(struct pg_shared *shared);
/* Returns the member `many` of the struct bb_keyed whose member `one` is `sql`. */
const struct bb_sql *pg_many(const struct bb_sql *sql);

/* Returns whether an error means that the session's prepared statements are stale. */
bool pg_is_stale(const PGresult *result);

/* pg_replica.c */
const char *pg_replica_url(const struct pg_replica *replica);

/* pg_pool.c */
/* Initializes a pool and begins to connect. Returns 0, or -1 if memory ran out. */
int pg_pool_open(struct pg *pg, struct pg_pool *pool, enum pg_pool_kind kind,
                 struct pg_replica *replica);
/* Like pg_submit() with a replica. If none of its connections is ready, fails at once. */
int pg_submit_to(struct pg_replica *replica, bool is_long, struct pg_request *request);
/* Counts a request or connection of rq->owner. At a limit, returns NULL and sets rq->failure. */
struct quota_entry *pg_enter(struct pg_pool *pool, struct core_request *rq);
/* Returns whether the owner may have another long statement or transaction in progress. */
bool pg_may_run(const struct pg_pool *pool, const struct quota_entry *owner);
/* Undoes pg_enter() for a request that neither waits nor is in progress. */
void pg_request_leave(struct pg_request *request);
/* Queues a request in conn->again at `place`, or, if `place` is NULL, in conn->queue. */
void pg_conn_queue(struct pg_conn *conn, struct pg_request *request, struct pg_request **place);
/* Removes and returns the next request for the current batch; NULL if none fits. */
struct pg_request *pg_conn_next(struct pg_conn *conn, size_t gathered);
void pg_conn_fail_waiting(struct pg_conn *conn);
/* Moves requests from a lost connection to a ready one of the pool. Does not move units. */
void pg_conn_move_waiting(struct pg_conn *lost);
/* Returns whether PostgreSQL does not respond, so that new requests must fail at once. */
bool pg_is_unavailable(const struct pg *pg);

/* pg_tx.c */
/* If the pool has no usable connection, fails the callers that wait for one. */
void pg_tx_fail_if_down(struct pg_pool *pool);
void pg_tx_fail_waiters(struct pg_pool *pool);
void pg_tx_lost(struct pg_tx *tx);
void pg_tx_hand_over(struct pg_conn *conn);

/* pg_request.c */
/* Completes a request: wakes its caller, or frees the request if it was abandoned. */
void pg_request_done(struct pg_request *request);
void pg_request_fail(struct pg_request *request, enum failure_kind kind);

#endif
