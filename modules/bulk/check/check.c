/*
 * The check of an upload. Part by part, the rows are parsed and checked by their type, and the part
 * is stored with the findings. Then rows that contradict each other are searched.
 */
#include <string.h>

#include "modules/bulk/check/claims.h"
#include "modules/bulk/csv/scan.h"
#include "modules/bulk/job/bulk.h"

enum { FINDINGS = 500 }; /* per statement */

struct check {
    const struct bulk_type *type;
    const struct bulk_columns *columns;
    const struct scan *scan;
    struct bulk_job *job;
    struct claims claims;
    const struct scan_part *part;
    int64_t left; /* bytes that the job may still use */
    size_t next;  /* next claim */
};

/* $1 job, $2 and $3 last and first row, $4 rows, $5 rows with problems, $6 bytes, $7 findings */
static const struct bb_sql put = {
    "WITH part AS (INSERT INTO bulk_part (job, last_row, first_row, rows, failed, bytes)"
    " VALUES ($1::uuid, $2::bigint, $3::bigint, $4::int, $5::int, $6))"
    " INSERT INTO bulk_finding (job, number, name, problems)"
    " SELECT $1::uuid, f.number, f.name, f.problems"
    " FROM json_to_recordset($7::json) AS f (number bigint, name text, problems text)",
    BB_SQL_WRITE,
};

/* $1 job, $2 warnings */
static const struct bb_sql put_warnings = {
    "INSERT INTO bulk_warning (job, number, warnings) SELECT $1::uuid, w.number, w.problems"
    " FROM json_to_recordset($2::json) AS w (number bigint, problems text)",
    BB_SQL_WRITE,
};

/* Adds to the bytes of the job. Returns 0, or the status of the response sent. */
static int grow(struct bb_request *rq, struct check *check, size_t bytes)
{
    check->job->bytes += (int64_t)bytes;
    return check->job->bytes > check->left ? bb_fail_text(rq, 409, bulk_over_quota(rq)) : 0;
}

static int add_claim(struct check *check, const struct bb_bulk_row *row)
{
    const struct bb_bulk_claim *claim = &row->claim;

    if (!claim->name || row->problems)
        return 0;
    int column = claim->field ? bulk_place_of(check->type, claim->field) : -1;

    return claims_add(&check->claims, claim->name,
                      (struct claim){.from = claim->from,
                                     .until = claim->until,
                                     .number = (int32_t)row->number,
                                     .column = column});
}

static int check_rows(struct bb_request *rq, struct check *check, const struct bulk_batch *batch,
                      const char *bytes)
{
    const struct scan_part *part = check->part;
    int64_t found, warned;

    if (bulk_call(rq, NULL, batch, check->job))
        return bb_failed(rq);
    for (size_t i = 0; i < batch->count; i++)
        if (add_claim(check, batch->rows[i]))
            return bb_fail(rq, 503, "Out of memory");
    const char *findings = bulk_findings_json(rq, batch, false, &found);
    const char *warnings = bulk_findings_json(rq, batch, true, &warned);

    if (!findings || !warnings)
        return bb_fail(rq, 503, "Out of memory");
    check->job->doubtful += found;
    check->job->warned += warned;
    int refused = grow(rq, check, part->end - part->begin + strlen(findings) + strlen(warnings));

    if (refused)
        return refused;
    if (!bb_query(rq, &put,
                  BB_ARGS(bb_t(check->job->id), bb_i(part->last), bb_i(part->first),
                          bb_i((int64_t)part->rows), bb_i(found), bb_t(bytes), bb_t(findings))))
        return bb_failed(rq);
    return !warned || bb_query(rq, &put_warnings, BB_ARGS(bb_t(check->job->id), bb_t(warnings)))
               ? 0
               : bb_failed(rq);
}

static int check_part(struct bb_request *rq, void *arg)
{
    struct check *check = arg;
    const struct scan_part *part = check->part;
    size_t length = part->end - part->begin;
    struct scan_read read = {.path = check->scan->path,
                             .begin = part->begin,
                             .length = length,
                             .bytes = bb_alloc(rq, length + 1)};

    if (bb_offload(rq, BULK_POOL, scan_read, &read))
        return bb_failed(rq);
    if (read.failed)
        return bb_fail(rq, 503, "The file cannot be read");
    const struct bulk_batch *batch = bulk_batch_of(rq, check->type, check->columns, read.bytes,
                                                   length, part->first, 0, part->rows);

    return batch->why ? bb_fail(rq, 503, "The file cannot be read: %s", batch->why)
                      : check_rows(rq, check, batch, read.bytes);
}

