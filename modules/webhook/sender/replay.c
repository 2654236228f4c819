/*
 * Replays: the deliveries of a period are sent again. A row in webhook_replay has the conditions
 * and a cursor. The owner of the shard queues only a few of these deliveries at a time, so that the
 * others need no memory and can be canceled. A replay is sent after the webhook's other deliveries.
 */
#include "modules/webhook/sender/internal.h"

#define WAITING "64" /* deliveries of a webhook's replay that are queued at a time */
#define SCAN "1000"  /* deliveries that are checked for a webhook at a time */
#define WEBHOOKS "50"
#define QUEUE WEBHOOK_QUEUE_AGAIN("(SELECT ids FROM ids)::bigint[]", "true")
#define MATCHING WEBHOOK_REPLAYED("r.since", "r.until", "r.delivered", "r.events")
#define PAUSE_MS 200
#define FULL_MS 1000 /* pause if no replay has room: receivers fail or are slow */

/*
 * Queues the next deliveries of running replays, and moves their cursors. $1 this host, $2 shards.
 * `room` is how many deliveries a replay may queue now. `ids` are the first `room` matches among
 * the next SCAN deliveries. The replays checked longest ago come first, so that a replay without
 * room delays no others. Returns the checked webhooks, and 1 for each that had room.
 */
static const struct bb_sql replay = {
    "WITH " SENDER_ME ","
    " r AS MATERIALIZED (SELECT r.*, " WAITING " - (SELECT count(*) FROM webhook_waiting w"
    " WHERE w.webhook = r.webhook AND w.replay) AS room FROM webhook_replay r"
    " WHERE state = 'running' AND webhook_shard_of(r.webhook) = ANY($2::bigint[])"
    " AND EXISTS (SELECT FROM me) ORDER BY r.checked_at LIMIT " WEBHOOKS
    " FOR UPDATE OF r SKIP LOCKED),"
    " found AS MATERIALIZED (SELECT r.webhook, s.last, s.scanned < " SCAN
    " AS ends, m.ids, coalesce(cardinality(m.ids), 0) >= r.room AS full FROM r CROSS JOIN LATERAL"
    " (SELECT max(id) AS last, count(*) AS scanned FROM (SELECT d.id FROM webhook_delivery d"
    " WHERE d.webhook = r.webhook AND d.id > r.cursor AND d.id <= r.upto ORDER BY d.id LIMIT " SCAN
    ") d) s CROSS JOIN LATERAL (SELECT array_agg(id) AS ids FROM (SELECT d.id"
    " FROM webhook_delivery d CROSS JOIN LATERAL (SELECT o.delivered FROM webhook_outcome o"
    " WHERE o.id = d.id OFFSET 0) o WHERE d.webhook = r.webhook AND d.id > r.cursor"
    " AND d.id <= s.last AND " MATCHING " ORDER BY d.id LIMIT r.room) d) m WHERE r.room > 0),"
    " ids AS MATERIALIZED (SELECT array_agg(id) AS ids FROM found, unnest(found.ids) AS id),"
    " " QUEUE ","
    " moved AS (UPDATE webhook_replay p SET checked_at = now(), queued = p.queued"
    " + (SELECT count(*) FROM queued q WHERE q.webhook = r.webhook),"
    " cursor = CASE WHEN f.webhook IS NULL THEN p.cursor"
    " WHEN f.full THEN f.ids[cardinality(f.ids)] ELSE coalesce(f.last, p.upto) END,"
    " state = CASE WHEN f.ends AND NOT f.full THEN 'done' ELSE p.state END,"
    " ended_at = CASE WHEN f.ends AND NOT f.full THEN now() END"
    " FROM r LEFT JOIN found f ON f.webhook = r.webhook WHERE p.webhook = r.webhook)"
    " SELECT r.webhook, (f.webhook IS NOT NULL)::int FROM r"
    " LEFT JOIN found f ON f.webhook = r.webhook",
    BB_SQL_WRITE | BB_SQL_LONG,
};

static void replay_work(struct bb_request *rq, struct db_task *db_task)
{
    const struct bb_value shards = db_task_shards(rq, db_task);

    db_task_read(rq, db_task, bb_query(rq, &replay, BB_ARGS(bb_i(db_task->me), shards)));
}

static void replay_back(struct sender *sender, struct db_task *db_task)
{
    const struct pairs *webhooks = &db_task->pairs;
    bool full = db_task->ok;

    for (size_t i = 0; i < webhooks->count; i++) {
        int64_t webhook = webhooks->webhooks[i];
        struct subscription *subscription =
            sender->mine & sender_shard(webhook) ? subscription_get(sender, webhook) : NULL;

        full = full && !webhooks->ids[i];
        if (subscription)
            subscription_due(sender, subscription, sender->now_ms);
    }
    if (!db_task->ok || webhooks->count)
        sender->replay_at = sender->now_ms + (full ? FULL_MS : PAUSE_MS);
}

void replay_next(struct sender *sender)
{
    struct db_task *replaying = &sender->replaying;

    if (replaying->busy || sender->now_ms < sender->replay_at || !sender->mine ||
        sender->stopping || sender->now_ms < sender->retry_db_at || !attempt_is_allowed(sender))
        return;
    replaying->shards = sender->mine & ~sender->to_give;
    sender->replay_at = INT64_MAX;
    db_task_send(sender, replaying, replay_work, replay_back);
}
