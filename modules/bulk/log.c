/*
 * GET /api/bulk-upload/bulk-upload-log/:bulkUploadId: the rows of a job with their outcomes, a page
 * at a time; GET …/:bulkUploadId/failed.csv: the rows that are not stored; GET …/template.csv.
 *
 * A row with a finding (bulk_finding: its problems) has failed. Of the other rows, those up to the
 * job's cursor are stored. So failed rows are read from their findings, and other rows from their
 * parts. A request has the page and one part in memory. A page of very large rows ends early, when
 * PAGE_BYTES of parts were read.
 */
#include <string.h>

#include "modules/bulk/bulk.h"
#include "modules/common/pieces.h"

enum { PAGE = 100, PAGE_BYTES = 1 << 20 };

struct page {
    const struct bulk_job *job;
    const struct bulk_columns *columns;
    const char *status; /* the page shows only rows with this status; NULL: all */
    const char *rest;   /* status of rows after the job's cursor that have not failed */
    int64_t after;
    size_t limit;
    json_t *rows;
    size_t bytes;   /* total size of the parts that were read */
    int64_t behind; /* number of the last row that was read */
    bool end;       /* no part is left */
    bool more;      /* the page is full, and there may be more rows */
};

/* Adds rows of the next part to the page. Returns 0, or the status of the response sent. */
static int log_part_rows(struct bb_request *rq, void *arg)
{
    struct page *page = arg;
    int64_t cursor = page->job->cursor;
    bool success = page->status && !strcmp(page->status, "success");
    struct bulk_sought sought = {.after = page->behind,
                                 .until = success ? cursor : INT64_MAX,
                                 .rows = page->status ? BULK_GOOD_ROWS : BULK_ALL_ROWS,
                                 .most = page->status ? 0 : page->limit + 1};
    struct bulk_part part;

    if (page->status && !success && sought.after < cursor)
        sought.after = cursor;
    int refused = bulk_part_next(rq, page->columns, page->job->id, &sought, &part);

    page->end = !part.batch;
    if (refused || page->end)
        return refused;
    for (size_t i = 0; i < part.batch->count; i++) {
        const struct bb_bulk_row *row = part.batch->rows[i];
        json_t *errors = bulk_found(part.findings, row);
        json_t *warnings = bulk_found(part.warnings, row);
        const char *status = errors ? "failed" : row->number <= cursor ? "success" : page->rest;
        const char *name = bulk_name_of(rq, part.batch->type, row);

        if (page->status && strcmp(page->status, status) != 0)
            continue;
        page->more = json_array_size(page->rows) == page->limit;
        if (page->more)
            return 0;
        bb_push(rq, page->rows,
                json_pack("{s:I, s:s?, s:s, s:o, s:o}", "rowNumber", (json_int_t)row->number,
                          "externalId", name, "status", status, "errors",
                          errors ? json_incref(errors) : json_array(), "warnings",
                          warnings ? json_incref(warnings) : json_array()));
        page->after = row->number;
    }
    page->behind = part.last;
    page->bytes += part.bytes;
    page->more = page->bytes > PAGE_BYTES && json_array_size(page->rows);
    return 0;
}

/* In this response `rows` is the list of rows. In other responses `rows` is the number of rows. */
int bulk_log(struct bb_request *rq)
{
    /* $1 job, $2 last row seen, $3 number of rows. Returns bulk_row_fields. */
    static const struct bb_sql failed = {
        "SELECT f.number, f.name, 'failed', f.problems, coalesce(w.warnings, '[]')"
        " FROM bulk_finding f LEFT JOIN bulk_warning w ON w.job = f.job AND w.number = f.number"
        " WHERE f.job = $1::uuid AND f.number > $2::bigint ORDER BY f.number LIMIT $3::bigint",
        BB_SQL_LIST,
    };
    struct bulk_job job = bulk_job_find(rq);
    int refused = 0;
    struct page page = {
        .job = &job,
        .columns = bulk_job_columns(rq, &job),
        .status = bb_arg(rq, "status"),
        .rest = strcmp(job.status, "cancelled") ? "pending" : "cancelled",
        .after = bb_arg_int(rq, "after", 0),
        .limit = (size_t)bb_arg_int(rq, "limit", PAGE),
        .rows = bb_hold(rq, json_array()),
    };

    page.behind = page.after;
    if (page.status && !strcmp(page.status, "failed")) {
        const struct bb_rows *rows = bb_query_or_end(
            rq, &failed, BB_ARGS(bb_t(job.id), bb_i(page.after), bb_i((int64_t)page.limit + 1)));
        size_t count = bb_count(rq, rows);

        page.more = count > page.limit;
        count -= page.more;
        page.rows = bb_hold(rq, bb_rows_fields(rq, rows, count, 0, bulk_row_fields, 5));
        if (count)
            page.after = bb_cell_int(rq, rows, count - 1, 0);
    } else {
        page.end = page.status && strcmp(page.status, "success") != 0 &&
                   strcmp(page.status, page.rest) != 0; /* no row can have this status */
        while (!page.end && !page.more && !refused)
            refused = bb_scratch(rq, log_part_rows, &page);
        if (refused == 503)
            bb_reply_header(rq, "Retry-After", "1"); /* a header set in bb_scratch() is lost */
    }
    if (refused)
        return refused;
    json_t *json = bb_hold(rq, bulk_job_json(rq, &job)), *row, *problem;
    size_t i, k;

    json_array_foreach (page.rows, i, row) {
        json_array_foreach (json_object_get(row, "errors"), k, problem)
            bb_set_code(rq, problem);
        json_array_foreach (json_object_get(row, "warnings"), k, problem)
            bb_set_code(rq, problem);
    }
    bb_set(rq, json, "rows", json_incref(page.rows));
    if (page.more)
        bb_reply_next(rq, bb_format(rq, "%lld", (long long)page.after));
    return bb_reply(rq, 200, json_incref(json));
}

/* ---- files ---- */

int bulk_failed_csv(struct bb_request *rq)
{
    static const struct pieces_source source = {.name = "failed.csv", .write = bulk_failed_write};
    const struct bulk *bulk = rq->state;
    struct bulk_job job = bulk_job_find(rq);

    slot_take(rq, bulk->exports);
    return pieces_begin(rq, bulk->exports, &source, bulk_failed_new(&job, true));
}

/* Sends a CSV file with a header line of all columns of a type, and a row of examples. */
int bulk_template(struct bb_request *rq)
{
    const struct bulk_type *type = bulk_type_named(rq->state, bb_arg(rq, "type"));
    struct csv *csv = bb_alloc(rq, sizeof(*csv));

    if (!type)
        return bb_invalid(rq, "type", "must be one of: %s", bulk_type_names(rq));
    bb_defer(rq, csv_drop, csv);
    for (size_t i = 0; i < type->rows->columns.count; i++)
        csv_plain(csv, BB_ROW(bb_field, type->rows->columns, i)->name);
    csv_end_row(csv);
    for (size_t i = 0; i < type->rows->columns.count; i++)
        csv_text(csv, BB_ROW(bb_field, type->rows->columns, i)->example);
    csv_end_row(csv);
    if (csv->failed)
        return bb_no_memory(rq);
    bb_reply_header(rq, "Content-Disposition",
                    bb_format(rq, "attachment; filename=\"template-%s.csv\"", type->name));
    return bb_reply_bytes(rq, 200, "text/csv; charset=utf-8", csv->bytes, csv->length);
}
