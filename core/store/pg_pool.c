#include "core/store/pg_pool.h"

#include <stdlib.h>

#include "core/store/pg_listener.h"

enum {
    PIPELINE_DEPTH = 2, /* batches in progress per connection: the next one waits in PostgreSQL */
    BATCH_MAX = 64,     /* entries per batch: limits the number that is sent again after a
                         * failure */
    PATROL_MS = 250,    /* interval while entries are waiting or in progress */
    SILENCE_MS = 2000,  /* after this time beyond statement_timeout the connection is dead */
    /* If neither a connection nor the listener has received anything for this time, PostgreSQL is
     * unavailable. A machine that is short of processors may stall for a second. */
    AWAY_MS = 2000
};

_Static_assert((int)PG_POOLS == (int)LOOP_PG_POOLS, "each has its place in struct loop_stats");

const char *const pg_pool_names[PG_POOLS] = {"read", "write", "unit", "long", "tx"};

/* Connected connections are preferred to connecting ones, which may take long or fail. */
static int rank(const struct pg_conn *conn)
{
    if (!pg_conn_usable(conn))
        return 0;
    return conn->state == PG_READY ? 2 : 1;
}

static bool better(const struct pg_conn *one, const struct pg_conn *other)
{
    if (rank(one) != rank(other))
        return rank(one) > rank(other);
    return one->batches + one->waiting_count < other->batches + other->waiting_count;
}

/* Entries with a key go to the first of the best connections, so that they can share executions. */
static struct pg_conn *meeting_place(struct pg_pool *pool)
{
    struct pg_conn *best = NULL;

    for (unsigned i = 0; i < pool->count; i++) {
        struct pg_conn *conn = &pool->conns[i];

        if (pg_conn_usable(conn) && (!best || rank(conn) > rank(best)))
            best = conn;
    }
    return best;
}

void pg_conn_leave(struct pg_conn *lost)
{
    struct pg_pool *pool = lost->pool;
    struct pg_conn *best = NULL;

    if (pool->kind == PG_UNIT || pool->kind == PG_TX)
        return;
    for (unsigned i = 0; i < pool->count; i++) {
        if (pool->conns[i].state == PG_READY && (!best || better(&pool->conns[i], best)))
            best = &pool->conns[i];
    }
    if (best)
        pg_conn_hand_on(lost, best);
}

/*
 * Units use the connection of their key, and long statements wait in one queue for all connections
 * of their pool; other entries go to the connection with the fewest entries.
 */
static struct pg_conn *choose(struct pg_pool *pool, const struct pg_request *entry)
{
    struct pg_conn *best = NULL;

    if (pool->kind == PG_UNIT)
        return &pool->conns[(entry->key * 0x9e3779b97f4a7c15U >> 32) % pool->count];
    if (pool->kind == PG_LONG || ((pool->kind == PG_READ || pool->kind == PG_WRITE) && entry->ops &&
                                  entry->ops->sql->flags & BB_SQL_KEYED))
        best = meeting_place(pool);
    if (best)
        return best;
    for (unsigned i = 0; i < pool->count; i++) {
        struct pg_conn *conn = &pool->conns[i];

        if (!pg_conn_expected(conn))
            continue;
        if (!best || better(conn, best))
            best = conn;
    }
    return best;
}

bool pg_away(const struct pg *pg)
{
    return pg_listener_silent_ms() >= AWAY_MS && pg->loop->now_ms - pg->heard_ms >= AWAY_MS;
}

enum pg_pool_kind pg_pool_for(const struct bb_sql *sql)
{
    if (sql->flags & BB_SQL_LONG)
        return PG_LONG;
    return sql->flags & BB_SQL_WRITE ? PG_WRITE : PG_READ;
}

/*
 * Whether the entry must go to the long pool because of its size: others in its batch would wait.
 * Units with the same key as such a unit also go there: they would wait for its locks, and the rest
 * of their batch with them.
 */
static bool is_large(const struct pg *pg, enum pg_pool_kind kind, const struct pg_request *entry)
{
    const struct pg_request *at = kind == PG_UNIT ? pg->large : NULL;

    while (at && at->key != entry->key)
        at = at->large_next;
    return at || entry->bytes > PG_BATCH_BYTES;
}

static void large_add(struct pg *pg, struct pg_request *entry)
{
    entry->large = true;
    entry->large_next = pg->large;
    pg->large = entry;
}

void pg_large_remove(struct pg *pg, struct pg_request *entry)
{
    struct pg_request **at = &pg->large;

    while (*at != entry)
        at = &(*at)->large_next;
    *at = entry->large_next;
    entry->large = false;
}

