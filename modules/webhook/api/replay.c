/* The routes of a webhook's replay: they start it, show its progress, and cancel it. */
#include <string.h>

#include "modules/webhook/api/api.h"

// clang-format off
static const char *const replay_states[] = {"running", "done", "canceled", "dry_run", NULL};
const struct bb_field webhook_texts[] = {
    {.name = "item", .type = BB_TEXT, .example = "message.new"},
};
const struct bb_field webhook_replay_fields[] = {
    {.name = "state", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = replay_states},
    {.name = "matched", .type = BB_INT, .flags = BB_REQUIRED,
     .help = "Deliveries that matched at the start.", .example = "42"},
    {.name = "queued", .type = BB_INT, .help = "Deliveries that were queued up to now.",
     .example = "20"},
    {.name = "waiting", .type = BB_INT, .help = "Part of `queued`: those not sent yet.",
     .example = "3"},
    {.name = "since", .type = BB_TIME}, {.name = "until", .type = BB_TIME},
    {.name = "status", .type = BB_CHOICE, .flags = BB_NULLABLE,
     .choices = webhook_delivery_states + 1},
    {.name = "events", .type = BB_LIST, .fields = BB_TABLE(webhook_texts), .help = "[]: all."},
    {.name = "createdAt", .type = BB_TIME},
    {.name = "endedAt", .type = BB_TIME, .flags = BB_NULLABLE},
};
// clang-format on

#define SCAN "20000" /* deliveries that a statement counts */
#define MATCHING WEBHOOK_REPLAYED("$2::timestamptz", "$3::timestamptz", "$4::boolean", "$5::jsonb")

/* $1 since, $2 until or null. Returns the ids between which the deliveries of the period are. */
static const struct bb_sql range = {
    "SELECT greatest(webhook_day_floor(($1::timestamptz AT TIME ZONE 'UTC')::date - 1), 1) - 1,"
    " least(last_value, webhook_day_floor(($2::timestamptz AT TIME ZONE 'UTC')::date + 2))"
    " FROM webhook_delivery_id",
    0,
};

/*
 * Counts matching deliveries among the first SCAN with $6 < id <= $7. $1 webhook, $2 since, $3
 * until, $4 delivered, $5 events. The second column is the id after which to continue, or null.
 */
static const struct bb_sql count = {
    "SELECT count(*) FILTER (WHERE matches), CASE WHEN count(*) = " SCAN
    " THEN max(id) END FROM (SELECT d.id, " MATCHING " AS matches FROM (SELECT *"
    " FROM webhook_delivery d WHERE d.webhook = $1::bigint AND d.id > $6::bigint"
    " AND d.id <= $7::bigint ORDER BY d.id LIMIT " SCAN ") d CROSS JOIN LATERAL"
    " (SELECT (SELECT o.delivered FROM webhook_outcome o WHERE o.id = d.id) AS delivered) o) d",
    BB_SQL_LONG,
};

/*
 * $1 to $7 as for `count`, $8 the number of matching deliveries. The lock makes a DELETE of the
 * webhook wait. Returns no row if a replay is already running, or the webhook was deleted.
 */
static const struct bb_sql start = {
    "INSERT INTO webhook_replay AS r (webhook, since, until, delivered, events, cursor, upto,"
    " matched) SELECT h.id, $2::timestamptz, coalesce($3::timestamptz, now()), $4::boolean,"
    " $5::jsonb, $6::bigint, $7::bigint, $8::bigint FROM webhook_hook h WHERE h.id = $1::bigint"
    " FOR KEY SHARE ON CONFLICT (webhook) DO UPDATE"
    " SET since = excluded.since, until = excluded.until, delivered = excluded.delivered,"
    " events = excluded.events, cursor = excluded.cursor, upto = excluded.upto,"
    " matched = excluded.matched, queued = 0, state = 'running', created_at = now(),"
    " ended_at = NULL WHERE r.state <> 'running' RETURNING webhook",
    BB_SQL_WRITE,
};

