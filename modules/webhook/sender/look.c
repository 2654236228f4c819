/*
 * Looks in the database for deliveries that this sender does not have: after it got shards, after a
 * gap in the notifications, and every few seconds in the new part of the log, because a host may
 * die between a commit and its notification, and transactions commit in any order. A look at the
 * log up to a `frontier`, below which all transactions have ended, moves the cursors of the shards
 * to it.
 */
#include "modules/webhook/sender/internal.h"

#include <stdlib.h>

#define PAGE_TEXT "4000"
enum { PAGE = 4000 }; /* rows per statement: a loop handles them at once */

/* $1 the webhook to continue after, $2 shards. Returns pairs of a webhook and its cursor. */
static const struct bb_sql look_backlog = {
    "SELECT webhook, cursor FROM webhook_backlog WHERE webhook > $1::bigint"
    " AND webhook_shard_of(webhook) = ANY($2::bigint[]) ORDER BY webhook LIMIT " PAGE_TEXT,
    BB_SQL_LONG,
};
/* Takes one step in the index per webhook. Returns in how many ms its first row is due. */
static const struct bb_sql look_waiting = {
    "WITH RECURSIVE w(webhook, next_at) AS ((SELECT webhook, next_at FROM webhook_waiting"
    " WHERE webhook > $1::bigint ORDER BY webhook, next_at LIMIT 1) UNION ALL"
    " SELECT n.webhook, n.next_at FROM w CROSS JOIN LATERAL (SELECT x.webhook, x.next_at"
    " FROM webhook_waiting x WHERE x.webhook > w.webhook ORDER BY x.webhook, x.next_at LIMIT 1) n)"
    " SELECT webhook, CASE WHEN EXISTS (SELECT FROM webhook_waiting x WHERE x.webhook = w.webhook"
    " AND x.key IS NOT NULL) THEN 0 ELSE"
    " greatest(0, ceil(extract(epoch FROM next_at - now()) * 1000))::bigint END FROM w"
    " WHERE webhook_shard_of(webhook) = ANY($2::bigint[]) LIMIT " PAGE_TEXT,
    BB_SQL_LONG,
};
/* $1 and $3 limit the ids. Ids of deliveries with an order are negative. Pings wait in
 * webhook_waiting; the host of the test sends them. */
static const struct bb_sql look_log = {
    "SELECT webhook, CASE WHEN sequence IS NULL THEN id ELSE -id END FROM webhook_delivery WHERE "
    "id > $1::bigint AND id <= $3::bigint"
    " AND event <> '" WEBHOOK_PING "' AND webhook_shard_of(webhook) = ANY($2::bigint[])"
    " ORDER BY id LIMIT " PAGE_TEXT,
    BB_SQL_LONG,
};

struct looking {
    struct db_task db_task;
    enum look look;
    int64_t after, to;
    uint64_t shards;
};

static void look_work(struct bb_request *rq, struct db_task *db_task)
{
    static const struct bb_sql *const statements[] = {NULL, &look_backlog, &look_waiting,
                                                      &look_log};
    struct looking *looking = (struct looking *)db_task;
    int64_t shards[SENDER_SHARDS];
    size_t count = sender_shard_list(looking->shards, shards);
    const struct bb_value args[] = {bb_i(looking->after), bb_ints(shards, count),
                                    bb_i(looking->to)};
    const struct bb_rows *rows =
        bb_query(rq, statements[looking->look], args, looking->look == LOOK_LOG ? 3 : 2);

    for (size_t row = 0; rows && row < bb_count(rq, rows); row++)
        if (pairs_add(&db_task->pairs, bb_cell_int(rq, rows, row, 0),
                      bb_cell_int(rq, rows, row, 1)))
            return;
    db_task->ok = rows != NULL;
}

/* Handles a lack of memory: the next look finds the same again, because no cursor has moved. */
static void look_fail(struct sender *sender)
{
    sender->look_wanted = true;
    sender->look_shards = 0;
    sender->retry_db_at = sender->now_ms + SENDER_AGAIN_MS;
}

