/* The pools: their queues, from which connections take entries, and their connections. */
#include "core/store/pg_pool.h"

#include <stdlib.h>

#include "core/module/quota.h"
#include "core/store/pg_listener.h"

enum {
    PIPELINE_DEPTH = 2, /* batches in progress per connection: the next one waits in PostgreSQL */
    BATCH_MAX = 64,     /* entries per batch: after a failure, all are sent again */
    READS = 16,         /* places in a batch of reads, of which each owner has a share */
    PATROL_MS = 250,    /* interval while entries are waiting or in progress */
    SILENCE_MS = 2000,  /* after this time beyond statement_timeout the connection is dead */
    /* If neither a connection nor the listener has received anything for this time, PostgreSQL is
     * unavailable. A machine that is short of processors may stall for a second. */
    AWAY_MS = 2000
};

_Static_assert((int)PG_POOLS == (int)LOOP_PG_POOLS, "each has its place in struct loop_stats");

const char *const pg_pool_names[PG_POOLS] = {"read", "write", "unit", "long", "tx"};

/* ---- queues ---- */

struct quota_entry *pg_enter(struct pg_pool *pool, struct core_request *rq)
{
    size_t queue = pool->pg->settings.queue, each = quota_part(pool->pg->settings.share, queue);
    enum quota_result answer = QUOTA_ALL_FULL;
    struct quota_entry *owner = NULL;

    if (pool->queued < queue)
        owner = fair_enter(&pool->owners, &rq->owner, quota_exempt(rq) ? SIZE_MAX : each, &answer);
    if (!owner)
        quota_fail(rq, QUOTA_DATABASE, answer);
    return owner;
}

bool pg_may_run(const struct pg_pool *pool, const struct quota_entry *owner)
{
    return quota_owner_same(&owner->owner, &(struct quota_owner){0}) ||
           owner->running < quota_part(pool->pg->settings.share, pool->count);
}

void pg_request_leave(struct pg_request *entry)
{
    struct quota_entry *owner = entry->queued.owner;

    if (!owner)
        return;
    if (entry->large) {
        struct pg_request **at = &entry->pool->pg->large;

        while (*at != entry)
            at = &(*at)->large_next;
        *at = entry->large_next;
        entry->large = false;
    }
    owner->running -= entry->running;
    fair_leave(&entry->pool->owners, owner);
    entry->queued.owner = NULL;
}

/* Queues an entry; `front`: before all others. */
void pg_conn_queue(struct pg_conn *conn, struct pg_request *entry, bool front)
{
    conn->waiting_count++;
    conn->pool->queued++;
    entry->sent = false;
    if (front || !entry->queued.owner) {
        entry->next = conn->again;
        conn->again = entry;
    } else {
        fair_wait(&conn->queue, &entry->queued);
    }
}

static struct pg_request *pool_taken(struct pg_conn *conn, struct pg_request *entry)
{
    conn->waiting_count--;
    conn->pool->queued--;
    entry->next = NULL;
    return entry;
}

static struct pg_request *pool_take_again(struct pg_conn *conn)
{
    struct pg_request *entry = conn->again;

    conn->again = entry->next;
    return pool_taken(conn, entry);
}

/* Takes the first waiting entry of any owner; NULL: none. Sets *again if it is sent again. */
static struct pg_request *pool_take_any(struct pg_conn *conn, bool *again)
{
    struct fair_entry *queued;

    *again = conn->again;
    if (*again)
        return pool_take_again(conn);
    queued = fair_take(&conn->queue);
    return queued ? pool_taken(conn, BB_CONTAINER_OF(queued, struct pg_request, queued)) : NULL;
}

