/*
 * GET /api/bulk-upload/bulk-upload-log/:bulkUploadId: the rows of a job with their outcomes, a page
 * at a time; GET …/:bulkUploadId/failed.csv: the rows that are not stored; GET …/template.csv.
 *
 * A row with a finding has failed, from the check on until it is stored. The other rows up to the
 * job's cursor are stored. So failed rows are searched by their findings, other rows by their
 * parts. A request holds the page and one part at a time in memory. A page ends early if its rows
 * are so large that more than PAGE_BYTES of parts were read for it.
 */
#include <stdlib.h>
#include <string.h>

#include "modules/bulk/bulk.h"
#include "modules/common/pieces.h"
#include "modules/common/slots.h"

enum { PAGE = 100, PAGE_BYTES = 1 << 20 };

struct page {
    const struct bulk_job *job;
    const struct bulk_columns *columns;
    const char *status; /* NULL: all */
    int64_t after;
    size_t limit;
    json_t *rows;
    size_t bytes;   /* of parts that were read */
    int64_t behind; /* the last row of the part read last */
    bool end;       /* no part is left */
    bool more;      /* the page is full, and there may be more rows */
    bool lost;      /* out of memory */
};

/* Takes ownership of errors and warnings; NULL means out of memory. */
static void add_row(struct page *page, int64_t number, const char *name, const char *status,
                    json_t *errors, json_t *warnings)
{
    json_t *row =
        json_pack("{s:I, s:s?, s:s, s:o, s:o}", "rowNumber", (json_int_t)number, "externalId", name,
                  "status", status, "errors", errors, "warnings", warnings);

    page->lost |= json_array_append_new(page->rows, row) != 0;
    page->after = number;
}

static int failed_rows(struct bb_request *rq, struct page *page)
{
    /* $1 job, $2 last row seen, $3 number of rows */
    static const struct bb_sql find = {
        "SELECT f.number, f.name, f.problems, coalesce(w.warnings, '[]') FROM bulk_finding f"
        " LEFT JOIN bulk_warning w ON w.job = f.job AND w.number = f.number"
        " WHERE f.job = $1::uuid AND f.number > $2::bigint ORDER BY f.number LIMIT $3::bigint",
        BB_SQL_LONG,
    };
    const struct bb_rows *rows = bb_query(
        rq, &find, BB_ARGS(bb_t(page->job->id), bb_i(page->after), bb_i((int64_t)page->limit + 1)));

    if (!rows)
        return bb_failed(rq);
    page->more = bb_count(rq, rows) > page->limit;
    for (size_t i = 0; i < bb_count(rq, rows) && i < page->limit; i++)
        add_row(page, bb_cell_int(rq, rows, i, 0), bb_cell(rq, rows, i, 1), "failed",
                bb_json_read(rq, bb_cell(rq, rows, i, 2)),
                bb_json_read(rq, bb_cell(rq, rows, i, 3)));
    return 0;
}

/* Returns the errors or warnings of a row, or an empty list; the caller frees it. */
static json_t *list_of(const json_t *all, const char *key)
{
    json_t *list = json_object_get(all, key);

    return list ? json_incref(list) : json_array();
}