/* Notes a backlog of the webhook if this sender does not have the delivery `id` of the log. */
void look_found(struct sender *sender, int64_t webhook, int64_t id)
{
    if (!(sender->mine & ~sender->to_give & sender_shard(webhook)) ||
        id <= sender->cursors[webhook % SENDER_SHARDS] ||
        sender->recent[id % SENDER_RECENT].id == id || idmap_find(&sender->deliveries, id))
        return;
    struct subscription *subscription = subscription_get(sender, webhook);

    if (id > sender->newest)
        sender->newest = id;
    if (!subscription) {
        look_fail(sender);
    } else if (!subscription->backlog || id <= subscription->read_to) {
        subscription_backlog(sender, subscription, id);
    }
}

static void look_take(struct sender *sender, const struct looking *looking, size_t i)
{
    const struct pairs *found = &looking->db_task.pairs;
    int64_t webhook = found->webhooks[i], number = found->ids[i];
    struct subscription *subscription = NULL;

    if (looking->look == LOOK_LOG && number > 0) {
        look_found(sender, webhook, number);
        return;
    }
    if (!(sender->mine & sender_shard(webhook)))
        return;
    subscription = subscription_get(sender, webhook);
    if (!subscription) {
        look_fail(sender);
    } else if (looking->look != LOOK_BACKLOG) { /* an order: its rows in webhook_waiting are due */
        subscription_due(sender, subscription, sender->now_ms + (number > 0 ? number : 0));
    } else if (!subscription->saved) {
        subscription->saved = number;
        subscription_backlog(sender, subscription, number + 1);
    }
}

static void look_back(struct sender *sender, struct db_task *db_task)
{
    struct looking *looking = (struct looking *)db_task;
    const struct pairs *found = &db_task->pairs;
    size_t count = found->count;

    if (!db_task->ok || sender->look != looking->look)
        return; /* if `look` differs, the lease was lost */
    for (size_t i = 0; i < count; i++)
        look_take(sender, looking, i);
    if (count == PAGE) {
        sender->look_after =
            looking->look == LOOK_LOG ? llabs(found->ids[count - 1]) : found->webhooks[count - 1];
        return;
    }
    sender->look_after = 0;
    sender->look = looking->look == LOOK_LOG ? LOOK_NONE : looking->look + 1;
    if (sender->look || sender->look_to == INT64_MAX)
        return;
    /* There are no other deliveries, so the cursors move to the frontier. */
    for (int64_t i = 0; i < SENDER_SHARDS; i++)
        if (sender->look_shards & sender->mine & sender_shard(i) &&
            sender->cursors[i] < sender->frontier)
            sender->cursors[i] = sender->frontier;
    sender->frontier = 0;
    sender->frontier_safe = false;
    lease_save(sender);
}

void look_on(struct sender *sender)
{
    if (sender->looking || !sender->mine || sender->stopping ||
        sender->now_ms < sender->retry_db_at)
        return;
    if (!sender->look) {
        if (!sender->look_wanted && !sender->frontier_safe)
            return;
        sender->look = sender->look_wanted ? LOOK_BACKLOG : LOOK_LOG;
        sender->look_to = sender->look_wanted ? INT64_MAX : sender->frontier;
        sender->look_shards = sender->mine & ~sender->to_give;
        if (sender->look_wanted) /* there may be replays that this sender does not know */
            sender->replay_at = sender->now_ms;
        sender->look_wanted = false;
        sender->look_after = 0;
    }
    struct looking *looking = db_task_new(sender, sizeof(*looking), look_work, look_back, NULL);

    if (!looking)
        return;
    looking->look = sender->look;
    looking->shards = sender->look_shards;
    looking->to = sender->look_to;
    looking->after = sender->look_after;
    if (looking->look == LOOK_LOG && !looking->after) {
        looking->after = INT64_MAX;
        for (int64_t i = 0; i < SENDER_SHARDS; i++)
            if (looking->shards & sender_shard(i) && sender->cursors[i] < looking->after)
                looking->after = sender->cursors[i];
    }
    db_task_send(&looking->db_task, &sender->looking);
}
