/* Checks response bodies that are text rather than JSON, if their type has a known form. */
#include <stdbool.h>
#include <string.h>

#include "process.h"
#include "reference_document.h"

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

/* Returns the end of the CSV cell that begins at `at`: its separator, the end of its line or of the
 * text; NULL: its quotes are not closed, or text follows them. */
static const char *cell_end(const char *at, const char *end, char separator)
{
    if (at == end || *at != '"') {
        while (at < end && *at != separator && *at != '\r' && *at != '\n')
            at++;
        return at;
    }
    bool closed = false;

    for (at++; at < end && !closed; at++) {
        if (*at == '"' && at + 1 < end && at[1] == '"')
            at++;
        else
            closed = *at == '"';
    }
    closed = closed && (at == end || *at == separator || *at == '\r' || *at == '\n');
    return closed ? at : NULL;
}

/* Each record must end with a line break and have as many cells as the first one. */
static const char *csv_problem(const char *body, size_t length)
{
    const char *end = body + length;
    const char *at = body + (length >= 3 && !memcmp(body, "\xEF\xBB\xBF", 3) ? 3 : 0);
    size_t cells = 1, all = 0, record = 1;
    char separator = separator_of(body, length);

    while (at < end) {
        at = cell_end(at, end, separator);
        if (!at || at == end)
            return text(": the record %zu is not complete", record);
        if (*at == separator) {
            cells++;
            at++;
            continue;
        }
        all = all ? all : cells;
        if (cells != all)
            return text(": the record %zu has %zu cells and not %zu", record, cells, all);
        at += *at == '\r' && at + 1 < end && at[1] == '\n' ? 2 : 1;
        cells = 1;
        record++;
    }
    return NULL;
}

const char *reference_text_problem(const char *type, const char *body, size_t length)
{
    json_t *utf8 = json_stringn(body, length);
    const char *problem = utf8 ? NULL : " is not UTF-8";

    json_decref(utf8);
    return !problem && !strcmp(type, "text/csv") ? csv_problem(body, length) : problem;
}
