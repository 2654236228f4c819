/*
 * POST /api/bulk-upload and `busbar bulk import` make a job from a file. The file is scanned. Then
 * each part is parsed, the type checks its rows, and the part is stored with its findings
 * (problems). Finally, rows that contradict each other are found. Until then the job is invisible
 * (`arriving`). If the file is refused, the job is deleted. After a crash, the sweep deletes it.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "modules/bulk/bulk.h"
#include "modules/bulk/scan.h"

enum { JOB_BYTES = 4096 }; /* counted for each job in addition to its rows */

#define REMOVED "The bulk upload took too long and was removed: send it again"

struct upload {
    const struct bulk_source *source;
    struct bulk_job *job;
    struct bulk_columns *columns;
    struct scan scan;
    struct scan_claims claims;
    bool checked;                 /* all rows were checked, and are now compared with each other */
    size_t next;                  /* index of the next contradiction in `claims` */
    const struct scan_part *part; /* the part for upload_part() */
    int64_t left;                 /* bytes that the organization may still store */
};

static void upload_drop(void *arg)
{
    struct upload *upload = arg;

    scan_free(&upload->scan);
    free(upload->claims.list);
}

static int upload_over_quota(struct bb_request *rq)
{
    const struct bulk *bulk = rq->state;

    return bb_fail(rq, 409,
                   "The organization may have at most %lld bytes of bulk uploads: delete bulk "
                   "uploads that have ended",
                   (long long)bulk->settings->bytes_per_organization);
}

/* ---- the parts ---- */

/* Checks the rows of a part. Adds the names that they reserve to `claims`. Returns 0 or -1. */
static int upload_check(struct bb_request *rq, struct upload *upload, struct bulk_batch *batch)
{
    if (bulk_call(rq, NULL, batch, upload->job))
        return -1;
    for (size_t i = 0; i < batch->count; i++) {
        const struct bb_bulk_row *row = batch->rows[i];
        const struct bb_bulk_claim *claim = &row->claim;
        bool ever = !claim->from && !claim->until;

        if (!claim->name || row->problems)
            continue;
        struct scan_claim *added = &upload->claims.list[upload->claims.count++];

        *added = (struct scan_claim){
            .from = ever ? INT64_MIN : claim->from,
            .until = ever ? INT64_MAX : claim->until,
            .number = (int32_t)row->number,
            .column = claim->field ? bulk_place_of(batch->type, claim->field) : -1,
        };
        SHA256((const unsigned char *)claim->name, strlen(claim->name), added->name);
    }
    return 0;
}

/* Adds a problem to each row that contradicts an earlier row. Removes other rows from the batch. */
static void upload_contradict(struct bb_request *rq, struct upload *upload,
                              struct bulk_batch *batch)
{
    const struct scan_claims *claims = &upload->claims;
    size_t wrong = 0;

    for (size_t i = 0; i < batch->count && upload->next < claims->count; i++) {
        const struct scan_claim *claim = &claims->list[upload->next];
        bool ever = claim->from == INT64_MIN && claim->until == INT64_MAX;

        if (batch->rows[i]->number != claim->number)
            continue;
        bb_bulk_problem(
            rq, batch->rows[i],
            claim->column < 0
                ? ""
                : BB_ROW(bb_field, batch->type->rows->columns, (size_t)claim->column)->name,
            bb_format(rq, ever ? "is the same as in row %d" : "overlaps row %d",
                      (int)claim->against));
        batch->rows[wrong++] = batch->rows[i];
        upload->next++;
    }
    batch->count = wrong;
}

