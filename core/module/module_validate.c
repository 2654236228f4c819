#include "core/module/module_validate.h"

#include <stdio.h>
#include <string.h>

#include "core/lib/field.h"
#include "core/lib/host_settings.h"
#include "core/module/migrate_steps.h"

static bool (*is_host_command)(const char *name), (*is_host_metric)(const char *name);

void module_names_reserve(bool (*command)(const char *name), bool (*metric)(const char *name))
{
    is_host_command = command;
    is_host_metric = metric;
}

void metric_full_name(const struct bb_module *descriptor, const struct bb_metric *metric,
                      char name[METRIC_NAME_MAX])
{
    snprintf(name, METRIC_NAME_MAX, "busbar_%s_%s", descriptor->name, metric->name);
}

/* ---- tables of fields ---- */

#define SETTINGS_STRUCT_MAX 65536

static void complain_of_field(struct setting_problems *problems, const char *place,
                              const char *name, const char *reason)
{
    setting_problem(problems, "module %s: field \"%s\" %s", place, name, reason);
}

/*
 * A default that its own field refuses would cause an error at the first start without the setting.
 */
static void check_fallback(const struct bb_field *field, const char *place,
                           struct setting_problems *problems)
{
    struct arena *arena = field->fallback ? arena_new() : NULL;
    struct problems found = {.arena = arena};

    if (!arena)
        return;
    if (!field_check_text(field, field->fallback, arena, &found))
        setting_problem(problems, "module %s: the default of field \"%s\" %s", place, field->name,
                        found.count ? found.list[0].text : "out of memory");
    arena_free(arena);
}

static void fields_sane(const struct bb_table *fields, const char *place,
                        struct setting_problems *problems);

static void check_field(const struct bb_field *field, const char *place,
                        struct setting_problems *problems)
{
    if (field->type < BB_TEXT || field->type > BB_ANY) {
        complain_of_field(problems, place, field->name, "has an unknown type");
        return;
    }
    if ((field->type == BB_CHOICE) != (field->choices != NULL))
        complain_of_field(problems, place, field->name,
                          "must have choices if it is a BB_CHOICE, and only then");
    if (field->max && field->min > field->max)
        complain_of_field(problems, place, field->name, "has a lower bound above the upper one");
    if (field->fields.count && field->type != BB_OBJECT && field->type != BB_LIST)
        complain_of_field(problems, place, field->name,
                          "has nested fields but is not an object or list");
    if (field->fields.count > 1 && field->type == BB_LIST)
        complain_of_field(problems, place, field->name,
                          "is a list and may have one row of fields only");
    if (field->type != BB_CHOICE || field->choices)
        check_fallback(field, place, problems);
    fields_sane(&field->fields, place, problems);
}

/*
 * A bound row requires a `settings_size` (NULL: these are not settings), and a member within that
 * size.
 */
static void check_fields(const struct bb_table *fields, const size_t *settings_size,
                         const char *place, struct setting_problems *problems)
{
    const struct bb_field *rows = MODULE_ROWS(bb_field, *fields);
    for (size_t i = 0; i < fields->count; i++) {
        if (!rows[i].name || !*rows[i].name) {
            setting_problem(problems, "module %s: a field has no name", place);
            return;
        }
        check_field(&rows[i], place, problems);
        const char *fault = settings_size       ? settings_bind_fault(fields, i, *settings_size)
                            : rows[i].bind.size ? "is bound, but it is not a setting"
                                                : NULL;

        if (fault)
            complain_of_field(problems, place, rows[i].name, fault);
        const struct bb_table before = {fields->rows, i, fields->stride};

        if (field_find(&before, rows[i].name) ||
            (rows[i].alias && field_find(&before, rows[i].alias)))
            complain_of_field(problems, place, rows[i].name, "is given twice");
    }
}

/*
 * Checks a table of fields, including nested ones; `place` names it: "auth: event account.new". Its
 * rows must not be bound, because only settings can be.
 */
static void fields_sane(const struct bb_table *fields, const char *place,
                        struct setting_problems *problems)
{
    check_fields(fields, NULL, place, problems);
}

/* ---- one module ---- */

#define NAME_MAX_LENGTH 48
#define THREADS_MAX 256

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

