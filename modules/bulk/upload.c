/*
 * POST /api/bulk-upload: the file is looked through, its rows are checked, and a job is created. An
 * upload that is refused, or dies on its way, leaves a job that nobody sees (arriving); it is taken
 * away at once, or by the sweep.
 */
#include <string.h>
#include <strings.h>

#include "bulk.h"
#include "scan.h"

static const struct bb_sql drop = {
    "WITH f AS (DELETE FROM bulk_finding WHERE job = $1::uuid),"
    " p AS (DELETE FROM bulk_part WHERE job = $1::uuid)"
    " DELETE FROM bulk_job WHERE id = $1::uuid AND status = 'arriving'",
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

static const struct bb_sql create = {
    "UPDATE bulk_job SET status = 'created', doubtful = $2::int WHERE id = $1::uuid",
    BB_SQL_WRITE,
};

/* The type asked for, if the caller's role may upload it: 0, or the status of the answer given. */
static int type_of(struct bb_request *rq, const struct bulk_type **type)
{
    const struct bulk *bulk = rq->state;
    const char *name = bb_arg(rq, "type");

    *type = bulk_type_named(bulk, name ? name : "Devices");
    if (!*type)
        return bb_invalid(rq, "type", "is none that rows can be of here");
    if (!((*type)->rows->roles & rq->principal->role))
        return bb_fail_text(rq, 403, NULL);
    return 0;
}

/* The one organisation that all rows act in. */
static int home(struct bb_request *rq, int64_t *organisation)
{
    const struct bb_principal *who = rq->principal;
    int refused = bb_organisation(rq, bb_arg_int(rq, "organizationId", 0), organisation);

    if (refused || *organisation)
        return refused;
    if (who->role == BB_ROLE_ADMIN ||
        (who->role == BB_ROLE_API_USER && who->organisation_count > 1))
        return bb_invalid(rq, "organizationId", "is required");
    *organisation = who->organisation_count == 1 ? who->organisations[0] : who->organisation;
    return *organisation ? 0 : bb_fail(rq, 403, "You act in no organization");
}

static int file_of(struct bb_request *rq, const struct bb_file **file)
{
    size_t length;

    *file = bb_file(rq, 0);
    if (!*file)
        return bb_invalid(rq, "file", "is required: a file in multipart/form-data");
    length = strlen((*file)->name);
    if (length < 4 || strcasecmp((*file)->name + length - 4, ".csv") != 0)
        return bb_invalid(rq, "file", "must be a .csv file");
    return 0;
}

static void drop_scan(void *scan)
{
    scan_free(scan);
}

static void drop_json(void *json)
{
    json_decref(json);
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
    bb_defer(rq, drop_json, header);
    return header;
}

static void warn_of_columns(struct bb_request *rq, const struct bulk_columns *columns,
                            const struct scan *scan)
{
    for (size_t i = 0; i < columns->count; i++)
        if (columns->places[i] < 0 && *scan->header[i] &&
            strcasecmp(scan->header[i], "errors") != 0)
            bb_warn(rq, "%.100s: no column of this type has that name; it is passed over",
                    scan->header[i]);
}

/* Who sends what, and when. */
static int fill(struct bb_request *rq, const struct bulk_type *type, const struct bb_file *file,
                const struct scan *scan, struct bulk_job *job)
{
    const struct bb_principal *who = rq->principal;
    json_t *header = header_of(rq, scan);
    size_t length;

    job->header = header ? bb_json(rq, header, &length) : NULL;
    if (!job->header)
        return bb_fail(rq, 503, "Out of memory");
    job->id = bb_new_uuid(rq);
    job->account = who->account;
    job->email = who->email;
    job->role = who->role;
    job->type = type->name;
    job->file = file->name;
    job->status = "created";
    job->separator = bb_format(rq, "%c", scan->separator);
    job->rows = (int64_t)scan->rows;
    job->created_at = bb_time_text(rq, bb_wall_ms(rq->host));
    return 0;
}

static int arrives(struct bb_request *rq, const struct bulk_job *job)
{
    const struct bulk *bulk = rq->state;
    const struct bb_rows *rows = bb_query(
        rq, &arrive,
        BB_ARGS(bb_t(job->id), bb_i(job->account), bb_t(job->email), bb_i(job->role),
                bb_i(job->organisation), bb_t(job->type), bb_t(job->file), bb_t(job->separator),
                bb_t(job->header), bb_i(job->rows), bb_t(job->created_at), bb_i(bulk->jobs_max)));

    if (!rows)
        return bb_failed(rq);
    if (bb_affected(rq, rows))
        return 0;
    return bb_fail(rq, 409,
                   "You have %lld bulk uploads that have not ended: confirm, cancel or delete some",
                   (long long)bulk->jobs_max);
}

static int finish(struct bb_request *rq, const struct bulk_job *job)
{
    struct bb_tx *unit = bb_unit(rq, (uint64_t)job->account);

    if (!unit || bb_add(rq, unit, &create, BB_ARGS(bb_t(job->id), bb_i(job->doubtful))) < 0)
        return bb_failed(rq);
    json_t *json = bulk_job_json(job);

    if (!json)
        return bb_fail(rq, 503, "Out of memory");
    int status = bb_commit(rq, unit, 201, json);

    return status ? status : bb_failed(rq);
}

static int check(struct bb_request *rq, const struct bulk_type *type, struct bulk_job *job,
                 const struct scan *scan)
{
    const char *twice;
    json_t *header = json_loads(job->header, 0, NULL);

    bb_defer(rq, drop_json, header);
    const struct bulk_columns *columns = bulk_columns_of(rq, type, header, scan->separator, &twice);

    if (twice)
        return bb_fail(rq, 400, "The header line names the column %s twice", twice);
    warn_of_columns(rq, columns, scan);
    int refused = arrives(rq, job);

    if (refused)
        return refused;
    int status = bulk_check_parts(rq, type, job, columns, scan);

    if (!status)
        status = finish(rq, job);
    if (status >= 400 && !bb_query(rq, &drop, BB_ARGS(bb_t(job->id))))
        bb_log(rq, BB_INFO, "what is left of a refused bulk upload waits for the sweep");
    return status;
}

int bulk_upload(struct bb_request *rq)
{
    const struct bulk_type *type;
    const struct bb_file *file;
    struct bulk_job job = {.id = NULL};
    struct scan *scan = bb_alloc(rq, sizeof(*scan));
    int refused = type_of(rq, &type);

    if (!refused)
        refused = home(rq, &job.organisation);
    if (!refused)
        refused = file_of(rq, &file);
    if (refused)
        return refused;
    scan->path = file->path;
    refused = look_through(rq, scan);
    if (!refused)
        refused = fill(rq, type, file, scan, &job);
    return refused ? refused : check(rq, type, &job, scan);
}
