#include "core/base/text.h"
#include "core/postgres/pg_lane.h"
#include "core/postgres/sql.h"

/*
 * A connection of the tx lane, checked out by one request. Statements go out one by one, each with
 * its own Sync; the transaction is what BEGIN and COMMIT make it.
 */
struct pg_tx {
    struct pg_tx *next; /* among the waiters */
    struct core_request *rq;
    struct pg_conn *conn;     /* NULL: waiting, or lost */
    struct pg_entry *entry;   /* under way */
    struct fair_owner *owner; /* NULL: it has ended */
    bool checked_out;         /* waits no more: got a connection, lost it again, or there is none */
    bool running;             /* counted so for its owner */
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

static void check_out(struct pg_conn *conn, struct pg_tx *tx)
{
    tx->owner->running++;
    tx->running = true;
    conn->checked_out = tx;
    tx->conn = conn;
    tx->checked_out = true;
}

/* The first of those whose owner has least; NULL: nobody waits, or who does has its share. */
static struct pg_tx *next_waiter(const struct pg_lane *lane)
{
    struct pg_tx *next = NULL;

    for (struct pg_tx *at = lane->waiters; at; at = at->next) {
        if (pg_may_run(lane, at->owner) && (!next || at->owner->running < next->owner->running))
            next = at;
    }
    return next;
}

void pg_tx_hand_over(struct pg_conn *conn)
{
    struct pg_lane *lane = conn->lane;
    struct pg_tx *tx = next_waiter(lane);

    if (!tx || conn->checked_out || conn->recycle || conn->state != PG_READY)
        return;
    waiter_remove(lane, tx);
    check_out(conn, tx);
    request_wake(tx->rq);
}

void pg_tx_fail_waiters(struct pg_lane *lane)
{
    struct pg_tx *tx;

    while ((tx = lane->waiters)) {
        waiter_remove(lane, tx);
        tx->checked_out = true;
        request_wake(tx->rq);
    }
}

void pg_tx_despair(struct pg_lane *lane)
{
    for (unsigned i = 0; i < lane->count; i++) {
        if (pg_conn_usable(&lane->conns[i]))
            return;
    }
    pg_tx_fail_waiters(lane);
}

static struct pg_conn *free_conn(struct pg_lane *lane, bool *usable)
{
    *usable = false;
    for (unsigned i = 0; i < lane->count; i++) {
        struct pg_conn *conn = &lane->conns[i];

        if (conn->state == PG_READY && !conn->checked_out && !conn->recycle)
            return conn;
        *usable = *usable || pg_conn_expected(conn);
    }
    return NULL;
}

static int wait_for_conn(struct pg_lane *lane, struct pg_tx *tx, bool usable)
{
    if (!usable)
        return request_fail(tx->rq, FAILED_UNAVAILABLE);
    int64_t asked_us = clock_mono_us();
    waiter_add(lane, tx);
    int failed = request_wait(tx->rq, &tx->checked_out);
    tx->rq->spent.queue_us += clock_mono_us() - asked_us;
    if (failed) {
        waiter_remove(lane, tx);
        return -1;
    }
    return tx->conn ? 0 : request_fail(tx->rq, FAILED_UNAVAILABLE);
}

static void leave(struct pg_lane *lane, struct pg_tx *tx)
{
    if (!tx->owner)
        return;
    tx->owner->running -= tx->running;
    fair_leave(&lane->owners, tx->owner);
    tx->owner = NULL;
}

struct pg_tx *pg_tx_begin(struct core_request *rq)
{
    if (!rq->loop->pg || pg_away(rq->loop->pg)) {
        request_fail(rq, FAILED_UNAVAILABLE);
        return NULL;
    }
    struct pg_lane *lane = &rq->loop->pg->lanes[PG_TX];
    struct pg_tx *tx = arena_alloc(rq->arena, sizeof *tx);
    bool usable;

