/*
 * Turns a file into a job: the file is scanned, its rows are checked, and its parts are stored. If
 * the file is refused, or the host dies, the job stays invisible (arriving, then removed); it is
 * deleted at once or by the sweep.
 */
#include <string.h>
#include <strings.h>

#include "modules/bulk/csv/blank.h"
#include "modules/bulk/csv/scan.h"
#include "modules/bulk/job/bulk.h"

/* Does not delete a job that was created, even if its response was lost. If the sweep deleted the
 * job, deletes what was stored of it since. */
static const struct bb_sql drop = {
    "WITH dropped AS (DELETE FROM bulk_job WHERE id = $1::uuid"
    " AND status IN ('arriving', 'removed') RETURNING id),"
    " gone AS (SELECT id FROM dropped UNION ALL SELECT $1::uuid"
    " WHERE NOT EXISTS (SELECT FROM bulk_job WHERE id = $1::uuid)),"
    " f AS (DELETE FROM bulk_finding USING gone WHERE job = gone.id),"
    " w AS (DELETE FROM bulk_warning USING gone WHERE job = gone.id),"
    " p AS (DELETE FROM bulk_part USING gone WHERE job = gone.id) SELECT count(*) FROM gone",
    BB_SQL_WRITE,
};

/*
 * $12 limit of an account's jobs that have not ended, $13 bytes, $14 the organization's quota in
 * bytes. A job that has been arriving for longer than an upload can take is the leftover of a crash
 * and does not count.
 */
static const struct bb_sql arrive = {
    "WITH r AS (SELECT (SELECT count(*) FROM bulk_job WHERE account = $2::bigint AND"
    " (status IN ('created', 'confirmed') OR (status = 'arriving' AND"
    " created_at > now() - interval '5 minutes'))) AS jobs,"
    " coalesce((SELECT bytes FROM bulk_usage WHERE organisation = $5::bigint), 0) AS used),"
    " put AS (INSERT INTO bulk_job (id, account, email, role, organisation, type, file, status,"
    " separator, header, rows, created_at, bytes) SELECT $1::uuid, $2::bigint, $3, $4::int,"
    " $5::bigint, $6, $7, 'arriving', $8, $9, $10::int, $11::timestamptz, $13::bigint FROM r"
    " WHERE r.jobs < $12::bigint AND r.used + $13::bigint <= $14::bigint)"
    " SELECT jobs, used FROM r",
    BB_SQL_WRITE,
};

/* Fails for a job that the sweep has deleted or is deleting. */
const struct bb_sql bulk_create = {
    "WITH made AS (UPDATE bulk_job SET status = 'created', doubtful = $2::int, warned = $3::int,"
    " bytes = $4::bigint WHERE id = $1::uuid AND status = 'arriving' RETURNING 1)"
    " SELECT busbar_require(EXISTS (SELECT FROM made), 503,"
    " 'The bulk upload took too long and was removed: send it again')",
    BB_SQL_WRITE,
};

const char *bulk_over_quota(struct bb_request *rq)
{
    const struct bulk *bulk = rq->state;

    return bb_format(
        rq,
        "The organization may have %lld bytes of bulk uploads at most: delete some that "
        "have ended",
        (long long)bulk->settings->bytes_per_organization);
}

bool bulk_is_csv(const char *name)
{
    size_t length = strlen(name);

    return length >= 4 && !strcasecmp(name + length - 4, ".csv");
}

int bulk_organization_known(struct bb_request *rq, int64_t organization)
{
    struct bb_service found = bb_service(rq->host, "accounts");
    const struct bb_accounts *accounts = found.interface;

    return accounts ? accounts->organization_known(found.state, rq, organization) : 1;
}

static void drop_scan(void *scan)
{
    scan_free(scan);
}

static bool is_column(const void *type, const char *name)
{
    return bulk_place_of(type, name) >= 0;
}

static int look_through(struct bb_request *rq, const struct bulk_type *type, struct scan *scan)
{
    struct scan_columns *known = bb_alloc(rq, sizeof(*known));

    *known = (struct scan_columns){.is_column = is_column, .arg = type, .names = ""};
    for (size_t i = 0; i < type->columns; i++)
        known->names =
            bb_format(rq, "%s%s%s", known->names, i ? ", " : "", bulk_column(type, i)->name);
    bb_defer(rq, drop_scan, scan);
    scan->part_rows = BULK_PART_ROWS;
    scan->rows_max = BULK_ROWS_MAX;
    scan->known = known;
    if (bb_offload(rq, BULK_POOL, scan_run, scan))
        return bb_failed(rq);
    return scan->status ? bb_fail_text(rq, scan->status, scan->why) : 0;
}

static json_t *header_of(struct bb_request *rq, const struct scan *scan)
{
    json_t *header = json_array();

    for (size_t i = 0; i < scan->columns && header; i++)
        if (json_array_append_new(header, json_string(scan->header[i]))) {
            json_decref(header);
            return NULL;
        }
    return bb_json_hold(rq, header);
}

