/*
 * A file becomes a job: it is looked through, its rows are checked, and its parts are stored. One
 * that is refused, or dies on its way, leaves a job that nobody sees (arriving); it is taken away
 * at once, or by the sweep.
 */
#include <string.h>
#include <strings.h>

#include "modules/bulk/csv/scan.h"
#include "modules/bulk/job/bulk.h"

/* Not of one that was created, though its answer was lost. */
static const struct bb_sql drop = {
    "WITH gone AS (DELETE FROM bulk_job WHERE id = $1::uuid AND status = 'arriving' RETURNING id),"
    " f AS (DELETE FROM bulk_finding USING gone WHERE job = gone.id),"
    " p AS (DELETE FROM bulk_part USING gone WHERE job = gone.id) SELECT count(*) FROM gone",
    BB_SQL_WRITE,
};

/* $12 how many an account may have that have not ended */
static const struct bb_sql arrive = {
    "INSERT INTO bulk_job (id, account, email, role, organisation, type, file, status, separator,"
    " header, rows, created_at) SELECT $1::uuid, $2::bigint, $3, $4::int, $5::bigint, $6, $7,"
    " 'arriving', $8, $9, $10::int, $11::timestamptz WHERE (SELECT count(*) FROM bulk_job"
    " WHERE account = $2::bigint AND status IN ('arriving', 'created', 'confirmed')) <"
    " $12::bigint",
    BB_SQL_WRITE,
};

const struct bb_sql bulk_create = {
    "UPDATE bulk_job SET status = 'created', doubtful = $2::int WHERE id = $1::uuid",
    BB_SQL_WRITE,
};

bool bulk_is_csv(const char *name)
{
    size_t length = strlen(name);

    return length >= 4 && !strcasecmp(name + length - 4, ".csv");
}

int bulk_organisation_known(struct bb_request *rq, int64_t organisation)
{
    struct bb_service found = bb_service(rq->host, "accounts");
    const struct bb_accounts *accounts = found.interface;

    return accounts ? accounts->organisation_known(found.state, rq, organisation) : 1;
}

static void drop_scan(void *scan)
{
    scan_free(scan);
}

static int look_through(struct bb_request *rq, struct scan *scan)
{
    bb_defer(rq, drop_scan, scan);
    scan->part_rows = BULK_PART_ROWS;
    scan->rows_max = BULK_ROWS_MAX;
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
    for (size_t i = 0; i < columns->count; i++)
        if (columns->places[i] < 0 && *scan->header[i] &&
            strcasecmp(scan->header[i], "errors") != 0)
            source->warn(
                rq, source->warn_arg,
                bb_format(rq, "%.100s: no column of this type has that name; it is passed over",
                          scan->header[i]));
}

/* Who sends what, and when. */
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
    job->organisation = source->organisation;
    job->type = source->type->name;
    job->file = source->name;
    job->status = "created";
    job->separator = bb_format(rq, "%c", scan->separator);
    job->rows = (int64_t)scan->rows;
    job->created_at = bb_time_text(rq, bb_wall_ms(rq->host));
    return 0;
}

static int arrives(struct bb_request *rq, const struct bulk_job *job)
{
    const struct bulk *bulk = rq->state;
    const struct bb_rows *rows =
        bb_query(rq, &arrive,
                 BB_ARGS(bb_t(job->id), bb_i(job->account), bb_t(job->email), bb_i(job->role),
                         bb_i(job->organisation), bb_t(job->type), bb_t(job->file),
                         bb_t(job->separator), bb_t(job->header), bb_i(job->rows),
                         bb_t(job->created_at), bb_i(bulk->settings->jobs_per_account)));

    if (!rows)
        return bb_failed(rq);
    if (bb_affected(rq, rows))
        return 0;
    return bb_fail(rq, 409,
                   "You have %lld bulk uploads that have not ended: confirm, cancel or delete some",
                   (long long)bulk->settings->jobs_per_account);
}

static int check(struct bb_request *rq, const struct bulk_source *source, struct bulk_job *job,
                 const struct scan *scan,
                 int (*finish)(struct bb_request *rq, const struct bulk_job *job))
{
    const char *twice;
    json_t *header = bb_json_hold(rq, bb_json_read(rq, job->header));
    const struct bulk_columns *columns =
        bulk_columns_of(rq, source->type, header, scan->separator, &twice);

    if (!columns)
        return bb_fail(rq, 503, "Out of memory");
    if (twice)
        return bb_fail(rq, 400, "The header line names the column %s twice", twice);
    warn_of_columns(rq, source, columns, scan);
    int refused = arrives(rq, job);

    if (refused)
        return refused;
    int status = bulk_check_parts(rq, source, job, columns, scan);

    if (!status)
        status = finish(rq, job);
    if (status >= 400 && !bb_query(rq, &drop, BB_ARGS(bb_t(job->id))))
        bb_log(rq, BB_INFO, "what is left of a refused bulk upload waits for the sweep");
    return status;
}

int bulk_take(struct bb_request *rq, const struct bulk_source *source, struct bulk_job *job,
              int (*finish)(struct bb_request *rq, const struct bulk_job *job))
{
    struct scan *scan = bb_alloc(rq, sizeof(*scan));

    scan->path = source->path;
    int refused = look_through(rq, scan);

    if (!refused)
        refused = fill(rq, source, scan, job);
    return refused ? refused : check(rq, source, job, scan, finish);
}
