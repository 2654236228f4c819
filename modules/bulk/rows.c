/* Rows of a part: parses them for the types' functions, and writes them as CSV. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "modules/bulk/bulk.h"
#include "modules/bulk/scan.h"

enum { NAME_BYTES = 1020 }; /* maximum of a row's name in the log: 255 characters of 4 bytes */

/* ---- columns ---- */

int bulk_place_of(const struct bulk_type *type, const char *name)
{
    for (size_t i = 0; type && i < type->rows->columns.count; i++) {
        const struct bb_field *column = BB_ROW(bb_field, type->rows->columns, i);

        if (!strcasecmp(column->name, name) || (column->alias && !strcasecmp(column->alias, name)))
            return (int)i;
    }
    return -1;
}

struct bulk_columns *bulk_columns_of(struct bb_request *rq, const struct bulk_type *type,
                                     const json_t *header, char separator)
{
    size_t count = json_array_size(header);
    struct bulk_columns *columns = bb_alloc(rq, sizeof(*columns) + count * sizeof(int));

    columns->type = type;
    columns->separator = separator;
    columns->count = count;
    for (size_t i = 0; i < count; i++)
        columns->places[i] =
            bulk_place_of(type, bb_trimmed(rq, json_string_value(json_array_get(header, i))));
    return columns;
}

struct bulk_columns *bulk_job_columns(struct bb_request *rq, const struct bulk_job *job)
{
    const json_t *header = bb_hold(rq, bb_json_read(rq, job->header));

    return bulk_columns_of(rq, bulk_type_named(rq->state, job->type), header, job->separator[0]);
}

/* ---- parsing ---- */

struct parse {
    struct bb_request *rq;
    struct bulk_reader reader;
    const struct bulk_columns *columns;
    struct bulk_batch *batch;
    int64_t after;
    size_t most;
};

static char *rows_copy(struct bb_request *rq, const char *text)
{
    size_t size = strlen(text) + 1;

    return memcpy(bb_alloc(rq, size), text, size);
}

/* Returns the value that the type's functions get for a cell: `sent`, or a changed copy of it. */
static const char *rows_value(struct bb_request *rq, const struct bulk_columns *columns,
                              const struct bb_field *column, const char *sent)
{
    bool guarded = sent[0] == '=' && sent[1] == '"', defused = csv_take_back(NULL, sent);
    /* BB_ANY with bounds, such as latitude, is a number that requests may also send as a text. */
    bool number =
        columns->separator != ',' && (column->type == BB_NUMBER || column->type == BB_INT ||
                                      (column->type == BB_ANY && column->max > column->min));

    if (!guarded && !defused && !number)
        return sent;
    char *value = rows_copy(rq, sent);

    if (defused)
        csv_take_back(value, value);
    scan_unguard(value);
    /* "9,9" comes from spreadsheets with a decimal comma. "1.234,5" is ambiguous and unchanged. */
    char *comma = number ? strchr(value, ',') : NULL;

    if (comma && !strpbrk(comma + 1, ",.") && !memchr(value, '.', (size_t)(comma - value)))
        *comma = '.';
    return value;
}

/* Returns whether a text looks like 1.23E+12, to which spreadsheets shorten long numbers. */
static bool rows_is_shortened(const char *name)
{
    static const char digits[] = "0123456789";

    if (strspn(name, digits) != 1)
        return false;
    name++;
    if (*name == '.' || *name == ',')
        name += 1 + strspn(name + 1, digits);
    if (*name != 'E' && *name != 'e')
        return false;
    name += 1 + (name[1] == '+');
    return *name && !name[strspn(name, digits)];
}

