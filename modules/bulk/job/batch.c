/* Parses the rows of a part for the types' functions. */
#include <string.h>
#include <strings.h>

#include "modules/bulk/csv/blank.h"
#include "modules/bulk/csv/scan.h"
#include "modules/bulk/job/bulk.h"
#include "modules/common/csv.h"

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
    struct bulk_columns *columns = header ? bb_alloc(rq, sizeof(*columns)) : NULL;
    bool *taken = bb_alloc(rq, (type ? type->columns : 0) + 1);

    *twice = NULL;
    if (!columns)
        return NULL;
    columns->separator = separator;
    columns->count = json_array_size(header);
    for (size_t i = 0; i < columns->count; i++) {
        const char *name = bb_trimmed(rq, json_string_value(json_array_get(header, i)));
        int place = bulk_place_of(type, name);

        columns->places[i] = place;
        if (place >= 0 && taken[place])
            *twice = name;
        if (place >= 0)
            taken[place] = true;
    }
    return columns;
}

struct bulk_columns *bulk_job_columns(struct bb_request *rq, const struct bulk *bulk,
                                      const struct bulk_job *job)
{
    const char *twice;
    json_t *header = bb_json_hold(rq, bb_json_read(rq, job->header));

    return bulk_columns_of(rq, bulk_type_named(bulk, job->type), header, job->separator[0], &twice);
}

/* ---- rows ---- */

struct reading {
    struct bb_request *rq;
    struct bulk_reader reader;
    const struct bulk_columns *columns;
    struct bulk_batch *batch;
    int64_t after;
    size_t most, room;
};

static char *copied(struct bb_request *rq, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = bb_alloc(rq, size);

    memcpy(copy, text, size);
    return copy;
}

/*
 * A column of any type that has bounds, such as latitude, is also a number that may be sent as
 * text.
 */
static bool is_number(const struct bb_field *column)
{
    return column->type == BB_NUMBER || column->type == BB_INT ||
           (column->type == BB_ANY && column->max > column->min);
}

/*
 * "9,9" comes from spreadsheets with a decimal comma and becomes "9.9". "1.234,5" is ambiguous and
 * stays.
 */
static void point_for_comma(char *text)
{
    char *comma = strchr(text, ',');

    if (comma && !strpbrk(comma + 1, ",.") && !memchr(text, '.', (size_t)(comma - text)))
        *comma = '.';
}

/* Converts a cell to the value that the type gets, which is often the cell itself. */
static const char *plain_cell(struct bb_request *rq, const char *sent, bool number)
{
    bool guarded = sent[0] == '=' && sent[1] == '"', defused = csv_is_defused(sent);

    if (!guarded && !defused && !number)
        return sent;
    char *plain = copied(rq, sent);

    if (defused)
        csv_take_back(plain);
    scan_unguard(plain);
    if (number)
        point_for_comma(plain);
    return plain;
}

/* Recognizes 1.23E+12, which a spreadsheet makes of a long number. */
static bool is_shortened(const char *name)
{
    static const char digits[] = "0123456789";
    size_t whole = strspn(name, digits);

    if (whole != 1)
        return false;
    name += whole;
    if (*name == '.' || *name == ',')
        name += 1 + strspn(name + 1, digits);
    if (*name != 'E' && *name != 'e')
        return false;
    name += 1 + (name[1] == '+');
    whole = strspn(name, digits);
    return whole && !name[whole];
}

static void take_cells(struct reading *reading, struct bb_bulk_row *row, const char *const *sent)
{
    const struct bulk_columns *columns = reading->columns;
    const struct bulk_type *type = reading->batch->type;
    const char **cells = bb_alloc(reading->rq, (type->columns + 1) * sizeof(*cells));

    for (size_t i = 0; i < columns->count && sent[i]; i++) {
        int place = columns->places[i];

        if (place < 0 || !*sent[i])
            continue;
        const struct bb_field *column = bulk_column(type, (size_t)place);

        cells[place] =
            plain_cell(reading->rq, sent[i], columns->separator != ',' && is_number(column));
        if ((size_t)place != type->rows->name_column)
            continue;
        if (csv_is_defused(sent[i]))
            row->name_as_sent = sent[i];
        if (is_shortened(cells[place]))
            bb_bulk_warn(reading->rq, row, column->name,
                         "looks like a long number that a spreadsheet has shortened; format the "
                         "column as text before you save the file");
    }
    row->cells = cells;
}

