/*
 * GET /api/bulk-upload/bulk-upload-log/:bulkUploadId: the rows of a job with their outcomes, a page
 * at a time.
 *
 * A row with a finding has failed, from the check on until it is stored. The other rows up to the
 * job's cursor are stored. So failed rows are searched by their findings, other rows by their
 * parts. A request holds the page and one part at a time in memory. A page ends early if its rows
 * are so large that more than PAGE_BYTES of parts were read for it.
 */
#include <string.h>

#include "modules/bulk/job/bulk.h"

enum { PAGE = 100, PAGE_BYTES = 1 << 20 };

struct page {
    const struct bulk_job *job;
    const struct bulk_type *type;
    const struct bulk_columns *columns;
    const char *status; /* NULL: all */
    int64_t after;
    size_t limit;
    json_t *rows;
    size_t named;   /* failed rows at the start of the page that already have their name */
    size_t bytes;   /* of parts that were read */
    int64_t behind; /* the last row of the part read last */
    bool end;       /* no part is left */
    bool more;      /* the page is full, and there may be more rows */
    bool lost;      /* out of memory */
};

/* $1 job, $2 last row seen, $3 number of rows */
static const struct bb_sql find_failed = {
    "SELECT f.number, f.name, f.problems, w.warnings FROM bulk_finding f LEFT JOIN bulk_warning w"
    " ON w.job = f.job AND w.number = f.number WHERE f.job = $1::uuid AND f.number > $2::bigint"
    " ORDER BY f.number LIMIT $3::bigint",
    BB_SQL_LONG,
};

/* $1 job, $2 last row seen, $3 and $4: the part must end after $3 and begin at or before $4 */
static const struct bb_sql find_part = {
    "SELECT p.first_row, p.last_row, p.bytes, (SELECT json_object_agg(f.number, f.problems::json)"
    " FROM bulk_finding f WHERE f.job = p.job AND f.number > $2::bigint"
    " AND f.number BETWEEN p.first_row AND p.last_row),"
    " (SELECT json_object_agg(w.number, w.warnings::json)"
    " FROM bulk_warning w WHERE w.job = p.job AND w.number > $2::bigint"
    " AND w.number BETWEEN p.first_row AND p.last_row)"
    " FROM bulk_part p WHERE p.job = $1::uuid AND p.last_row > greatest($2::bigint, $3::bigint)"
    " AND p.first_row <= $4::bigint AND (NOT $5::boolean OR p.failed < p.rows)"
    " ORDER BY p.last_row LIMIT 1",
    BB_SQL_LONG,
};

/* Takes ownership of errors and warnings. */
static void add(struct page *page, int64_t number, const char *name, const char *status,
                json_t *errors, json_t *warnings)
{
    json_t *row =
        json_pack("{s:I, s:s?, s:s, s:o, s:o}", "rowNumber", (json_int_t)number, "externalId", name,
                  "status", status, "errors", errors, "warnings", warnings);

    page->lost = json_array_append_new(page->rows, row) != 0 || page->lost;
    page->after = number;
}

/* ---- failed rows ---- */

/* $1 job, $2 row */
static const struct bb_sql part_with = {
    "SELECT first_row, bytes FROM bulk_part WHERE job = $1::uuid AND last_row >= $2::bigint"
    " ORDER BY last_row LIMIT 1",
    BB_SQL_LONG,
};

static int64_t number_of(const json_t *row)
{
    return json_integer_value(json_object_get(row, "rowNumber"));
}

/*
 * A finding of rows that contradict each other is stored without a name, so the name is taken from
 * the row's cell. Rows of the page before this one are done.
 */
static void name_row(struct bb_request *rq, struct page *page, const struct bb_bulk_row *row)
{
    const char *name = bulk_name_shown(rq, page->type, row);
    json_t *at = json_array_get(page->rows, page->named);

    if (!at || number_of(at) != row->number)
        return;
    page->named++;
    if (name && json_is_null(json_object_get(at, "externalId")))
        page->lost = json_object_set_new(at, "externalId", json_string(name)) != 0 || page->lost;
}