/* Checks and stores a part. If upload->checked, only adds problems of contradicting rows. */
static int upload_part(struct bb_request *rq, void *arg)
{
    /*
     * $1 job, $2 last row, $3 first row, $4 number of rows, $5 number of failed rows, $6 text of
     * the part, $7 findings, $8 warnings
     */
    static const struct bb_sql put = {
        "WITH found AS (INSERT INTO bulk_finding (job, number, name, problems)"
        " SELECT $1::uuid, f.number, f.name, f.problems"
        " FROM json_to_recordset($7::json) AS f (number bigint, name text, problems text)),"
        " warned AS (INSERT INTO bulk_warning (job, number, warnings)"
        " SELECT $1::uuid, w.number, w.problems"
        " FROM json_to_recordset($8::json) AS w (number bigint, problems text))"
        " INSERT INTO bulk_part AS p (job, last_row, first_row, rows, failed, bytes)"
        " VALUES ($1::uuid, $2::bigint, $3::bigint, $4::int, $5::int, $6)"
        " ON CONFLICT (job, last_row) DO UPDATE SET failed = p.failed + excluded.failed",
        BB_SQL_WRITE,
    };
    struct upload *upload = arg;
    const struct scan_part *part = upload->part;
    struct bulk_job *job = upload->job;
    struct scan_read read = {.path = upload->scan.path,
                             .begin = part->begin,
                             .length = part->end - part->begin,
                             .bytes = bb_alloc(rq, part->end - part->begin + 1)};
    int64_t found, warned = 0;

    if (bb_offload(rq, BULK_POOL, scan_read, &read))
        return bb_failed(rq);
    if (read.failed)
        return bb_fail(rq, 503, "The file cannot be read");
    struct bulk_batch *batch =
        bulk_batch_of(rq, upload->columns, read.bytes, part->first, 0, part->rows);

    if (upload->checked)
        upload_contradict(rq, upload, batch);
    else if (upload_check(rq, upload, batch))
        return bb_failed(rq);
    const char *findings = bulk_findings_json(rq, batch, false, &found);
    const char *warnings = upload->checked ? "[]" : bulk_findings_json(rq, batch, true, &warned);

    job->doubtful += found;
    job->warned += warned;
    job->bytes += (int64_t)(strlen(findings) + strlen(warnings));
    job->bytes += upload->checked ? 0 : (int64_t)read.length;
    if (job->bytes > upload->left)
        return upload_over_quota(rq);
    if (bb_query(rq, &put,
                 BB_ARGS(bb_t(job->id), bb_i(part->last), bb_i(part->first),
                         bb_i((int64_t)part->rows), bb_i(found), bb_t(read.bytes), bb_t(findings),
                         bb_t(warnings))))
        return 0;
    /* The sweep may have deleted the job. */
    return strcmp(bb_sqlstate(rq), "23503") ? bb_failed(rq) : bb_fail(rq, 503, REMOVED);
}

static int upload_check_parts(struct bb_request *rq, struct upload *upload)
{
    const struct scan *scan = &upload->scan;
    struct scan_claims *claims = &upload->claims;
    int refused = 0;

    claims->list = calloc(scan->rows, sizeof(*claims->list));
    if (!claims->list)
        return bb_no_memory(rq);
    for (size_t i = 0; i < scan->part_count && !refused; i++) {
        upload->part = &scan->parts[i];
        refused = upload->source->command && bb_superseded(rq->host)
                      ? bb_fail(rq, 503, "Interrupted: nothing was stored")
                      : bb_scratch(rq, upload_part, upload);
    }
    if (!refused && bb_offload(rq, BULK_POOL, scan_contradictions, claims))
        refused = bb_failed(rq);
    upload->checked = true;
    for (size_t i = 0; i < scan->part_count && !refused && upload->next < claims->count; i++) {
        upload->part = &scan->parts[i];
        if (claims->list[upload->next].number <= upload->part->last)
            refused = bb_scratch(rq, upload_part, upload);
    }
    if (refused == 503)
        bb_reply_header(rq, "Retry-After", "1"); /* a header set in bb_scratch() is lost */
    return refused;
}

/* ---- the file ---- */

static bool upload_is_column(const void *type, const char *name)
{
    return bulk_place_of(type, name) >= 0;
}

/* Finds the columns, and warns of columns that are ignored. */
static int upload_find_columns(struct bb_request *rq, struct upload *upload)
{
    const struct bulk_source *source = upload->source;
    const struct scan *scan = &upload->scan;
    const int *places;

    upload->columns = bulk_columns_of(rq, source->type, scan->header, scan->separator);
    places = upload->columns->places;
    for (size_t i = 0; i < upload->columns->count; i++) {
        const char *name = json_string_value(json_array_get(scan->header, i));

        for (size_t k = 0; k < i; k++)
            if (places[i] >= 0 && places[k] == places[i])
                return bb_fail(rq, 400, "The header line names the column %s twice",
                               bb_trimmed(rq, name));
        if (places[i] < 0 && *name && strcasecmp(name, "errors") != 0)
            source->warn(rq, source->warn_arg,
                         bb_format(rq, "%.*s: no column of this type has that name; it is ignored",
                                   (int)blank_cut(name, 100), name));
        if (scan->unnamed && scan->unnamed[i])
            source->warn(rq, source->warn_arg,
                         bb_format(rq,
                                   "column %zu has no name; its values, the first in row %lld, "
                                   "are ignored",
                                   i + 1, (long long)scan->unnamed[i]));
    }
    return 0;
}