BB_PRINTF(3, 4)
static void complain(const struct core_module *module, struct setting_problems *problems,
                     const char *format, ...)
{
    char reason[512];
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    setting_problem(problems, "%s: module %s: %s", module->path, module->descriptor->name, reason);
}

/*
 * Whether the name begins with a lower-case letter, continues with these characters, and is short
 * enough.
 */
static bool name_fits(const char *name, const char *more)
{
    return name && *name && strchr(LOWER, *name) && !name[strspn(name, more)] &&
           strlen(name) <= NAME_MAX_LENGTH;
}

static void check_parts(const struct core_module *module, const struct bb_route *route,
                        struct setting_problems *problems)
{
    const struct bb_part *parts = MODULE_ROWS(bb_part, route->parts);
    const struct bb_module *descriptor = module->descriptor;
    const struct bb_pool *pools = MODULE_ROWS(bb_pool, descriptor->pools);
    size_t fields = 0, files = 0;
    bool has_pool = false;
    for (size_t i = 0; i < route->parts.count; i++) {
        fields += parts[i].kind == BB_PART_FIELDS;
        if (parts[i].kind == BB_PART_FILES)
            files += parts[i].count_max;
        if (!parts[i].name || (parts[i].kind == BB_PART_FILES && !parts[i].count_max))
            complain(module, problems, "a part of route %s %s needs a name and a count",
                     route->method, route->path);
    }
    if (fields > 1 || files > BB_FILES_MAX)
        complain(module, problems, "route %s %s has more parts than one of fields and %d of files",
                 route->method, route->path, BB_FILES_MAX);
    const struct bb_field *setting =
        route->files_in ? field_find(&descriptor->settings, route->files_in) : NULL;

    for (size_t i = 0; i < descriptor->pools.count; i++)
        has_pool = has_pool || (route->files_pool && pools[i].name &&
                                !strcmp(pools[i].name, route->files_pool));
    if (files && (!setting || setting->type != BB_TEXT || !has_pool))
        complain(module, problems, "route %s %s must name a setting and a pool for its files",
                 route->method, route->path);
}

/* Errors that the router reports (method, path, roles 0) are not reported here. */
static void check_route(const struct core_module *module, const struct bb_route *route,
                        struct setting_problems *problems)
{
    const struct {
        const struct bb_table *fields;
        const char *what;
    } tables[] = {{&route->segments, "segments"},
                  {&route->query, "query"},
                  {&route->body, "body"},
                  {&route->reply, "reply"}};
    char place[256];

    if (!route->method || !route->path) {
        complain(module, problems, "a route has no method or path");
        return;
    }
    if (!route->handler)
        complain(module, problems, "route %s %s has no handler", route->method, route->path);
    if (route->roles & ~(unsigned)(BB_ANY_ROLE | BB_ANYONE))
        complain(module, problems, "route %s %s names an unknown role", route->method, route->path);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        snprintf(place, sizeof place, "%s: %s %s: %s", module->descriptor->name, route->method,
                 route->path, tables[i].what);
        fields_sane(tables[i].fields, place, problems);
    }
    check_parts(module, route, problems);
}

static void check_event(const struct core_module *module, const struct bb_event_descriptor *event,
                        struct setting_problems *problems)
{
    char place[256];

    if (!name_fits(event->name, LOWER DIGITS "_.-") || !event->version) {
        complain(module, problems, "event \"%s\" needs a name of a-z, 0-9, . - _ and a version",
                 event->name ? event->name : "");
        return;
    }
    snprintf(place, sizeof place, "%s: event %s", module->descriptor->name, event->name);
    fields_sane(&event->payload, place, problems);
}

static void check_hook(const struct core_module *module, const struct bb_hook *hook,
                       struct setting_problems *problems)
{
    bool within = hook->kind == BB_WITHIN && hook->within && !hook->committed;
    bool committed = hook->kind == BB_COMMITTED && hook->committed && !hook->within;

    if (!hook->event)
        complain(module, problems, "a hook names no event");
    else if (!within && !committed)
        complain(module, problems, "the hook on %s must have exactly the function of its kind",
                 hook->event);
}