static int rows_parse(void *arg, const struct reader_row *input)
{
    struct parse *parse = arg;
    struct bb_request *rq = parse->rq;
    const struct bulk_columns *columns = parse->columns;
    const struct bulk_type *type = columns->type;
    struct bulk_batch *batch = parse->batch;

    if (input->number <= parse->after)
        return 0;
    if (batch->count == parse->most)
        return 1;
    struct bb_bulk_row *row = bb_alloc(rq, sizeof(*row));
    const char **sent = bb_alloc(rq, (input->count + 1) * sizeof(*sent));
    const char **cells =
        bb_alloc(rq, ((type ? type->rows->columns.count : 0) + 1) * sizeof(*cells));
    bool more = false; /* text in cells without a column */

    for (size_t i = 0; i < input->count; i++) {
        int place = i < columns->count ? columns->places[i] : -1;

        sent[i] = rows_copy(rq, input->cells[i]);
        more = more || (i >= columns->count && !blank_is(sent[i]));
        if (!type || place < 0 || !*sent[i])
            continue;
        const struct bb_field *column = BB_ROW(bb_field, type->rows->columns, (size_t)place);

        cells[place] = rows_value(rq, columns, column, sent[i]);
        if ((size_t)place != type->rows->name_column)
            continue;
        if (csv_take_back(NULL, sent[i]))
            row->name_as_sent = sent[i];
        if (rows_is_shortened(cells[place]))
            bb_bulk_warn(rq, row, column->name,
                         "looks like a long number that a spreadsheet has shortened; format the "
                         "column as text before you save the file");
    }
    row->size = sizeof(*row);
    row->number = input->number;
    row->cells = cells;
    if (more && type)
        bb_bulk_problem(rq, row, "",
                        bb_format(rq, "has %zu cells, but the header line has %zu", input->count,
                                  columns->count));
    batch->rows[batch->count] = row;
    batch->sent[batch->count++] = sent;
    return 0;
}

struct bulk_batch *bulk_batch_of(struct bb_request *rq, const struct bulk_columns *columns,
                                 const char *bytes, int64_t first, int64_t after, size_t most)
{
    struct bulk_batch *batch = bb_alloc(rq, sizeof(*batch));
    struct parse *parse = bb_alloc(rq, sizeof(*parse));

    *batch = (struct bulk_batch){
        .type = columns->type,
        .rows = bb_alloc(rq, (most + 1) * sizeof(struct bb_bulk_row *)),
        .sent = bb_alloc(rq, (most + 1) * sizeof(const char *const *)),
    };
    parse->rq = rq;
    parse->columns = columns;
    parse->batch = batch;
    parse->after = after;
    parse->most = most;
    if (bulk_reader_begin(&parse->reader, columns->separator, first, rows_parse, parse))
        bb_alloc(rq, SIZE_MAX); /* fails, which ends the request */
    bb_defer(rq, bulk_reader_free, &parse->reader);
    int status = bulk_reader_feed(&parse->reader, bytes, strlen(bytes));

    if (status < 0 || (!status && bulk_reader_end(&parse->reader) < 0))
        bb_alloc(rq, SIZE_MAX);
    return batch;
}

/* ---- what the types' functions find ---- */

const char *bulk_name_of(struct bb_request *rq, const struct bulk_type *type,
                         const struct bb_bulk_row *row)
{
    size_t column = type ? type->rows->name_column : 0;
    const char *name = type && column < type->rows->columns.count ? row->cells[column] : NULL;
    size_t length = name ? blank_cut(name, NAME_BYTES) : 0;

    return name && name[length] ? bb_format(rq, "%.*s…", (int)length, name) : name;
}

const char *bulk_findings_json(struct bb_request *rq, const struct bulk_batch *batch, bool warnings,
                               int64_t *count)
{
    json_t *list = bb_hold(rq, json_array());

    *count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const struct bb_bulk_row *row = batch->rows[i];
        const struct bb_bulk_problem *at = warnings ? row->warnings : row->problems;

        if (!at)
            continue;
        const char *name = bulk_name_of(rq, batch->type, row); /* may end the request */
        json_t *problems = json_array();

        for (; at; at = at->next)
            problems = bb_append(
                problems, json_pack("{s:s, s:s}", "field", at->field, "problem", at->problem));
        bb_push(rq, list,
                json_pack("{s:I, s:s?, s:o}", "number", (json_int_t)row->number, "name", name,
                          "problems", problems));
        ++*count;
    }
    return bb_json(rq, list, NULL);
}

