#include "core/main/inspect.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/module/module_load.h"
#include "core/store/migrate.h"

/* ---- fields as json ---- */

static const char *type_name(enum bb_type type)
{
    static const char *const names[] = {
        [BB_TEXT] = "text",     [BB_EMAIL] = "email",  [BB_UUID] = "uuid", [BB_INT] = "integer",
        [BB_NUMBER] = "number", [BB_BOOL] = "boolean", [BB_TIME] = "time", [BB_CHOICE] = "choice",
        [BB_OBJECT] = "object", [BB_LIST] = "list",    [BB_ANY] = "any",
    };

    return type >= BB_TEXT && type <= BB_ANY ? names[type] : "unknown";
}

/* Only what is set: most fields have few flags. */
static int add_flags(json_t *object, unsigned flags)
{
    static const struct {
        unsigned flag;
        const char *name;
    } rows[] = {
        {BB_REQUIRED, "required"}, {BB_NULLABLE, "nullable"}, {BB_NOT_BLANK, "notBlank"},
        {BB_SECRET, "secret"},     {BB_RESTART, "restart"},   {BB_CLEARS, "clears"},
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (flags & rows[i].flag)
            failed |= json_object_set_new(object, rows[i].name, json_true());
    return failed;
}

static int add_bounds(json_t *object, const struct bb_field *field)
{
    int failed = 0;

    if (!field->min && !field->max)
        return 0;
    failed |= json_object_set_new(object, "min", json_integer(field->min));
    if (field->max >= field->min)
        failed |= json_object_set_new(object, "max", json_integer(field->max));
    return failed;
}

static int add_text(json_t *object, const char *name, const char *text)
{
    return text ? json_object_set_new(object, name, json_string(text)) : 0;
}

static int add_choices(json_t *object, const char *const *choices)
{
    json_t *list = choices ? json_array() : NULL;
    int failed = 0;

    if (!choices)
        return 0;
    for (; *choices; choices++)
        failed |= json_array_append_new(list, json_string(*choices));
    return json_object_set_new(object, "choices", list) | failed;
}

static json_t *inspect_fields(const struct bb_table *fields);

static int fill(json_t *object, const struct bb_field *field)
{
    int failed = json_object_set_new(object, "name", json_string(field->name ? field->name : ""));

    failed |= json_object_set_new(object, "type", json_string(type_name(field->type)));
    failed |= add_flags(object, field->flags) | add_bounds(object, field);
    failed |= add_choices(object, field->choices);
    if (field->fields.count)
        failed |= json_object_set_new(object, "fields", inspect_fields(&field->fields));
    failed |= add_text(object, "alias", field->alias) | add_text(object, "help", field->help);
    failed |= add_text(object, "default", field->fallback);
    return failed | add_text(object, "example", field->example);
}

static json_t *inspect_fields(const struct bb_table *fields)
{
    json_t *list = json_array();
    int failed = !list;

    for (size_t i = 0; i < fields->count; i++) {
        json_t *object = json_object();

        failed |= fill(object, &MODULE_ROWS(bb_field, *fields)[i]);
        failed |= json_array_append_new(list, object);
    }
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

/* ---- inspect ---- */

/* A row of a table as JSON; NULL: failed. */
typedef json_t *row_fn(const void *row);

static json_t *each(const struct bb_table *table, row_fn *make)
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

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static json_t *roles_json(unsigned roles)
{
    json_t *list = json_array();

    if (roles & BB_ANYONE)
        json_array_append_new(list, json_string("anyone"));
    for (unsigned role = 1; role < BB_ANY_ROLE; role <<= 1)
        if (roles & role)
            json_array_append_new(list, json_string(bb_role_name(role)));
    return list;
}

static json_t *route_flags(unsigned flags)
{
    static const struct {
        unsigned flag;
        const char *name;
    } rows[] = {
        {BB_CREATES, "creates"},          {BB_NO_BODY, "noBody"}, {BB_FORM_TOO, "formToo"},
        {BB_OAUTH_ERRORS, "oauthErrors"}, {BB_INSIDE, "inside"},  {BB_KEEP_OTHERS, "keepOthers"},
        {BB_REPLY_IN_503, "replyIn503"},
    };
    json_t *list = json_array();

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (flags & rows[i].flag)
            json_array_append_new(list, json_string(rows[i].name));
    return list;
}

static json_t *part_json(const void *row)
{
    const struct bb_part *part = row;

    return json_pack("{s:s, s:s, s:b, s:i, s:I, s:s}", "name", or_empty(part->name), "kind",
                     part->kind == BB_PART_FIELDS ? "fields" : "files", "required",
                     (part->flags & BB_REQUIRED) != 0, "countMax", (int)part->count_max, "bytesMax",
                     (json_int_t)part->bytes_max, "help", or_empty(part->help));
}

static json_t *route_json(const void *row)
{
    const struct bb_route *route = row;

    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:I, s:i, s:o, s:s}", "method",
        or_empty(route->method), "path", or_empty(route->path), "roles", roles_json(route->roles),
        "segments", inspect_fields(&route->segments), "query", inspect_fields(&route->query),
        "body", inspect_fields(&route->body), "parts", each(&route->parts, part_json), "reply",
        inspect_fields(&route->reply), "success", route->success ? route->success : 200, "bodyMax",
        (json_int_t)route->body_max, "deadlineMs", (int)route->deadline_ms, "flags",
        route_flags(route->flags), "help", or_empty(route->help));
}

