#include "core/main/inspect.h"

#include <stdbool.h>

#include "core/store/migrate.h"

/* ---- the descriptor as JSON ---- */

/* Converts a row of a table to JSON; NULL on failure. */
typedef json_t *inspect_row(const void *row);

struct flag_name {
    unsigned flag;
    const char *name;
};

static json_t *inspect_rows(const struct bb_table *table, inspect_row *make)
{
    json_t *list = json_array();
    int failed = !list;

    for (size_t i = 0; i < table->count; i++)
        failed |= json_array_append_new(list, make((const char *)table->rows + i * table->stride));
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

static const char *inspect_text(const char *text)
{
    return text ? text : "";
}

static json_t *inspect_texts(const char *const *texts)
{
    json_t *list = json_array();

    for (; texts && *texts; texts++)
        json_array_append_new(list, json_string(*texts));
    return list;
}

static json_t *inspect_fields(const struct bb_table *fields);

/* Writes only members that are set, because most rows set only a few. */
static json_t *inspect_field(const void *row)
{
    static const struct flag_name flags[] = {
        {BB_REQUIRED, "required"}, {BB_NULLABLE, "nullable"}, {BB_NOT_BLANK, "notBlank"},
        {BB_SECRET, "secret"},     {BB_RESTART, "restart"},   {BB_CLEARS, "clears"},
    };
    static const char *const types[] = {
        [BB_TEXT] = "text",     [BB_EMAIL] = "email",  [BB_UUID] = "uuid", [BB_INT] = "integer",
        [BB_NUMBER] = "number", [BB_BOOL] = "boolean", [BB_TIME] = "time", [BB_CHOICE] = "choice",
        [BB_OBJECT] = "object", [BB_LIST] = "list",    [BB_ANY] = "any",
    };
    const struct bb_field *field = row;
    bool known = field->type >= BB_TEXT && field->type <= BB_ANY;
    bool bounded = field->min || field->max;
    json_t *json = json_pack(
        "{s:s, s:s, s:o*, s:o*, s:o*, s:o*, s:s*, s:s*, s:s*, s:s*}", "name",
        inspect_text(field->name), "type", known ? types[field->type] : "unknown", "min",
        bounded ? json_integer(field->min) : NULL, "max",
        bounded && field->max >= field->min ? json_integer(field->max) : NULL, "choices",
        field->choices ? inspect_texts(field->choices) : NULL, "fields",
        field->fields.count ? inspect_fields(&field->fields) : NULL, "alias", field->alias,
        "default", field->fallback, "example", field->example, "help", field->help);

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (field->flags & flags[i].flag)
            json_object_set_new(json, flags[i].name, json_true());
    return json;
}

static json_t *inspect_fields(const struct bb_table *fields)
{
    return inspect_rows(fields, inspect_field);
}

static json_t *inspect_part(const void *row)
{
    const struct bb_part *part = row;

    return json_pack("{s:s, s:s, s:b, s:i, s:I, s:s}", "name", inspect_text(part->name), "kind",
                     part->kind == BB_PART_FIELDS ? "fields" : "files", "required",
                     (part->flags & BB_REQUIRED) != 0, "countMax", (int)part->count_max, "bytesMax",
                     (json_int_t)part->bytes_max, "help", inspect_text(part->help));
}

static json_t *inspect_route(const void *row)
{
    static const struct flag_name names[] = {
        {BB_CREATES, "creates"},          {BB_NO_BODY, "noBody"}, {BB_FORM_TOO, "formToo"},
        {BB_OAUTH_ERRORS, "oauthErrors"}, {BB_INSIDE, "inside"},  {BB_KEEP_OTHERS, "keepOthers"},
        {BB_REPLY_IN_503, "replyIn503"},
    };
    const struct bb_route *route = row;
    json_t *flags = json_array(), *roles = json_array();

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (route->flags & names[i].flag)
            json_array_append_new(flags, json_string(names[i].name));
    if (route->roles & BB_ANYONE)
        json_array_append_new(roles, json_string("anyone"));
    for (unsigned role = 1; role < BB_ANY_ROLE; role <<= 1)
        if (route->roles & role)
            json_array_append_new(roles, json_string(bb_role_name(role)));
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:I, s:i, s:o, s:s}", "method",
        inspect_text(route->method), "path", inspect_text(route->path), "roles", roles, "segments",
        inspect_fields(&route->segments), "query", inspect_fields(&route->query), "body",
        inspect_fields(&route->body), "parts", inspect_rows(&route->parts, inspect_part), "reply",
        inspect_fields(&route->reply), "success", route->success ? route->success : 200, "bodyMax",
        (json_int_t)route->body_max, "deadlineMs", (int)route->deadline_ms, "flags", flags, "help",
        inspect_text(route->help));
}

static json_t *inspect_event(const void *row)
{
    const struct bb_event_descriptor *event = row;

    return json_pack("{s:s, s:i, s:o, s:s}", "name", inspect_text(event->name), "version",
                     (int)event->version, "payload", inspect_fields(&event->payload), "help",
                     inspect_text(event->help));
}

static json_t *inspect_hook(const void *row)
{
    const struct bb_hook *hook = row;

    return json_pack("{s:s, s:s}", "event", inspect_text(hook->event), "kind",
                     hook->kind == BB_WITHIN ? "within" : "committed");
}

/* The struct of a service or of a need begins with name and version; only these are shown. */
static json_t *inspect_versioned(const void *row)
{
    const struct bb_need *need = row;

    return json_pack("{s:s, s:i}", "name", inspect_text(need->service), "version",
                     (int)need->version);
}

