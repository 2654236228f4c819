/* Inside of pg.h: connections, batches and pools. */
#ifndef CORE_PG_POOL_H
#define CORE_PG_POOL_H

#include "core/base/fair_queue.h"
#include "core/postgres/pg.h"

enum { PG_REPORTED = 10 /* settings, see pg_session.c */ };

enum pg_state { PG_DOWN, PG_CONNECTING, PG_READY };

/* What the next result on a connection will be. */
enum pg_expect_kind { PG_EXPECT_PREPARE, PG_EXPECT_ROWS, PG_EXPECT_SYNC };

struct pg_expect {
    enum pg_expect_kind kind;
    const struct bb_sql *sql;
    struct pg_batch *batch;
    struct pg_entry *entry; /* PREPARE, ROWS */
    struct pg_op *op;       /* PREPARE, ROWS */
};

/* Values of a batch. One entry may have more, for which others wait then, but for no second. */
enum { PG_BATCH_BYTES = 65536 };

/* Entries under one Sync. */
struct pg_batch {
    struct pg_entry *entries;
    size_t count;
    bool failed;
    int64_t sent_ms;
};

struct pg_conn {
    struct watch watch; /* first */
    struct pg_pool *pool;
    unsigned index; /* in its pool */
    PGconn *pg;
    enum pg_state state;
    struct timer timer; /* the next attempt, or the limit of this one */
    int64_t backoff_ms;
    unsigned turn; /* see resolver_rotate() */
    bool checking; /* connecting, and pg_check_text() was sent */
    bool checked;  /* … and the answer is good */
    bool recycle;  /* reconnect once nothing is under way: its prepared statements are stale */
    bool outcome_unknown; /* an answer could not be kept: drop it, nobody knows what became of its
                             batches */
    bool unreplicated;    /* a commit did not wait for the standby: drop it, too */
    bool astray;          /* a batch has left a transaction open or failed: drop it likewise */
    bool spoilt;    /* a batch has changed its settings: drop it behind that batch's answers */
    bool dismissed; /* the server has said that it ends it: send nothing more */
    uint64_t reported[PG_REPORTED]; /* hashes of the settings with which it was made */
    struct pg_expect *expects;      /* a ring */
    size_t expect_first, expect_count, expect_room;
    size_t batches;    /* under way */
    int64_t oldest_ms; /* when the oldest batch under way was sent or last made progress */
    const struct bb_sql **prepared; /* a hash table by address */
    size_t prepared_count, prepared_room;
    struct pg_tx *checked_out; /* tx pool */
    struct fair_queue queue;   /* entries that wait for this connection */
    struct pg_entry *again;    /* those that go before them, in their order */
    size_t waiting_count;      /* of both */
    unsigned round;            /* batches gathered */
    size_t places;             /* of one owner in this one, at most */
    size_t gathered_bytes;     /* of its values */
};

struct pg_pool {
    struct pg *pg;
    enum pg_pool_kind kind;
    struct pg_conn *conns;
    unsigned count;
    size_t depth; /* batches under way on one connection at most */
    size_t batch_max;
    size_t queued;            /* entries waiting in all connections */
    size_t shared, sharers;   /* see struct pg_pool_status */
    struct fair_table owners; /* of what waits or is under way, and of what is checked out */
    struct pg_tx *waiters, *waiters_last; /* tx pool: requests that wait for a connection */
};

struct pg {
    struct loop *loop;
    struct pg_settings settings;
    struct pg_pool pools[PG_POOLS];
    struct timer sweep;     /* closes connections that have been silent for too long */
    struct pg_entry *large; /* units in the long pool; those with the same key follow them there */
    int64_t heard_ms;       /* when any of its connections last said something */
};

/* pg_conn.c */
int pg_conn_open(struct pg_conn *conn, struct pg_pool *pool, unsigned index);
void pg_conn_close(struct pg_conn *conn);
/* Drops the connection, judges what was under way, and comes again after a while. */
void pg_conn_lost(struct pg_conn *conn, const char *reason);
/* Whether entries given now have a chance: it is connected, or is connecting for the first time. */
bool pg_conn_usable(const struct pg_conn *conn);
/* The same, or it will soon have one: PostgreSQL answers the listener, so the next attempt to
 * connect, within half a second, is likely to succeed. If it fails, what waits for the connection
 * fails. */
bool pg_conn_expected(const struct pg_conn *conn);
void pg_conn_flush_output(struct pg_conn *conn);

