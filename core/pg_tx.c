#include "core/pg_lane.h"
#include "core/text.h"

/*
 * A connection of the tx lane, lent to one request. Statements go out one by one, each with its own
 * Sync; the transaction is what BEGIN and COMMIT make it.
 */
struct pg_tx {
    struct pg_tx *next; /* among the waiters */
    struct core_request *rq;
    struct pg_conn *conn; /* NULL: waiting, or lost */
    struct pg_item *item; /* under way */
    bool lent;            /* got a connection (or lost it again) */
};

size_t pg_tx_waiting(const struct pg_lane *lane)
{
    size_t count = 0;

    for (const struct pg_tx *tx = lane->waiters; tx; tx = tx->next)
        count++;
    return count;
}

static void waiter_add(struct pg_lane *lane, struct pg_tx *tx)
{
    tx->next = NULL;
    if (lane->waiters_last)
        lane->waiters_last->next = tx;
    else
        lane->waiters = tx;
    lane->waiters_last = tx;
    lane->queued++;
}

static void waiter_remove(struct pg_lane *lane, struct pg_tx *tx)
{
    struct pg_tx *before = NULL;

    for (struct pg_tx *at = lane->waiters; at; before = at, at = at->next) {
        if (at != tx)
            continue;
        if (before)
            before->next = tx->next;
        else
            lane->waiters = tx->next;
        if (lane->waiters_last == tx)
            lane->waiters_last = before;
        lane->queued--;
        return;
    }
}

static void lend(struct pg_conn *conn, struct pg_tx *tx)
{
    conn->lent = tx;
    tx->conn = conn;
    tx->lent = true;
}

void pg_tx_offer(struct pg_conn *conn)
{
    struct pg_lane *lane = conn->lane;
    struct pg_tx *tx = lane->waiters;

    if (!tx || conn->lent || conn->state != PG_READY)
        return;
    waiter_remove(lane, tx);
    lend(conn, tx);
    request_wake(tx->rq);
}

static struct pg_conn *free_conn(struct pg_lane *lane, bool *hopeful)
{
    *hopeful = false;
    for (unsigned i = 0; i < lane->count; i++) {
        struct pg_conn *conn = &lane->conns[i];

        if (conn->state == PG_READY && !conn->lent && !conn->recycle)
            return conn;
        *hopeful = *hopeful || pg_conn_hopeful(conn);
    }
    return NULL;
}

static int wait_for_conn(struct pg_lane *lane, struct pg_tx *tx, bool hopeful)
{
    if (!hopeful)
        return request_fail(tx->rq, FAILED_UNAVAILABLE);
    if (lane->queued >= lane->pg->settings.queue)
        return request_fail(tx->rq, FAILED_BUSY);
    int64_t asked_us = clock_mono_us();
    waiter_add(lane, tx);
    int failed = request_wait(tx->rq, &tx->lent);
    tx->rq->spent.queue_us += clock_mono_us() - asked_us;
    if (!failed)
        return 0;
    waiter_remove(lane, tx);
    return -1;
}

struct pg_tx *pg_tx_begin(struct core_request *rq)
{
    if (!rq->loop->pg) {
        request_fail(rq, FAILED_UNAVAILABLE);
        return NULL;
    }
    struct pg_lane *lane = &rq->loop->pg->lanes[PG_TX];
    struct pg_tx *tx = arena_alloc(rq->arena, sizeof *tx);
    bool hopeful;

    if (!tx)
        request_out_of_memory(rq);
    tx->rq = rq;
    struct pg_conn *conn = free_conn(lane, &hopeful);
    if (conn)
        lend(conn, tx);
    else if (wait_for_conn(lane, tx, hopeful))
        return NULL;
    return tx;
}

static void clear_result(void *result)
{
    PQclear(result);
}

static PGresult *keep_result(struct core_request *rq, struct pg_item *item)
{
    PGresult *result = item->ops->result;

    item->ops->result = NULL;
    if (arena_defer(rq->arena, clear_result, result)) {
        PQclear(result);
        request_fail(rq, FAILED_MEMORY);
        return NULL;
    }
    return result;
}

PGresult *pg_tx_run(struct pg_tx *tx, const struct bb_sql *sql, const struct bb_value *values,
                    size_t count)
{
    struct core_request *rq = tx->rq;
    PGresult *result = NULL;

    if (!tx->conn || tx->item) { /* lost, or given up on: nothing more can be said on it */
        request_fail(rq, tx->item ? FAILED_DEADLINE : FAILED_UNAVAILABLE);
        return NULL;
    }
    struct pg_item *item = pg_item_new(rq);
    if (!item || !pg_item_add(item, sql, values, count)) {
        if (item)
            pg_item_free(item);
        request_out_of_memory(rq);
    }
    tx->item = item;
    pg_conn_queue(tx->conn, item, false);
    if (request_wait(rq, &item->done))
        return NULL; /* pg_tx_end() closes the connection, and the item with it */
    tx->item = NULL;
    if (item->failure.kind)
        rq->failure = item->failure;
    else
        result = keep_result(rq, item);
    pg_item_free(item);
    return result;
}

void pg_tx_lost(struct pg_tx *tx)
{
    tx->conn->lent = NULL;
    tx->conn = NULL;
}

static void abandon(struct pg_tx *tx)
{
    if (tx->item)
        pg_item_abandon(tx->item);
    tx->item = NULL;
}

void pg_tx_end(struct pg_tx *tx)
{
    struct pg_conn *conn = tx->conn;

    abandon(tx);
    if (!conn)
        return;
    conn->lent = NULL;
    tx->conn = NULL;
    bool clean = !conn->batches && !conn->waiting && conn->state == PG_READY &&
                 PQtransactionStatus(conn->pg) == PQTRANS_IDLE;
    if (!clean)
        pg_conn_lost(conn, "a transaction was given up");
    else
        pg_tx_offer(conn);
}

void pg_tx_drop(struct pg_tx *tx)
{
    abandon(tx);
    if (tx->conn)
        pg_conn_lost(tx->conn, "a request ended with what it held");
}
