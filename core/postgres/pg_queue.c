/* What waits for a connection: who is refused, and who is served next. */
#include "core/base/text.h"
#include "core/postgres/pg_pool.h"
#include "core/request/quota.h"

enum {
    OWNER_BATCH = 16, /* entries of one owner in a batch, while others wait, too */
    OWNER_FEW = 4,    /* the same while other accounts are there: theirs come soon */
    BYTES_IN_US = 50  /* of values, that PostgreSQL takes in a microsecond: it writes them thrice */
};

bool pg_has_several(const struct pg *pg)
{
    return spending_has_several(&pg->loop->spending, pg->loop->now_ms);
}

static struct pg_entry *entry_of(struct fair_entry *queued)
{
    return BB_CONTAINER_OF(queued, struct pg_entry, queued);
}

/* So many connections of the pool may be at work for one owner alone. */
static size_t activity_max(const struct pg_pool *pool)
{
    return quota_part(pool->pg->settings.share, pool->count);
}

struct fair_owner *pg_enter(struct pg_pool *pool, struct core_request *rq)
{
    size_t queue = pool->pg->settings.queue, each = quota_part(pool->pg->settings.share, queue);
    enum quota_result answer = QUOTA_ALL_FULL;
    struct fair_owner *owner = NULL;

    if (pool->queued < queue)
        owner = fair_enter(&pool->owners, &rq->owner, quota_exempt(rq) ? SIZE_MAX : each, &answer);
    if (!owner)
        quota_fail(rq, QUOTA_DATABASE, answer);
    return owner;
}

bool pg_may_run(const struct pg_pool *pool, const struct fair_owner *owner)
{
    return quota_owner_host(&owner->owner) || owner->running < activity_max(pool);
}

/* What PostgreSQL had to do for the owner, as far as it takes long. */
static void charge(const struct pg_entry *entry, const struct quota_owner *owner)
{
    struct loop *loop = entry->pool->pg->loop;
    int64_t took_us = (int64_t)(entry->bytes / BYTES_IN_US);

    if (entry->running)
        took_us = clock_mono_us() - entry->sent_us;
    spending_charge(&loop->spending, owner, loop->now_ms, took_us);
}

void pg_entry_leave(struct pg_entry *entry)
{
    struct fair_owner *owner = entry->queued.owner;

    if (!owner)
        return;
    if (entry->sent_us)
        charge(entry, &owner->owner);
    owner->running -= entry->running;
    fair_leave(&entry->pool->owners, owner);
    entry->queued.owner = NULL;
}

/* What is sent again, and what belongs to a connection that is checked out, goes before everybody.
 */
static void queue_in_front(struct pg_conn *conn, struct pg_entry *entry)
{
    entry->next = conn->again;
    conn->again = entry;
}

void pg_conn_queue(struct pg_conn *conn, struct pg_entry *entry, bool front)
{
    conn->waiting_count++;
    conn->pool->queued++;
    entry->sent = false;
    if (front || !entry->queued.owner)
        queue_in_front(conn, entry);
    else
        fair_wait(&conn->queue, &entry->queued);
}

static struct pg_entry *taken(struct pg_conn *conn, struct pg_entry *entry)
{
    conn->waiting_count--;
    conn->pool->queued--;
    entry->next = NULL;
    return entry;
}

static struct pg_entry *take_again(struct pg_conn *conn)
{
    struct pg_entry *entry = conn->again;

    conn->again = entry->next;
    return taken(conn, entry);
}

/* Whether it may travel in the batch that is gathered: in the long pool a batch is one entry. */
static bool may_go(const struct pg_conn *conn, const struct pg_entry *entry,
                   const struct fair_flow *flow)
{
    if (!entry->rq)
        return true;
    if (conn->pool->kind == PG_LONG)
        return pg_may_run(conn->pool, entry->queued.owner);
    return flow->round != conn->round || flow->taken < conn->places;
}

static void count_served(struct pg_conn *conn, struct pg_entry *entry, struct fair_flow *flow)
{
    if (flow->round != conn->round)
        flow->taken = 0;
    flow->round = conn->round;
    flow->taken++;
    if (conn->pool->kind == PG_LONG) {
        entry->running = true;
        entry->queued.owner->running++;
    }
}

/* See pg_slow.h: what waits here may have turned out to be slow meanwhile. */
static bool is_slow(const struct pg_conn *conn, const struct pg_entry *entry)
{
    const struct pg *pg = conn->pool->pg;

    return conn->pool->kind == PG_READ && entry->rq && !entry->ops->next &&
           pg_slow_is(&pg->slow, &entry->queued.owner->owner, entry->ops->sql, pg->loop->now_ms);
}

static void move_to_long(struct pg *pg, struct pg_entry *entry)
{
    pg_entry_leave(entry);
    if (pg_submit(pg, PG_LONG, entry)) {
        entry->failure = entry->rq->failure;
        pg_entry_done(entry);
    }
}

/* Those that are slow leave for the other pool. */
static void pass_slow_on(struct pg_conn *conn)
{
    struct fair_entry *queued;

    while (conn->pool->pg->slow.taken && pg_has_several(conn->pool->pg) &&
           (queued = fair_first(&conn->queue)) && is_slow(conn, entry_of(queued))) {
        fair_take(&conn->queue);
        move_to_long(conn->pool->pg, taken(conn, entry_of(queued)));
    }
}

/* The next one in the queue, passing those by whose owners have their share. */
static struct pg_entry *take_next(struct pg_conn *conn, size_t gathered)
{
    for (unsigned i = conn->queue.flows; i; i--) {
        pass_slow_on(conn);
        struct fair_entry *queued = fair_first(&conn->queue);

        if (!queued)
            return NULL;
        struct fair_flow *flow = fair_flow(&conn->queue, queued);
        struct pg_entry *entry = entry_of(queued);

        if (entry->rq && gathered && conn->gathered_bytes + entry->bytes > PG_BATCH_BYTES)
            return NULL; /* the first of the next batch, else small ones pass it by for ever */
        if (may_go(conn, entry, flow)) {
            count_served(conn, entry, flow);
            conn->gathered_bytes += entry->bytes;
            fair_take(&conn->queue);
            return taken(conn, entry);
        }
        fair_skip(&conn->queue);
    }
    return NULL;
}

/* For one owner in the batch that begins. */
static size_t places(const struct pg_conn *conn)
{
    if (pg_has_several(conn->pool->pg))
        return OWNER_FEW;
    return conn->queue.flows > 1 ? OWNER_BATCH : SIZE_MAX;
}

struct pg_entry *pg_conn_next(struct pg_conn *conn, size_t gathered)
{
    if (!gathered) {
        conn->round++;
        conn->places = places(conn);
        conn->gathered_bytes = 0;
    }
    if (!conn->again)
        return take_next(conn, gathered);
    return conn->again->alone && gathered ? NULL : take_again(conn);
}

void pg_conn_hand_on(struct pg_conn *from, struct pg_conn *to)
{
    struct fair_entry *queued;

    while (from->again)
        pg_conn_queue(to, take_again(from), true);
    while ((queued = fair_take(&from->queue)))
        pg_conn_queue(to, taken(from, entry_of(queued)), false);
}

void pg_conn_fail_waiting(struct pg_conn *conn)
{
    struct fair_entry *queued;

    while (conn->again)
        pg_entry_fail(take_again(conn), FAILED_UNAVAILABLE);
    while ((queued = fair_take(&conn->queue)))
        pg_entry_fail(taken(conn, entry_of(queued)), FAILED_UNAVAILABLE);
}
