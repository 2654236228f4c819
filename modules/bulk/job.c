/*
 * A job in the database and in the API. The routes and the command look up, list, confirm, cancel
 * and delete jobs; the sweep deletes old jobs.
 */

#include <inttypes.h>
#include <stdio.h>

#include "modules/bulk/bulk.h"
#include "modules/common/incoming.h"

/*
 * The condition that the caller may see a job `j`: it is from the caller's account and one of the
 * caller's organizations, or the caller is an Admin. MINE_ARGS() are its parameters.
 */
#define MINE                                                                                       \
    "j.id = $1::uuid AND j.status <> 'arriving' AND ($2::boolean OR (j.account = $3::bigint"       \
    " AND j.organisation = ANY($4::bigint[])))"
#define MINE_ARGS(who, id)                                                                         \
    bb_t(id), bb_b((who)->role == BB_ROLE_ADMIN), bb_i((who)->account),                            \
        bb_ints((who)->organizations, (who)->organization_count)
/* The arguments `who` and `id`: the caller, and the job in the path. */
#define CALLED(rq) (rq)->principal, bb_segment(rq, "bulkUploadId")

struct bulk_job bulk_job_of(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                            bool whole)
{
    return (struct bulk_job){
        .id = bb_cell(rq, rows, row, 0),
        .status = bb_cell(rq, rows, row, 1),
        .reason = bb_cell(rq, rows, row, 2),
        .type = bb_cell(rq, rows, row, 4),
        .file = bb_cell(rq, rows, row, 5),
        .organization = bb_cell_int(rq, rows, row, 6),
        .ended = bb_cell(rq, rows, row, 11) != NULL,
        .rows = bb_cell_int(rq, rows, row, 12),
        .email = bb_cell(rq, rows, row, 13),
        .account = bb_cell_int(rq, rows, row, 14),
        .role = bb_cell_int(rq, rows, row, 15),
        .doubtful = bb_cell_int(rq, rows, row, 16),
        .cursor = bb_cell_int(rq, rows, row, 17),
        .single = bb_cell_int(rq, rows, row, 18),
        .succeeded = bb_cell_int(rq, rows, row, 19),
        .failed = bb_cell_int(rq, rows, row, 20),
        .separator = whole ? bb_cell(rq, rows, row, 21) : NULL,
        .header = whole ? bb_cell(rq, rows, row, 22) : NULL,
        .source = rows,
        .source_row = row,
    };
}

int bulk_job_look(struct bb_request *rq, const struct bb_principal *who, const char *id,
                  struct bulk_job *job)
{
    static const struct bb_sql find = {
        "SELECT " BULK_JOB BULK_JOB_HEADER " FROM bulk_job j WHERE " MINE, 0};
    const struct bb_rows *rows = bb_query(rq, &find, BB_ARGS(MINE_ARGS(who, id)));

    if (!rows || !bb_count(rq, rows))
        return rows ? 0 : -1;
    *job = bulk_job_of(rq, rows, 0, true);
    return 1;
}

struct bulk_job bulk_job_find(struct bb_request *rq)
{
    struct bulk_job job = {.id = NULL};
    int found = bulk_job_look(rq, CALLED(rq), &job);

    if (found <= 0)
        bb_end(rq, found ? bb_failed(rq) : bb_fail(rq, 404, "Bulk upload not found"));
    return job;
}

int64_t bulk_done(const struct bulk_job *job)
{
    return job->succeeded + job->failed;
}

json_t *bulk_job_json(struct bb_request *rq, const struct bulk_job *job)
{
    return bb_row_fields(rq, job->source, job->source_row, 0, bulk_job_fields, BULK_JOB_MEMBERS);
}