/* Returns the next entry in the queue; skips owners that have used up their share. */
static struct pg_request *pool_take_next(struct pg_conn *conn, size_t gathered)
{
    for (unsigned i = conn->queue.flows; i; i--) {
        struct fair_entry *queued = fair_first(&conn->queue);

        if (!queued)
            return NULL;
        struct fair_flow *flow = fair_flow(&conn->queue, queued);
        struct pg_request *entry = BB_CONTAINER_OF(queued, struct pg_request, queued);

        if (entry->rq && gathered && conn->gathered_bytes + entry->bytes > PG_BATCH_BYTES)
            return NULL; /* stop here, because small entries could overtake this one forever */
        bool is_long = conn->pool->kind == PG_LONG; /* a batch has one entry */
        bool fits = is_long ? pg_may_run(conn->pool, entry->queued.owner)
                            : flow->round != conn->round || flow->taken < conn->places;

        if (fits || !entry->rq) {
            flow->taken = flow->round == conn->round ? flow->taken + 1 : 1;
            flow->round = conn->round;
            entry->running = is_long;
            entry->queued.owner->running += is_long;
            conn->gathered_bytes += entry->bytes;
            fair_take(&conn->queue);
            return pool_taken(conn, entry);
        }
        fair_skip(&conn->queue);
    }
    return NULL;
}

struct pg_request *pg_conn_next(struct pg_conn *conn, size_t gathered)
{
    struct pg_pool *pool = conn->pool;
    struct pg_request *entry = NULL;

    if (!gathered) {
        /* Units are short, and share their commit. Reads may take longer, and others wait for the
         * batch. */
        size_t all = pool->kind == PG_UNIT || pool->batch_max < READS ? pool->batch_max : READS;

        conn->round++;
        conn->places = quota_part(pool->pg->settings.share, all);
        conn->gathered_bytes = 0;
    }
    if (conn->again)
        return conn->again->alone && gathered ? NULL : pool_take_again(conn);
    if (pool->kind != PG_LONG)
        return pool_take_next(conn, gathered);
    /*
     * A free connection takes a long statement from any queue, first from its own, which may hold
     * the oldest statements if another connection was down.
     */
    for (unsigned i = 0; !entry && i < pool->count; i++)
        entry = pool_take_next(&pool->conns[(conn->index + i) % pool->count], 0);
    return entry;
}

void pg_conn_fail_waiting(struct pg_conn *conn)
{
    struct pg_request *entry;
    bool again;

    while ((entry = pool_take_any(conn, &again)))
        pg_request_fail(entry, FAILED_UNAVAILABLE);
}

/* ---- the choice of a connection ---- */

/* Ranks connected connections before connecting ones, which may take long or fail. */
static int pool_rank(const struct pg_conn *conn)
{
    if (!pg_conn_usable(conn))
        return 0;
    return conn->state == PG_READY ? 2 : 1;
}

static bool pool_better(const struct pg_conn *one, const struct pg_conn *other)
{
    if (pool_rank(one) != pool_rank(other))
        return pool_rank(one) > pool_rank(other);
    return one->batches + one->waiting_count < other->batches + other->waiting_count;
}

void pg_conn_leave(struct pg_conn *lost)
{
    struct pg_pool *pool = lost->pool;
    struct pg_conn *best = NULL;
    struct pg_request *entry;
    bool again;

    if (pool->kind == PG_UNIT || pool->kind == PG_TX)
        return;
    for (unsigned i = 0; i < pool->count; i++) {
        if (pool->conns[i].state == PG_READY && (!best || pool_better(&pool->conns[i], best)))
            best = &pool->conns[i];
    }
    while (best && (entry = pool_take_any(lost, &again)))
        pg_conn_queue(best, entry, again);
}

/*
 * Chooses a connection: for units the one of their key, for keyed and long statements the first of
 * the best connections (so that keyed ones share executions), for others the one with the fewest
 * entries.
 */
static struct pg_conn *pool_choose(struct pg_pool *pool, const struct pg_request *entry)
{
    bool meets = pool->kind == PG_LONG || ((pool->kind == PG_READ || pool->kind == PG_WRITE) &&
                                           entry->ops && entry->ops->sql->flags & BB_SQL_KEYED);
    struct pg_conn *best = NULL;

    if (pool->kind == PG_UNIT)
        return &pool->conns[(entry->key * 0x9e3779b97f4a7c15U >> 32) % pool->count];
    for (unsigned i = 0; i < pool->count; i++) {
        struct pg_conn *conn = &pool->conns[i];

        if (pg_conn_expected(conn) &&
            (!best || pool_rank(conn) > pool_rank(best) || (!meets && pool_better(conn, best))))
            best = conn;
    }
    return best;
}

bool pg_away(const struct pg *pg)
{
    return pg_listener_silent_ms() >= AWAY_MS && pg->loop->now_ms - pg->heard_ms >= AWAY_MS;
}

