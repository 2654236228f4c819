/* What waits for a connection: who is refused, and whose turn it is. */
#include "core/postgres/pg_lane.h"
#include "core/request/quota.h"

enum { OWNER_BATCH = 16 }; /* items of one owner in a batch, while others wait, too */

static struct pg_item *item_of(struct turn *turn)
{
    return BB_CONTAINER_OF(turn, struct pg_item, turn);
}

/* So many connections of the lane may be at work for one owner alone. */
static size_t running_max(const struct pg_lane *lane)
{
    return quota_part(lane->pg->settings.share, lane->count);
}

struct turn_owner *pg_enter(struct pg_lane *lane, struct core_request *rq)
{
    size_t queue = lane->pg->settings.queue, each = quota_part(lane->pg->settings.share, queue);
    enum quota_result answer = QUOTA_ALL_FULL;
    struct turn_owner *owner = NULL;

    if (lane->queued < queue)
        owner = turns_enter(&lane->owners, &rq->owner, quota_exempt(rq) ? SIZE_MAX : each, &answer);
    if (!owner)
        quota_fail(rq, QUOTA_DATABASE, answer);
    return owner;
}

bool pg_may_run(const struct pg_lane *lane, const struct turn_owner *owner)
{
    return quota_owner_host(&owner->owner) || owner->running < running_max(lane);
}

void pg_item_leave(struct pg_item *item)
{
    struct turn_owner *owner = item->turn.owner;

    if (!owner)
        return;
    owner->running -= item->running;
    turns_leave(&item->lane->owners, owner);
    item->turn.owner = NULL;
}

/* What is sent again, and what belongs to a connection that is checked out, goes before everybody.
 */
static void queue_in_front(struct pg_conn *conn, struct pg_item *item)
{
    item->next = conn->again;
    conn->again = item;
}

void pg_conn_queue(struct pg_conn *conn, struct pg_item *item, bool front)
{
    conn->waiting_count++;
    conn->lane->queued++;
    item->sent = false;
    if (front || !item->turn.owner)
        queue_in_front(conn, item);
    else
        turn_wait(&conn->ring, &item->turn);
}

static struct pg_item *taken(struct pg_conn *conn, struct pg_item *item)
{
    conn->waiting_count--;
    conn->lane->queued--;
    item->next = NULL;
    return item;
}

static struct pg_item *take_again(struct pg_conn *conn)
{
    struct pg_item *item = conn->again;

    conn->again = item->next;
    return taken(conn, item);
}

/* Whether it may travel in the batch that is gathered: in the long lane a batch is one item. */
static bool may_go(const struct pg_conn *conn, const struct pg_item *item,
                   const struct turn_line *line)
{
    if (!item->rq)
        return true;
    if (conn->lane->kind == PG_LONG)
        return pg_may_run(conn->lane, item->turn.owner);
    return !conn->crowded || line->round != conn->round || line->taken < OWNER_BATCH;
}

static void count_turn(struct pg_conn *conn, struct pg_item *item, struct turn_line *line)
{
    if (line->round != conn->round)
        line->taken = 0;
    line->round = conn->round;
    line->taken++;
    if (conn->lane->kind == PG_LONG) {
        item->running = true;
        item->turn.owner->running++;
    }
}

/* The next one in turn, passing those by whose owners have their share. */
static struct pg_item *take_turn(struct pg_conn *conn, size_t gathered)
{
    for (unsigned i = conn->ring.lines; i; i--) {
        struct turn *turn = turn_first(&conn->ring);
        struct turn_line *line = turn_line(&conn->ring, turn);
        struct pg_item *item = item_of(turn);

        if (item->rq && gathered && conn->gathered_bytes + item->bytes > PG_BATCH_BYTES)
            return NULL; /* the first of the next batch, else small ones pass it by for ever */
        if (may_go(conn, item, line)) {
            count_turn(conn, item, line);
            conn->gathered_bytes += item->bytes;
            turn_take(&conn->ring);
            return taken(conn, item);
        }
        turn_skip(&conn->ring);
    }
    return NULL;
}

struct pg_item *pg_conn_next(struct pg_conn *conn, size_t gathered)
{
    if (!gathered) {
        conn->round++;
        conn->crowded = conn->ring.lines > 1;
        conn->gathered_bytes = 0;
    }
    if (!conn->again)
        return take_turn(conn, gathered);
    return conn->again->alone && gathered ? NULL : take_again(conn);
}

void pg_conn_fail_waiting(struct pg_conn *conn)
{
    struct turn *turn;

    while (conn->again)
        pg_item_fail(take_again(conn), FAILED_UNAVAILABLE);
    while ((turn = turn_take(&conn->ring)))
        pg_item_fail(taken(conn, item_of(turn)), FAILED_UNAVAILABLE);
}