void bulk_emit_finished(struct bb_request *rq, struct bb_tx *tx, const struct bulk_job *job)
{
    struct bb_audience audience = {.size = sizeof(audience), .organization = job->organization};
    json_t *payload =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "bulkUploadId", job->id, "type",
                  job->type, "fileName", job->file, "status", job->status, "organizationId",
                  (json_int_t)job->organization, "rows", (json_int_t)job->rows, "succeeded",
                  (json_int_t)job->succeeded, "failed", (json_int_t)job->failed, "cancelled",
                  (json_int_t)(job->rows - bulk_done(job)));

    if (bb_emit(rq, tx, "bulk.finished", payload, &audience))
        bb_end(rq, bb_failed(rq));
}

#define LATEST_US INT64_C(253402300800000000) /* the end of the year 9999 */

/*
 * GET /api/bulk-upload: the caller's own jobs, or all jobs for an Admin; the latest first. A cursor
 * is "<time of creation in microseconds>-<id>" of the last job seen, which may have been deleted;
 * in earlier versions, it is only the id.
 */
int bulk_list(struct bb_request *rq)
{
    enum { PAGE = 100, CURSOR = 21 /* the column that follows BULK_JOB */ };
    /*
     * $1 whether all jobs, $2 account, $3 organizations, $4 status, $5 type, $6 and $9 time (or
     * null) and id of the cursor, $7 number of jobs, $8 organization
     */
    static const char text[] =
        "SELECT " BULK_JOB ", (extract(epoch FROM j.created_at) * 1000000)::bigint || '-' || j.id"
        " FROM bulk_job j WHERE j.status <> 'arriving'"
        " AND ($1::boolean OR (j.account = $2::bigint AND j.organisation = ANY($3::bigint[])))"
        " AND ($4::text IS NULL OR j.status = $4) AND ($5::text IS NULL OR j.type = $5)"
        " AND ($8::bigint IS NULL OR j.organisation = $8)"
        " AND ($9::uuid IS NULL OR (j.created_at, j.id) <"
        " (coalesce(timestamptz 'epoch' + $6::bigint * interval '1 microsecond',"
        " (SELECT a.created_at FROM bulk_job a WHERE a.id = $9::uuid)), $9::uuid))"
        " ORDER BY j.created_at DESC, j.id DESC LIMIT $7::bigint";
    static const struct bb_sql find = {text, BB_SQL_REPLICA}, find_many = {text, BB_SQL_LIST};
    const struct bb_principal *who = rq->principal;
    int64_t limit = bb_arg_int(rq, "limit", PAGE), organization, time = 0;
    int refused = bb_organization(rq, bb_arg_int(rq, "organizationId", 0), &organization);
    const char *after = bb_arg(rq, "after");
    bool only_id = after && bb_is_uuid(after);
    int length = 0;

    if (refused)
        return refused;
    if (after && !only_id &&
        (sscanf(after, "%18" SCNd64 "-%n", &time, &length) != 1 || !length ||
         !bb_is_uuid(after + length) || time <= 0 || time >= LATEST_US))
        return bb_invalid(rq, "after", "must be a cursor from a Link header");
    const struct bb_rows *rows = bb_query_or_end(
        rq, limit > PAGE ? &find_many : &find,
        BB_ARGS(bb_b(who->role == BB_ROLE_ADMIN), bb_i(who->account),
                bb_ints(who->organizations, who->organization_count), bb_t(bb_arg(rq, "status")),
                bb_t(bb_arg(rq, "type")), only_id ? bb_null() : bb_i(time), bb_i(limit + 1),
                organization ? bb_i(organization) : bb_null(),
                bb_t(after ? after + length : NULL)));

    return bb_reply_fields(rq, rows, (size_t)limit, CURSOR, bulk_job_fields, BULK_JOB_MEMBERS);
}

/* ---- changes requested by the sender ---- */

/* Sends a 404 or 409, because a change found no job in the state that it needs. */
static int job_wrong_state(struct bb_request *rq, const struct bb_principal *who, const char *id)
{
    struct bulk_job job;
    int found = bulk_job_look(rq, who, id, &job);

    return found < 0 ? bb_failed(rq)
           : !found  ? bb_fail(rq, 404, "Bulk upload not found")
                     : bb_fail(rq, 409, "The bulk upload is already %s", job.status);
}