/* Names the rows of the page that belong to the same part as its next row without a name. */
static int name_part(struct bb_request *rq, void *arg)
{
    struct page *page = arg;
    int64_t number = number_of(json_array_get(page->rows, page->named));
    const struct bb_rows *part =
        bb_query(rq, &part_with, BB_ARGS(bb_t(page->job->id), bb_i(number)));

    if (!part)
        return bb_failed(rq);
    if (!bb_count(rq, part)) { /* deleted meanwhile */
        page->named = SIZE_MAX;
        return 0;
    }
    const char *bytes = bb_cell(rq, part, 0, 1);
    const struct bulk_batch *batch =
        bulk_batch_of(rq, page->type, page->columns, bytes, strlen(bytes),
                      bb_cell_int(rq, part, 0, 0), number - 1, BB_BULK_ROWS_MAX);

    page->lost = page->lost || batch->why || !batch->count;
    for (size_t i = 0; i < batch->count; i++)
        name_row(rq, page, batch->rows[i]);
    return 0;
}

static bool has_name(const struct page *page, size_t index)
{
    return json_is_string(json_object_get(json_array_get(page->rows, index), "externalId"));
}

static int name_rows(struct bb_request *rq, struct page *page)
{
    size_t count = page->type ? json_array_size(page->rows) : 0;
    int refused = 0;

    while (!refused && !page->lost) {
        while (page->named < count && has_name(page, page->named))
            page->named++;
        if (page->named >= count)
            break;
        refused = bb_scratch(rq, name_part, page);
    }
    return refused;
}

static json_t *read_list(struct bb_request *rq, const char *text)
{
    return text ? bb_json_read(rq, text) : json_array();
}

static int failed_rows(struct bb_request *rq, struct page *page)
{
    const struct bb_rows *rows =
        bb_query(rq, &find_failed,
                 BB_ARGS(bb_t(page->job->id), bb_i(page->after), bb_i((int64_t)page->limit + 1)));

    if (!rows)
        return bb_failed(rq);
    size_t count = bb_count(rq, rows);

    page->more = count > page->limit;
    for (size_t i = 0; i < count && i < page->limit; i++)
        add(page, bb_cell_int(rq, rows, i, 0), bb_cell(rq, rows, i, 1), "failed",
            bb_json_read(rq, bb_cell(rq, rows, i, 2)), read_list(rq, bb_cell(rq, rows, i, 3)));
    return name_rows(rq, page);
}

/* ---- rows of parts ---- */

static const char *status_of(const struct page *page, int64_t number)
{
    if (number <= page->job->cursor)
        return "success";
    return strcmp(page->job->status, "cancelled") != 0 ? "pending" : "cancelled";
}

/* Returns the errors or warnings of a row, or an empty list; the caller frees it. */
static json_t *list_of(const json_t *all, const char *key)
{
    json_t *list = json_object_get(all, key);

    return list ? json_incref(list) : json_array();
}

static void add_rows(struct bb_request *rq, struct page *page, const struct bulk_batch *batch,
                     const json_t *findings, const json_t *warnings)
{
    char key[24];

    for (size_t i = 0; i < batch->count; i++) {
        const struct bb_bulk_row *row = batch->rows[i];

        snprintf(key, sizeof(key), "%lld", (long long)row->number);
        const char *status =
            json_object_get(findings, key) ? "failed" : status_of(page, row->number);

        if (page->status && strcmp(page->status, status) != 0)
            continue;
        page->more = json_array_size(page->rows) == page->limit;
        if (page->more)
            return;
        add(page, row->number, bulk_name_shown(rq, page->type, row), status, list_of(findings, key),
            list_of(warnings, key));
    }
}