struct call {
    const struct bb_bulk_rows *type;
    struct bb_bulk_row **rows;
    size_t count;
    struct bb_bulk_job job;
    struct bb_tx *tx;
};

static int rows_call(struct bb_request *rq, void *arg)
{
    struct call *called = arg;

    return called->tx
               ? called->type->store(rq, called->tx, &called->job, called->rows, called->count)
               : called->type->check(rq, &called->job, called->rows, called->count);
}

int bulk_call(struct bb_request *rq, struct bb_tx *tx, const struct bulk_batch *batch,
              const struct bulk_job *job)
{
    struct bb_bulk_row **whole = bb_alloc(rq, (batch->count + 1) * sizeof(struct bb_bulk_row *));
    size_t count = 0, most = batch->type->rows_max;

    for (size_t i = 0; i < batch->count; i++)
        if (!batch->rows[i]->problems)
            whole[count++] = batch->rows[i];
    for (size_t from = 0; from < count; from += most) {
        struct call called = {.type = batch->type->rows,
                              .rows = whole + from,
                              .count = count - from < most ? count - from : most,
                              .job = {.size = sizeof(struct bb_bulk_job),
                                      .id = job->id,
                                      .organization = job->organization,
                                      .account = job->account,
                                      .email = job->email,
                                      .role = (unsigned)job->role,
                                      .file = job->file},
                              .tx = tx};

        if (bb_call_as(rq, batch->type->host, rows_call, &called))
            return -1;
    }
    return 0;
}

/* ---- stored parts ---- */

int bulk_part_next(struct bb_request *rq, const struct bulk_columns *columns, const char *id,
                   const struct bulk_sought *sought, struct bulk_part *part)
{
    /* $1 job; $2 `after`, $3 `until`, $4 `rows` and $5 `lost` of struct bulk_sought */
    static const struct bb_sql find = {
        "SELECT p.first_row, p.last_row, p.bytes, coalesce((SELECT json_object_agg(f.number,"
        " f.problems::json) FROM bulk_finding f WHERE f.job = p.job AND f.number > $2::bigint"
        " AND f.number BETWEEN p.first_row AND p.last_row), '{}'),"
        " coalesce((SELECT json_object_agg(w.number, w.warnings::json)"
        " FROM bulk_warning w WHERE w.job = p.job AND w.number > $2::bigint"
        " AND w.number BETWEEN p.first_row AND p.last_row), '{}')"
        " FROM bulk_part p WHERE p.job = $1::uuid AND p.last_row > $2::bigint"
        " AND p.first_row <= $3::bigint AND CASE $4::int WHEN 1 THEN p.failed < p.rows"
        " WHEN 2 THEN p.failed > 0 OR p.last_row > $5::bigint ELSE true END"
        " ORDER BY p.last_row LIMIT 1",
        BB_SQL_LONG,
    };
    const struct bb_rows *rows =
        bb_query(rq, &find,
                 BB_ARGS(bb_t(id), bb_i(sought->after), bb_i(sought->until), bb_i(sought->rows),
                         bb_i(sought->lost)));
    size_t most = sought->most ? sought->most : BB_BULK_ROWS_MAX;

    *part = (struct bulk_part){.batch = NULL};
    if (!rows || !bb_count(rq, rows))
        return rows ? 0 : bb_failed(rq);
    const char *bytes = bb_cell(rq, rows, 0, 2);

    part->last = bb_cell_int(rq, rows, 0, 1);
    part->bytes = strlen(bytes);
    part->findings = bb_hold(rq, bb_json_read(rq, bb_cell(rq, rows, 0, 3)));
    part->warnings = bb_hold(rq, bb_json_read(rq, bb_cell(rq, rows, 0, 4)));
    part->batch =
        bulk_batch_of(rq, columns, bytes, bb_cell_int(rq, rows, 0, 0), sought->after, most);
    if (part->batch->count == most)
        part->last = part->batch->rows[most - 1]->number;
    return 0;
}

