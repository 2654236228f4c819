/*
 * The failed rows of a job as they were sent, with a column `errors` appended; of a cancelled job
 * also the cancelled rows, so the file has every row that is not stored. A column `errors` in the
 * file is dropped, so that the result of a second upload has only one.
 */
#include <string.h>
#include <strings.h>

#include "modules/bulk/job/bulk.h"
#include "modules/common/csv.h"

static bool is_errors(const json_t *header, size_t column)
{
    return !strcasecmp(json_string_value(json_array_get(header, column)), "errors");
}

#define CANCELLED "not stored: the bulk upload was cancelled"

static void write_errors(struct bb_request *rq, struct csv *csv, const json_t *problems)
{
    char *text = bb_format(rq, "%s", "");
    const json_t *problem;
    size_t i;

    json_array_foreach(problems, i, problem)
    {
        const char *field = json_string_value(json_object_get(problem, "field"));

        text = bb_format(rq, "%s%s%s%s%s", text, i ? "; " : "", field, *field ? ": " : "",
                         json_string_value(json_object_get(problem, "problem")));
    }
    csv_text(csv, text);
}

static void write_rows(struct bb_request *rq, struct csv *csv, const struct bulk_batch *batch,
                       const json_t *header, const json_t *findings, int64_t cancelled)
{
    size_t columns = json_array_size(header);
    char key[24];

    for (size_t i = 0; i < batch->count; i++) {
        const char *const *cells = batch->sent[i];
        size_t count = 0;

        snprintf(key, sizeof(key), "%lld", (long long)batch->rows[i]->number);
        const json_t *problems = json_object_get(findings, key);

        if (!problems && batch->rows[i]->number <= cancelled)
            continue;
        while (cells[count])
            count++;
        for (size_t k = 0; k < columns; k++)
            if (!is_errors(header, k))
                csv_text(csv, k < count ? cells[k] : NULL);
        if (problems)
            write_errors(rq, csv, problems);
        else
            csv_text(csv, CANCELLED);
        csv_end_row(csv);
    }
}

void bulk_failed_header(struct csv *csv, const json_t *header, bool mark)
{
    const json_t *name;
    size_t i;

    if (mark)
        csv_bytes(csv, "\xef\xbb\xbf", 3); /* without it Excel assumes Windows-1252 */
    json_array_foreach(header, i, name)
    {
        if (!is_errors(header, i))
            csv_text(csv, json_string_value(name));
    }
    csv_text(csv, "errors");
    csv_end_row(csv);
}

/* $1 job, $2 last row seen, $3 last row that was not cancelled */
static const struct bb_sql find = {
    "SELECT p.first_row, p.last_row, p.bytes, (SELECT json_object_agg(f.number, f.problems::json)"
    " FROM bulk_finding f WHERE f.job = p.job AND f.number BETWEEN p.first_row AND p.last_row)"
    " FROM bulk_part p WHERE p.job = $1::uuid AND p.last_row > $2::bigint AND"
    " (p.failed > 0 OR p.last_row > $3::bigint) ORDER BY p.last_row LIMIT 1",
    BB_SQL_LONG,
};

int bulk_failed_part(struct bb_request *rq, const char *id, const json_t *header, int64_t cancelled,
                     int64_t *behind, struct csv *csv)
{
    const struct bb_rows *parts =
        bb_query(rq, &find, BB_ARGS(bb_t(id), bb_i(*behind), bb_i(cancelled)));
    const char *twice;

    if (!parts)
        return -1;
    if (!bb_count(rq, parts))
        return 0;
    const char *found = bb_cell(rq, parts, 0, 3), *bytes = bb_cell(rq, parts, 0, 2);
    json_t *findings = bb_json_hold(rq, bb_json_read(rq, found ? found : "{}"));

    if (!header || !findings)
        return -1;
    const struct bulk_columns *columns = bulk_columns_of(rq, NULL, header, csv->separator, &twice);
    const struct bulk_batch *batch = bulk_batch_of(
        rq, NULL, columns, bytes, strlen(bytes), bb_cell_int(rq, parts, 0, 0), 0, BB_BULK_ROWS_MAX);

    if (batch->why)
        return -1;
    write_rows(rq, csv, batch, header, findings, cancelled);
    *behind = bb_cell_int(rq, parts, 0, 1);
    return csv->failed ? -1 : 1;
}
