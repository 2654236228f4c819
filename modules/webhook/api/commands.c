/* `busbar webhook status`. */
#include "modules/webhook/api/api.h"
#include "modules/webhook/sender/sender.h"

/*
 * The sums of the counters that the live hosts wrote with their last heartbeat, and counts from the
 * tables.
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

/* lag: of the oldest due delivery whose webhook is active, in milliseconds. */
static const struct bb_sql queue = {
    "SELECT count(*), count(*) FILTER (WHERE d.owner IS NULL),"
    " coalesce(floor(extract(epoch FROM now() - min(d.next_at)"
    " FILTER (WHERE h.active AND h.admitted AND d.next_at <= now())) * 1000), 0)::bigint"
    " FROM webhook_delivery d LEFT JOIN webhook_hook h ON h.id = d.webhook"
    " WHERE d.state = 'queued'",
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
