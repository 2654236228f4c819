/* The queues of connections: refuses entries, and selects the next one. */
#include "core/module/quota.h"
#include "core/store/pg_pool.h"

enum { READS = 16 /* places in a batch of reads, of which each owner has a share */ };

static struct pg_request *entry_of(struct fair_entry *queued)
{
    return BB_CONTAINER_OF(queued, struct pg_request, queued);
}

/* Maximum number of connections of the pool that may be busy for one owner. */
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

void pg_request_leave(struct pg_request *entry)
{
    struct fair_owner *owner = entry->queued.owner;

    if (!owner)
        return;
    if (entry->large)
        pg_large_remove(entry->pool->pg, entry);
    owner->running -= entry->running;
    fair_leave(&entry->pool->owners, owner);
    entry->queued.owner = NULL;
}

/* Entries that are sent again, or belong to a checked out connection, come first. */
static void queue_in_front(struct pg_conn *conn, struct pg_request *entry)
{
    entry->next = conn->again;
    conn->again = entry;
}

void pg_conn_queue(struct pg_conn *conn, struct pg_request *entry, bool front)
{
    conn->waiting_count++;
    conn->pool->queued++;
    entry->sent = false;
    if (front || !entry->queued.owner)
        queue_in_front(conn, entry);
    else
        fair_wait(&conn->queue, &entry->queued);
}

static struct pg_request *taken(struct pg_conn *conn, struct pg_request *entry)
{
    conn->waiting_count--;
    conn->pool->queued--;
    entry->next = NULL;
    return entry;
}

static struct pg_request *take_again(struct pg_conn *conn)
{
    struct pg_request *entry = conn->again;

    conn->again = entry->next;
    return taken(conn, entry);
}

/* Whether the entry fits into the current batch: in the long pool a batch has one entry. */
static bool may_go(const struct pg_conn *conn, const struct pg_request *entry,
                   const struct fair_flow *flow)
{
    if (!entry->rq)
        return true;
    if (conn->pool->kind == PG_LONG)
        return pg_may_run(conn->pool, entry->queued.owner);
    return flow->round != conn->round || flow->taken < conn->places;
}

static void count_served(struct pg_conn *conn, struct pg_request *entry, struct fair_flow *flow)
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

/* Returns the next entry in the queue; skips owners that have used up their share. */
static struct pg_request *take_next(struct pg_conn *conn, size_t gathered)
{
    for (unsigned i = conn->queue.flows; i; i--) {
        struct fair_entry *queued = fair_first(&conn->queue);

        if (!queued)
            return NULL;
        struct fair_flow *flow = fair_flow(&conn->queue, queued);
        struct pg_request *entry = entry_of(queued);

        if (entry->rq && gathered && conn->gathered_bytes + entry->bytes > PG_BATCH_BYTES)
            return NULL; /* wait for the next batch: otherwise small entries could overtake this
                          * one forever */
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

/*
 * A long statement does not wait for a specific connection: the next free one takes it. New
 * statements queue at one connection. The search begins with the connection's own queue, so that
 * statements that queued there while the other connection was down do not wait until all newer ones
 * are sent.
 */
static struct pg_request *take_long(const struct pg_conn *conn)
{
    struct pg_pool *pool = conn->pool;
    struct pg_request *entry = NULL;

    for (unsigned i = 0; !entry && i < pool->count; i++)
        entry = take_next(&pool->conns[(conn->index + i) % pool->count], 0);
    return entry;
}

/*
 * Returns the maximum number of entries of one owner in a batch. Units are short, and share their
 * commit; reads may take longer, and others wait for the batch in progress.
 */
static size_t places(const struct pg_pool *pool)
{
    size_t all = pool->kind == PG_UNIT || pool->batch_max < READS ? pool->batch_max : READS;

    return quota_part(pool->pg->settings.share, all);
}

struct pg_request *pg_conn_next(struct pg_conn *conn, size_t gathered)
{
    if (!gathered) {
        conn->round++;
        conn->places = places(conn->pool);
        conn->gathered_bytes = 0;
    }
    if (!conn->again)
        return conn->pool->kind == PG_LONG ? take_long(conn) : take_next(conn, gathered);
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
        pg_request_fail(take_again(conn), FAILED_UNAVAILABLE);
    while ((queued = fair_take(&conn->queue)))
        pg_request_fail(taken(conn, entry_of(queued)), FAILED_UNAVAILABLE);
}
