/* Rows of a part: parsed for the types' functions, and written as CSV. */
#include <string.h>
#include <strings.h>

#include "modules/bulk/bulk.h"
#include "modules/bulk/scan.h"

enum { NAME_BYTES = 1020 }; /* of a row's name in the log: 255 characters */

/* ---- columns ---- */

const struct bb_field *bulk_column(const struct bulk_type *type, size_t index)
{
    const struct bb_table *table = &type->rows->columns;

    return (const struct bb_field *)(const void *)((const char *)table->rows +
                                                   index * table->stride);
}

int bulk_place_of(const struct bulk_type *type, const char *name)
{
    for (size_t i = 0; type && i < type->columns; i++) {
        const struct bb_field *column = bulk_column(type, i);

        if (!strcasecmp(column->name, name) || (column->alias && !strcasecmp(column->alias, name)))
            return (int)i;
    }
    return -1;
}

struct bulk_columns *bulk_columns_of(struct bb_request *rq, const struct bulk_type *type,
                                     const json_t *header, char separator, const char **twice)
{
    size_t count = json_array_size(header);
    struct bulk_columns *columns = bb_alloc(rq, sizeof(*columns) + count * sizeof(int));
    bool *taken = bb_alloc(rq, (type ? type->columns : 0) + 1);

    *twice = NULL;
    columns->type = type;
    columns->separator = separator;
    columns->count = count;
    for (size_t i = 0; i < count; i++) {
        const char *name = bb_trimmed(rq, json_string_value(json_array_get(header, i)));
        int place = columns->places[i] = bulk_place_of(type, name);

        if (place >= 0 && taken[place])
            *twice = name;
        if (place >= 0)
            taken[place] = true;
    }
    return header ? columns : NULL;
}

struct bulk_columns *bulk_job_columns(struct bb_request *rq, const struct bulk_job *job)
{
    const char *twice;
    json_t *header = bb_json_hold(rq, bb_json_read(rq, job->header));

    return bulk_columns_of(rq, bulk_type_named(rq->state, job->type), header, job->separator[0],
                           &twice);
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

static char *copied(struct bb_request *rq, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = bb_alloc(rq, size);

    memcpy(copy, text, size);
    return copy;
}

/* Converts a cell to the value that the type gets, which is often the cell itself. */
static const char *cell_value(struct bb_request *rq, const struct bulk_columns *columns,
                              const struct bb_field *column, const char *sent)
{
    bool guarded = sent[0] == '=' && sent[1] == '"', defused = csv_is_defused(sent);
    /* A column of any type that has bounds, such as latitude, is a number that may be a text. */
    bool number =
        columns->separator != ',' && (column->type == BB_NUMBER || column->type == BB_INT ||
                                      (column->type == BB_ANY && column->max > column->min));

    if (!guarded && !defused && !number)
        return sent;
    char *value = copied(rq, sent);

    if (defused)
        csv_take_back(value);
    scan_unguard(value);
    /* "9,9" comes from spreadsheets with a decimal comma. "1.234,5" is ambiguous and stays. */
    char *comma = number ? strchr(value, ',') : NULL;

    if (comma && !strpbrk(comma + 1, ",.") && !memchr(value, '.', (size_t)(comma - value)))
        *comma = '.';
    return value;
}

/* Recognizes 1.23E+12, which a spreadsheet makes of a long number. */
static bool is_shortened(const char *name)
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

static int parse_row(void *arg, const struct reader_row *told)
{
    struct parse *parse = arg;
    struct bb_request *rq = parse->rq;
    const struct bulk_columns *columns = parse->columns;
    const struct bulk_type *type = columns->type;
    struct bulk_batch *batch = parse->batch;

    if (told->number <= parse->after)
        return 0;
    if (batch->count == parse->most)
        return 1;
    struct bb_bulk_row *row = bb_alloc(rq, sizeof(*row));
    const char **sent = bb_alloc(rq, (told->count + 1) * sizeof(*sent));
    const char **cells = bb_alloc(rq, ((type ? type->columns : 0) + 1) * sizeof(*cells));
    bool more = false; /* text in cells without a column */

    for (size_t i = 0; i < told->count; i++) {
        int place = i < columns->count ? columns->places[i] : -1;

        sent[i] = copied(rq, told->cells[i]);
        more = more || (i >= columns->count && !blank_is(sent[i]));
        if (!type || place < 0 || !*sent[i])
            continue;
        const struct bb_field *column = bulk_column(type, (size_t)place);

        cells[place] = cell_value(rq, columns, column, sent[i]);
        if ((size_t)place != type->rows->name_column)
            continue;
        if (csv_is_defused(sent[i]))
            row->name_as_sent = sent[i];
        if (is_shortened(cells[place]))
            bb_bulk_warn(rq, row, column->name,
                         "looks like a long number that a spreadsheet has shortened; format the "
                         "column as text before you save the file");
    }
    row->size = sizeof(*row);
    row->number = told->number;
    row->cells = cells;
    if (more && type)
        bb_bulk_problem(
            rq, row, "",
            bb_format(rq, "has %zu cells, the header line %zu", told->count, columns->count));
    batch->rows[batch->count] = row;
    batch->sent[batch->count++] = sent;
    return 0;
}

static void drop_reader(void *reader)
{
    bulk_reader_free(reader);
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
    if (bulk_reader_begin(&parse->reader, columns->separator, first, parse_row, parse))
        return NULL;
    bb_defer(rq, drop_reader, &parse->reader);
    int status = bulk_reader_feed(&parse->reader, bytes, strlen(bytes));

    return status > 0 || (!status && bulk_reader_end(&parse->reader) >= 0) ? batch : NULL;
}

/* ---- what the types' functions find ---- */

const char *bulk_name_of(struct bb_request *rq, const struct bulk_type *type,
                         const struct bb_bulk_row *row)
{
    size_t column = type ? type->rows->name_column : 0;
    const char *name = type && column < type->columns ? row->cells[column] : NULL;
    size_t length = name ? blank_cut(name, NAME_BYTES) : 0;

    return name && name[length] ? bb_format(rq, "%.*s…", (int)length, name) : name;
}

const char *bulk_findings_json(struct bb_request *rq, const struct bulk_batch *batch, bool warnings,
                               int64_t *count)
{
    json_t *list = bb_json_hold(rq, json_array());
    bool lost = !list;

    *count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const struct bb_bulk_row *row = batch->rows[i];
        const struct bb_bulk_problem *at = warnings ? row->warnings : row->problems;

        if (!at)
            continue;
        const char *name = bulk_name_of(rq, batch->type, row); /* may end the request */
        json_t *problems = json_array();

        for (; at; at = at->next)
            lost |= json_array_append_new(problems, json_pack("{s:s, s:s}", "field", at->field,
                                                              "problem", at->problem)) != 0;
        lost |= json_array_append_new(list, json_pack("{s:I, s:s?, s:o}", "number",
                                                      (json_int_t)row->number, "name", name,
                                                      "problems", problems)) != 0;
        ++*count;
    }
    return bb_json(rq, lost ? NULL : list, NULL); /* NULL ends the request: out of memory */
}

