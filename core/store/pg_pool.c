/*
 * The pools: their queues, and the connection that a new request waits for. A connection makes its
 * batches itself (conn_make_batch() in pg_conn.c); pg_conn_next() chooses the requests.
 */
#include "core/store/pg_pool.h"

#include <stdlib.h>

#include "core/module/quota.h"
#include "core/store/pg_listener.h"

enum {
    PIPELINE_DEPTH = 2, /* batches in progress per connection: one runs, the next one was sent */
    BATCH_MAX = 64,     /* requests per batch; few, because all are sent again after a failure */
    READS = 16,         /* an owner may have http.client_percent of this number in a read batch */
    REST = 7,           /* a pause is this multiple of a statement's duration: pool_end_long() */
    REST_MAX_MS = 1000, /* maximum length of a pause */
    PATROL_MS = 250,    /* interval of pool_sweep() while requests are waiting or in progress */
    SILENCE_MS = 2000,  /* pool_sweep() waits for results for statement_timeout plus this time */
    /* If neither a connection nor the listener has received anything for this time, PostgreSQL is
     * unavailable. A machine that is short of processors may stall for a second. */
    UNAVAILABLE_MS = 2000
};

_Static_assert((int)PG_POOLS == (int)LOOP_PG_POOLS, "each has its place in struct loop_stats");

const char *const pg_pool_names[PG_POOLS] = {"read", "write", "unit", "long", "tx"};

/* ---- queues ---- */

/* Returns the part of `all` that one owner may have. */
static size_t pool_part(const struct pg_pool *pool, size_t all)
{
    return quota_part((size_t)pool->pg->loop->host->http.client_percent, all);
}

struct quota_entry *pg_enter(struct pg_pool *pool, struct core_request *rq)
{
    const struct host_settings *host = pool->pg->loop->host;
    size_t queue = (size_t)host->database.queue, each = pool_part(pool, queue);
    enum quota_result answer = QUOTA_ALL_FULL;
    struct quota_entry *owner = NULL;

    if (pool->queued < queue)
        owner = fair_enter(&pool->owners, &rq->owner, quota_exempt(rq) ? SIZE_MAX : each, &answer);
    if (!owner)
        quota_fail(rq, QUOTA_DATABASE, answer);
    return owner;
}

static bool pool_is_host(const struct quota_owner *owner)
{
    return quota_owner_same(owner, &(struct quota_owner){0});
}

bool pg_may_run(const struct pg_pool *pool, const struct quota_entry *owner)
{
    return pool_is_host(&owner->owner) || (owner->running < pool_part(pool, pool->count) &&
                                           owner->rest_until_ms <= pool->pg->loop->now_ms);
}

/*
 * Ends a long statement. If other owners used PostgreSQL meanwhile, the owner's waiting long
 * statements pause, because one or two owners could otherwise use all processors of a small
 * machine. The length of the pause is REST times the duration of the statement, times the number of
 * waiting owners. So owners with several long statements together use about an eighth of the time.
 * If no statement is waiting, there is no pause.
 */
static void pool_end_long(struct pg_request *request)
{
    struct pg_pool *pool = request->pool;
    struct quota_entry *owner = request->queued.owner;
    int64_t took_us = clock_mono_us() - request->sent_us, rest_ms = 0;

    owner->running--;
    request->running = false;
    if (!request->sent_us || pool->pg->shared_us < request->sent_us)
        return;
    for (unsigned i = 0; i < pool->count; i++)
        rest_ms += (REST * pool->conns[i].queue.flows * took_us + 999) / 1000;
    owner->rest_until_ms = pool->pg->loop->now_ms + (rest_ms < REST_MAX_MS ? rest_ms : REST_MAX_MS);
}

void pg_request_leave(struct pg_request *request)
{
    struct quota_entry *owner = request->queued.owner;

    if (!owner)
        return;
    if (request->large)
        LIST_REMOVE(request, large_link);
    request->large = false;
    if (request->running)
        pool_end_long(request);
    fair_leave(&request->pool->owners, owner);
    request->queued.owner = NULL;
}

void pg_conn_queue(struct pg_conn *conn, struct pg_request *request, struct pg_request **place)
{
    conn->waiting_count++;
    conn->pool->queued++;
    request->sent = false;
    if (!place && !request->queued.owner)
        place = &conn->again;
    if (place) {
        request->next = *place;
        *place = request;
    } else {
        fair_wait(&conn->queue, &request->queued);
    }
}

