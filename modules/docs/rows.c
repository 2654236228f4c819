/*
 * The columns of files of rows: a Markdown table for each type that loaded modules provide ("bulk
 * rows:TYPE"), at the routes that accept a file and that return its template.
 */
#include "docs.h"

#include <busbar/bulk.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_column(FILE *out, const struct bb_field *column)
{
    fprintf(out, "| `%s`", column->name);
    if (column->alias)
        fprintf(out, " or `%s`", column->alias);
    fprintf(out, " | %s | %s |\n", column->flags & BB_REQUIRED ? "yes" : "no",
            column->help ? column->help : "");
}

static void write_type(FILE *out, const struct bb_given *given)
{
    const struct bb_bulk_rows *rows = given->interface;

    fprintf(out,
            "\n\n**Columns of type %s:** %s\n\n| Column | Required | Meaning |\n|---|---|---|\n",
            given->name + strlen(BB_BULK_ROWS), rows->help ? rows->help : "");
    for (size_t i = 0; i < rows->columns.count; i++)
        write_column(out, DOCS_ROW(bb_field, rows->columns, i));
}

/*
 * Returns whether a route, of a module that uses such types, accepts a file or returns one without
 * naming an object.
 */
static bool is_about_rows(const struct bb_module *module, const struct bb_route *route)
{
    bool gives = route->reply_type && !strcmp(route->reply_type, "text/csv");

    if (!route->parts.count && !(gives && !route->segments.count))
        return false;
    for (size_t i = 0; i < module->wants.count; i++)
        if (!strcmp(DOCS_ROW(bb_need, module->wants, i)->service, BB_BULK_ROWS "*"))
            return true;
    return false;
}

char *docs_columns(struct docs_maker *maker, const struct bb_module *module,
                   const struct bb_route *route)
{
    struct bb_given given = {.size = sizeof(given)};
    char *text = NULL;
    size_t length;

    if (!is_about_rows(module, route))
        return NULL;
    FILE *out = open_memstream(&text, &length);

    for (size_t i = 0; out && bb_service_at(maker->host, BB_BULK_ROWS, i, &given); i++)
        write_type(out, &given);
    if (out && !fclose(out))
        return text;
    maker->failed = true;
    free(text);
    return NULL;
}