int pg_submit(struct pg *pg, enum pg_pool_kind kind, struct pg_request *entry)
{
    if (!pg)
        return request_fail(entry->rq, FAILED_UNAVAILABLE);
    /* A large entry goes to the long pool, because others in its batch would wait. So do units
     * with the key of such a unit, because they, and the rest of their batch, would wait for its
     * locks. */
    const struct pg_request *at = kind == PG_UNIT ? pg->large : NULL;

    while (at && at->key != entry->key)
        at = at->large_next;
    bool large = at || entry->bytes > PG_BATCH_BYTES;
    struct pg_pool *pool = &pg->pools[large ? PG_LONG : kind];
    struct pg_conn *conn = pool_choose(pool, entry);

    if (!conn || !pg_conn_expected(conn) || pg_away(pg))
        return request_fail(entry->rq, FAILED_UNAVAILABLE);
    entry->queued.owner = pg_enter(pool, entry->rq);
    if (!entry->queued.owner)
        return -1;
    entry->pool = pool;
    if (large && kind == PG_UNIT) {
        entry->large = true;
        entry->large_next = pg->large;
        pg->large = entry;
    }
    pg_conn_queue(conn, entry, false);
    return 0;
}

void pg_flush(struct pg *pg)
{
    for (int kind = 0; kind < PG_POOLS; kind++)
        for (unsigned i = 0; i < pg->pools[kind].count; i++)
            pg_conn_flush(&pg->pools[kind].conns[i]);
}

/*
 * Closes silent connections. If PostgreSQL does not respond at all, fails waiting entries at once.
 */
static void pool_sweep(struct timer *timer)
{
    struct pg *pg = BB_CONTAINER_OF(timer, struct pg, sweep);
    int64_t limit = pg->loop->now_ms - (int64_t)pg->settings.statement_ms - SILENCE_MS;
    bool away = pg_away(pg), busy = false;

    for (int kind = 0; kind < PG_POOLS; kind++) {
        struct pg_pool *pool = &pg->pools[kind];

        for (unsigned i = 0; i < pool->count; i++) {
            struct pg_conn *conn = &pool->conns[i];

            if (conn->state == PG_READY && conn->batches && conn->oldest_ms < limit)
                pg_conn_lost(conn, "no answer within the time limit");
            if (away)
                pg_conn_fail_waiting(conn);
            busy = busy || conn->batches;
        }
        if (away)
            pg_tx_fail_waiters(pool);
        busy = busy || pool->queued;
    }
    timer_set(&pg->loop->timers, timer,
              timer_beat(pg->loop->now_ms, busy ? PATROL_MS : TIMER_IDLE_MS));
}

struct pg *pg_new(struct loop *loop, const struct pg_settings *settings)
{
    struct pg *pg = calloc(1, sizeof *pg);
    bool failed = false;

    if (!pg)
        return NULL;
    pg->loop = loop;
    pg->settings = *settings;
    pg->sweep.fire = pool_sweep;
    for (int kind = 0; kind < PG_POOLS && !failed; kind++) {
        struct pg_pool *pool = &pg->pools[kind];
        bool batched = kind == PG_READ || kind == PG_WRITE || kind == PG_UNIT;

        *pool = (struct pg_pool){.pg = pg,
                                 .kind = (enum pg_pool_kind)kind,
                                 .count = settings->connections[kind],
                                 .depth = batched ? PIPELINE_DEPTH : 1,
                                 .batch_max = batched ? BATCH_MAX : 1,
                                 .owners = QUOTA_TABLE(settings->connections[kind])};
        pool->conns = calloc(pool->count, sizeof(struct pg_conn));
        failed = !pool->conns;
        for (unsigned i = 0; i < pool->count && !failed; i++)
            failed = pg_conn_open(&pool->conns[i], pool, i) != 0;
    }
    if (failed) {
        pg_free(pg);
        return NULL;
    }
    pool_sweep(&pg->sweep);
    return pg;
}

void pg_set_limits(struct pg *pg, const struct pg_settings *to)
{
    pg->settings.queue = to->queue;
    pg->settings.merge_max = to->merge_max;
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
        quota_table_free(&pool->owners);
    }
    free(pg);
}