static void check_count(struct reading *reading, struct bb_bulk_row *row,
                        const struct reader_row *told)
{
    bool text = false;

    for (size_t i = reading->columns->count; i < told->count; i++)
        text = text || !blank_is(told->cells[i]);
    if (text)
        bb_bulk_problem(reading->rq, row, "",
                        bb_format(reading->rq, "has %zu cells, the header line %zu", told->count,
                                  reading->columns->count));
}

static int take(void *arg, const struct reader_row *told)
{
    struct reading *reading = arg;
    struct bb_request *rq = reading->rq;
    struct bulk_batch *batch = reading->batch;

    if (told->number <= reading->after)
        return 0;
    if (batch->count == reading->most)
        return 1;
    struct bb_bulk_row *row = bb_alloc(rq, sizeof(*row));
    const char **sent = bb_alloc(rq, (told->count + 1) * sizeof(*sent));

    for (size_t i = 0; i < told->count; i++)
        sent[i] = copied(rq, told->cells[i]);
    row->size = sizeof(*row);
    row->number = told->number;
    if (batch->type) {
        check_count(reading, row, told);
        take_cells(reading, row, sent);
    }
    batch->rows[batch->count] = row;
    batch->sent[batch->count++] = sent;
    return 0;
}

static void drop_reader(void *reader)
{
    bulk_reader_free(reader);
}

struct bulk_batch *bulk_batch_of(struct bb_request *rq, const struct bulk_type *type,
                                 const struct bulk_columns *columns, const char *bytes,
                                 size_t length, int64_t first, int64_t after, size_t most)
{
    struct bulk_batch *batch = bb_alloc(rq, sizeof(*batch));
    struct reading *reading = bb_alloc(rq, sizeof(*reading));

    *batch = (struct bulk_batch){
        .type = type,
        .rows = bb_alloc(rq, (most + 1) * sizeof(struct bb_bulk_row *)),
        .sent = bb_alloc(rq, (most + 1) * sizeof(const char *const *)),
    };
    reading->rq = rq;
    reading->columns = columns;
    reading->batch = batch;
    reading->after = after;
    reading->most = most;
    batch->why = "out of memory";
    if (bulk_reader_begin(&reading->reader, columns->separator, first, take, reading))
        return batch;
    bb_defer(rq, drop_reader, &reading->reader);
    if (bulk_reader_feed(&reading->reader, bytes, length) >= 0 &&
        (reading->reader.stopped || bulk_reader_end(&reading->reader) >= 0))
        batch->why = NULL;
    return batch;
}

const char *bulk_name_of(const struct bulk_type *type, const struct bb_bulk_row *row)
{
    return type && type->rows->name_column < type->columns ? row->cells[type->rows->name_column]
                                                           : NULL;
}

const char *bulk_name_shown(struct bb_request *rq, const struct bulk_type *type,
                            const struct bb_bulk_row *row)
{
    const char *name = bulk_name_of(type, row);
    size_t length = name ? blank_cut(name, BULK_NAME_BYTES) : 0;

    return name && name[length] ? bb_format(rq, "%.*s…", (int)length, name) : name;
}

/* ---- problems as JSON ---- */

/* Formats the problems or warnings of a row as text. Returns NULL if out of memory. */
static const char *problems_json(struct bb_request *rq, const struct bb_bulk_problem *first)
{
    json_t *list = bb_json_hold(rq, json_array());

    for (const struct bb_bulk_problem *at = first; at; at = at->next)
        if (json_array_append_new(
                list, json_pack("{s:s, s:s}", "field", at->field, "problem", at->problem)))
            return NULL;
    return bb_json(rq, list, NULL);
}

const char *bulk_findings_json(struct bb_request *rq, const struct bulk_batch *batch, bool warnings,
                               int64_t *count)
{
    json_t *list = bb_json_hold(rq, json_array());
    size_t length;

    *count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const struct bb_bulk_row *row = batch->rows[i];
        const struct bb_bulk_problem *first = warnings ? row->warnings : row->problems;
        const char *problems = first ? problems_json(rq, first) : NULL;

        if (!first)
            continue;
        ++*count;
        if (!problems ||
            json_array_append_new(
                list, json_pack("{s:I, s:s?, s:s}", "number", (json_int_t)row->number, "name",
                                bulk_name_shown(rq, batch->type, row), "problems", problems)))
            return NULL;
    }
    return list ? bb_json(rq, list, &length) : NULL;
}