static struct pg_request *pool_taken(struct pg_conn *conn, struct pg_request *request)
{
    conn->waiting_count--;
    conn->pool->queued--;
    request->next = NULL;
    return request;
}

static struct pg_request *pool_take_again(struct pg_conn *conn)
{
    struct pg_request *request = conn->again;

    conn->again = request->next;
    return pool_taken(conn, request);
}

/* Removes and returns a waiting request, or NULL. Sets *again if it was in conn->again. */
static struct pg_request *pool_take_any(struct pg_conn *conn, bool *again)
{
    struct fair_entry *queued;

    *again = conn->again;
    if (*again)
        return pool_take_again(conn);
    queued = fair_take(&conn->queue);
    return queued ? pool_taken(conn, BB_CONTAINER_OF(queued, struct pg_request, queued)) : NULL;
}

/* Removes and returns the next request. Skips owners that have no share left or must pause. */
static struct pg_request *pool_take_next(struct pg_conn *conn, size_t gathered)
{
    for (unsigned i = conn->queue.flows; i; i--) {
        struct fair_entry *queued = fair_first(&conn->queue);

        if (!queued)
            return NULL;
        struct fair_flow *flow = fair_flow(&conn->queue, queued);
        struct pg_request *request = BB_CONTAINER_OF(queued, struct pg_request, queued);

        if (request->rq && gathered && conn->gathered_bytes + request->bytes > PG_BATCH_BYTES)
            return NULL; /* do not skip it: smaller requests could then overtake it forever */
        bool is_long = conn->pool->kind == PG_LONG; /* its batches have one request */
        bool fits = is_long ? pg_may_run(conn->pool, request->queued.owner)
                            : flow->round != conn->round || flow->taken < conn->places;

        if (fits || !request->rq) {
            flow->taken = flow->round == conn->round ? flow->taken + 1 : 1;
            flow->round = conn->round;
            request->running = is_long;
            request->queued.owner->running += is_long;
            conn->gathered_bytes += request->bytes;
            fair_take(&conn->queue);
            return pool_taken(conn, request);
        }
        int64_t at_ms = request->queued.owner->rest_until_ms;
        struct pg *pg = conn->pool->pg;

        if (at_ms > pg->loop->now_ms && (!pg->rest.node.set || at_ms < pg->rest.node.at_ms))
            timer_set(&pg->loop->timers, &pg->rest, at_ms);
        fair_skip(&conn->queue);
    }
    return NULL;
}

struct pg_request *pg_conn_next(struct pg_conn *conn, size_t gathered)
{
    struct pg_pool *pool = conn->pool;
    struct pg_request *request = NULL;

    if (!gathered) {
        /* Units are short, so an owner may have its share of a whole batch. Reads may take longer
         * and delay their batch, so an owner may have only its share of READS requests. */
        size_t all = pool->kind == PG_UNIT || pool->batch_max < READS ? pool->batch_max : READS;

        conn->round++;
        conn->places = pool_part(pool, all);
        conn->gathered_bytes = 0;
    }
    if (conn->again)
        return conn->again->alone && gathered ? NULL : pool_take_again(conn);
    if (pool->kind != PG_LONG)
        return pool_take_next(conn, gathered);
    /*
     * pool_choose() queues most long statements at the same connection. So a free connection
     * takes one from any queue, first from its own.
     */
    for (unsigned i = 0; !request && i < pool->count; i++)
        request = pool_take_next(&pool->conns[(conn->index + i) % pool->count], 0);
    return request;
}