/* The struct of a channel or of a worker begins with its name, and only the name is shown. */
static json_t *inspect_named(const void *row)
{
    return json_pack("{s:s}", "name", inspect_text(*(const char *const *)row));
}

static json_t *inspect_job(const void *row)
{
    const struct bb_job *job = row;

    return json_pack("{s:s, s:i, s:b}", "name", inspect_text(job->name), "everyS",
                     (int)job->every_s, "once", (job->flags & BB_ONCE) != 0);
}

static json_t *inspect_pool(const void *row)
{
    const struct bb_pool *pool = row;

    return json_pack("{s:s, s:i, s:i, s:i}", "name", inspect_text(pool->name), "threads",
                     (int)pool->threads, "queue", (int)pool->queue, "nice", pool->nice);
}

static json_t *inspect_metric(const void *row)
{
    const struct bb_metric *metric = row;

    return json_pack("{s:s, s:s, s:s, s:o, s:s}", "name", inspect_text(metric->name), "kind",
                     metric->kind == BB_COUNTER ? "counter" : "gauge", "label",
                     inspect_text(metric->label), "values", inspect_texts(metric->values), "help",
                     inspect_text(metric->help));
}

static json_t *inspect_command(const void *row)
{
    const struct bb_command *command = row;

    return json_pack("{s:s, s:o, s:s}", "name", inspect_text(command->name), "options",
                     inspect_fields(&command->options), "help", inspect_text(command->help));
}

json_t *inspect_json(const struct bb_module *descriptor)
{
    const char *schema = descriptor->schema;
    json_t *steps = json_array();
    struct migrate_step step;
    char abi[32], why[128];

    /* lists the steps up to the first malformed one; `busbar check` reports why it is malformed */
    for (unsigned number = 1; schema && migrate_next(&schema, number, &step, why, sizeof why) > 0;
         number++)
        json_array_append_new(
            steps, json_pack("{s:i, s:s}", "step", (int)step.number, "title", step.title));
    snprintf(abi, sizeof abi, "%u.%u", descriptor->abi_major, descriptor->abi_minor);
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "name", descriptor->name, "version", descriptor->version, "abi", abi, "settings",
        inspect_fields(&descriptor->settings), "routes",
        inspect_rows(&descriptor->routes, inspect_route), "events",
        inspect_rows(&descriptor->events, inspect_event), "hooks",
        inspect_rows(&descriptor->hooks, inspect_hook), "services",
        inspect_rows(&descriptor->services, inspect_versioned), "needs",
        inspect_rows(&descriptor->needs, inspect_versioned), "wants",
        inspect_rows(&descriptor->wants, inspect_versioned), "channels",
        inspect_rows(&descriptor->channels, inspect_named), "jobs",
        inspect_rows(&descriptor->jobs, inspect_job), "pools",
        inspect_rows(&descriptor->pools, inspect_pool), "workers",
        inspect_rows(&descriptor->workers, inspect_named), "metrics",
        inspect_rows(&descriptor->metrics, inspect_metric), "commands",
        inspect_rows(&descriptor->commands, inspect_command), "migrations", steps);
}

/* ---- the JSON for people: a line for each row, with all members that are set ---- */

/*
 * Replaces control characters (of ASCII, and of Latin-1 in UTF-8) by ?: a file from an unknown
 * source must not be able to forge lines of the output, or send escape sequences to a terminal.
 */
static void inspect_print_text(const char *text, FILE *out)
{
    for (const unsigned char *at = (const unsigned char *)inspect_text(text); *at; at++) {
        bool latin = *at == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0;

        fputc(latin || *at < 0x20 || *at == 0x7F ? '?' : *at, out);
        at += latin;
    }
}

static void inspect_print_value(const json_t *value, FILE *out)
{
    const json_t *item;
    size_t i;

    json_array_foreach (value, i, item) {
        fputs(i ? "|" : "", out);
        inspect_print_text(json_string_value(item), out);
    }
    if (json_is_integer(value))
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        inspect_print_text(json_is_true(value) ? "true" : json_string_value(value), out);
}

/* The recursion is limited by the nesting of the module's tables. */
static void inspect_print_rows(const char *title, const json_t *rows, int indent, FILE *out)
{
    json_t *row, *value;
    const char *key;
    size_t i;

    fprintf(out, "%*s", indent, "");
    inspect_print_text(title, out);
    fputs(":\n", out);
    json_array_foreach (rows, i, row) {
        const char *before = "";

        fprintf(out, "%*s", indent + 2, "");
        json_object_foreach (row, key, value) {
            bool is_set = json_is_true(value) || json_integer_value(value) ||
                          json_array_size(value) || json_string_length(value);

            if (!is_set || json_is_object(json_array_get(value, 0)))
                continue;
            fputs(before, out);
            inspect_print_text(key, out);
            fputc(' ', out);
            inspect_print_value(value, out);
            before = ", ";
        }
        fputc('\n', out);
        json_object_foreach (row, key, value) {
            if (json_is_object(json_array_get(value, 0)))
                inspect_print_rows(key, value, indent + 4, out);
        }
    }
}

void inspect_print(json_t *descriptor, FILE *out)
{
    static const struct {
        const char *before, *member;
    } head[] = {
        {"", "name"}, {" ", "version"}, {": module ABI ", "abi"}, {", build id ", "buildId"}};
    const char *key;
    json_t *value;

    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) {
        const char *text = json_string_value(json_object_get(descriptor, head[i].member));

        fputs(head[i].before, out);
        inspect_print_text(text ? text : "none", out);
    }
    fputc('\n', out);
    json_object_foreach (descriptor, key, value) {
        if (json_array_size(value)) {
            fputc('\n', out);
            inspect_print_rows(key, value, 0, out);
        }
    }
}