/*
 * Ends the request if the caller's role may not upload the job's type any more. An Admin may change
 * every job. If the type is not loaded, its roles are unknown: then only a change that leads to
 * storing rows (`stores`) is refused.
 */
static void job_check_role(struct bb_request *rq, bool stores)
{
    struct bulk_job job = bulk_job_find(rq);
    const struct bulk_type *type = bulk_type_named(rq->state, job.type);

    if (rq->principal->role == BB_ROLE_ADMIN)
        return;
    if (type && !(type->rows->roles & rq->principal->role))
        bb_end(rq, bb_fail_text(rq, 403, NULL));
    if (!type && stores)
        bb_end(rq, bb_fail(rq, 409, "No loaded module provides rows of type %s", job.type));
}

/* Only one of several concurrent requests finds the job in the state `created`. */
int bulk_job_confirm(struct bb_request *rq, const struct bb_principal *who, const char *id,
                     struct bulk_job *job)
{
    static const struct bb_sql confirm = {
        "UPDATE bulk_job j SET status = 'confirmed', confirmed_at = now()"
        " WHERE " MINE " AND j.status = 'created' RETURNING " BULK_JOB,
        BB_SQL_WRITE,
    };
    const struct bb_rows *rows = bb_query(rq, &confirm, BB_ARGS(MINE_ARGS(who, id)));

    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows))
        return job_wrong_state(rq, who, id);
    *job = bulk_job_of(rq, rows, 0, false);
    return 0;
}

int bulk_confirm(struct bb_request *rq)
{
    struct bulk_job job = {.id = NULL};

    job_check_role(rq, true);
    int refused = bulk_job_confirm(rq, CALLED(rq), &job);

    if (refused)
        return refused;
    if (!bb_pause_reason(rq)) /* while paused, the rows wait for `busbar resume` */
        (void)bb_run(rq->host, bulk_begin_run, NULL); /* if it fails, bulk.run starts within 1 s */
    return bb_reply(rq, 200,
                    json_pack("{s:s, s:s, s:o}", "bulkUploadId", job.id, "status", job.status,
                              "progress",
                              bb_cell_json(rq, job.source, 0, BULK_JOB_PROGRESS, BB_OBJECT)));
}

static void job_count_cancelled(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct bulk_job *job = arg;

    (void)tx;
    bb_metric_add(rq->host, BULK_METRIC_JOBS, BULK_CANCELLED, 1);
    bb_log(rq, BB_INFO, "bulk upload %s was cancelled%s%s: %lld of %lld rows were done", job->id,
           job->reason ? ", because " : "", job->reason ? job->reason : "",
           (long long)bulk_done(job), (long long)job->rows);
}

void bulk_end_cancelled(struct bb_request *rq, struct bb_tx *tx, const char *id,
                        struct bulk_job *job)
{
    /*
     * Rows with problems have failed, and other rows after the cursor are cancelled. This statement
     * counts the failed rows. The statement that cancelled the job may have waited for a batch in
     * progress; its snapshot is older than that batch, so it would count too few rows.
     */
    static const struct bb_sql total = {
        "UPDATE bulk_job j SET failed = (SELECT coalesce(sum(p.failed), 0) FROM bulk_part p"
        " WHERE p.job = j.id) WHERE j.id = $1::uuid RETURNING " BULK_JOB,
        BB_SQL_WRITE,
    };
    *job = bulk_job_of(rq, bb_tx_query_or_end(rq, tx, &total, BB_ARGS(bb_t(id))), 0, false);
    bulk_emit_finished(rq, tx, job);
    bb_after(rq, tx, job_count_cancelled, job);
}

struct ending {
    const struct bb_principal *who;
    const char *id;
    struct bulk_job *job;
};