/* ---- rows that contradict each other ---- */

/* $1 job, $2 findings. These rows have no other finding. */
static const struct bb_sql put_found = {
    "WITH found AS (INSERT INTO bulk_finding (job, number, name, problems)"
    " SELECT $1::uuid, f.number, f.name, f.problems"
    " FROM json_to_recordset($2::json) AS f (number bigint, name text, problems text)"
    " RETURNING number),"
    " parts AS (SELECT p.last_row, count(*) AS n FROM found f CROSS JOIN LATERAL"
    " (SELECT last_row FROM bulk_part WHERE job = $1::uuid AND last_row >= f.number"
    " ORDER BY last_row LIMIT 1) p GROUP BY 1)"
    " UPDATE bulk_part p SET failed = p.failed + parts.n FROM parts"
    " WHERE p.job = $1::uuid AND p.last_row = parts.last_row",
    BB_SQL_WRITE,
};

static json_t *contradiction(struct bb_request *rq, const struct check *check,
                             const struct claim *claim)
{
    bool ever = claim->from == INT64_MIN && claim->until == INT64_MAX;
    const char *text =
        bb_format(rq, ever ? "is the same as in row %d" : "overlaps row %d", (int)claim->against);
    const char *field =
        claim->column < 0 ? "" : bulk_column(check->type, (size_t)claim->column)->name;
    json_t *problems = json_pack("[{s:s, s:s}]", "field", field, "problem", text);
    size_t length;
    const char *json = problems ? bb_json(rq, problems, &length) : NULL;

    json_decref(problems);
    return json ? json_pack("{s:I, s:s}", "number", (json_int_t)claim->number, "problems", json)
                : NULL;
}

/* Stores the next FINDINGS contradictions. Returns 0, or the status of the response sent. */
static int put_contradictions(struct bb_request *rq, void *arg)
{
    struct check *check = arg;
    json_t *list = json_array();
    size_t length;
    bool lost = !list;

    for (; check->next < check->claims.count && !lost; check->next++) {
        const struct claim *claim = &check->claims.list[check->next];

        if (json_array_size(list) == FINDINGS)
            break;
        if (claim->against)
            lost = json_array_append_new(list, contradiction(rq, check, claim)) != 0;
    }
    size_t count = json_array_size(list);
    const char *findings = lost ? NULL : bb_json(rq, list, &length);

    json_decref(list);
    if (!findings)
        return bb_fail(rq, 503, "Out of memory");
    check->job->doubtful += (int64_t)count;
    int refused = count ? grow(rq, check, strlen(findings)) : 0;

    if (!count || refused)
        return refused;
    return bb_query(rq, &put_found, BB_ARGS(bb_t(check->job->id), bb_t(findings))) ? 0
                                                                                   : bb_failed(rq);
}

static void drop_claims(void *claims)
{
    claims_free(claims);
}

int bulk_check_parts(struct bb_request *rq, const struct bulk_source *source, struct bulk_job *job,
                     const struct bulk_columns *columns, const struct scan *scan, int64_t left)
{
    struct check *check = bb_alloc(rq, sizeof(*check));
    int refused = 0;

    *check = (struct check){
        .type = source->type, .columns = columns, .scan = scan, .job = job, .left = left};
    if (claims_reserve(&check->claims, scan->rows))
        return bb_fail(rq, 503, "Out of memory");
    bb_defer(rq, drop_claims, &check->claims);
    for (size_t i = 0; i < scan->part_count && !refused; i++) {
        check->part = &scan->parts[i];
        refused = source->interruptible && bb_superseded(rq->host)
                      ? bb_fail(rq, 503, "Interrupted: nothing was stored")
                      : bb_scratch(rq, check_part, check);
    }
    if (!refused && bb_offload(rq, BULK_POOL, claims_judge, &check->claims))
        refused = bb_failed(rq);
    while (!refused && check->next < check->claims.count)
        refused = bb_scratch(rq, put_contradictions, check);
    if (refused == 503)
        bb_reply_header(rq, "Retry-After", "1"); /* the header was in the scratch memory */
    return refused;
}
