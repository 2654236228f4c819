/* The statistics of webhooks, and `busbar webhook status`. */
#include "modules/webhook/api/api.h"

/* clang-format off */
const struct bb_field webhook_statistics_fields[] = {
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED, .help = "The webhook."},
    {.name = "delivered", .type = BB_INT, .flags = BB_REQUIRED, .help = "Deliveries.", .example = "42"},
    {.name = "abandoned", .type = BB_INT, .flags = BB_REQUIRED, .example = "0"},
    {.name = "queued", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "durationMs", .type = BB_INT, .flags = BB_REQUIRED | BB_NULLABLE,
     .help = "Median duration of the successful attempts.", .example = "87"},
};
const struct bb_field webhook_hour_fields[] = {
    {.name = "at", .type = BB_TIME, .flags = BB_REQUIRED, .help = "When the hour begins."},
    {.name = "delivered", .type = BB_INT, .flags = BB_REQUIRED, .help = "Deliveries.", .example = "42"},
    {.name = "abandoned", .type = BB_INT, .flags = BB_REQUIRED, .example = "0"},
    {.name = "queued", .type = BB_INT, .flags = BB_REQUIRED},
};
/* clang-format on */

/*
 * GET /api/chat/webhooks/statistics returns the outcomes of the deliveries of the last 24 hours, in
 * the order and pages of the list of webhooks. For each webhook it reads only the latest MOST
 * deliveries, so the cost of a page is bounded.
 */
#define MOST "1000"
enum { PAGE = 200 };

/*
 * $1 id of the last webhook read, $2 whether to read all accounts' webhooks, $3 account, $4 limit
 * of webhooks. The duration of a delivery is the duration of its last attempt.
 */
static const struct bb_sql statistics = {
    "SELECT h.id, count(*) FILTER (WHERE d.state = 'delivered'),"
    " count(*) FILTER (WHERE d.state = 'abandoned'), count(*) FILTER (WHERE d.state = 'queued'),"
    " percentile_disc(0.5) WITHIN GROUP (ORDER BY d.ms) FILTER (WHERE d.state = 'delivered')"
    " FROM (SELECT id FROM webhook_hook h WHERE h.id > $1::bigint"
    " AND ($2::boolean OR h.account = $3::bigint) ORDER BY h.id LIMIT $4::bigint) h"
    " LEFT JOIN LATERAL (SELECT state, duration_ms AS ms"
    " FROM webhook_deliveries WHERE webhook = h.id AND created_at > now() - interval '1 day'"
    " AND id >= webhook_day_floor(((now() - interval '1 day') AT TIME ZONE 'UTC')::date - 1)"
    " ORDER BY id DESC LIMIT " MOST ") d ON true GROUP BY h.id ORDER BY h.id",
    BB_SQL_LONG,
};

int webhook_statistics(struct bb_request *rq)
{
    int64_t limit = bb_arg_int(rq, "limit", PAGE);
    const struct bb_rows *rows = bb_query_or_end(
        rq, &statistics,
        BB_ARGS(bb_i(bb_arg_int(rq, "after", 0)), bb_b(rq->principal->role == BB_ROLE_ADMIN),
                bb_i(rq->principal->account), bb_i(limit + 1)));

    return bb_reply_fields(rq, rows, (size_t)limit, 0, webhook_statistics_fields, 5);
}

/* GET /api/chat/webhooks/:id/statistics: the last 24 hours, oldest first. $1 the webhook's id */
/* clang-format off */
static const struct bb_sql hours = {
    "SELECT " BB_SQL_MS("hour") ", count(*) FILTER (WHERE state = 'delivered'),"
    " count(*) FILTER (WHERE state = 'abandoned'), count(*) FILTER (WHERE state = 'queued')"
    " FROM generate_series(date_trunc('hour', now(), 'UTC') - interval '23 hours', now(),"
    " interval '1 hour') hour LEFT JOIN"
    " (SELECT state, date_trunc('hour', created_at, 'UTC') AS hour FROM webhook_deliveries"
    " WHERE webhook = $1::bigint"
    " AND id >= webhook_day_floor(((now() - interval '1 day') AT TIME ZONE 'UTC')::date - 1)"
    " ORDER BY id DESC LIMIT 20000) d USING (hour) GROUP BY hour ORDER BY hour",
    BB_SQL_LONG,
};
/* clang-format on */