static void check_needs(const struct core_module *module, const struct bb_table *table,
                        struct setting_problems *problems)
{
    const struct bb_need *needs = MODULE_ROWS(bb_need, *table);

    for (size_t i = 0; i < table->count; i++)
        if (!needs[i].service || !needs[i].version)
            complain(module, problems, "a need must name a service and a version");
}

/* Services, channels, jobs, workers and pools. */
static void check_rows(const struct core_module *module, struct setting_problems *problems)
{
    const struct bb_module *descriptor = module->descriptor;
    const struct bb_service_descriptor *given =
        MODULE_ROWS(bb_service_descriptor, descriptor->services);
    const struct bb_channel *channels = MODULE_ROWS(bb_channel, descriptor->channels);
    const struct bb_job *jobs = MODULE_ROWS(bb_job, descriptor->jobs);
    const struct bb_pool *pools = MODULE_ROWS(bb_pool, descriptor->pools);
    const struct bb_worker *workers = MODULE_ROWS(bb_worker, descriptor->workers);

    for (size_t i = 0; i < descriptor->services.count; i++)
        if (!given[i].name || !given[i].version || !given[i].interface)
            complain(module, problems, "service \"%s\" needs a name, a version and an interface",
                     given[i].name ? given[i].name : "");
    check_needs(module, &descriptor->needs, problems);
    check_needs(module, &descriptor->wants, problems);
    for (size_t i = 0; i < descriptor->channels.count; i++)
        if (!name_fits(channels[i].name, LOWER DIGITS "_") || !channels[i].heard)
            complain(module, problems,
                     "channel \"%s\" needs a name of a-z, 0-9 and _, and a function",
                     channels[i].name ? channels[i].name : "");
    for (size_t i = 0; i < module->descriptor->jobs.count; i++)
        if (!jobs[i].name || !jobs[i].every_s || !jobs[i].run)
            complain(module, problems, "job \"%s\" needs a name, a period and a function",
                     jobs[i].name ? jobs[i].name : "");
    for (size_t i = 0; i < module->descriptor->workers.count; i++)
        if (!workers[i].name || !workers[i].run)
            complain(module, problems, "worker \"%s\" needs a name and a function",
                     workers[i].name ? workers[i].name : "");
    for (size_t i = 0; i < module->descriptor->pools.count; i++)
        if (!pools[i].name || !pools[i].threads || pools[i].threads > THREADS_MAX ||
            !pools[i].queue)
            complain(module, problems, "pool \"%s\" needs a name, 1 to %d threads and a queue",
                     pools[i].name ? pools[i].name : "", THREADS_MAX);
}

/* Metrics that the text format cannot represent, or that would not be found under their names. */
static const char *metric_fault(const struct bb_metric *metric)
{
    size_t length = metric->name ? strlen(metric->name) : 0;
    bool total = length > 6 && !strcmp(metric->name + length - 6, "_total");

    if (!name_fits(metric->name, LOWER DIGITS "_"))
        return "needs a name of a-z, 0-9 and _";
    if (!metric->help)
        return "needs a help";
    if (metric->kind != BB_COUNTER && metric->kind != BB_GAUGE)
        return "must be a counter or a gauge";
    if (total != (metric->kind == BB_COUNTER))
        return "must end with _total if it is a counter, and only then";
    if (metric->kind == BB_GAUGE && !metric->read)
        return "is a gauge and has no function to read it";
    if (!metric->label != !metric->values || (metric->values && !metric->values[0]))
        return "needs a label with its values, or neither";
    if (metric->label && !name_fits(metric->label, LOWER DIGITS "_"))
        return "needs a label of a-z, 0-9 and _";
    for (size_t i = 0; metric->values && metric->values[i]; i++) {
        if (!name_fits(metric->values[i], LOWER DIGITS "_.-"))
            return "needs values of its label of a-z, 0-9, . - and _";
        for (size_t k = 0; k < i; k++)
            if (!strcmp(metric->values[k], metric->values[i]))
                return "has a value of its label twice";
    }
    return NULL;
}

static void check_command(const struct core_module *module, const struct bb_command *command,
                          struct setting_problems *problems)
{
    char place[256], word[NAME_MAX_LENGTH + 1];