/* pg_session.c */
/* Remembers what the new connection is set to. */
void pg_session_keep(struct pg_conn *conn);
/* Whether that has changed, which is told; `rq`: whose doing it is, NULL where one of several's. */
bool pg_session_is_spoilt(const struct pg_conn *conn, const struct core_request *rq);

/* pg_expect.c: the results that are still to come. */
struct pg_expect *pg_expect_at(struct pg_conn *conn, size_t i);
int pg_expect_add(struct pg_conn *conn, struct pg_expect what); /* -1: no memory */
void pg_expect_next(struct pg_conn *conn);                      /* the first has come */

/* pg_send.c: entries under one Sync. -1: the connection is of no use any more. */
int pg_batch_send(struct pg_conn *conn, struct pg_entry *entries, size_t count);
/* The server has not prepared it after all: it will be prepared with the next use. */
void pg_prepared_forget(struct pg_conn *conn, const struct bb_sql *sql);

/*
 * pg_keyed.c: entries of a batch that ask the same keyed statements of different keys share one
 * execution of each. The first of them is the one that is sent; the others follow it.
 */
/* Finds those of a batch. In the unit pool an entry shares only if it is the first of its key. */
void pg_gather(struct pg_pool *pool, struct pg_entry *entries);
/* They do not travel together any more. */
void pg_gather_forget(struct pg_entry *entry);
/* The values of all members for the statement of the first one, as arrays; NULL: no memory. */
const char *const *pg_gather_values(struct pg_entry *first, const struct pg_op *op);
/* Gives each member its rows; takes the result. -1: no memory. */
int pg_gather_share(struct pg_entry *first, const struct pg_op *op, PGresult *result);
/* The execution failed: each of them is asked by itself. */
void pg_gather_failed(struct pg_entry *first, const PGresult *result);
/* A result that several entries have a part of: it is freed with the last of them. */
void pg_shared_release(void *shared);
const PGresult *pg_shared_result(const struct pg_shared *shared);
/* The statement over arrays. */
const struct bb_sql *pg_many(const struct bb_sql *sql);

/* pg_entry.c: drops the statement's answer. */
void pg_op_clear(struct pg_op *op);
/* Whether an error means that the connection's prepared statements are of no use any more. */
bool pg_is_stale(const PGresult *result);

/* pg_result.c */
void pg_results_read(struct pg_conn *conn);
/* Judges the entries of all batches under way after the connection was lost. */
void pg_results_lost(struct pg_conn *conn);

/* pg_queue.c */
/* One thing more of the request's owner, if it has its share not yet. NULL with the failure. */
struct fair_owner *pg_enter(struct pg_pool *pool, struct core_request *rq);
/* Whether one thing more of it may be under way, in the long pool and that of transactions. */
bool pg_may_run(const struct pg_pool *pool, const struct fair_owner *owner);
/* The entry does not wait and is not under way any more: its owner has room again. */
void pg_entry_leave(struct pg_entry *entry);
void pg_conn_queue(struct pg_conn *conn, struct pg_entry *entry, bool front);
/* The next for the batch that is gathered; NULL: none may travel in it. */
struct pg_entry *pg_conn_next(struct pg_conn *conn, size_t gathered);
void pg_conn_fail_waiting(struct pg_conn *conn);
/* What waits for `from` waits for `to` from now on, a connection of the same pool. */
void pg_conn_hand_on(struct pg_conn *from, struct pg_conn *to);
/* pg_pool.c: what waits for a connection that is lost goes to one that is there, but for units. */
void pg_conn_leave(struct pg_conn *lost);

/* The unit is over. */
void pg_large_remove(struct pg *pg, struct pg_entry *entry);

bool pg_away(const struct pg *pg); /* silent: what is asked now would wait for nothing */

/* pg_tx.c */
/* Fails the requests that wait for a connection when none of the pool has a chance. */
void pg_tx_despair(struct pg_pool *pool);
void pg_tx_fail_waiters(struct pg_pool *pool);
void pg_tx_lost(struct pg_tx *tx);
void pg_tx_hand_over(struct pg_conn *conn);
size_t pg_tx_waiting(const struct pg_pool *pool); /* requests */

/* pg_entry.c */
/* The entry is over: wakes its request, or frees it when abandoned. */
void pg_entry_done(struct pg_entry *entry);
void pg_entry_fail(struct pg_entry *entry, enum failure_kind kind);

#endif