struct call {
    const struct bb_bulk_rows *type;
    struct bb_bulk_row **rows;
    size_t count;
    struct bb_bulk_job job;
    struct bb_tx *tx;
};

static int call(struct bb_request *rq, void *arg)
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

        if (bb_call_as(rq, batch->type->host, call, &called))
            return -1;
    }
    return 0;
}

/* ---- failed rows ---- */

/*
 * They are written as they were sent, with a column `errors` appended; of a cancelled job also the
 * cancelled rows, so the file has every row that is not stored. A column `errors` in the file is
 * dropped, so that the result of a second upload has only one.
 */
static bool is_errors(const json_t *header, size_t column)
{
    return !strcasecmp(json_string_value(json_array_get(header, column)), "errors");
}

void bulk_failed_header(struct csv *csv, const json_t *header, bool mark)
{
    if (mark)
        csv_bytes(csv, "\xef\xbb\xbf", 3); /* without it Excel assumes Windows-1252 */
    for (size_t i = 0; i < json_array_size(header); i++)
        if (!is_errors(header, i))
            csv_text(csv, json_string_value(json_array_get(header, i)));
    csv_text(csv, "errors");
    csv_end_row(csv);
}

static void write_row(struct bb_request *rq, struct csv *csv, const char *const *cells,
                      const json_t *header, const json_t *problems)
{
    const char *text = problems ? "" : "not stored: the bulk upload was cancelled";
    const json_t *problem;
    size_t i;

    for (i = 0; i < json_array_size(header); i++) {
        if (!is_errors(header, i))
            csv_text(csv, *cells);
        cells += *cells != NULL;
    }
    json_array_foreach(problems, i, problem)
    {
        const char *field = json_string_value(json_object_get(problem, "field"));

        text = bb_format(rq, "%s%s%s%s%s", text, i ? "; " : "", field, *field ? ": " : "",
                         json_string_value(json_object_get(problem, "problem")));
    }
    csv_text(csv, text);
    csv_end_row(csv);
}

int bulk_failed_part(struct bb_request *rq, const char *id, int64_t *behind, struct csv *csv)
{
    /* $1 job, $2 last row seen; the fifth column: without a problem, rows up to it are stored */
    static const struct bb_sql find = {
        "SELECT p.first_row, p.last_row, p.bytes, (SELECT json_object_agg(f.number,"
        " f.problems::json) FROM bulk_finding f WHERE f.job = p.job AND f.number"
        " BETWEEN p.first_row AND p.last_row), CASE j.status WHEN 'cancelled' THEN j.cursor"
        " ELSE p.last_row END, j.separator, j.header FROM bulk_part p JOIN bulk_job j"
        " ON j.id = p.job WHERE p.job = $1::uuid AND p.last_row > $2::bigint AND (p.failed > 0"
        " OR (j.status = 'cancelled' AND p.last_row > j.cursor)) ORDER BY p.last_row LIMIT 1",
        BB_SQL_LONG,
    };
    const struct bb_rows *parts = bb_query(rq, &find, BB_ARGS(bb_t(id), bb_i(*behind)));

    if (!parts)
        return -1;
    if (!bb_count(rq, parts))
        return 0;
    const char *found = bb_cell(rq, parts, 0, 3);
    json_t *findings = bb_json_hold(rq, bb_json_read(rq, found ? found : "{}"));
    json_t *header = bb_json_hold(rq, bb_json_read(rq, bb_cell(rq, parts, 0, 6)));
    struct bulk_columns columns = {.separator = *bb_cell(rq, parts, 0, 5)};
    const struct bulk_batch *batch = bulk_batch_of(
        rq, &columns, bb_cell(rq, parts, 0, 2), bb_cell_int(rq, parts, 0, 0), 0, BB_BULK_ROWS_MAX);

    if (!findings || !header || !batch)
        return -1;
    csv->separator = columns.separator;
    for (size_t i = 0; i < batch->count; i++) {
        char key[24];

        snprintf(key, sizeof(key), "%lld", (long long)batch->rows[i]->number);
        const json_t *problems = json_object_get(findings, key);

        if (problems || batch->rows[i]->number > bb_cell_int(rq, parts, 0, 4))
            write_row(rq, csv, batch->sent[i], header, problems);
    }
    *behind = bb_cell_int(rq, parts, 0, 1);
    return csv->failed ? -1 : 1;
}