static int job_cancel(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    /* Waits for a batch in progress, which has locked the row. */
    static const struct bb_sql end = {
        "UPDATE bulk_job j SET status = 'cancelled', ended_at = now()"
        " WHERE " MINE " AND j.status IN ('created', 'confirmed')",
        BB_SQL_WRITE,
    };
    const struct ending *ending = arg;
    const struct bb_rows *rows =
        bb_tx_query_or_end(rq, tx, &end, BB_ARGS(MINE_ARGS(ending->who, ending->id)));

    if (!bb_affected(rq, rows))
        return job_wrong_state(rq, ending->who, ending->id);
    bulk_end_cancelled(rq, tx, ending->id, ending->job);
    return 0;
}

int bulk_job_cancel(struct bb_request *rq, const struct bb_principal *who, const char *id,
                    struct bulk_job *job)
{
    struct ending ending = {who, id, job};

    return bb_transaction(rq, job_cancel, &ending);
}

int bulk_cancel(struct bb_request *rq)
{
    struct bulk_job *job = bb_alloc(rq, sizeof(*job));

    job_check_role(rq, false);
    int refused = bulk_job_cancel(rq, CALLED(rq), job);

    return refused ? refused : bb_reply(rq, 200, bulk_job_json(rq, job));
}

int bulk_job_delete(struct bb_request *rq, const struct bb_principal *who, const char *id)
{
    static const struct bb_sql delete = {
        "DELETE FROM bulk_job j WHERE " MINE " AND j.status <> 'confirmed'",
        BB_SQL_WRITE | BB_SQL_LONG,
    };
    const struct bb_rows *rows = bb_query(rq, &delete, BB_ARGS(MINE_ARGS(who, id)));

    if (!rows)
        return bb_failed(rq);
    return bb_affected(rq, rows) ? 0 : job_wrong_state(rq, who, id);
}

int bulk_delete(struct bb_request *rq)
{
    job_check_role(rq, false);
    int refused = bulk_job_delete(rq, CALLED(rq));

    return refused ? refused : bb_reply(rq, 200, json_pack("{s:b}", "success", 1));
}

/* ---- the sweep ---- */

#define TURN_MS 500
#define STALE_S 86400 /* seconds; no upload takes that long */

#define SINCE "coalesce(ended_at, confirmed_at, created_at)" /* index: bulk_job_since */

/* $1 days after which finished jobs are deleted, $2 days for cancelled and unconfirmed jobs */
static const struct bb_sql sweep = {
    "DELETE FROM bulk_job WHERE status <> 'confirmed' AND id = (SELECT id FROM bulk_job"
    " WHERE status <> 'confirmed' AND " SINCE " < now() - CASE status"
    " WHEN 'arriving' THEN interval '1 hour' WHEN 'finished' THEN make_interval(days => $1::int)"
    " ELSE make_interval(days => $2::int) END ORDER BY " SINCE " LIMIT 1)",
    BB_SQL_WRITE | BB_SQL_LONG,
};

/*
 * The job bulk.sweep deletes bulk uploads that finished more than bulk.retention_days ago, and
 * uploads that were cancelled, or created and not confirmed, more than bulk.unfinished_days ago.
 * Uploads that are still `arriving` are deleted after an hour.
 */
void bulk_sweep(struct bb_request *rq)
{
    const struct bulk_settings *settings = ((const struct bulk *)rq->state)->settings;
    int64_t until = bb_now_ms(rq->host) + TURN_MS, jobs = 0;
    bool more = true;

    while (more && bb_now_ms(rq->host) < until) {
        const struct bb_rows *rows = bb_query(
            rq, &sweep, BB_ARGS(bb_i(settings->retention_days), bb_i(settings->unfinished_days)));

        more = rows && bb_affected(rq, rows);
        jobs += more;
    }
    if (jobs)
        bb_log(rq, BB_INFO, "%lld expired bulk uploads were deleted", (long long)jobs);
    if (more)
        bb_again(rq);
}

/* The job bulk.tidy deletes, on each host, incoming files that a crash has left. */
void bulk_tidy(struct bb_request *rq)
{
    incoming_tidy(rq, BULK_POOL, ((const struct bulk *)rq->state)->settings->files,
                  time(NULL) - STALE_S);
}