    if (!name_fits(command->name, LOWER DIGITS "- ") || !command->run) {
        complain(module, problems, "command \"%s\" needs a name of words of a-z, and a function",
                 command->name ? command->name : "");
        return;
    }
    /* the host's commands take precedence: `busbar status mine` would run `status` */
    snprintf(word, sizeof word, "%.*s", (int)strcspn(command->name, " "), command->name);
    if (is_host_command && is_host_command(word))
        complain(module, problems, "command \"%s\" begins like a command of the host",
                 command->name);
    snprintf(place, sizeof place, "%s: command %s", module->descriptor->name, command->name);
    fields_sane(&command->options, place, problems);
}

void module_validate(const struct core_module *module, struct setting_problems *problems)
{
    const struct bb_module *descriptor = module->descriptor;
    char place[256];

    if (!name_fits(descriptor->name, LOWER DIGITS "_"))
        complain(module, problems, "its name must be of a-z, 0-9 and _, and begin with a letter");
    else if (host_settings_own(descriptor->name) || !strcmp(descriptor->name, "busbar"))
        complain(module, problems, "its name is taken by the host");
    snprintf(place, sizeof place, "%s: settings", descriptor->name);
    if (descriptor->settings_size > SETTINGS_STRUCT_MAX)
        setting_problem(problems, "module %s: `settings_size` is more than %d bytes", place,
                        SETTINGS_STRUCT_MAX);
    check_fields(&descriptor->settings, &descriptor->settings_size, place, problems);
    for (size_t i = 0; i < descriptor->routes.count; i++)
        check_route(module, &MODULE_ROWS(bb_route, descriptor->routes)[i], problems);
    for (size_t i = 0; i < descriptor->events.count; i++)
        check_event(module, &MODULE_ROWS(bb_event_descriptor, descriptor->events)[i], problems);
    for (size_t i = 0; i < descriptor->hooks.count; i++)
        check_hook(module, &MODULE_ROWS(bb_hook, descriptor->hooks)[i], problems);
    for (size_t i = 0; i < descriptor->commands.count; i++)
        check_command(module, &MODULE_ROWS(bb_command, descriptor->commands)[i], problems);
    check_rows(module, problems);
    for (size_t i = 0; i < descriptor->metrics.count; i++) {
        const struct bb_metric *metric = &MODULE_ROWS(bb_metric, descriptor->metrics)[i];
        const char *fault = metric_fault(metric);

        if (fault)
            complain(module, problems, "metric \"%s\" %s", metric->name ? metric->name : "", fault);
    }
    const char *cursor = descriptor->schema;
    struct migrate_step step;
    char why[128];
    int found = cursor ? 1 : 0;

    for (unsigned number = 1; found == 1; number++)
        found = migrate_next(&cursor, number, &step, why, sizeof why);
    if (found < 0)
        complain(module, problems, "its schema %s", why);
}

/* ---- all modules together ---- */

/* Tables whose rows begin with a name that only one module may define. */
struct kind {
    const char *what;
    size_t table;    /* offset in struct bb_module */
    bool per_module; /* several modules may use the same name */
};

static const struct kind kinds[] = {
    {"service", offsetof(struct bb_module, services), false},
    {"event", offsetof(struct bb_module, events), false},
    {"command", offsetof(struct bb_module, commands), false},
    {"job", offsetof(struct bb_module, jobs), true},
    {"pool", offsetof(struct bb_module, pools), true},
    {"worker", offsetof(struct bb_module, workers), true},
};

_Static_assert(offsetof(struct bb_service_descriptor, name) == 0, "rows begin with their name");
_Static_assert(offsetof(struct bb_event_descriptor, name) == 0, "rows begin with their name");
_Static_assert(offsetof(struct bb_command, name) == 0, "rows begin with their name");
_Static_assert(offsetof(struct bb_job, name) == 0, "rows begin with their name");
_Static_assert(offsetof(struct bb_pool, name) == 0, "rows begin with their name");
_Static_assert(offsetof(struct bb_worker, name) == 0, "rows begin with their name");

static const struct bb_table *table_of(const struct core_module *module, const struct kind *kind)
{
    return (const struct bb_table *)(const void *)((const char *)module->descriptor + kind->table);
}

