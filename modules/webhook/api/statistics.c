/* The statistics of webhooks, and `busbar webhook status`. */
#include "modules/webhook/api/api.h"

const struct bb_field webhook_statistics_fields[] = {
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED, .help = "The webhook."},
    {.name = "delivered", .type = BB_INT, .flags = BB_REQUIRED, .help = "Deliveries."},
    {.name = "abandoned", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "queued", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "durationMs",
     .type = BB_INT,
     .flags = BB_REQUIRED | BB_NULLABLE,
     .help = "Median of the attempts that delivered."},
};
const struct bb_field webhook_hour_fields[] = {
    {.name = "at", .type = BB_TIME, .flags = BB_REQUIRED, .help = "When the hour begins."},
    {.name = "delivered", .type = BB_INT, .flags = BB_REQUIRED, .help = "Deliveries."},
    {.name = "abandoned", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "queued", .type = BB_INT, .flags = BB_REQUIRED},
};

/*
 * GET /api/chat/webhooks/statistics returns the outcomes of the deliveries of the last 24 hours, in
 * the order and pages of the list. For each webhook it reads only the latest MOST deliveries, so
 * the cost of a page is bounded.
 */
#define MOST "1000"
enum { PAGE = 200 };

/*
 * $1 last id seen, $2 whether all webhooks, $3 account, $4 number of webhooks. The duration of a
 * delivery is the duration of its last attempt.
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

static json_t *statistics_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return BB_ROW_FIELDS(rq, rows, row, 0, webhook_statistics_fields);
}

int webhook_statistics(struct bb_request *rq)
{
    int64_t limit = bb_arg_int(rq, "limit", PAGE);
    const struct bb_rows *rows = bb_query(rq, &statistics,
                                          BB_ARGS(bb_i(bb_arg_int(rq, "after", 0)),
                                                  bb_b(rq->principal->role == BB_ROLE_ADMIN),
                                                  bb_i(rq->principal->account), bb_i(limit + 1)));

    return rows ? bb_reply_rows(rq, rows, (size_t)limit, 0, statistics_json) : bb_failed(rq);
}

/*
 * GET /api/chat/webhooks/:id/statistics returns the hours of the last day, oldest first. $1 webhook
 */
static const struct bb_sql hours = {
    "SELECT floor(extract(epoch FROM hour) * 1000)::bigint,"
    " count(*) FILTER (WHERE state = 'delivered'), count(*) FILTER (WHERE state = 'abandoned'),"
    " count(*) FILTER (WHERE state = 'queued')"
    " FROM generate_series(date_trunc('hour', now(), 'UTC') - interval '23 hours', now(),"
    " interval '1 hour') hour LEFT JOIN"
    " (SELECT state, date_trunc('hour', created_at, 'UTC') AS hour FROM webhook_deliveries"
    " WHERE webhook = $1::bigint"
    " AND id >= webhook_day_floor(((now() - interval '1 day') AT TIME ZONE 'UTC')::date - 1)"
    " ORDER BY id DESC LIMIT 20000) d USING (hour) GROUP BY hour ORDER BY hour",
    BB_SQL_LONG,
};

static json_t *statistics_hour_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return BB_ROW_FIELDS(rq, rows, row, 0, webhook_hour_fields);
}

int webhook_hours(struct bb_request *rq)
{
    int refused = webhook_check_mine(rq);

    if (refused)
        return refused;
    const struct bb_rows *rows = bb_query(rq, &hours, BB_ARGS(bb_i(bb_segment_int(rq, "id"))));

    return rows ? bb_reply_page(rq, rows, bb_count(rq, rows), NULL, statistics_hour_json)
                : bb_failed(rq);
}

/* ---- `busbar webhook status` ---- */

/*
 * Returns counts of the tables, and the sums of the counters that live hosts wrote with their last
 * heartbeat.
 */
static const struct bb_sql hosts = {
    "SELECT busbar_pause_reason(), count(*),"
    " coalesce(sum((counters->>'waiting')::bigint), 0),"
    " coalesce(sum((counters->>'inFlight')::bigint), 0),"
    " coalesce(sum((counters->>'delivered')::bigint), 0),"
    " coalesce(sum((counters->>'retried')::bigint), 0),"
    " coalesce(sum((counters->>'abandoned')::bigint), 0),"
    " coalesce(sum((counters->>'lostLeases')::bigint), 0)"
    " FROM webhook_host WHERE heartbeat_at > now() - interval '10 seconds'",
    0,
};

/* The last column is the lag of the oldest due delivery of an active webhook, in milliseconds. */
static const struct bb_sql queue = {
    "SELECT count(*), count(*) FILTER (WHERE s.owner IS NULL),"
    " coalesce(floor(extract(epoch FROM now() - min(d.next_at)"
    " FILTER (WHERE h.active AND h.admitted AND d.next_at <= now())) * 1000), 0)::bigint"
    " FROM webhook_queued d LEFT JOIN webhook_hook h ON h.id = d.webhook"
    " LEFT JOIN webhook_shard s ON s.shard = webhook_shard_of(d.webhook)",
    BB_SQL_LONG,
};

int webhook_command_status(struct bb_request *rq)
{
    static const char *const names[] = {"hosts",   "in memory", "in flight",  "delivered",
                                        "retried", "abandoned", "lost leases"};
    const struct bb_rows *sums = bb_query(rq, &hosts, BB_NO_ARGS);
    const struct bb_rows *waiting = sums ? bb_query(rq, &queue, BB_NO_ARGS) : NULL;
    const struct bb_rows *states = waiting ? bb_query(rq, &sender_states_sql, BB_NO_ARGS) : NULL;

    if (!states) {
        bb_failed(rq); /* the host prints the error */
        return 1;
    }
    const char *reason = bb_cell(rq, sums, 0, 0);

    bb_print(rq, "%-12s %s%s\n", "sending", reason ? "paused: " : "on", reason ? reason : "");
    bb_print(rq, "%-12s %s active, %s off, %s of owners who are not admitted\n", "webhooks",
             bb_cell(rq, states, 0, 0), bb_cell(rq, states, 0, 1), bb_cell(rq, states, 0, 2));
    bb_print(rq, "%-12s %s, %s of them with no host\n", "queued", bb_cell(rq, waiting, 0, 0),
             bb_cell(rq, waiting, 0, 1));
    bb_print(rq, "%-12s %s events for many webhooks\n", "to expand",
             bb_cell(rq, states, 0, WEBHOOK_STATES));
    bb_print(rq, "%-12s %s ms\n", "lag", bb_cell(rq, waiting, 0, 2));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        bb_print(rq, "%-12s %s\n", names[i], bb_cell(rq, sums, 0, i + 1));
    return 0;
}

/* ---- `busbar webhook doctor` ---- */

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
    const struct bb_rows *rows = bb_query(rq, &findings, BB_NO_ARGS);

    if (!rows) {
        bb_failed(rq); /* the host prints the error */
        return 1;
    }
    for (size_t i = 0; i < bb_count(rq, rows); i++)
        bb_print(rq, "%s\n", bb_cell(rq, rows, i, 0));
    return 0;
}
