/*
 * The job webhook.partitions: creates the partitions of the coming week and drops those older than
 * webhook.retention_days. Each is a separate statement, which waits at most 2 s for its locks and
 * is tried again an hour later. If the job fails for a week, the default partition takes the rows,
 * and the next run moves them.
 */
#include "modules/webhook/module.h"

#include "modules/webhook/base/webhook.h"

#define AHEAD_DAYS 7

static void warn(struct bb_request *rq, const char *what)
{
    bb_log(rq, BB_WARN, "a partition of webhook_delivery was not %s: %s", what, bb_sqlstate(rq));
}

static void make(struct bb_request *rq)
{
    static const struct bb_sql sql = {
        "SELECT webhook_partition_make((now() AT TIME ZONE 'UTC')::date + $1::int)",
        BB_SQL_WRITE | BB_SQL_LONG};

    for (int day = 0; day <= AHEAD_DAYS; day++)
        if (!bb_query(rq, &sql, BB_ARGS(bb_i(day))))
            warn(rq, "made");
}

static void drop(struct bb_request *rq, int64_t keep_days)
{
    static const struct bb_sql old = {
        "SELECT day FROM webhook_partition_days('webhook_delivery') AS day"
        " WHERE day < (now() AT TIME ZONE 'UTC')::date - $1::int ORDER BY day",
        0};
    static const struct bb_sql sql = {"SELECT webhook_partition_drop($1::date)",
                                      BB_SQL_WRITE | BB_SQL_LONG};
    const struct bb_rows *rows = bb_query(rq, &old, BB_ARGS(bb_i(keep_days)));

    for (size_t i = 0; rows && i < bb_count(rq, rows); i++)
        if (!bb_query(rq, &sql, BB_ARGS(bb_t(bb_cell(rq, rows, i, 0)))))
            warn(rq, "dropped");
}

void webhook_partitions(struct bb_request *rq)
{
    const struct webhook *webhook = rq->state;

    make(rq);
    drop(rq, webhook->settings.retention_days);
}