/* Stores the job as `arriving`, and adds the file's size to the organization's used bytes. */
static int upload_arrive(struct bb_request *rq, struct upload *upload)
{
    /*
     * $11 maximum number of the account's jobs that have not ended, $12 size of this job in bytes,
     * $13 quota of the organization in bytes. Jobs that have been `arriving` for more than 5
     * minutes are not counted, because a crash may have left them. upload_create() checks again.
     */
    static const struct bb_sql put = {
        "WITH r AS (SELECT (SELECT count(*) FROM bulk_job WHERE account = $2::bigint AND"
        " (status IN ('created', 'confirmed') OR (status = 'arriving' AND"
        " created_at > now() - interval '5 minutes'))) AS jobs,"
        " coalesce((SELECT bytes FROM bulk_usage WHERE organisation = $5::bigint), 0) AS used),"
        " put AS (INSERT INTO bulk_job (id, account, email, role, organisation, type, file, status,"
        " separator, header, rows, created_at, bytes) SELECT $1::uuid, $2::bigint, $3, $4::int,"
        " $5::bigint, $6, $7, 'arriving', $8, $9, $10::int, now(), $12::bigint FROM r"
        " WHERE r.jobs < $11::bigint AND r.used + $12::bigint <= $13::bigint)"
        " SELECT jobs, used FROM r",
        BB_SQL_WRITE,
    };
    const struct bulk_settings *settings = ((const struct bulk *)rq->state)->settings;
    const struct bulk_source *source = upload->source;
    struct bulk_job *job = upload->job;
    size_t length;

    *job = (struct bulk_job){
        .id = bb_new_uuid(rq),
        .account = source->who->account,
        .email = source->who->email,
        .role = source->who->role,
        .organization = source->organization,
        .type = source->type->name,
        .file = source->name,
        .separator = bb_format(rq, "%c", upload->scan.separator),
        .header = bb_json(rq, upload->scan.header, &length),
        .rows = (int64_t)upload->scan.rows,
    };
    job->bytes = JOB_BYTES + (int64_t)length;
    int64_t bytes = job->bytes, quota = settings->bytes_per_organization;

    for (size_t i = 0; i < upload->scan.part_count; i++)
        bytes += (int64_t)(upload->scan.parts[i].end - upload->scan.parts[i].begin);
    const struct bb_rows *rows =
        bb_query(rq, &put,
                 BB_ARGS(bb_t(job->id), bb_i(job->account), bb_t(job->email), bb_i(job->role),
                         bb_i(job->organization), bb_t(job->type), bb_t(job->file),
                         bb_t(job->separator), bb_t(job->header), bb_i(job->rows),
                         bb_i(settings->jobs_per_account), bb_i(bytes), bb_i(quota)));

    if (!rows)
        return bb_failed(rq);
    if (bb_cell_int(rq, rows, 0, 0) >= settings->jobs_per_account)
        return bb_fail(
            rq, 409,
            "You have %lld bulk uploads that have not ended: confirm, cancel or delete some",
            (long long)settings->jobs_per_account);
    upload->left = quota - bb_cell_int(rq, rows, 0, 1);
    return bytes > upload->left ? upload_over_quota(rq) : 0;
}

static void upload_created(struct bb_request *rq, struct bb_tx *tx, void *job)
{
    (void)rq, (void)tx;
    ((struct bulk_job *)job)->created = true;
}

