/* A job in the database and in the API. */
#include <stddef.h>
#include <string.h>

#include <busbar/event.h>

#include "modules/bulk/job/bulk.h"

int bulk_emit_finished(struct bb_request *rq, struct bb_tx *tx, const struct bulk_job *job,
                       const char *status)
{
    struct bb_audience audience = {.size = sizeof(audience), .organization = job->organization};
    json_t *payload = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "bulkUploadId", job->id, "type", job->type,
        "fileName", job->file, "status", status, "organizationId", (json_int_t)job->organization,
        "rows", (json_int_t)job->rows, "succeeded", (json_int_t)job->succeeded, "failed",
        (json_int_t)job->failed, "cancelled", (json_int_t)(job->rows - bulk_done(job)));

    return bb_emit(rq, tx, "bulk.finished", payload, &audience);
}

static struct bulk_type type_of(const struct bb_given *given)
{
    const struct bb_bulk_rows *rows = given->interface;
    size_t most = rows->rows_max ? rows->rows_max : BULK_ROWS_DEFAULT;

    return (struct bulk_type){
        .name = given->name + strlen(BB_BULK_ROWS),
        .rows = rows,
        .host = given->host,
        .rows_max = most < BB_BULK_ROWS_MAX ? most : BB_BULK_ROWS_MAX,
        .together = rows->size > offsetof(struct bb_bulk_rows, together) && rows->together,
        .columns = rows->columns.count,
    };
}

void bulk_start(struct bb_host *host, void *state)
{
    struct bulk *bulk = state;
    struct bb_given given = {.size = sizeof(given)};

    while (bulk->type_count < BULK_TYPES_MAX &&
           bb_service_at(host, BB_BULK_ROWS, bulk->type_count, &given))
        bulk->types[bulk->type_count++] = type_of(&given);
    if (!bulk->type_count)
        bb_host_log(host, BB_WARN, "no loaded module provides a row type for bulk uploads");
}

const struct bulk_type *bulk_type_named(const struct bulk *bulk, const char *name)
{
    for (size_t i = 0; i < bulk->type_count; i++)
        if (!strcmp(bulk->types[i].name, name))
            return &bulk->types[i];
    return NULL;
}

int bulk_refuse_type(struct bb_request *rq)
{
    const struct bulk *bulk = rq->state;
    const char *names = "";

    for (size_t i = 0; i < bulk->type_count; i++)
        names = bb_format(rq, "%s%s%s", names, i ? ", " : "", bulk->types[i].name);
    return bb_invalid(rq, "type", "must be one of: %s", names);
}

struct call {
    const struct bulk_type *type;
    struct bb_bulk_row **rows;
    size_t count;
    struct bb_bulk_job job;
    struct bb_tx *tx;
};

static int call(struct bb_request *rq, void *arg)
{
    struct call *called = arg;
    const struct bb_bulk_rows *rows = called->type->rows;

    if (called->tx)
        return rows->store(rq, called->tx, &called->job, called->rows, called->count);
    return rows->check(rq, &called->job, called->rows, called->count);
}

int bulk_call(struct bb_request *rq, struct bb_tx *tx, const struct bulk_batch *batch,
              const struct bulk_job *job)
{
    struct call called = {.type = batch->type, .job = bulk_job_public(job), .tx = tx};
    struct bb_bulk_row **whole = bb_alloc(rq, (batch->count + 1) * sizeof(struct bb_bulk_row *));
    size_t count = 0, most = batch->type->rows_max;

    for (size_t i = 0; i < batch->count; i++)
        if (!batch->rows[i]->problems)
            whole[count++] = batch->rows[i];
    for (size_t from = 0; from < count; from += most) {
        called.rows = whole + from;
        called.count = count - from < most ? count - from : most;
        if (bb_call_as(rq, batch->type->host, call, &called))
            return -1;
    }
    return 0;
}