int webhook_hours(struct bb_request *rq)
{
    webhook_find(rq);
    const struct bb_rows *rows =
        bb_query_or_end(rq, &hours, BB_ARGS(bb_i(bb_segment_int(rq, "id"))));

    return bb_reply_fields(rq, rows, SIZE_MAX, 0, webhook_hour_fields, 4);
}

/* ---- `busbar webhook status` and `busbar webhook doctor` ---- */

/* Prints the lines that a statement returns. */
static int statistics_print(struct bb_request *rq, const struct bb_sql *lines)
{
    const struct bb_rows *rows = bb_query_or_end(rq, lines, BB_NO_ARGS);

    for (size_t i = 0; i < bb_count(rq, rows); i++)
        bb_print(rq, "%s\n", bb_cell(rq, rows, i, 0));
    return 0;
}

/*
 * Prints counts of the tables, the lag of the oldest due delivery of an active webhook, and the
 * sums of the counters that live hosts wrote with their last heartbeat.
 */
int webhook_command_status(struct bb_request *rq)
{
    static const struct bb_sql lines = {
        "SELECT format('%-12s %s', name, value) FROM (SELECT count(*) AS hosts,"
        " coalesce(sum(waiting), 0) AS waiting, coalesce(sum(\"inFlight\"), 0) AS flying,"
        " coalesce(sum(delivered), 0) AS delivered, coalesce(sum(retried), 0) AS retried,"
        " coalesce(sum(abandoned), 0) AS abandoned, coalesce(sum(\"lostLeases\"), 0) AS lost"
        " FROM webhook_host, jsonb_to_record(counters) AS c(waiting bigint, \"inFlight\" bigint,"
        " delivered bigint, retried bigint, abandoned bigint, \"lostLeases\" bigint)"
        " WHERE heartbeat_at > now() - interval '10 seconds') h,"
        " (SELECT count(*) AS queued, count(*) FILTER (WHERE s.owner IS NULL) AS free,"
        " coalesce(floor(extract(epoch FROM now() - min(d.next_at) FILTER (WHERE h.active"
        " AND h.admitted AND d.next_at <= now())) * 1000), 0)::bigint AS lag"
        " FROM webhook_queued d LEFT JOIN webhook_hook h ON h.id = d.webhook"
        " LEFT JOIN webhook_shard s ON s.shard = webhook_shard_of(d.webhook)) q,"
        " (" SENDER_STATES ") AS w(active, off, shut, expanding), LATERAL (VALUES"
        " ('sending', coalesce('paused: ' || busbar_pause_reason(), 'on')),"
        " ('webhooks', format('%s active, %s off, %s of owners who are not admitted',"
        " active, off, shut)),"
        " ('queued', format('%s, %s of them with no host', queued, free)),"
        " ('to expand', format('%s events for many webhooks', expanding)),"
        " ('lag', lag || ' ms'), ('hosts', hosts::text), ('in memory', waiting::text),"
        " ('in flight', flying::text), ('delivered', delivered::text), ('retried', retried::text),"
        " ('abandoned', abandoned::text), ('lost leases', lost::text)) AS l(name, value)",
        BB_SQL_LONG};

    return statistics_print(rq, &lines);
}

int webhook_command_doctor(struct bb_request *rq)
{
    static const struct bb_sql findings = {
        "SELECT 'warning host ' || id || ' has sent no heartbeat since ' || heartbeat_at"
        " FROM webhook_host WHERE heartbeat_at < now() - interval '30 seconds'"
        " UNION ALL SELECT CASE WHEN certificate_until < now() THEN 'error' ELSE 'warning' END"
        " || ' the client certificate of webhook ' || id || ' expires at ' || certificate_until"
        " FROM webhook_hook WHERE certificate_until < now() + interval '14 days'"
        " UNION ALL SELECT 'error there is no partition for deliveries of today'"
        " WHERE NOT EXISTS (SELECT FROM webhook_partition_days('webhook_delivery') AS d (day)"
        " WHERE d.day >= (now() AT TIME ZONE 'UTC')::date)"
        " UNION ALL SELECT 'notice ' || count(*) || ' webhooks fail' FROM webhook_hook"
        " WHERE failing_since IS NOT NULL HAVING count(*) > 0 LIMIT 20",
        BB_SQL_LONG};

    return statistics_print(rq, &findings);
}
