/*
 * The job bulk.sweep: deletes, in batches, bulk uploads that finished more than bulk.retention_days
 * ago, those that were cancelled or never confirmed for more than bulk.unfinished_days, and the
 * remains of those that were never created. The job bulk.tidy deletes, on each host, incoming files
 * that a crash left.
 */
#include "modules/bulk/job/bulk.h"
#include "modules/common/incoming.h"

#define TURN_MS 500
#define STALE_S 86400 /* seconds; no upload takes that long */

#define SINCE "coalesce(ended_at, confirmed_at, created_at)" /* as in the index */

/*
 * $1 days. Makes the jobs invisible, so that none is created or confirmed while its parts are being
 * deleted.
 */
static const struct bb_sql hide = {
    "UPDATE bulk_job SET status = 'removed' WHERE status IN ('arriving', 'created')"
    " AND " SINCE " < now() - interval '1 hour' AND (status = 'arriving'"
    " OR " SINCE " < now() - make_interval(days => $1::int))",
    BB_SQL_WRITE,
};

/*
 * $1 days, $2 days for cancelled jobs. First the parts and findings of a job are deleted, in
 * batches; then the job.
 */
static const struct bb_sql sweep = {
    "WITH old AS (SELECT id FROM bulk_job WHERE status IN ('removed', 'finished', 'cancelled')"
    " AND " SINCE " < now() - CASE status WHEN 'removed' THEN interval '0'"
    " WHEN 'cancelled' THEN make_interval(days => $2::int)"
    " ELSE make_interval(days => $1::int) END ORDER BY " SINCE " LIMIT 1),"
    " p AS (DELETE FROM bulk_part WHERE (job, last_row) IN (SELECT b.job, b.last_row FROM old"
    " JOIN bulk_part b ON b.job = old.id ORDER BY b.last_row LIMIT 50) RETURNING 1),"
    " f AS (DELETE FROM bulk_finding WHERE (job, number) IN (SELECT b.job, b.number FROM old"
    " JOIN bulk_finding b ON b.job = old.id ORDER BY b.number LIMIT 1000) RETURNING 1),"
    " w AS (DELETE FROM bulk_warning WHERE (job, number) IN (SELECT b.job, b.number FROM old"
    " JOIN bulk_warning b ON b.job = old.id ORDER BY b.number LIMIT 1000) RETURNING 1),"
    " n AS (SELECT (SELECT count(*) FROM p) + (SELECT count(*) FROM f)"
    " + (SELECT count(*) FROM w) AS gone),"
    " j AS (DELETE FROM bulk_job USING old, n WHERE bulk_job.id = old.id AND n.gone = 0"
    " RETURNING 1) SELECT (SELECT count(*) FROM old), (SELECT count(*) FROM j)",
    BB_SQL_WRITE,
};

struct swept {
    bool more;
    int64_t jobs;
};

static int sweep_some(struct bb_request *rq, void *arg)
{
    const struct bulk *bulk = rq->state;
    struct swept *swept = arg;
    const struct bb_rows *rows = bb_query(
        rq, &sweep,
        BB_ARGS(bb_i(bulk->settings->retention_days), bb_i(bulk->settings->unfinished_days)));

    swept->more = rows && bb_cell_int(rq, rows, 0, 0);
    swept->jobs += rows ? bb_cell_int(rq, rows, 0, 1) : 0;
    return 0;
}

void bulk_sweep(struct bb_request *rq)
{
    const struct bulk *bulk = rq->state;
    int64_t until = bb_now_ms(rq->host) + TURN_MS;
    struct swept swept = {
        .more = bb_query(rq, &hide, BB_ARGS(bb_i(bulk->settings->unfinished_days))) != NULL};

    while (swept.more && bb_now_ms(rq->host) < until)
        bb_scratch(rq, sweep_some, &swept);
    if (swept.jobs)
        bb_log(rq, BB_INFO, "%lld expired bulk uploads were deleted", (long long)swept.jobs);
    if (swept.more)
        bb_again(rq);
}

void bulk_tidy(struct bb_request *rq)
{
    const struct bulk *bulk = rq->state;
    struct incoming_sweep job = {.directory = bulk->settings->files,
                                 .before = time(NULL) - STALE_S};

    if (!bb_offload(rq, BULK_POOL, incoming_sweep, &job) && job.removed)
        bb_log(rq, BB_INFO, "%zu files of uploads that never ended were removed", job.removed);
}