struct bulk_job bulk_job_of(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return (struct bulk_job){
        .id = bb_cell(rq, rows, row, 0),
        .email = bb_cell(rq, rows, row, 1),
        .type = bb_cell(rq, rows, row, 2),
        .file = bb_cell(rq, rows, row, 3),
        .status = bb_cell(rq, rows, row, 4),
        .reason = bb_cell(rq, rows, row, 5),
        .account = bb_cell_int(rq, rows, row, 6),
        .role = bb_cell_int(rq, rows, row, 7),
        .organization = bb_cell_int(rq, rows, row, 8),
        .rows = bb_cell_int(rq, rows, row, 9),
        .doubtful = bb_cell_int(rq, rows, row, 10),
        .warned = bb_cell_int(rq, rows, row, 11),
        .cursor = bb_cell_int(rq, rows, row, 12),
        .single = bb_cell_int(rq, rows, row, 13),
        .succeeded = bb_cell_int(rq, rows, row, 14),
        .failed = bb_cell_int(rq, rows, row, 15),
        .created_at = bb_cell(rq, rows, row, 16),
        .confirmed_at = bb_cell(rq, rows, row, 17),
        .ended_at = bb_cell(rq, rows, row, 18),
    };
}

struct bulk_job bulk_job_whole(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    struct bulk_job job = bulk_job_of(rq, rows, row);

    job.separator = bb_cell(rq, rows, row, 19);
    job.header = bb_cell(rq, rows, row, 20);
    return job;
}

int bulk_job_read_header(struct bb_request *rq, struct bulk_job *job)
{
    static const struct bb_sql find = {"SELECT separator, header FROM bulk_job WHERE id = $1::uuid",
                                       0};
    const struct bb_rows *rows = bb_query(rq, &find, BB_ARGS(bb_t(job->id)));

    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, "Bulk upload not found");
    job->separator = bb_cell(rq, rows, 0, 0);
    job->header = bb_cell(rq, rows, 0, 1);
    return 0;
}

int bulk_job_look(struct bb_request *rq, const struct bb_principal *who, const char *id,
                  struct bulk_job *job)
{
    static const struct bb_sql find = {"SELECT " BULK_JOB " FROM bulk_job j WHERE " BULK_MINE, 0};
    const struct bb_rows *rows = bb_query(rq, &find, BB_ARGS(BULK_MINE_ARGS(who, id)));

    if (!rows)
        return -1;
    if (!bb_count(rq, rows))
        return 0;
    *job = bulk_job_of(rq, rows, 0);
    return 1;
}

int bulk_job_find(struct bb_request *rq, struct bulk_job *job)
{
    int found = bulk_job_look(rq, BULK_CALLED(rq), job);

    if (found < 0)
        return bb_failed(rq);
    return found ? 0 : bb_fail(rq, 404, "Bulk upload not found");
}

int64_t bulk_done(const struct bulk_job *job)
{
    return job->succeeded + job->failed;
}

int64_t bulk_cancelled_behind(const struct bulk_job *job)
{
    return strcmp(job->status, "cancelled") != 0 ? INT64_MAX : job->cursor;
}

json_t *bulk_job_json(const struct bulk_job *job)
{
    return json_pack(
        "{s:s, s:s, s:s?, s:s, s:s, s:I, s:I, s:{s:I, s:I, s:I}, s:{s:I, s:I, s:I, s:I}, s:s, s:s?,"
        " s:s?}",
        "bulkUploadId", job->id, "status", job->status, "reason", job->reason, "type", job->type,
        "fileName", job->file, "organizationId", (json_int_t)job->organization, "rows",
        (json_int_t)job->rows, "check", "passed", (json_int_t)(job->rows - job->doubtful), "failed",
        (json_int_t)job->doubtful, "warned", (json_int_t)job->warned, "progress", "done",
        (json_int_t)bulk_done(job), "total", (json_int_t)job->rows, "succeeded",
        (json_int_t)job->succeeded, "failed", (json_int_t)job->failed, "createdAt", job->created_at,
        "confirmedAt", job->confirmed_at, "endedAt", job->ended_at);
}

int bulk_reply(struct bb_request *rq, int status, json_t *json)
{
    return json ? bb_reply(rq, status, json) : bb_fail(rq, 503, "Out of memory");
}

struct bb_bulk_job bulk_job_public(const struct bulk_job *job)
{
    return (struct bb_bulk_job){
        .size = sizeof(struct bb_bulk_job),
        .id = job->id,
        .organization = job->organization,
        .account = job->account,
        .email = job->email,
        .role = (unsigned)job->role,
        .file = job->file,
    };
}
