/* The jobs webhook.sweep and webhook.partitions. */
#include "modules/webhook/sender/sender.h"

/*
 * ---- webhook.sweep ----
 *
 * Abandons deliveries that have waited longer than webhook.max_age, and deletes the waiting
 * deliveries of deleted webhooks. It works in batches, each in a separate transaction.
 */

#define BATCH 1000
#define BATCH_TEXT "1000"

#define EXPIRED                                                                                    \
    WEBHOOK_LOG("log", WEBHOOK_ATTEMPT(WEBHOOK_NUMBER("log"), "now()", "NULL", "0",                \
                                       "'abandoned without an attempt: it waited too long'",       \
                                       "NULL", "NULL"))
#define LATEST "(now() - make_interval(secs => $1::bigint))"
#define LATEST_DAY "(" LATEST " AT TIME ZONE 'UTC')::date"

/*
 * Abandons old deliveries that wait for a retry, or that a request queued again. The age counts
 * from the time when the delivery was queued, or from its next attempt if that is later.
 */
static const struct bb_sql expire_waiting = {
    "WITH old AS (DELETE FROM webhook_waiting WHERE id = ANY (ARRAY(SELECT id FROM webhook_waiting"
    " WHERE greatest(queued_at, CASE WHEN next_at < webhook_never() THEN next_at END) < " LATEST
    " AND id < webhook_day_floor(" LATEST_DAY " + 1)"
    " LIMIT " BATCH_TEXT " FOR UPDATE SKIP LOCKED)) RETURNING *)"
    " INSERT INTO webhook_outcome (id, webhook, at, duration_ms, delivered, log)"
    " SELECT id, webhook, now(), 0, false, " EXPIRED " FROM old ON CONFLICT DO NOTHING",
    BB_SQL_WRITE | BB_SQL_LONG,
};

/* Abandons old deliveries in the backlog of inactive webhooks, which senders do not read. */
static const struct bb_sql expire_log = {
    "INSERT INTO webhook_outcome (id, webhook, at, duration_ms, delivered, log)"
    " SELECT id, webhook, now(), 0, false, " EXPIRED " FROM (SELECT d.id, d.webhook,"
    " '[]'::jsonb AS log FROM webhook_backlog b JOIN webhook_hook h ON h.id = b.webhook"
    " AND NOT (h.active AND h.admitted) CROSS JOIN LATERAL (SELECT * FROM webhook_delivery d"
    " WHERE d.webhook = b.webhook AND d.id > b.cursor"
    " AND d.id < webhook_day_floor(" LATEST_DAY " + 2) AND d.created_at < " LATEST
    " AND (SELECT o.id FROM webhook_outcome o WHERE o.id = d.id) IS NULL"
    " AND (SELECT w.id FROM webhook_waiting w WHERE w.id = d.id) IS NULL"
    " ORDER BY d.id LIMIT " BATCH_TEXT ") d LIMIT " BATCH_TEXT ") expired ON CONFLICT DO NOTHING",
    BB_SQL_WRITE | BB_SQL_LONG,
};
/* Moves the cursors of inactive webhooks past the deliveries that expire_log has abandoned. */
static const struct bb_sql expire_cursors = {
    "UPDATE webhook_backlog b SET cursor = webhook_day_floor(" LATEST_DAY
    ") - 1 FROM webhook_hook h"
    " WHERE h.id = b.webhook AND NOT (h.active AND h.admitted)"
    " AND b.cursor < webhook_day_floor(" LATEST_DAY ") - 1",
    BB_SQL_WRITE,
};

/* Deletes the waiting deliveries of deleted webhooks. */
static const struct bb_sql delete_waiting = {
    "DELETE FROM webhook_waiting WHERE id = ANY (ARRAY(SELECT w.id FROM webhook_gone g"
    " CROSS JOIN LATERAL (SELECT w.id FROM webhook_waiting w WHERE w.webhook = g.webhook"
    " LIMIT $1::bigint) w LIMIT $1::bigint))",
    BB_SQL_WRITE | BB_SQL_LONG,
};

/*
 * A transaction that read the webhook before its deletion may store a delivery for it later, so the
 * row that records the deletion stays for an hour.
 */
static const struct bb_sql forget = {
    "DELETE FROM webhook_gone WHERE at < now() - interval '1 hour'",
    BB_SQL_WRITE,
};

/* Repeats the statement until it changes fewer rows than a batch. Returns 0, or -1 (logged). */
static int jobs_batches(struct bb_request *rq, const struct bb_sql *sql, int64_t arg)
{
    size_t touched = BATCH;

    while (touched == BATCH) {
        const struct bb_rows *rows = bb_query(rq, sql, BB_ARGS(bb_i(arg)));

        if (!rows) {
            bb_log(rq, BB_WARN, "cannot sweep waiting deliveries: %s", bb_sqlstate(rq));
            return -1;
        }
        touched = bb_affected(rq, rows);
    }
    return 0;
}

void webhook_sweep(struct bb_request *rq)
{
    const struct webhook *webhook = rq->state;
    /* an attempt may begin shortly before its delivery is too old */
    int64_t max_age_ms = webhook_max_age_ms(webhook->settings) + sender_hold_ms(webhook);
    int64_t max_age_s = max_age_ms / 1000;

    if (!jobs_batches(rq, &delete_waiting, BATCH) && !bb_query(rq, &forget, BB_NO_ARGS))
        bb_log(rq, BB_WARN, "cannot forget deleted webhooks: %s", bb_sqlstate(rq));
    if (!jobs_batches(rq, &expire_waiting, max_age_s) && !jobs_batches(rq, &expire_log, max_age_s))
        jobs_batches(rq, &expire_cursors, max_age_s);
    webhook_report_exhausted(rq);
}

/*
 * ---- webhook.partitions ----
 *
 * Creates the partitions of the coming week. Drops partitions older than webhook.retention_days,
 * and deletes successful deliveries older than webhook.delivered_retention_days. Each statement is
 * for one partition, and waits at most 2 s for its locks. If it fails, the job retries it an hour
 * later. Without a partition, rows go to the default partition until a later run moves them.
 */

#define AHEAD_DAYS 7

void webhook_partitions(struct bb_request *rq)
{
    static const struct bb_sql make = {
        "SELECT webhook_partition_make((now() AT TIME ZONE 'UTC')::date + $1::int)",
        BB_SQL_WRITE | BB_SQL_LONG};
    static const struct bb_sql old = {"SELECT webhook_days_old($1::int, $2::int)", 0};
    static const struct bb_sql retire = {"SELECT webhook_partition_retire($1::date, $2::int)",
                                         BB_SQL_WRITE | BB_SQL_LONG};
    const struct webhook_settings *settings = ((const struct webhook *)rq->state)->settings;

    for (int day = 0; day <= AHEAD_DAYS; day++)
        if (!bb_query(rq, &make, BB_ARGS(bb_i(day))))
            bb_log(rq, BB_WARN, "a partition of webhook_delivery was not made: %s",
                   bb_sqlstate(rq));
    struct bb_value days = bb_i(settings->retention_days);
    const struct bb_rows *rows =
        bb_query(rq, &old, BB_ARGS(days, bb_i(settings->delivered_retention_days)));

    for (size_t i = 0; rows && i < bb_count(rq, rows); i++)
        if (!bb_query(rq, &retire, BB_ARGS(bb_t(bb_cell(rq, rows, i, 0)), days)))
            bb_log(rq, BB_WARN, "cannot drop or clean up a partition of webhook_delivery: %s",
                   bb_sqlstate(rq));
}