/* Adds the rows of the next part. Returns 0, or the status of the response sent. */
static int part_rows(struct bb_request *rq, void *arg)
{
    /*
     * $1 job, $2 last row seen, $3 and $4: the part must end after $3 and begin at or before $4,
     * $5 whether it must have rows that have not failed
     */
    static const struct bb_sql find = {
        "SELECT p.first_row, p.last_row, p.bytes, coalesce((SELECT json_object_agg(f.number,"
        " f.problems::json) FROM bulk_finding f WHERE f.job = p.job AND f.number > $2::bigint"
        " AND f.number BETWEEN p.first_row AND p.last_row), '{}'),"
        " coalesce((SELECT json_object_agg(w.number, w.warnings::json)"
        " FROM bulk_warning w WHERE w.job = p.job AND w.number > $2::bigint"
        " AND w.number BETWEEN p.first_row AND p.last_row), '{}')"
        " FROM bulk_part p WHERE p.job = $1::uuid AND p.last_row > greatest($2::bigint, $3::bigint)"
        " AND p.first_row <= $4::bigint AND (NOT $5::boolean OR p.failed < p.rows)"
        " ORDER BY p.last_row LIMIT 1",
        BB_SQL_LONG,
    };
    struct page *page = arg;
    int64_t cursor = page->job->cursor;
    const char *rest = strcmp(page->job->status, "cancelled") ? "pending" : "cancelled";
    bool success = page->status && !strcmp(page->status, "success");
    const struct bb_rows *parts =
        bb_query(rq, &find,
                 BB_ARGS(bb_t(page->job->id), bb_i(page->behind),
                         bb_i(page->status && !success ? cursor : 0),
                         bb_i(success ? cursor : INT64_MAX), bb_b(page->status != NULL)));

    if (!parts)
        return bb_failed(rq);
    page->end = !bb_count(rq, parts);
    if (page->end)
        return 0;
    const char *bytes = bb_cell(rq, parts, 0, 2);
    json_t *findings = bb_json_hold(rq, bb_json_read(rq, bb_cell(rq, parts, 0, 3)));
    json_t *warnings = bb_json_hold(rq, bb_json_read(rq, bb_cell(rq, parts, 0, 4)));
    const struct bulk_batch *batch = bulk_batch_of(
        rq, page->columns, bytes, bb_cell_int(rq, parts, 0, 0), page->behind, BB_BULK_ROWS_MAX);

    page->lost |= !findings || !warnings || !batch;
    for (size_t i = 0; !page->lost && i < batch->count; i++) {
        const struct bb_bulk_row *row = batch->rows[i];
        const char *status = row->number <= cursor ? "success" : rest;
        const char *name = bulk_name_of(rq, batch->type, row);
        char key[24];

        snprintf(key, sizeof(key), "%lld", (long long)row->number);
        if (json_object_get(findings, key))
            status = "failed";
        if (page->status && strcmp(page->status, status) != 0)
            continue;
        page->more = json_array_size(page->rows) == page->limit;
        if (page->more)
            return 0;
        add_row(page, row->number, name, status, list_of(findings, key), list_of(warnings, key));
    }
    page->behind = bb_cell_int(rq, parts, 0, 1);
    page->bytes += strlen(bytes);
    page->more = page->bytes > PAGE_BYTES && json_array_size(page->rows);
    return 0;
}

/* Returns whether a row with the requested status can exist, judging by the job's totals. */
static bool can_match(const struct page *page)
{
    const struct bulk_job *job = page->job;
    bool cancelled = !strcmp(job->status, "cancelled");

    if (!page->status)
        return true;
    if (!strcmp(page->status, "success"))
        return job->succeeded > 0;
    return job->rows > bulk_done(job) &&
           (strcmp(page->status, "pending") != 0 ? cancelled : !job->ended_at);
}

/* In other responses `rows` is the number of rows; here it is the rows themselves. */
int bulk_log(struct bb_request *rq)
{
    struct bulk_job job;
    int refused = bulk_job_find(rq, &job);

    if (refused)
        return refused;
    struct page page = {
        .job = &job,
        .columns = bulk_job_columns(rq, &job),
        .status = bb_arg(rq, "status"),
        .after = bb_arg_int(rq, "after", 0),
        .limit = (size_t)bb_arg_int(rq, "limit", PAGE),
        .rows = bb_json_hold(rq, json_array()),
    };

    page.lost = !page.rows || !page.columns;
    page.behind = page.after;
    if (page.status && !strcmp(page.status, "failed")) {
        refused = failed_rows(rq, &page);
    } else {
        /* Each part that is read has rows to show, except those at the cursor and at the start. */
        page.end = !can_match(&page);
        while (!page.end && !page.more && !page.lost && !refused)
            refused = bb_scratch(rq, part_rows, &page);
        if (refused == 503)
            bb_reply_header(rq, "Retry-After", "1"); /* the header was in the scratch memory */
    }
    if (refused)
        return refused;
    json_t *json = page.lost ? NULL : bulk_job_json(&job);

    if (!json || json_object_set(json, "rows", page.rows)) {
        json_decref(json);
        return bb_no_memory(rq);
    }
    if (page.more)
        bb_reply_next(rq, bb_format(rq, "%lld", (long long)page.after));
    return bb_reply(rq, 200, json);
}