static const struct bb_sql cancel = {
    "UPDATE webhook_replay r SET state = 'canceled', ended_at = now() FROM webhook_hook h"
    " WHERE r.webhook = h.id AND r.state = 'running' AND " WEBHOOK_MINE,
    BB_SQL_WRITE,
};

/* clang-format off */

/* Selects the values of webhook_replay_fields. */
static const struct bb_sql find = {
    "SELECT r.state, r.matched, r.queued, (SELECT count(*) FROM webhook_waiting w"
    " WHERE w.webhook = r.webhook AND w.replay), " BB_SQL_MS("r.since") ", " BB_SQL_MS("r.until")
    ", CASE WHEN r.delivered THEN 'delivered' WHEN NOT r.delivered THEN 'abandoned' END,"
    " coalesce(r.events, '[]'), " BB_SQL_MS("r.created_at") ", " BB_SQL_MS("r.ended_at")
    " FROM webhook_hook h LEFT JOIN webhook_replay r ON r.webhook = h.id WHERE " WEBHOOK_MINE,
    BB_SQL_LONG,
};

/* clang-format on */

int webhook_replay_get(struct bb_request *rq)
{
    const struct bb_rows *rows =
        bb_find_or_end(rq, &find, BB_ARGS(WEBHOOK_MINE_ARGS(rq)), "Webhook");

    if (!bb_cell(rq, rows, 0, 0))
        return bb_fail(rq, 404, "The webhook has no replay");
    return bb_reply(rq, 200, BB_ROW_FIELDS(rq, rows, 0, 0, webhook_replay_fields));
}

int webhook_replay(struct bb_request *rq)
{
    const char *since = bb_text(rq, "since"), *until = bb_text(rq, "until");
    const char *status = bb_text(rq, "status");
    const json_t *list = json_object_get(bb_body(rq), "events");
    const char *events = json_array_size(list) ? bb_json(rq, list, NULL) : NULL;
    const char *delivered = !status ? NULL : strcmp(status, "delivered") ? "f" : "t";
    int64_t id = bb_segment_int(rq, "id"), matched = 0;
    bool counts = json_is_true(json_object_get(bb_body(rq), "dryRun"));

    if (!counts) /* a dry run changes nothing */
        bb_audit(rq, NULL);
    poll_check_sends(rq);
    const struct bb_rows *rows = bb_query_or_end(rq, &range, BB_ARGS(bb_t(since), bb_t(until)));
    int64_t from = bb_cell_int(rq, rows, 0, 0), upto = bb_cell_int(rq, rows, 0, 1), after = from;

    do {
        rows = bb_query_or_end(rq, &count,
                               BB_ARGS(bb_i(id), bb_t(since), bb_t(until), bb_t(delivered),
                                       bb_t(events), bb_i(after), bb_i(upto)));
        matched += bb_cell_int(rq, rows, 0, 0);
        after = bb_cell_int(rq, rows, 0, 1);
    } while (after);
    if (counts)
        return bb_reply(
            rq, 200, json_pack("{s:s, s:I}", "state", "dry_run", "matched", (json_int_t)matched));
    rows = bb_query_or_end(rq, &start,
                           BB_ARGS(bb_i(id), bb_t(since), bb_t(until), bb_t(delivered),
                                   bb_t(events), bb_i(from), bb_i(upto), bb_i(matched)));
    if (bb_count(rq, rows) == 0) {
        webhook_find(rq);
        return bb_fail(rq, 409, "Another replay of this webhook is running");
    }
    sender_queued(((struct webhook *)rq->state)->sender, id, false);
    return webhook_replay_get(rq);
}

int webhook_replay_cancel(struct bb_request *rq)
{
    bb_query_or_end(rq, &cancel, BB_ARGS(WEBHOOK_MINE_ARGS(rq)));
    return webhook_replay_get(rq);
}