/* Makes the job visible. Returns the status of the response, or 0 for the command. */
static int upload_create(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    /* Fails for a job that the sweep has deleted. */
    static const struct bb_sql create = {
        "WITH made AS (UPDATE bulk_job SET status = 'created', doubtful = $2::int,"
        " warned = $3::int, bytes = $4::bigint WHERE id = $1::uuid AND status = 'arriving'"
        " RETURNING *) SELECT " BULK_JOB ", busbar_require(j.id IS NOT NULL, 503, '" REMOVED "')"
        " FROM (SELECT) one LEFT JOIN made j ON true",
        BB_SQL_WRITE,
    };
    /* $1 organization, $2 quota of the organization in bytes, $3 account, $4 jobs per account */
    static const struct bb_sql fit = {
        "SELECT busbar_require((SELECT bytes FROM bulk_usage WHERE organisation = $1::bigint)"
        " <= $2::bigint, 409, 'The organization may have at most ' || $2::bigint || ' bytes of"
        " bulk uploads: delete bulk uploads that have ended'),"
        " busbar_require((SELECT count(*) FROM bulk_job WHERE account = $3::bigint"
        " AND status IN ('created', 'confirmed')) <= $4::bigint, 409, 'You have ' || $4::bigint"
        " || ' bulk uploads that have not ended: confirm, cancel or delete some')",
        0,
    };
    const struct bulk *bulk = rq->state;
    const struct upload *upload = arg;
    struct bulk_job *job = upload->job;

    const struct bb_rows *rows = bb_tx_query_or_end(
        rq, tx, &create,
        BB_ARGS(bb_t(job->id), bb_i(job->doubtful), bb_i(job->warned), bb_i(job->bytes)));

    bb_tx_query_or_end(rq, tx, &fit,
                       BB_ARGS(bb_i(job->organization),
                               bb_i(bulk->settings->bytes_per_organization), bb_i(job->account),
                               bb_i(bulk->settings->jobs_per_account)));
    bb_after(rq, tx, upload_created, job);
    if (upload->source->command)
        return 0;
    return bb_reply(rq, 201, bb_row_fields(rq, rows, 0, 0, bulk_job_fields, BULK_JOB_MEMBERS));
}

int bulk_take(struct bb_request *rq, const struct bulk_source *source, struct bulk_job *job)
{
    /* Does not delete a job whose commit succeeded but whose commit response was lost. */
    static const struct bb_sql drop = {
        "DELETE FROM bulk_job WHERE id = $1::uuid AND status = 'arriving'", BB_SQL_WRITE};
    const struct bulk_type *type = source->type;
    struct upload *upload = bb_alloc(rq, sizeof(*upload));
    struct scan *scan = &upload->scan;

    upload->source = source;
    upload->job = job;
    *scan = (struct scan){.path = source->path,
                          .part_rows = BULK_PART_ROWS,
                          .rows_max = 200000,
                          .is_column = upload_is_column,
                          .type = type,
                          .names = ""};
    for (size_t i = 0; i < type->rows->columns.count; i++)
        scan->names = bb_format(rq, "%s%s%s", scan->names, i ? ", " : "",
                                BB_ROW(bb_field, type->rows->columns, i)->name);
    bb_defer(rq, upload_drop, upload);
    if (bb_offload(rq, BULK_POOL, scan_run, scan))
        return bb_failed(rq);
    if (scan->status)
        return bb_fail_text(rq, scan->status, scan->why);
    int status = upload_find_columns(rq, upload);

    if (!status)
        status = upload_arrive(rq, upload);
    if (status)
        return status;
    status = upload_check_parts(rq, upload);
    if (!status)
        status = bb_transaction(rq, upload_create, upload);
    if (!job->created && !bb_query(rq, &drop, BB_ARGS(bb_t(job->id))))
        bb_log(rq, BB_INFO, "the rest of a refused bulk upload is deleted by the next sweep");
    return status;
}

bool bulk_is_csv(const char *name)
{
    size_t length = strlen(name);

    return length >= 4 && !strcasecmp(name + length - 4, ".csv");
}

/* ---- the route ---- */

static void upload_warn(struct bb_request *rq, void *arg, const char *text)
{
    (void)arg;
    bb_warn_text(rq, text);
}

int bulk_upload(struct bb_request *rq)
{
    const struct bb_file *file = bb_file(rq, 0);
    struct bulk_source source = {.type = bulk_type_named(rq->state, bb_arg(rq, "type")),
                                 .who = rq->principal,
                                 .warn = upload_warn};

    if (!source.type)
        return bb_invalid(rq, "type", "must be one of: %s", bulk_type_names(rq));
    if (!(source.type->rows->roles & rq->principal->role))
        return bb_fail_text(rq, 403, NULL);
    int refused = bb_home(rq, bb_arg_int(rq, "organizationId", 0), &source.organization);

    if (refused)
        return refused;
    if (rq->principal->role == BB_ROLE_ADMIN) /* others can only name organizations that exist */
        organization_check(rq, source.organization);
    if (!file)
        return bb_invalid(rq, "file",
                          "is required: a part of multipart/form-data with the name of a file");
    if (!bulk_is_csv(file->name))
        return bb_invalid(rq, file->part,
                          "must be a .csv file with a name of up to 255 characters");
    source.path = file->path;
    source.name = file->name;
    return bulk_take(rq, &source, bb_alloc(rq, sizeof(struct bulk_job)));
}
