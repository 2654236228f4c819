#include "core/pg_lane.h"

#include <stdlib.h>

enum {
    PIPELINE_DEPTH = 2, /* batches under way on a connection: the next waits at PostgreSQL */
    BATCH_MAX = 64,     /* items in a batch: bounds what a failing one sends again */
    PATROL_MS = 250,
    SILENCE_MS = 2000 /* beyond statement_timeout: the connection is dead */
};

const char *const pg_lane_names[PG_LANES] = {"read", "unit", "long", "tx"};

void pg_conn_queue(struct pg_conn *conn, struct pg_item *item, bool front)
{
    conn->waiting_count++;
    conn->lane->queued++;
    item->sent = false;
    if (front) {
        item->next = conn->waiting;
        conn->waiting = item;
        if (!conn->waiting_last)
            conn->waiting_last = item;
        return;
    }
    item->next = NULL;
    if (conn->waiting_last)
        conn->waiting_last->next = item;
    else
        conn->waiting = item;
    conn->waiting_last = item;
}

struct pg_item *pg_conn_dequeue(struct pg_conn *conn)
{
    struct pg_item *item = conn->waiting;

    if (!item)
        return NULL;
    conn->waiting = item->next;
    if (!conn->waiting)
        conn->waiting_last = NULL;
    conn->waiting_count--;
    conn->lane->queued--;
    return item;
}

void pg_conn_fail_waiting(struct pg_conn *conn)
{
    struct pg_item *item;

    while ((item = pg_conn_dequeue(conn)))
        pg_item_fail(item, FAILED_UNAVAILABLE);
}

/* Units keep to the connection of their key; the rest goes where least is under way. */
static struct pg_conn *choose(struct pg_lane *lane, const struct pg_item *item)
{
    struct pg_conn *best = NULL;

    if (lane->kind == PG_UNIT)
        return &lane->conns[(item->key * 0x9e3779b97f4a7c15U >> 32) % lane->count];
    for (unsigned i = 0; i < lane->count; i++) {
        struct pg_conn *conn = &lane->conns[i];

        if (!pg_conn_hopeful(conn))
            continue;
        if (!best || conn->batches + conn->waiting_count < best->batches + best->waiting_count)
            best = conn;
    }
    return best;
}

int pg_submit(struct pg *pg, enum pg_lane_kind kind, struct pg_item *item)
{
    if (!pg)
        return request_fail(item->rq, FAILED_UNAVAILABLE);
    struct pg_lane *lane = &pg->lanes[kind];
    struct pg_conn *conn = choose(lane, item);

    if (lane->queued >= pg->settings.queue)
        return request_fail(item->rq, FAILED_BUSY);
    if (!conn || !pg_conn_hopeful(conn))
        return request_fail(item->rq, FAILED_UNAVAILABLE);
    pg_conn_queue(conn, item, false);
    return 0;
}

/* The key's order is the order of locks, so that batches of several hosts cannot deadlock. */
static struct pg_item *insert_by_key(struct pg_item *list, struct pg_item *item)
{
    struct pg_item **at = &list;

    while (*at && (*at)->key <= item->key)
        at = &(*at)->next;
    item->next = *at;
    *at = item;
    return list;
}

static struct pg_item *gather(struct pg_conn *conn, size_t *count)
{
    bool by_key = conn->lane->kind == PG_UNIT;
    struct pg_item *list = NULL, **end = &list;

    *count = 0;
    while (conn->waiting && *count < conn->lane->batch_max) {
        bool alone = conn->waiting->alone;
        if (alone && *count)
            break;
        struct pg_item *item = pg_conn_dequeue(conn);

        if (!item->rq) {
            pg_item_free(item);
            continue;
        }
        item->next = NULL;
        if (by_key) {
            list = insert_by_key(list, item);
        } else {
            *end = item;
            end = &item->next;
        }
        ++*count;
        if (alone)
            break;
    }
    return list;
}