static const char *row_name(const struct bb_table *table, size_t row)
{
    return *(const char *const *)(const void *)((const char *)table->rows + row * table->stride);
}

/* Number of rows of the table before `end` that have this name. */
static size_t rows_named(const struct bb_table *table, size_t end, const char *name)
{
    size_t found = 0;

    for (size_t i = 0; i < end; i++)
        found += row_name(table, i) && !strcmp(row_name(table, i), name);
    return found;
}

static void check_row(const struct core_module *modules, size_t index, const struct kind *kind,
                      size_t row, struct setting_problems *problems)
{
    const struct bb_table *own = table_of(&modules[index], kind);
    const char *name = row_name(own, row);

    if (!name)
        return;
    if (rows_named(own, row, name))
        setting_problem(problems, "module %s gives the %s \"%s\" twice",
                        modules[index].descriptor->name, kind->what, name);
    for (size_t i = 0; i < index && !kind->per_module; i++) {
        const struct bb_table *other = table_of(&modules[i], kind);

        if (rows_named(other, other->count, name))
            setting_problem(problems, "modules %s and %s both give the %s \"%s\"",
                            modules[i].descriptor->name, modules[index].descriptor->name,
                            kind->what, name);
    }
}

/* Number of metrics among the first `end` of a module that have this full name. */
static size_t metrics_named(const struct bb_module *descriptor, size_t end, const char *name)
{
    const struct bb_metric *rows = MODULE_ROWS(bb_metric, descriptor->metrics);
    char other[METRIC_NAME_MAX];
    size_t found = 0;

    for (size_t i = 0; i < end; i++) {
        if (!rows[i].name)
            continue;
        metric_full_name(descriptor, &rows[i], other);
        found += !strcmp(other, name);
    }
    return found;
}

/*
 * Refuses equal names, because with them readers of GET /metrics reject all metrics. busbar_a_b_c
 * may be the metric b_c of module a, or c of module a_b.
 */
static void check_metric_names(const struct core_module *modules, size_t index,
                               struct setting_problems *problems)
{
    const struct bb_module *descriptor = modules[index].descriptor;
    const struct bb_metric *rows = MODULE_ROWS(bb_metric, descriptor->metrics);
    char name[METRIC_NAME_MAX];

    for (size_t i = 0; i < descriptor->metrics.count; i++) {
        if (!rows[i].name)
            continue;
        metric_full_name(descriptor, &rows[i], name);
        size_t found =
            metrics_named(descriptor, i, name) + (is_host_metric && is_host_metric(name));

        for (size_t k = 0; k < index; k++)
            found +=
                metrics_named(modules[k].descriptor, modules[k].descriptor->metrics.count, name);
        if (found)
            setting_problem(problems, "module %s: metric \"%s\": there is a %s already",
                            descriptor->name, rows[i].name, name);
    }
}

static void check_hooks(const struct core_module *modules, size_t count, size_t index,
                        struct setting_problems *problems)
{
    const struct bb_table *table = &modules[index].descriptor->hooks;
    const struct bb_hook *hooks = MODULE_ROWS(bb_hook, *table);

    for (size_t i = 0; i < table->count; i++) {
        const char *event = hooks[i].event;
        size_t found = !event || !strcmp(event, "*");

        for (size_t k = 0; k < count && !found; k++) {
            const struct bb_table *events = &modules[k].descriptor->events;

            found = rows_named(events, events->count, event);
        }
        if (!found)
            setting_warning(problems, "module %s has a hook on \"%s\", which no module declares",
                            modules[index].descriptor->name, event);
    }
}

void module_validate_set(const struct core_module *modules, size_t count,
                         struct setting_problems *problems)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++)
            if (!strcmp(modules[k].descriptor->name, modules[i].descriptor->name))
                setting_problem(problems, "module %s is loaded twice: %s and %s",
                                modules[i].descriptor->name, modules[k].path, modules[i].path);
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            for (size_t row = 0; row < table_of(&modules[i], &kinds[k])->count; row++)
                check_row(modules, i, &kinds[k], row, problems);
        check_metric_names(modules, i, problems);
        check_hooks(modules, count, i, problems);
    }
}
