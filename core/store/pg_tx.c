#include <string.h>

#include "core/lib/text.h"
#include "core/store/pg_listener.h"
#include "core/store/pg_pool.h"
#include "core/store/sql.h"

/* A caller that has a connection or waits for one. Each statement is sent with its own Sync. */
struct pg_tx {
    TAILQ_ENTRY(pg_tx) link; /* in the list of waiters */
    struct core_request *rq;
    struct pg_conn *conn;       /* NULL before check-out, and after the connection was lost */
    struct pg_request *request; /* the statement in progress, or NULL */
    struct quota_entry *owner;  /* NULL after pg_tx_leave() */
    bool checked_out;           /* the wait is over; if it failed, `conn` is NULL */
    bool running;               /* counted in owner->running */
};

static void pg_tx_waiter_remove(struct pg_pool *pool, struct pg_tx *tx)
{
    TAILQ_REMOVE(&pool->waiters, tx, link);
    pool->queued--;
}

static void pg_tx_check_out(struct pg_conn *conn, struct pg_tx *tx)
{
    tx->owner->running++;
    tx->running = true;
    conn->checked_out = tx;
    tx->conn = conn;
    tx->checked_out = true;
}

void pg_tx_hand_over(struct pg_conn *conn)
{
    struct pg_pool *pool = conn->pool;
    struct pg_tx *tx = NULL; /* the first waiter of the owner with the fewest connections */

    if (conn->checked_out || conn->recycle || conn->state != PG_READY)
        return;
    for (struct pg_tx *at = TAILQ_FIRST(&pool->waiters); at; at = TAILQ_NEXT(at, link)) {
        if (pg_may_run(pool, at->owner) && (!tx || at->owner->running < tx->owner->running))
            tx = at;
    }
    if (!tx)
        return;
    pg_tx_waiter_remove(pool, tx);
    pg_tx_check_out(conn, tx);
    request_wake(tx->rq);
}

/* Called when an owner has one transaction less: its next caller may get any free connection. */
static void pg_tx_hand_over_all(struct pg_pool *pool)
{
    for (unsigned i = 0; i < pool->count; i++)
        pg_tx_hand_over(&pool->conns[i]);
}

void pg_tx_fail_waiters(struct pg_pool *pool)
{
    struct pg_tx *tx;

    while ((tx = TAILQ_FIRST(&pool->waiters))) {
        pg_tx_waiter_remove(pool, tx);
        tx->checked_out = true;
        request_wake(tx->rq);
    }
}

void pg_tx_fail_if_down(struct pg_pool *pool)
{
    for (unsigned i = 0; i < pool->count; i++) {
        if (pg_conn_usable(&pool->conns[i]))
            return;
    }
    pg_tx_fail_waiters(pool);
}

/* Abandons the statement in progress, and no longer counts `tx` for its owner. Returns the pool. */
static struct pg_pool *pg_tx_leave(struct pg_tx *tx)
{
    struct pg_pool *pool = &tx->rq->loop->pg->pools[PG_TX];

    if (tx->request)
        pg_request_abandon(tx->request);
    tx->request = NULL;
    if (tx->owner) {
        tx->owner->running -= tx->running;
        fair_leave(&pool->owners, tx->owner);
    }
    tx->owner = NULL;
    return pool;
}

struct pg_tx *pg_tx_begin(struct core_request *rq)
{
    if (!rq->loop->pg || pg_is_unavailable(rq->loop->pg) || pg_listener_no_writes()) {
        request_fail(rq, FAILED_UNAVAILABLE);
        return NULL;
    }
    struct pg_pool *pool = &rq->loop->pg->pools[PG_TX];
    struct pg_tx *tx = request_alloc(rq, sizeof *tx);
    struct pg_conn *conn = NULL;
    bool usable = false;

    tx->rq = rq;
    tx->owner = pg_enter(pool, rq);
    if (!tx->owner)
        return NULL;
    for (unsigned i = 0; i < pool->count && !conn; i++) {
        struct pg_conn *at = &pool->conns[i];

        if (at->state == PG_READY && !at->checked_out && !at->recycle)
            conn = at;
        usable = usable || pg_conn_expected(at);
    }
    if (conn && pg_may_run(pool, tx->owner)) {
        pg_tx_check_out(conn, tx);
    } else if (conn || usable) {
        int64_t asked_us = clock_mono_us();

        TAILQ_INSERT_TAIL(&pool->waiters, tx, link);
        pool->queued++;
        int failed = request_wait(rq, &tx->checked_out);

        rq->time_spent.queue_us += clock_mono_us() - asked_us;
        if (failed)
            pg_tx_waiter_remove(pool, tx);
        else if (!tx->conn)
            request_fail(rq, FAILED_UNAVAILABLE);
    } else {
        request_fail(rq, FAILED_UNAVAILABLE);
    }
    if (tx->conn)
        return tx;
    pg_tx_leave(tx);
    return NULL;
}

int pg_tx_run_request(struct pg_tx *tx, struct pg_request *request)
{
    struct core_request *rq = tx->rq;

    if (!tx->conn || tx->request) { /* the connection was lost, or a statement was abandoned */
        pg_request_free(request);
        if (!strcmp(rq->failure.sqlstate, PG_NOT_ALLOWED))
            return -1; /* this failure is the reason why the connection was lost */
        return request_fail(rq, tx->request ? FAILED_DEADLINE : FAILED_UNAVAILABLE);
    }
    tx->request = request;
    pg_conn_queue(tx->conn, request, NULL);
    if (request_wait(rq, &request->done))
        return -1; /* pg_tx_end() closes the connection and frees the request */
    tx->request = NULL;
    if (!request->failure.kind)
        return 0;
    sql_failed(rq, &request->failure);
    pg_request_free(request);
    return -1;
}

struct bb_rows *pg_tx_run(struct pg_tx *tx, const struct bb_sql *sql, const struct bb_value *values,
                          size_t count)
{
    struct core_request *rq = tx->rq;
    /* allocated now, because nothing may fail after a commit */
    struct bb_rows *rows = pg_rows_new(rq);
    struct pg_request *request = pg_request_one(rq, sql, values, count);

    if (pg_tx_run_request(tx, request))
        return NULL;
    rows = pg_rows_take(rq, rows, request->ops);
    pg_request_free(request);
    return rows;
}

void pg_tx_lost(struct pg_tx *tx)
{
    tx->conn->checked_out = NULL;
    tx->conn = NULL;
}

void pg_tx_end(struct pg_tx *tx)
{
    struct pg_pool *pool = pg_tx_leave(tx);
    struct pg_conn *conn = tx->conn;

    if (conn) {
        conn->checked_out = NULL;
        tx->conn = NULL;
        bool clean = !conn->batches && !conn->waiting_count && conn->state == PG_READY &&
                     PQtransactionStatus(conn->pg) == PQTRANS_IDLE;

        if (!clean)
            pg_conn_lost(conn, "a transaction was abandoned");
        else if (conn->recycle)
            pg_conn_lost(conn, "its prepared statements or settings are stale");
        else if (pg_session_has_changed(conn, tx->rq))
            pg_conn_lost(conn, "a setting was changed");
    }
    pg_tx_hand_over_all(pool);
}

void pg_tx_drop(void *of)
{
    struct pg_tx *tx = of;

    if (!tx->owner) /* pg_tx_end() was called */
        return;
    struct pg_pool *pool = pg_tx_leave(tx);

    if (tx->conn)
        pg_conn_lost(tx->conn, "a request ended within a transaction");
    pg_tx_hand_over_all(pool);
}