static void conn_flush(struct pg_conn *conn)
{
    while (conn->state == PG_READY && conn->waiting && !conn->recycle &&
           conn->batches < conn->lane->depth) {
        size_t count;
        struct pg_item *items = gather(conn, &count);

        if (!items)
            return;
        if (pg_batch_send(conn, items, count)) {
            pg_conn_lost(conn, "sending failed");
            return;
        }
    }
    if (conn->recycle && !conn->batches && conn->state == PG_READY && !conn->lent)
        pg_conn_lost(conn, "prepared statements are stale");
}

void pg_lane_flush(struct pg_lane *lane)
{
    for (unsigned i = 0; i < lane->count; i++)
        conn_flush(&lane->conns[i]);
}

void pg_flush(struct pg *pg)
{
    for (int kind = 0; kind < PG_LANES; kind++)
        pg_lane_flush(&pg->lanes[kind]);
}

static void patrol(struct timer *timer)
{
    struct pg *pg = (struct pg *)(void *)((char *)timer - offsetof(struct pg, patrol));
    int64_t limit = pg->loop->now_ms - (int64_t)pg->settings.statement_ms - SILENCE_MS;

    for (int kind = 0; kind < PG_LANES; kind++) {
        struct pg_lane *lane = &pg->lanes[kind];

        for (unsigned i = 0; i < lane->count; i++) {
            struct pg_conn *conn = &lane->conns[i];

            if (conn->state == PG_READY && conn->batches && conn->oldest_ms < limit)
                pg_conn_lost(conn, "no answer within the time limit");
        }
    }
    timer_set(&pg->loop->timers, timer, pg->loop->now_ms + PATROL_MS);
}

static int lane_open(struct pg *pg, enum pg_lane_kind kind)
{
    struct pg_lane *lane = &pg->lanes[kind];
    bool batched = kind == PG_READ || kind == PG_UNIT;

    *lane = (struct pg_lane){.pg = pg,
                             .kind = kind,
                             .count = pg->settings.connections[kind],
                             .depth = batched ? PIPELINE_DEPTH : 1,
                             .batch_max = batched ? BATCH_MAX : 1};
    lane->conns = calloc(lane->count, sizeof(struct pg_conn));
    if (!lane->conns)
        return -1;
    for (unsigned i = 0; i < lane->count; i++) {
        if (pg_conn_open(&lane->conns[i], lane, i))
            return -1;
    }
    return 0;
}

struct pg *pg_new(struct loop *loop, const struct pg_settings *settings)
{
    struct pg *pg = calloc(1, sizeof *pg);

    if (!pg)
        return NULL;
    pg->loop = loop;
    pg->settings = *settings;
    pg->patrol.fire = patrol;
    for (int kind = 0; kind < PG_LANES; kind++) {
        if (lane_open(pg, (enum pg_lane_kind)kind)) {
            pg_free(pg);
            return NULL;
        }
    }
    patrol(&pg->patrol);
    return pg;
}

void pg_set_queue(struct pg *pg, size_t queue)
{
    pg->settings.queue = queue;
}

void pg_lane_look(const struct pg *pg, enum pg_lane_kind kind, struct pg_lane_status *status)
{
    const struct pg_lane *lane = &pg->lanes[kind];

    *status = (struct pg_lane_status){.connections = lane->count, .waiting = lane->queued};
    for (unsigned i = 0; i < lane->count; i++) {
        status->ready += lane->conns[i].state == PG_READY;
        status->batches += lane->conns[i].batches;
    }
    status->waiting += pg_tx_waiting(lane);
}

void pg_free(struct pg *pg)
{
    timer_clear(&pg->loop->timers, &pg->patrol);
    for (int kind = 0; kind < PG_LANES; kind++) {
        struct pg_lane *lane = &pg->lanes[kind];

        for (unsigned i = 0; lane->conns && i < lane->count; i++)
            pg_conn_close(&lane->conns[i]);
        free(lane->conns);
    }
    free(pg);
}
