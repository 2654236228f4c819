/* A module's descriptor for people, from its JSON, see inspect.h. */
#include <stdbool.h>
#include <string.h>

#include "core/inspect/inspect.h"

enum { ALL_ROLES = 6 };

static const char *word(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static int number(const json_t *object, const char *key)
{
    return (int)json_integer_value(json_object_get(object, key));
}

static void print_list(const json_t *list, const char *between, FILE *out)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        fprintf(out, "%s%s", i ? between : "", json_string_value(item));
    }
}

/* "name!" is required; members of objects stand in braces, items of lists in brackets. */
static void print_names(const json_t *fields, FILE *out)
{
    const json_t *field;
    size_t i;

    json_array_foreach(fields, i, field)
    {
        const json_t *inner = json_object_get(field, "fields");
        bool list = !strcmp(word(field, "type"), "list");

        fprintf(out, "%s%s%s", i ? ", " : "", word(field, "name"),
                json_object_get(field, "required") ? "!" : "");
        if (list || inner)
            fputs(list ? "[" : " {", out);
        print_names(inner, out);
        if (list || inner)
            fputs(list ? "]" : "}", out);
    }
}

static void print_fields(const char *what, const json_t *fields, FILE *out)
{
    if (!json_array_size(fields))
        return;
    fprintf(out, "      %s: ", what);
    print_names(fields, out);
    fputc('\n', out);
}

/* "name!" is required, "name*10" may bring ten files. */
static void print_parts(const json_t *parts, FILE *out)
{
    const json_t *part;
    size_t i;

    if (json_array_size(parts))
        fputs("      parts: ", out);
    json_array_foreach(parts, i, part)
    {
        fprintf(out, "%s%s%s", i ? ", " : "", word(part, "name"),
                json_is_true(json_object_get(part, "required")) ? "!" : "");
        if (!strcmp(word(part, "kind"), "files"))
            fprintf(out, "*%d", number(part, "countMax"));
    }
    if (json_array_size(parts))
        fputc('\n', out);
}

static void print_help(const json_t *row, FILE *out)
{
    if (*word(row, "help"))
        fprintf(out, "      %s\n", word(row, "help"));
}

static void print_route(const json_t *row, FILE *out)
{
    const json_t *roles = json_object_get(row, "roles");

    fprintf(out, "  %s %s  (", word(row, "method"), word(row, "path"));
    if (json_array_size(roles) == ALL_ROLES)
        fputs("every account", out);
    else
        print_list(roles, ", ", out);
    fputs(")\n", out);
    print_help(row, out);
    print_fields("segments", json_object_get(row, "segments"), out);
    print_fields("query", json_object_get(row, "query"), out);
    print_fields("body", json_object_get(row, "body"), out);
    print_parts(json_object_get(row, "parts"), out);
    print_fields("reply", json_object_get(row, "reply"), out);
}

static void print_bounds(const json_t *row, FILE *out)
{
    const json_t *min = json_object_get(row, "min"), *max = json_object_get(row, "max");
    bool counted =
        strcmp(word(row, "type"), "integer") != 0 && strcmp(word(row, "type"), "number") != 0;

    if (min && (!counted || json_integer_value(min)))
        fprintf(out, " from %" JSON_INTEGER_FORMAT, json_integer_value(min));
    if (max)
        fprintf(out, " to %" JSON_INTEGER_FORMAT, json_integer_value(max));
    if (max && counted)
        fputs(!strcmp(word(row, "type"), "list") ? " items" : " characters", out);
}

static void print_setting(const json_t *row, FILE *out)
{
    const json_t *fallback = json_object_get(row, "default");

    fprintf(out, "  %s: %s", word(row, "name"), word(row, "type"));
    if (json_object_get(row, "choices"))
        fputs(" of ", out);
    print_list(json_object_get(row, "choices"), "|", out);
    print_bounds(row, out);
    if (fallback)
        fprintf(out, ", default %s",
                *json_string_value(fallback) ? json_string_value(fallback) : "\"\"");
    fprintf(out, "%s%s%s\n", json_object_get(row, "required") ? ", required" : "",
            json_object_get(row, "secret") ? ", secret" : "",
            json_object_get(row, "restart") ? ", changed by a restart only" : "");
    print_help(row, out);
}

static void print_event(const json_t *row, FILE *out)
{
    fprintf(out, "  %s, version %d\n", word(row, "name"), number(row, "version"));
    print_help(row, out);
    print_fields("payload", json_object_get(row, "payload"), out);
}

static void print_hook(const json_t *row, FILE *out)
{
    fprintf(out, "  %s, %s\n", word(row, "event"), word(row, "kind"));
}

static void print_versioned(const json_t *row, FILE *out)
{
    fprintf(out, "  %s, version %d\n", word(row, "name"), number(row, "version"));
}

static void print_named(const json_t *row, FILE *out)
{
    fprintf(out, "  %s\n", word(row, "name"));
}

static void print_job(const json_t *row, FILE *out)
{
    fprintf(out, "  %s, every %d s%s\n", word(row, "name"), number(row, "everyS"),
            json_is_true(json_object_get(row, "once")) ? ", once in a cluster" : "");
}

static void print_pool(const json_t *row, FILE *out)
{
    fprintf(out, "  %s, %d threads, %d waiting, nice %d\n", word(row, "name"),
            number(row, "threads"), number(row, "queue"), number(row, "nice"));
}

static void print_metric(const json_t *row, FILE *out)
{
    const char *label = word(row, "label");

    fprintf(out, "  %s, %s%s%s\n", word(row, "name"), word(row, "kind"), *label ? ", by " : "",
            label);
    print_help(row, out);
}

static void print_command(const json_t *row, FILE *out)
{
    fprintf(out, "  busbar %s\n", word(row, "name"));
    print_help(row, out);
    print_fields("options", json_object_get(row, "options"), out);
}

static void print_migration(const json_t *row, FILE *out)
{
    fprintf(out, "  step %d: %s\n", number(row, "step"), word(row, "title"));
}

void inspect_print(const json_t *descriptor, FILE *out)
{
    static const struct {
        const char *table;
        void (*print)(const json_t *row, FILE *out);
    } parts[] = {
        {"settings", print_setting}, {"routes", print_route},         {"events", print_event},
        {"hooks", print_hook},       {"services", print_versioned},   {"needs", print_versioned},
        {"wants", print_versioned},  {"channels", print_named},       {"jobs", print_job},
        {"pools", print_pool},       {"workers", print_named},        {"metrics", print_metric},
        {"commands", print_command}, {"migrations", print_migration},
    };
    const json_t *row;
    size_t k;

    fprintf(out, "%s %s: module ABI %s, build id %s\n", word(descriptor, "name"),
            word(descriptor, "version"), word(descriptor, "abi"),
            *word(descriptor, "buildId") ? word(descriptor, "buildId") : "none");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const json_t *rows = json_object_get(descriptor, parts[i].table);

        if (json_array_size(rows))
            fprintf(out, "\n%s:\n", parts[i].table);
        json_array_foreach(rows, k, row)
        {
            parts[i].print(row, out);
        }
    }
}
