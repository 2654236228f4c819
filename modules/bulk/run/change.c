/* Changes of a job requested by its sender: confirm, cancel, delete. */
#include <string.h>

#include "modules/bulk/job/bulk.h"

static int wrong_state(struct bb_request *rq, const struct bb_principal *who, const char *id)
{
    struct bulk_job job;
    int found = bulk_job_look(rq, who, id, &job);

    if (found < 0)
        return bb_failed(rq);
    return found ? bb_fail(rq, 409, "The bulk upload is %s already", job.status)
                 : bb_fail(rq, 404, "Bulk upload not found");
}

/*
 * Checks that the caller's role may still upload the type; an Admin may change every job. If the
 * type is not loaded, this cannot be checked; then nothing is stored either. Returns 0, or the
 * status of the response sent.
 */
static int permitted(struct bb_request *rq, bool stores)
{
    const struct bulk *bulk = rq->state;
    struct bulk_job job;
    int refused = bulk_job_find(rq, &job);

    if (refused || rq->principal->role == BB_ROLE_ADMIN)
        return refused;
    const struct bulk_type *type = bulk_type_named(bulk, job.type);

    if (type)
        return type->rows->roles & rq->principal->role ? 0 : bb_fail_text(rq, 403, NULL);
    return stores ? bb_fail(rq, 409, "No loaded module provides rows of type %s", job.type) : 0;
}

/* ---- confirm ---- */

static void begin(struct bb_request *rq, void *arg)
{
    (void)arg;
    bulk_run(rq);
}

static json_t *confirmed_json(const struct bulk_job *job)
{
    return json_pack("{s:s, s:s, s:{s:I, s:I, s:I, s:I}}", "bulkUploadId", job->id, "status",
                     job->status, "progress", "done", (json_int_t)bulk_done(job), "total",
                     (json_int_t)job->rows, "succeeded", (json_int_t)job->succeeded, "failed",
                     (json_int_t)job->failed);
}

/* Of concurrent requests only one finds the job created. */
int bulk_job_confirm(struct bb_request *rq, const struct bb_principal *who, const char *id,
                     struct bulk_job *job)
{
    static const struct bb_sql confirm = {
        "UPDATE bulk_job j SET status = 'confirmed', confirmed_at = now()"
        " WHERE " BULK_MINE " AND j.status = 'created' RETURNING " BULK_JOB,
        BB_SQL_WRITE,
    };
    const struct bb_rows *rows = bb_query(rq, &confirm, BB_ARGS(BULK_MINE_ARGS(who, id)));

    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows))
        return wrong_state(rq, who, id);
    *job = bulk_job_of(rq, rows, 0);
    return 0;
}

int bulk_confirm(struct bb_request *rq)
{
    struct bulk_job job = {.id = NULL};
    int refused = permitted(rq, true);

    if (!refused)
        refused = bulk_job_confirm(rq, BULK_CALLED(rq), &job);
    if (refused)
        return refused;
    if (!bb_pause_reason(rq)) /* else the job bulk.run stores the rows after `busbar resume` */
        (void)bb_run(rq->host, begin, NULL); /* if it fails, bulk.run starts within a second */
    return bulk_reply(rq, 200, confirmed_json(&job));
}

/* ---- cancel ---- */

struct ending {
    const struct bb_principal *who;
    const char *id;
    struct bulk_job *job;
};

static void count(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct bulk_job *job = arg;

    (void)tx;
    bb_metric_add(rq->host, BULK_METRIC_JOBS, BULK_CANCELLED, 1);
    bb_log(rq, BB_INFO, "bulk upload %s was cancelled%s%s: %lld of %lld rows were done", job->id,
           job->reason ? ", because " : "", job->reason ? job->reason : "",
           (long long)bulk_done(job), (long long)job->rows);
}

/* Waits for a batch in progress, which has locked the row. */
static const struct bb_sql end = {
    "UPDATE bulk_job j SET status = 'cancelled', ended_at = now()"
    " WHERE " BULK_MINE " AND j.status IN ('created', 'confirmed')",
    BB_SQL_WRITE,
};

/*
 * Rows that the check refused have failed; the other rows after the cursor are cancelled. This
 * statement is separate, because the first statement may have waited for a batch, and its snapshot
 * does not have the batch's parts.
 */
static const struct bb_sql total = {
    "UPDATE bulk_job j SET failed = (SELECT coalesce(sum(p.failed), 0) FROM bulk_part p"
    " WHERE p.job = j.id) WHERE j.id = $1::uuid RETURNING " BULK_JOB,
    BB_SQL_WRITE,
};

int bulk_end_cancelled(struct bb_request *rq, struct bb_tx *tx, const char *id,
                       struct bulk_job *job)
{
    const struct bb_rows *rows = bb_tx_query(rq, tx, &total, BB_ARGS(bb_t(id)));

    if (!rows)
        return -1;
    *job = bulk_job_of(rq, rows, 0);
    if (bulk_emit_finished(rq, tx, job, "cancelled"))
        return -1;
    bb_after(rq, tx, count, job);
    return 0;
}

static int cancel(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct ending *ending = arg;
    const struct bb_rows *rows =
        bb_tx_query(rq, tx, &end, BB_ARGS(BULK_MINE_ARGS(ending->who, ending->id)));

    if (!rows)
        return bb_failed(rq);
    if (!bb_affected(rq, rows))
        return wrong_state(rq, ending->who, ending->id);
    return bulk_end_cancelled(rq, tx, ending->id, ending->job) ? bb_failed(rq) : 0;
}

int bulk_job_cancel(struct bb_request *rq, const struct bb_principal *who, const char *id,
                    struct bulk_job *job)
{
    struct ending ending = {who, id, job};

    return bb_transaction(rq, cancel, &ending);
}

int bulk_cancel(struct bb_request *rq)
{
    struct bulk_job *job = bb_alloc(rq, sizeof(*job));
    int refused = permitted(rq, false);

    if (!refused)
        refused = bulk_job_cancel(rq, BULK_CALLED(rq), job);
    return refused ? refused : bulk_reply(rq, 200, bulk_job_json(job));
}

/* ---- delete ---- */

int bulk_job_delete(struct bb_request *rq, const struct bb_principal *who, const char *id)
{
    static const struct bb_sql delete = {
        "WITH gone AS (DELETE FROM bulk_job j WHERE " BULK_MINE " AND j.status <> 'confirmed'"
        " RETURNING j.id), f AS (DELETE FROM bulk_finding USING gone WHERE job = gone.id),"
        " w AS (DELETE FROM bulk_warning USING gone WHERE job = gone.id),"
        " p AS (DELETE FROM bulk_part USING gone WHERE job = gone.id) SELECT count(*) FROM gone",
        BB_SQL_WRITE | BB_SQL_LONG,
    };
    const struct bb_rows *rows = bb_query(rq, &delete, BB_ARGS(BULK_MINE_ARGS(who, id)));

    if (!rows)
        return bb_failed(rq);
    return bb_cell_int(rq, rows, 0, 0) ? 0 : wrong_state(rq, who, id);
}

int bulk_delete(struct bb_request *rq)
{
    int refused = permitted(rq, false);

    if (!refused)
        refused = bulk_job_delete(rq, BULK_CALLED(rq));
    return refused ? refused : bulk_reply(rq, 200, json_pack("{s:b}", "success", 1));
}