/* ---- failed.csv: a stream of one part's rows at a time, which holds a slot of its account ---- */

struct failed {
    int64_t account; /* holds a slot for this account */
    int64_t behind;  /* the last row of the previous part */
    char id[BULK_ID];
};

static void drop_failed(struct bb_host *host, void *arg)
{
    const struct bulk *bulk = host->state;
    struct failed *failed = arg;

    slot_release(bulk->exports, failed->account);
    free(failed);
}

static enum pieces_next send_part(struct bb_request *rq, struct pieces *pieces, void *arg)
{
    struct failed *failed = arg;
    struct csv *csv = bb_alloc(rq, sizeof(*csv));

    bb_defer(rq, csv_drop, csv);
    int found = bulk_failed_part(rq, failed->id, &failed->behind, csv);

    if (found <= 0)
        return found ? PIECES_CUT : PIECES_WHOLE;
    return pieces_send(pieces, csv->bytes, csv->length) ? PIECES_CUT : PIECES_MORE;
}

int bulk_failed_csv(struct bb_request *rq)
{
    static const struct pieces_source source = {.type = "text/csv; charset=utf-8",
                                                .name = "failed.csv",
                                                .ready = 256 * 1024,
                                                .work = send_part,
                                                .drop = drop_failed};
    const struct bulk *bulk = rq->state;
    struct csv *csv = bb_alloc(rq, sizeof(*csv));
    struct bulk_job job;
    int refused = bulk_job_find(rq, &job);

    if (refused)
        return refused;
    json_t *header = bb_json_hold(rq, bb_json_read(rq, job.header));

    bb_defer(rq, csv_drop, csv);
    csv->separator = job.separator[0];
    bulk_failed_header(csv, header, true);
    refused = slot_take(rq, bulk->exports);
    if (refused)
        return refused;
    struct failed *failed = calloc(1, sizeof(*failed));

    if (!failed) {
        slot_release(bulk->exports, rq->principal->account);
        return bb_no_memory(rq);
    }
    failed->account = rq->principal->account;
    snprintf(failed->id, sizeof(failed->id), "%s", job.id);
    return pieces_begin(rq, &source, failed, header && !csv->failed ? csv->bytes : NULL,
                        csv->length);
}

/* A header line with all columns of a type, and an example. */
int bulk_template(struct bb_request *rq)
{
    const char *name = bb_arg(rq, "type");
    const struct bulk_type *type = bulk_type_named(rq->state, name ? name : "Devices");
    struct csv *csv = bb_alloc(rq, sizeof(*csv));

    if (!type)
        return bb_invalid(rq, "type", "must be one of: %s", bulk_type_names(rq));
    bb_defer(rq, csv_drop, csv);
    for (size_t i = 0; i < type->columns; i++)
        csv_plain(csv, bulk_column(type, i)->name);
    csv_end_row(csv);
    for (size_t i = 0; i < type->columns; i++)
        csv_text(csv, bulk_column(type, i)->example);
    csv_end_row(csv);
    if (csv->failed)
        return bb_no_memory(rq);
    bb_reply_header(rq, "Content-Disposition",
                    bb_format(rq, "attachment; filename=\"template-%s.csv\"", type->name));
    return bb_reply_bytes(rq, 200, "text/csv; charset=utf-8", csv->bytes, csv->length);
}
