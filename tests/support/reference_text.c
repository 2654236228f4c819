/* Checks response bodies that are text rather than JSON, if their type has a known form. */
#include <csv.h>
#include <stdbool.h>
#include <string.h>

#include "process.h"
#include "reference.h"

/* Returns the separator of the cells, because a failed upload is returned with its original
 * separator. */
static char separator_of(const char *body, size_t length)
{
    for (size_t i = 0; i < length && body[i] != '\n'; i++) {
        if (strchr(",;\t", body[i]))
            return body[i];
    }
    return ',';
}

struct table {
    size_t cells, all, records; /* cells of this record and of the first; complete records */
    bool surplus;               /* a cell of this record reports surplus cells (failed.csv) */
    bool uneven;
};

static void end_cell(void *cell, size_t length, void *arg)
{
    static const char report[] = " cells, but the header line has ";
    struct table *table = arg;

    table->cells++;
    if (table->cells == table->all && memmem(cell, length, report, sizeof report - 1))
        table->surplus = true;
}

static void end_record(int byte, void *arg)
{
    struct table *table = arg;

    (void)byte;
    if (!table->records++)
        table->all = table->cells;
    if (table->surplus ? table->cells <= table->all : table->cells != table->all)
        table->uneven = true;
    table->cells = 0;
    table->surplus = false;
}

/* Each record must end with a line break and have as many cells as the first one. Only a record of
 * which the last of these cells reports surplus cells must have more. */
static const char *csv_problem(const char *body, size_t length)
{
    size_t mark = length >= 3 && !memcmp(body, "\xEF\xBB\xBF", 3) ? 3 : 0;
    struct table table = {0};
    struct csv_parser parser;

    if (length && body[length - 1] != '\n' && body[length - 1] != '\r')
        return ": the last record is not complete";
    if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI))
        return " cannot be parsed";
    csv_set_delim(&parser, (unsigned char)separator_of(body, length));
    bool whole = csv_parse(&parser, body + mark, length - mark, end_cell, end_record, &table) ==
                     length - mark &&
                 !csv_fini(&parser, end_cell, end_record, &table);
    const char *problem = whole ? NULL : text(": %s", csv_strerror(csv_error(&parser)));

    csv_free(&parser);
    if (table.uneven)
        return text(": a record has not %zu cells", table.all);
    return problem;
}

const char *reference_text_problem(const char *type, const char *body, size_t length)
{
    json_t *utf8 = json_stringn(body, length);
    const char *problem = utf8 ? NULL : " is not UTF-8";

    json_decref(utf8);
    return !problem && !strcmp(type, "text/csv") ? csv_problem(body, length) : problem;
}
