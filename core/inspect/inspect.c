#include "core/inspect/inspect.h"

#include "core/migrate/migrate.h"
#include "core/module/module_load.h"

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

/* Steps as far as they can be told apart; `busbar check` says what is wrong with the rest. */
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