static void warn_of_columns(struct bb_request *rq, const struct bulk_source *source,
                            const struct bulk_columns *columns, const struct scan *scan)
{
    for (size_t i = 0; i < columns->count; i++) {
        const char *name = scan->header[i];

        if (columns->places[i] < 0 && *name && strcasecmp(name, "errors") != 0)
            source->warn(rq, source->warn_arg,
                         bb_format(rq, "%.*s: no column of this type has that name; it is ignored",
                                   (int)blank_cut(name, 100), name));
        if (scan->unnamed[i])
            source->warn(rq, source->warn_arg,
                         bb_format(rq,
                                   "column %zu has no name; its values, the first in row %lld, "
                                   "are ignored",
                                   i + 1, (long long)scan->unnamed[i]));
    }
}

/* Fills in the sender, the file and the time. */
static int fill(struct bb_request *rq, const struct bulk_source *source, const struct scan *scan,
                struct bulk_job *job)
{
    const struct bb_principal *who = source->who;
    json_t *header = header_of(rq, scan);
    size_t length;

    job->header = header ? bb_json(rq, header, &length) : NULL;
    if (!job->header)
        return bb_fail(rq, 503, "Out of memory");
    job->id = bb_new_uuid(rq);
    job->account = who->account;
    job->email = who->email;
    job->role = who->role;
    job->organization = source->organization;
    job->type = source->type->name;
    job->file = source->name;
    job->status = "created";
    job->separator = bb_format(rq, "%c", scan->separator);
    job->rows = (int64_t)scan->rows;
    job->bytes = BULK_JOB_BYTES + (int64_t)length;
    job->created_at = bb_time_text(rq, bb_wall_ms(rq->host));
    return 0;
}

/*
 * Reserves a job of the account and the bytes of the file. Returns 0, or the status of the response
 * sent. *left is the number of bytes that the organization may still use.
 */
static int arrives(struct bb_request *rq, const struct bulk_job *job, const struct scan *scan,
                   int64_t *left)
{
    const struct bulk *bulk = rq->state;
    const struct bulk_settings *settings = bulk->settings;
    int64_t bytes = job->bytes, quota = settings->bytes_per_organization;

    for (size_t i = 0; i < scan->part_count; i++)
        bytes += (int64_t)(scan->parts[i].end - scan->parts[i].begin);
    const struct bb_rows *rows = bb_query(
        rq, &arrive,
        BB_ARGS(bb_t(job->id), bb_i(job->account), bb_t(job->email), bb_i(job->role),
                bb_i(job->organization), bb_t(job->type), bb_t(job->file), bb_t(job->separator),
                bb_t(job->header), bb_i(job->rows), bb_t(job->created_at),
                bb_i(settings->jobs_per_account), bb_i(bytes), bb_i(quota)));

    if (!rows)
        return bb_failed(rq);
    if (bb_cell_int(rq, rows, 0, 0) >= settings->jobs_per_account)
        return bb_fail(
            rq, 409,
            "You have %lld bulk uploads that have not ended: confirm, cancel or delete some",
            (long long)settings->jobs_per_account);
    *left = quota - bb_cell_int(rq, rows, 0, 1);
    return bytes > *left ? bb_fail_text(rq, 409, bulk_over_quota(rq)) : 0;
}

static int check(struct bb_request *rq, const struct bulk_source *source, struct bulk_job *job,
                 const struct scan *scan,
                 int (*finish)(struct bb_request *rq, struct bulk_job *job))
{
    const char *twice;
    int64_t left = 0;
    json_t *header = bb_json_hold(rq, bb_json_read(rq, job->header));
    const struct bulk_columns *columns =
        bulk_columns_of(rq, source->type, header, scan->separator, &twice);

    if (!columns)
        return bb_fail(rq, 503, "Out of memory");
    if (twice)
        return bb_fail(rq, 400, "The header line names the column %s twice", twice);
    warn_of_columns(rq, source, columns, scan);
    int refused = arrives(rq, job, scan, &left);

    if (refused)
        return refused;
    int status = bulk_check_parts(rq, source, job, columns, scan, left);

    if (!status)
        status = finish(rq, job);
    if (!job->created && !bb_query(rq, &drop, BB_ARGS(bb_t(job->id))))
        bb_log(rq, BB_INFO, "the rest of a refused bulk upload is deleted by the next sweep");
    return status;
}

int bulk_take(struct bb_request *rq, const struct bulk_source *source, struct bulk_job *job,
              int (*finish)(struct bb_request *rq, struct bulk_job *job))
{
    struct scan *scan = bb_alloc(rq, sizeof(*scan));

    scan->path = source->path;
    int refused = look_through(rq, source->type, scan);

    if (!refused)
        refused = fill(rq, source, scan, job);
    return refused ? refused : check(rq, source, job, scan, finish);
}