    if (!tx)
        request_out_of_memory(rq);
    tx->rq = rq;
    tx->owner = pg_enter(lane, rq);
    if (!tx->owner)
        return NULL;
    struct pg_conn *conn = free_conn(lane, &usable);
    if (conn && pg_may_run(lane, tx->owner)) {
        check_out(conn, tx);
    } else if (wait_for_conn(lane, tx, conn || usable)) {
        leave(lane, tx);
        return NULL;
    }
    return tx;
}

static void clear_result(void *result)
{
    PQclear(result);
}

static PGresult *keep_result(struct core_request *rq, struct pg_entry *entry)
{
    PGresult *result = entry->ops->result;

    entry->ops->result = NULL;
    if (arena_defer(rq->arena, clear_result, result)) {
        PQclear(result);
        request_fail(rq, FAILED_MEMORY);
        return NULL;
    }
    return result;
}

int pg_tx_run_item(struct pg_tx *tx, struct pg_entry *entry)
{
    struct core_request *rq = tx->rq;

    if (!tx->conn || tx->entry) { /* lost, or given up on: nothing more can be said on it */
        pg_entry_free(entry);
        return request_fail(rq, tx->entry ? FAILED_DEADLINE : FAILED_UNAVAILABLE);
    }
    tx->entry = entry;
    pg_conn_queue(tx->conn, entry, false);
    if (request_wait(rq, &entry->done))
        return -1; /* pg_tx_end() closes the connection, and the entry with it */
    tx->entry = NULL;
    if (!entry->failure.kind)
        return 0;
    sql_failed(rq, &entry->failure);
    pg_entry_free(entry);
    return -1;
}

PGresult *pg_tx_run(struct pg_tx *tx, const struct bb_sql *sql, const struct bb_value *values,
                    size_t count)
{
    struct core_request *rq = tx->rq;
    struct pg_entry *entry = pg_entry_new(rq);

    if (!entry || !pg_entry_add(entry, sql, values, count)) {
        if (entry)
            pg_entry_free(entry);
        request_out_of_memory(rq);
    }
    if (pg_tx_run_item(tx, entry))
        return NULL;
    PGresult *result = keep_result(rq, entry);

    pg_entry_free(entry);
    return result;
}

void pg_tx_lost(struct pg_tx *tx)
{
    tx->conn->checked_out = NULL;
    tx->conn = NULL;
}

static void abandon(struct pg_tx *tx)
{
    if (tx->entry)
        pg_entry_abandon(tx->entry);
    tx->entry = NULL;
}

static struct pg_lane *lane_of(const struct pg_tx *tx)
{
    return &tx->rq->loop->pg->lanes[PG_TX];
}

/* Whose share it was may be waiting, though connections are free. */
static void hand_over_all(struct pg_lane *lane)
{
    for (unsigned i = 0; i < lane->count; i++)
        pg_tx_hand_over(&lane->conns[i]);
}

void pg_tx_end(struct pg_tx *tx)
{
    struct pg_conn *conn = tx->conn;

    abandon(tx);
    leave(lane_of(tx), tx);
    if (!conn) {
        hand_over_all(lane_of(tx));
        return;
    }
    conn->checked_out = NULL;
    tx->conn = NULL;
    bool clean = !conn->batches && !conn->waiting_count && conn->state == PG_READY &&
                 PQtransactionStatus(conn->pg) == PQTRANS_IDLE;
    if (!clean)
        pg_conn_lost(conn, "a transaction was given up");
    else if (conn->recycle)
        pg_conn_lost(conn, "prepared statements are stale");
    else if (pg_session_is_spoilt(conn, tx->rq))
        pg_conn_lost(conn, "a setting was changed");
    else
        pg_tx_hand_over(conn);
}

void pg_tx_drop(struct pg_tx *tx)
{
    abandon(tx);
    leave(lane_of(tx), tx);
    if (tx->conn)
        pg_conn_lost(tx->conn, "a request ended with what it held");
}