/* Adds the rows of the next part. Returns 0, or the status of the response sent. */
static int part_rows(struct bb_request *rq, void *arg)
{
    struct page *page = arg;
    bool success = page->status && !strcmp(page->status, "success");
    bool open = page->status && !success;
    const struct bb_rows *parts = bb_query(
        rq, &find_part,
        BB_ARGS(bb_t(page->job->id), bb_i(page->behind), bb_i(open ? page->job->cursor : 0),
                bb_i(success ? page->job->cursor : INT64_MAX), bb_b(page->status != NULL)));

    if (!parts)
        return bb_failed(rq);
    page->end = !bb_count(rq, parts);
    if (page->end)
        return 0;
    const char *bytes = bb_cell(rq, parts, 0, 2), *found_text = bb_cell(rq, parts, 0, 3);
    const char *warned_text = bb_cell(rq, parts, 0, 4);
    json_t *findings = bb_json_hold(rq, bb_json_read(rq, found_text ? found_text : "{}"));
    json_t *warnings = bb_json_hold(rq, bb_json_read(rq, warned_text ? warned_text : "{}"));
    const struct bulk_batch *batch =
        bulk_batch_of(rq, page->type, page->columns, bytes, strlen(bytes),
                      bb_cell_int(rq, parts, 0, 0), page->behind, BB_BULK_ROWS_MAX);

    page->lost = page->lost || !findings || !warnings || batch->why;
    if (!page->lost)
        add_rows(rq, page, batch, findings, warnings);
    page->behind = bb_cell_int(rq, parts, 0, 1);
    page->bytes += strlen(bytes);
    if (page->bytes > PAGE_BYTES && json_array_size(page->rows) && !page->more)
        page->more = true;
    return 0;
}

/* Returns whether a row with the requested status can exist, judging by the job's totals. */
static bool can_match(const struct page *page)
{
    const struct bulk_job *job = page->job;
    bool rest = job->rows > bulk_done(job), cancelled = !strcmp(job->status, "cancelled");

    if (!page->status)
        return true;
    if (!strcmp(page->status, "success"))
        return job->succeeded > 0;
    return rest && (strcmp(page->status, "pending") != 0 ? cancelled : !job->ended_at);
}

/*
 * Every part that is read has rows to show, except the one at the cursor and the one at the start
 * of the page.
 */
static int other_rows(struct bb_request *rq, struct page *page)
{
    int refused = 0;

    page->behind = page->after;
    page->end = !can_match(page);
    while (!page->end && !page->more && !page->lost && !refused)
        refused = bb_scratch(rq, part_rows, page);
    return refused;
}

static int answer(struct bb_request *rq, struct page *page)
{
    json_t *json = page->lost ? NULL : bulk_job_json(page->job);

    if (!json || json_object_set(json, "rows", page->rows)) {
        json_decref(json);
        return bulk_reply(rq, 503, NULL);
    }
    if (page->more)
        bb_reply_next(rq, bb_format(rq, "%lld", (long long)page->after));
    return bb_reply(rq, 200, json);
}

/* In other responses `rows` is the number of rows; here it is the rows themselves. */
int bulk_log(struct bb_request *rq)
{
    const struct bulk *bulk = rq->state;
    struct bulk_job job;
    int refused = bulk_job_find(rq, &job);

    if (!refused)
        refused = bulk_job_read_header(rq, &job);
    if (refused)
        return refused;
    struct page page = {
        .job = &job,
        .type = bulk_type_named(bulk, job.type),
        .columns = bulk_job_columns(rq, bulk, &job),
        .status = bb_arg(rq, "status"),
        .after = bb_arg_int(rq, "after", 0),
        .limit = (size_t)bb_arg_int(rq, "limit", PAGE),
        .rows = bb_json_hold(rq, json_array()),
    };

    page.lost = !page.rows || !page.columns;
    if (!page.lost && page.status && !strcmp(page.status, "failed"))
        refused = failed_rows(rq, &page);
    else if (!page.lost)
        refused = other_rows(rq, &page);
    if (refused == 503)
        bb_reply_header(rq, "Retry-After", "1"); /* the header was in the scratch memory */
    return refused ? refused : answer(rq, &page);
}
