/*
 * Sends deliveries again: one delivery whatever its outcome, or all that were abandoned since a
 * time. The row is queued again, with the same id, the same webhook-id and the same bytes; its log
 * continues.
 */
#include "modules/webhook/api/api.h"

#define BATCH 2000
#define BATCH_TEXT "2000"

#define QUEUED_AGAIN "state = 'queued', owner = NULL, tries = 0, queued_at = now(), next_at = now()"

/* Notifies the senders of all hosts; this host's sender is notified at once. */
static void tell(struct bb_request *rq)
{
    const char *payload = bb_format(rq, "queued:%lld", (long long)bb_segment_int(rq, "id"));

    webhook_changed(rq->state, payload);
    if (bb_notify(rq, NULL, WEBHOOK_CHANNEL, payload))
        bb_log(rq, BB_WARN, "cannot notify other hosts of deliveries queued again: %s",
               bb_sqlstate(rq));
}

int webhook_resend(struct bb_request *rq)
{
    static const struct bb_sql again = {
        "WITH found AS (SELECT d.webhook, d.id FROM webhook_hook h"
        " JOIN webhook_delivery d ON d.webhook = h.id WHERE " WEBHOOK_MINE
        " AND d.id = $4::bigint),"
        " queued AS (UPDATE webhook_delivery d SET " QUEUED_AGAIN " FROM found f"
        " WHERE d.webhook = f.webhook AND d.id = f.id AND d.id = $4::bigint"
        " AND d.state <> 'queued')"
        " SELECT FROM found",
        BB_SQL_WRITE};
    const struct bb_rows *rows = bb_query(
        rq, &again, BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_i(bb_segment_int(rq, "deliveryId"))));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 404, "Delivery not found");
    tell(rq);
    return bb_reply(rq, 200, json_pack("{s:b}", "success", 1));
}

/*
 * Queues abandoned deliveries after the id *after again, and advances *after. Returns their number,
 * or -1 on failure. The ids are passed as an array, because a join would be planned with statistics
 * that may be older than the rows.
 */
static int64_t recover_batch(struct bb_request *rq, const char *since, int64_t *after)
{
    static const struct bb_sql batch = {
        "WITH found AS (SELECT count(*) AS n, max(id) AS last, array_agg(id) AS ids"
        " FROM (SELECT id FROM webhook_delivery WHERE webhook = $1::bigint"
        " AND state = 'abandoned' AND created_at >= $2::timestamptz AND id > $3::bigint"
        " AND id >= webhook_day_floor(($2::timestamptz AT TIME ZONE 'UTC')::date)"
        " ORDER BY id LIMIT " BATCH_TEXT ") abandoned),"
        " queued AS (UPDATE webhook_delivery SET " QUEUED_AGAIN
        " WHERE webhook = $1::bigint AND id = ANY ((SELECT ids FROM found)::bigint[])"
        " AND state = 'abandoned'"
        " AND id >= webhook_day_floor(($2::timestamptz AT TIME ZONE 'UTC')::date)"
        " RETURNING id)"
        " SELECT n, last, (SELECT count(*) FROM queued) FROM found",
        BB_SQL_WRITE | BB_SQL_LONG};
    const struct bb_rows *rows =
        bb_query(rq, &batch, BB_ARGS(bb_i(bb_segment_int(rq, "id")), bb_t(since), bb_i(*after)));

    if (!rows)
        return -1;
    *after = bb_cell_int(rq, rows, 0, 0) == BATCH ? bb_cell_int(rq, rows, 0, 1) : INT64_MAX;
    return bb_cell_int(rq, rows, 0, 2);
}

int webhook_recover(struct bb_request *rq)
{
    int64_t queued = 0, after = 0;
    int refused = webhook_check_mine(rq);

    if (refused)
        return refused;
    while (after < INT64_MAX) {
        int64_t count = recover_batch(rq, bb_text(rq, "since"), &after);

        if (count < 0)
            return bb_failed(rq);
        queued += count;
    }
    if (queued > 0)
        tell(rq);
    return bb_reply(rq, 200, json_pack("{s:b, s:I}", "success", 1, "queued", (json_int_t)queued));
}