int pg_submit(struct pg *pg, enum pg_pool_kind kind, struct pg_request *entry)
{
    if (!pg)
        return request_fail(entry->rq, FAILED_UNAVAILABLE);
    bool large = is_large(pg, kind, entry);
    struct pg_pool *pool = &pg->pools[large ? PG_LONG : kind];
    struct pg_conn *conn = choose(pool, entry);

    if (!conn || !pg_conn_expected(conn) || pg_away(pg))
        return request_fail(entry->rq, FAILED_UNAVAILABLE);
    entry->queued.owner = pg_enter(pool, entry->rq);
    if (!entry->queued.owner)
        return -1;
    entry->pool = pool;
    if (large && kind == PG_UNIT)
        large_add(pg, entry);
    pg_conn_queue(conn, entry, false);
    return 0;
}

/* Fails entries that have not been sent yet, so that they need not wait for their deadline. */
static void turn_away(struct pg *pg)
{
    for (int kind = 0; kind < PG_POOLS; kind++) {
        struct pg_pool *pool = &pg->pools[kind];

        for (unsigned i = 0; i < pool->count; i++)
            pg_conn_fail_waiting(&pool->conns[i]);
        pg_tx_fail_waiters(pool);
    }
}

static bool busy(const struct pg *pg)
{
    for (int kind = 0; kind < PG_POOLS; kind++) {
        const struct pg_pool *pool = &pg->pools[kind];

        if (pool->queued || (kind == PG_TX && pg_tx_waiting(pool)))
            return true;
        for (unsigned i = 0; i < pool->count; i++) {
            if (pool->conns[i].batches)
                return true;
        }
    }
    return false;
}

static void sweep_timeouts(struct timer *timer)
{
    struct pg *pg = BB_CONTAINER_OF(timer, struct pg, sweep);
    int64_t limit = pg->loop->now_ms - (int64_t)pg->settings.statement_ms - SILENCE_MS;

    for (int kind = 0; kind < PG_POOLS; kind++) {
        struct pg_pool *pool = &pg->pools[kind];

        for (unsigned i = 0; i < pool->count; i++) {
            struct pg_conn *conn = &pool->conns[i];

            if (conn->state == PG_READY && conn->batches && conn->oldest_ms < limit)
                pg_conn_lost(conn, "no answer within the time limit");
        }
    }
    if (pg_away(pg))
        turn_away(pg);
    timer_set(&pg->loop->timers, timer,
              timer_beat(pg->loop->now_ms, busy(pg) ? PATROL_MS : TIMER_IDLE_MS));
}

static int pool_open(struct pg *pg, enum pg_pool_kind kind)
{
    struct pg_pool *pool = &pg->pools[kind];
    bool batched = kind == PG_READ || kind == PG_WRITE || kind == PG_UNIT;

    *pool = (struct pg_pool){.pg = pg,
                             .kind = kind,
                             .count = pg->settings.connections[kind],
                             .depth = batched ? PIPELINE_DEPTH : 1,
                             .batch_max = batched ? BATCH_MAX : 1};
    fair_init(&pool->owners, pool->count);
    pool->conns = calloc(pool->count, sizeof(struct pg_conn));
    if (!pool->conns)
        return -1;
    for (unsigned i = 0; i < pool->count; i++) {
        if (pg_conn_open(&pool->conns[i], pool, i))
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
    pg->sweep.fire = sweep_timeouts;
    for (int kind = 0; kind < PG_POOLS; kind++) {
        if (pool_open(pg, (enum pg_pool_kind)kind)) {
            pg_free(pg);
            return NULL;
        }
    }
    sweep_timeouts(&pg->sweep);
    return pg;
}

void pg_set_limits(struct pg *pg, const struct pg_settings *to)
{
    pg->settings.queue = to->queue;
    pg->settings.gather = to->gather;
    pg->settings.share = to->share;
}

void pg_pool_snapshot(const struct pg *pg, enum pg_pool_kind kind, struct pg_pool_status *status)
{
    const struct pg_pool *pool = &pg->pools[kind];

    *status = (struct pg_pool_status){.connections = pool->count,
                                      .waiting = pool->queued,
                                      .shared = pool->shared,
                                      .sharers = pool->sharers};
    for (unsigned i = 0; i < pool->count; i++) {
        status->ready += pool->conns[i].state == PG_READY;
        status->batches += pool->conns[i].batches;
    }
    if (kind == PG_TX)
        status->waiting = pg_tx_waiting(pool);
}

void pg_free(struct pg *pg)
{
    timer_clear(&pg->loop->timers, &pg->sweep);
    for (int kind = 0; kind < PG_POOLS; kind++) {
        struct pg_pool *pool = &pg->pools[kind];

        for (unsigned i = 0; pool->conns && i < pool->count; i++)
            pg_conn_close(&pool->conns[i]);
        free(pool->conns);
        fair_free(&pool->owners);
    }
    free(pg);
}