void pg_conn_fail_waiting(struct pg_conn *conn)
{
    struct pg_request *request;
    bool again;

    while ((request = pool_take_any(conn, &again)))
        pg_request_fail(request, FAILED_UNAVAILABLE);
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

void pg_conn_move_waiting(struct pg_conn *lost)
{
    struct pg_pool *pool = lost->pool;
    struct pg_conn *best = NULL;
    struct pg_request *request;
    bool again;

    if (pool->kind == PG_UNIT || pool->kind == PG_TX)
        return;
    for (unsigned i = 0; i < pool->count; i++) {
        if (pool->conns[i].state == PG_READY && (!best || pool_better(&pool->conns[i], best)))
            best = &pool->conns[i];
    }
    struct pg_request **place = best ? &best->again : NULL; /* after the requests moved so far */

    while (best && (request = pool_take_any(lost, &again))) {
        pg_conn_queue(best, request, again ? place : NULL);
        if (again)
            place = &request->next;
    }
}

/*
 * Returns a connection, or NULL. The connection of a unit depends only on its key. Other requests
 * get one with the best pool_rank(): keyed and long statements the first, others the least busy.
 */
static struct pg_conn *pool_choose(struct pg_pool *pool, const struct pg_request *request)
{
    bool meets = pool->kind == PG_LONG || ((pool->kind == PG_READ || pool->kind == PG_WRITE) &&
                                           request->ops && request->ops->sql->flags & BB_SQL_KEYED);
    struct pg_conn *best = NULL;

    if (pool->kind == PG_UNIT)
        return &pool->conns[(request->key * 0x9e3779b97f4a7c15U >> 32) % pool->count];
    for (unsigned i = 0; i < pool->count; i++) {
        struct pg_conn *conn = &pool->conns[i];

        if (pg_conn_expected(conn) &&
            (!best || pool_rank(conn) > pool_rank(best) || (!meets && pool_better(conn, best))))
            best = conn;
    }
    return best;
}

bool pg_is_unavailable(const struct pg *pg)
{
    return pg_listener_silent_ms() >= UNAVAILABLE_MS &&
           pg->loop->now_ms - pg->heard_ms >= UNAVAILABLE_MS;
}

/* Adds a request to a connection's queue. Fails with FAILED_UNAVAILABLE if `conn` is NULL. */
static int pool_enter(struct pg_conn *conn, struct pg_request *request)
{
    const struct quota_owner *owner = &request->rq->owner;

    if (!conn)
        return request_fail(request->rq, FAILED_UNAVAILABLE);
    struct pg_pool *pool = conn->pool;
    struct pg *pg = pool->pg;

    request->queued.owner = pg_enter(pool, request->rq);
    if (!request->queued.owner)
        return -1;
    if (!pool_is_host(owner) && !quota_owner_same(owner, &pg->last)) {
        pg->last = *owner;
        pg->shared_us = clock_mono_us();
    }
    request->pool = pool;
    pg_conn_queue(conn, request, NULL);
    return 0;
}

int pg_submit_to(struct pg_replica *replica, bool is_long, struct pg_request *request)
{
    is_long = is_long || request->bytes > PG_BATCH_BYTES;
    struct pg_conn *conn = pool_choose(&replica->pools[is_long], request);

    return pool_enter(conn && conn->state == PG_READY ? conn : NULL, request);
}

int pg_submit(struct pg *pg, enum pg_pool_kind kind, struct pg_request *request)
{
    /* sends no writes if PostgreSQL accepts none: a commit that waits for a standby would occupy a
     * PostgreSQL process even after the host has stopped waiting */
    if (!pg || ((kind == PG_UNIT || request->write) && pg_listener_no_writes()))
        return request_fail(request->rq, FAILED_UNAVAILABLE);
    /* A large request goes to the long pool, because other requests of its batch would wait for it.
     * So does a unit with the key of a large unit: its batch would wait for that unit's locks. */
    const struct pg_request *at = kind == PG_UNIT ? LIST_FIRST(&pg->large) : NULL;

    while (at && at->key != request->key)
        at = LIST_NEXT(at, large_link);
    bool large = at || request->bytes > PG_BATCH_BYTES;
    struct pg_conn *conn = pool_choose(&pg->pools[large ? PG_LONG : kind], request);
    bool usable = conn && pg_conn_expected(conn) && !pg_is_unavailable(pg);

    if (pool_enter(usable ? conn : NULL, request))
        return -1;
    request->large = large && kind == PG_UNIT;
    if (request->large)
        LIST_INSERT_HEAD(&pg->large, request, large_link);
    return 0;
}

/* Returns the pool with this index: the primary's, then the replicas'. NULL after the last one. */
static struct pg_pool *pool_at(struct pg *pg, unsigned index)
{
    unsigned after = index - PG_POOLS;

    if (index < PG_POOLS)
        return &pg->pools[index];
    return after / 2 < pg->replica_count ? &pg->replicas[after / 2].pools[after % 2] : NULL;
}

void pg_flush(void *of)
{
    const struct pg_pool *pool;

    for (unsigned at = 0; (pool = pool_at(of, at)); at++)
        for (unsigned i = 0; i < pool->count; i++)
            if (pool->queued || pool->conns[i].waiting_count || pool->conns[i].recycle)
                pg_conn_flush(&pool->conns[i]);
}

static void pool_rested(struct timer *timer)
{
    pg_flush(BB_CONTAINER_OF(timer, struct pg, rest));
}

/*
 * Closes connections on which no response has arrived in time. If PostgreSQL does not respond at
 * all, fails waiting requests at once.
 */
static void pool_sweep(struct timer *timer)
{
    struct pg *pg = BB_CONTAINER_OF(timer, struct pg, sweep);
    int64_t limit = pg->loop->now_ms - pg->loop->host->database.statement_timeout - SILENCE_MS;
    bool unavailable = pg_is_unavailable(pg), busy = false;
    struct pg_pool *pool;

    for (unsigned at = 0; (pool = pool_at(pg, at)); at++) {
        for (unsigned i = 0; i < pool->count; i++) {
            struct pg_conn *conn = &pool->conns[i];

            if (conn->state == PG_READY && conn->batches && conn->oldest_ms < limit)
                pg_conn_lost(conn, "no response within the time limit");
            if (unavailable)
                pg_conn_fail_waiting(conn);
            busy = busy || conn->batches;
        }
        if (unavailable)
            pg_tx_fail_waiters(pool);
        busy = busy || pool->queued;
    }
    timer_set(&pg->loop->timers, timer,
              timer_beat(pg->loop->now_ms, busy ? PATROL_MS : TIMER_IDLE_MS));
}

int pg_pool_open(struct pg *pg, struct pg_pool *pool, enum pg_pool_kind kind,
                 struct pg_replica *replica)
{
    const struct host_settings *host = pg->loop->host;
    const int64_t connections[PG_POOLS] = {[PG_READ] = host->database.read_connections,
                                           [PG_WRITE] = host->database.write_connections,
                                           [PG_UNIT] = host->database.unit_connections,
                                           [PG_LONG] = host->database.long_connections,
                                           [PG_TX] = host->database.transaction_connections};
    bool batched = kind == PG_READ || kind == PG_WRITE || kind == PG_UNIT;

    *pool = (struct pg_pool){.pg = pg,
                             .replica = replica,
                             .kind = kind,
                             .count = (unsigned)connections[kind],
                             .depth = batched ? PIPELINE_DEPTH : 1,
                             .batch_max = batched ? BATCH_MAX : 1,
                             .owners = QUOTA_TABLE((unsigned)connections[kind])};
    TAILQ_INIT(&pool->waiters);
    pool->conns = calloc(pool->count, sizeof(struct pg_conn));
    for (unsigned i = 0; pool->conns && i < pool->count; i++)
        pg_conn_open(&pool->conns[i], pool, i);
    return pool->conns ? 0 : -1;
}

static void pool_close(struct pg_pool *pool)
{
    for (unsigned i = 0; pool->conns && i < pool->count; i++)
        pg_conn_close(&pool->conns[i]);
    free(pool->conns);
    quota_table_free(&pool->owners);
}

struct pg *pg_new(struct loop *loop)
{
    struct pg *pg = calloc(1, sizeof *pg);

    if (!pg)
        return NULL;
    pg->loop = loop;
    pg->sweep.fire = pool_sweep;
    pg->rest.fire = pool_rested;
    for (int kind = 0; kind < PG_POOLS; kind++)
        if (pg_pool_open(pg, &pg->pools[kind], (enum pg_pool_kind)kind, NULL)) {
            pg_free(pg);
            return NULL;
        }
    pool_sweep(&pg->sweep);
    return pg;
}

void pg_publish(const struct pg *pg)
{
    struct loop_stats *stats = &pg->loop->stats;

    for (int kind = 0; kind < PG_POOLS; kind++) {
        const struct pg_pool *pool = &pg->pools[kind];
        size_t ready = 0, batches = 0;

        for (unsigned i = 0; i < pool->count; i++) {
            ready += pool->conns[i].state == PG_READY;
            batches += pool->conns[i].batches;
        }
        atomic_store_explicit(&stats->size[kind], pool->count, memory_order_relaxed);
        atomic_store_explicit(&stats->ready[kind], ready, memory_order_relaxed);
        atomic_store_explicit(&stats->waiting[kind], pool->queued, memory_order_relaxed);
        atomic_store_explicit(&stats->batches[kind], batches, memory_order_relaxed);
        atomic_store_explicit(&stats->shared[kind], pool->shared, memory_order_relaxed);
        atomic_store_explicit(&stats->sharers[kind], pool->sharers, memory_order_relaxed);
    }
}

void pg_free(struct pg *pg)
{
    timer_clear(&pg->loop->timers, &pg->sweep);
    timer_clear(&pg->loop->timers, &pg->rest);
    timer_clear(&pg->loop->timers, &pg->replica_check);
    for (unsigned i = PG_POOLS + 2 * pg->replica_count; i-- > 0;)
        pool_close(pool_at(pg, i));
    free(pg->replicas);
    free(pg);
}