static json_t *event_json(const void *row)
{
    const struct bb_event_descriptor *event = row;

    return json_pack("{s:s, s:i, s:o, s:s}", "name", or_empty(event->name), "version",
                     (int)event->version, "payload", inspect_fields(&event->payload), "help",
                     or_empty(event->help));
}

static json_t *hook_json(const void *row)
{
    const struct bb_hook *hook = row;

    return json_pack("{s:s, s:s}", "event", or_empty(hook->event), "kind",
                     hook->kind == BB_WITHIN ? "within" : "committed");
}

static json_t *service_json(const void *row)
{
    const struct bb_service_descriptor *service = row;

    return json_pack("{s:s, s:i}", "name", or_empty(service->name), "version",
                     (int)service->version);
}

static json_t *need_json(const void *row)
{
    const struct bb_need *need = row;

    return json_pack("{s:s, s:i}", "name", or_empty(need->service), "version", (int)need->version);
}

static json_t *channel_json(const void *row)
{
    return json_pack("{s:s}", "name", or_empty(((const struct bb_channel *)row)->name));
}

static json_t *job_json(const void *row)
{
    const struct bb_job *job = row;

    return json_pack("{s:s, s:i, s:b}", "name", or_empty(job->name), "everyS", (int)job->every_s,
                     "once", (job->flags & BB_ONCE) != 0);
}

static json_t *pool_json(const void *row)
{
    const struct bb_pool *pool = row;

    return json_pack("{s:s, s:i, s:i, s:i}", "name", or_empty(pool->name), "threads",
                     (int)pool->threads, "queue", (int)pool->queue, "nice", pool->nice);
}

static json_t *worker_json(const void *row)
{
    return json_pack("{s:s}", "name", or_empty(((const struct bb_worker *)row)->name));
}

static json_t *metric_json(const void *row)
{
    const struct bb_metric *metric = row;
    json_t *values = json_array();

    for (size_t i = 0; metric->values && metric->values[i]; i++)
        json_array_append_new(values, json_string(metric->values[i]));
    return json_pack("{s:s, s:s, s:s, s:o, s:s}", "name", or_empty(metric->name), "kind",
                     metric->kind == BB_COUNTER ? "counter" : "gauge", "label",
                     or_empty(metric->label), "values", values, "help", or_empty(metric->help));
}

static json_t *command_json(const void *row)
{
    const struct bb_command *command = row;

    return json_pack("{s:s, s:o, s:s}", "name", or_empty(command->name), "options",
                     inspect_fields(&command->options), "help", or_empty(command->help));
}

/* Lists the steps up to the first malformed one; `busbar check` reports why it is malformed. */
static json_t *migrations_json(const char *schema)
{
    json_t *list = json_array();
    struct migrate_step step;
    unsigned expected = 1;
    char why[128];

    while (schema && migrate_next(&schema, expected, &step, why, sizeof why) > 0) {
        json_array_append_new(
            list, json_pack("{s:i, s:s}", "step", (int)step.number, "title", step.title));
        expected++;
    }
    return list;
}

json_t *inspect_json(const struct bb_module *descriptor)
{
    char abi[32];

    snprintf(abi, sizeof abi, "%u.%u", descriptor->abi_major, descriptor->abi_minor);
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "name", descriptor->name, "version", descriptor->version, "abi", abi, "settings",
        inspect_fields(&descriptor->settings), "routes", each(&descriptor->routes, route_json),
        "events", each(&descriptor->events, event_json), "hooks",
        each(&descriptor->hooks, hook_json), "services", each(&descriptor->services, service_json),
        "needs", each(&descriptor->needs, need_json), "wants", each(&descriptor->wants, need_json),
        "channels", each(&descriptor->channels, channel_json), "jobs",
        each(&descriptor->jobs, job_json), "pools", each(&descriptor->pools, pool_json), "workers",
        each(&descriptor->workers, worker_json), "metrics", each(&descriptor->metrics, metric_json),
        "commands", each(&descriptor->commands, command_json), "migrations",
        migrations_json(descriptor->schema));
}

/* ---- texts without control characters ---- */

/* Returns the length of the control character at `text`, or 0: one byte in ASCII, two in Latin-1.
 */
static size_t control_at(const unsigned char *text)
{
    if (*text < 0x20 || *text == 0x7F)
        return 1;
    return *text == 0xC2 && text[1] >= 0x80 && text[1] < 0xA0 ? 2 : 0;
}

/* Whether there was any. */
static bool cross_out(char *text)
{
    bool found = false;

    for (; *text; text++) {
        size_t length = control_at((const unsigned char *)text);

        memset(text, '?', length);
        found |= length > 0;
    }
    return found;
}

static int sanitize_text(json_t *json)
{
    char *copy = strdup(json_string_value(json));
    int failed = !copy || (cross_out(copy) && json_string_set(json, copy));

    free(copy);
    return failed ? -1 : 0;
}

int inspect_sanitize(json_t *json)
{
    const char *key;
    json_t *value;
    size_t i;
    int failed = 0;

    if (json_is_string(json))
        return sanitize_text(json);
    json_array_foreach(json, i, value)
    {
        failed |= inspect_sanitize(value);
    }
    json_object_foreach(json, key, value)
    {
        failed |= inspect_sanitize(value);
    }
    return failed;
}

/* ---- a module's descriptor for people, from its json ---- */

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