json_t *bulk_found(const json_t *findings, const struct bb_bulk_row *row)
{
    char key[24];

    snprintf(key, sizeof(key), "%lld", (long long)row->number);
    return json_object_get(findings, key);
}

/* ---- failed rows ---- */

struct bulk_failed {
    struct bulk_sought sought;
    bool mark;  /* begin with a byte order mark */
    bool begun; /* the header line was written */
    char separator;
    char id[BULK_ID];
    char header[]; /* copy of the job's header */
};

struct bulk_failed *bulk_failed_new(const struct bulk_job *job, bool mark)
{
    bool cancelled = !strcmp(job->status, "cancelled");
    struct bulk_failed *failed = calloc(1, sizeof(*failed) + strlen(job->header) + 1);

    if (!failed)
        return NULL;
    failed->sought = (struct bulk_sought){
        .until = INT64_MAX, .rows = BULK_LOST_ROWS, .lost = cancelled ? job->cursor : INT64_MAX};
    failed->mark = mark;
    failed->separator = job->separator[0];
    snprintf(failed->id, sizeof(failed->id), "%s", job->id);
    strcpy(failed->header, job->header);
    return failed;
}

/* Returns whether a column is named `errors`. failed.csv has its own column of this name. */
static bool rows_is_errors(const json_t *header, size_t column)
{
    return !strcasecmp(json_string_value(json_array_get(header, column)), "errors");
}

int bulk_failed_write(struct bb_request *rq, struct csv *csv, void *arg)
{
    struct bulk_failed *failed = arg;
    const struct bulk_columns columns = {.separator = failed->separator};
    const json_t *header = bb_hold(rq, bb_json_read(rq, failed->header));
    struct bulk_part part;

    if (bulk_part_next(rq, &columns, failed->id, &failed->sought, &part))
        return -1;
    csv->separator = failed->separator;
    if (!failed->begun && failed->mark)
        csv_bytes(csv, "\xef\xbb\xbf", 3); /* without this mark Excel assumes Windows-1252 */
    if (!failed->begun && !strchr(SCAN_SEPARATORS, failed->separator)) {
        csv_plain(csv, (const char[]){'s', 'e', 'p', '=', failed->separator, '\0'});
        csv_end_row(csv);
    }
    for (size_t i = 0; i < json_array_size(header) && !failed->begun; i++)
        if (!rows_is_errors(header, i))
            csv_text(csv, json_string_value(json_array_get(header, i)));
    if (!failed->begun) {
        csv_text(csv, "errors");
        csv_end_row(csv);
    }
    failed->begun = true;
    for (size_t i = 0; part.batch && i < part.batch->count; i++) {
        const json_t *problems = bulk_found(part.findings, part.batch->rows[i]), *problem;
        const char *const *cells = part.batch->sent[i];
        const char *text = problems ? "" : "not stored: the bulk upload was cancelled";
        size_t k;

        if (!problems && part.batch->rows[i]->number <= failed->sought.lost)
            continue;
        for (k = 0; k < json_array_size(header); k++) {
            if (!rows_is_errors(header, k))
                csv_text(csv, *cells);
            cells += *cells != NULL;
        }
        json_array_foreach (problems, k, problem) {
            const char *field = json_string_value(json_object_get(problem, "field"));

            text = bb_format(rq, "%s%s%s%s%s", text, k ? "; " : "", field, *field ? ": " : "",
                             json_string_value(json_object_get(problem, "problem")));
        }
        csv_text(csv, text);
        /* Surplus cells follow the errors, so the row fails again until it is corrected. */
        for (const char *const *last = cells; *last; last++)
            while (cells <= last && !blank_is(*last))
                csv_text(csv, *cells++);
        csv_end_row(csv);
    }
    failed->sought.after = part.last;
    return csv->failed ? -1 : part.batch != NULL;
}
