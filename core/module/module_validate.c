#include "core/module/module_validate.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/field.h"
#include "core/lib/host_settings.h"
#include "core/lib/text.h"

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

/*
 * Checks a table of fields, including nested ones. `place` names the table in problems.
 * `settings_size` points to the size of the bound struct; it is NULL if these are not settings.
 */
static void validate_fields(const struct bb_table *fields, const size_t *settings_size,
                            const char *place, struct setting_problems *problems)
{
    const struct bb_field *rows = fields->rows;

    for (size_t i = 0; i < fields->count; i++) {
        const struct bb_field *field = &rows[i];
        const struct bb_table before = {fields->rows, i, fields->stride};
        bool is_choice = field->type == BB_CHOICE, is_list = field->type == BB_LIST;
        bool is_known = field->type >= BB_TEXT && field->type <= BB_ANY;

        if (!field->name || !*field->name) {
            setting_problem(problems, "module %s: a field has no name", place);
            return;
        }
        const struct {
            bool is_wrong;
            const char *reason;
        } checks[] = {
            {!is_known, "has an unknown type"},
            {is_known && is_choice != (field->choices != NULL),
             "must have choices if it is a BB_CHOICE, and only then"},
            {is_known && field->max && field->min > field->max,
             "has a lower bound above the upper one"},
            {is_known && field->fields.count && field->type != BB_OBJECT && !is_list,
             "has nested fields but is not an object or list"},
            {is_known && field->fields.count > 1 && is_list,
             "is a list, so it may have only one row of fields"},
            {!settings_size && field->bind.size, "is bound, but it is not a setting"},
            {field_find(&before, field->name) ||
                 (field->alias && field_find(&before, field->alias)),
             "is given twice"},
        };
        const char *unbindable =
            settings_size ? settings_bind_fault(fields, i, *settings_size) : NULL;

        for (size_t k = 0; k < sizeof checks / sizeof *checks; k++)
            if (checks[k].is_wrong)
                setting_problem(problems, "module %s: field \"%s\" %s", place, field->name,
                                checks[k].reason);
        if (unbindable)
            setting_problem(problems, "module %s: field \"%s\" %s", place, field->name, unbindable);
        /* without this check, an invalid default would be noticed only if the setting is absent */
        struct arena *arena =
            field->fallback && is_known && (!is_choice || field->choices) ? arena_new() : NULL;
        struct problems found = {.arena = arena};

        if (arena && !field_check_text(field, field->fallback, arena, &found))
            setting_problem(problems, "module %s: the default of field \"%s\" %s", place,
                            field->name, found.count ? found.list[0].text : "out of memory");
        arena_free(arena);
        if (is_known)
            validate_fields(&field->fields, NULL, place, problems);
    }
}

/* ---- one module ---- */

#define NAME_MAX_LENGTH 48
#define THREADS_MAX 256

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

BB_PRINTF(3, 4)
static void validate_complain(const struct core_module *module, struct setting_problems *problems,
                              const char *format, ...)
{
    char reason[512];
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    setting_problem(problems, "%s: module %s: %s", module->path, module->descriptor->name, reason);
}

/* Adds a problem for a row that is not complete. */
static void validate_row(const struct core_module *module, struct setting_problems *problems,
                         bool is_complete, const char *kind, const char *name, const char *needs)
{
    if (!is_complete)
        validate_complain(module, problems, "%s \"%s\" needs %s", kind, name ? name : "", needs);
}

/* Returns whether a name is short, begins with a-z, and contains only characters of `more`. */
static bool validate_is_name(const char *name, const char *more)
{
    return name && *name && strchr(LOWER, *name) && !name[strspn(name, more)] &&
           strlen(name) <= NAME_MAX_LENGTH;
}

static void validate_parts(const struct core_module *module, const struct bb_route *route,
                           struct setting_problems *problems)
{
    const struct bb_module *descriptor = module->descriptor;
    size_t fields = 0, files = 0;
    bool has_pool = false;

    MODULE_EACH (bb_part, part, route->parts) {
        bool has_files = part->kind == BB_PART_FILES;

        fields += part->kind == BB_PART_FIELDS;
        files += has_files ? part->count_max : 0;
        if (!part->name || (has_files && !part->count_max))
            validate_complain(module, problems, "a part of route %s %s needs a name and a count",
                              route->method, route->path);
    }
    if (fields > 1 || files > BB_FILES_MAX)
        validate_complain(module, problems,
                          "route %s %s may have at most 1 part of fields and %d of files",
                          route->method, route->path, BB_FILES_MAX);
    const struct bb_field *setting =
        route->files_in ? field_find(&descriptor->settings, route->files_in) : NULL;

    MODULE_EACH (bb_pool, pool, descriptor->pools)
        has_pool =
            has_pool || (route->files_pool && pool->name && !strcmp(pool->name, route->files_pool));
    bool foreign = route->files_in && strchr(route->files_in, '.');

    if (files && ((!foreign && (!setting || setting->type != BB_TEXT)) || !has_pool))
        validate_complain(module, problems,
                          "route %s %s must name a setting and a pool for its files", route->method,
                          route->path);
}

/* Checks a route. router_add() checks the method, the path, and whether `roles` is 0. */
static void validate_route(const struct core_module *module, const struct bb_route *route,
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
        validate_complain(module, problems, "a route has no method or path");
        return;
    }
    if (!route->handler)
        validate_complain(module, problems, "route %s %s has no handler", route->method,
                          route->path);
    if (route->roles & ~(unsigned)(BB_ANY_ROLE | BB_ANYONE))
        validate_complain(module, problems, "route %s %s names an unknown role", route->method,
                          route->path);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        snprintf(place, sizeof place, "%s: %s %s: %s", module->descriptor->name, route->method,
                 route->path, tables[i].what);
        validate_fields(tables[i].fields, NULL, place, problems);
    }
    validate_parts(module, route, problems);
}

/* Returns what is wrong with a metric for the text format of GET /metrics; NULL: nothing. */
static const char *validate_metric(const struct bb_metric *metric)
{
    size_t length = metric->name ? strlen(metric->name) : 0;
    bool total = length > 6 && !strcmp(metric->name + length - 6, "_total");

    if (!validate_is_name(metric->name, LOWER DIGITS "_"))
        return "needs a name of a-z, 0-9 and _";
    if (!metric->help)
        return "needs a help text";
    if (metric->kind != BB_COUNTER && metric->kind != BB_GAUGE)
        return "must be a counter or a gauge";
    if (total != (metric->kind == BB_COUNTER))
        return "must end with _total if it is a counter, and only then";
    if (metric->kind == BB_GAUGE && !metric->read)
        return "is a gauge and has no function to read it";
    if (!metric->label != !metric->values || (metric->values && !metric->values[0]))
        return "needs both a label and its values, or neither";
    if (metric->label && !validate_is_name(metric->label, LOWER DIGITS "_"))
        return "needs a label of a-z, 0-9 and _";
    for (size_t i = 0; metric->values && metric->values[i]; i++) {
        if (!validate_is_name(metric->values[i], LOWER DIGITS "_.-"))
            return "needs values of its label of a-z, 0-9, . - and _";
        for (size_t k = 0; k < i; k++)
            if (!strcmp(metric->values[k], metric->values[i]))
                return "has a value of its label twice";
    }
    return NULL;
}

static void validate_command(const struct core_module *module, const struct bb_command *command,
                             struct setting_problems *problems)
{
    char place[256], word[NAME_MAX_LENGTH + 1];
    bool is_complete = validate_is_name(command->name, LOWER DIGITS "- ") && command->run;

    validate_row(module, problems, is_complete, "command", command->name,
                 "a name of words of a-z, and a function");
    if (!is_complete)
        return;
    /* the host's commands take precedence: `busbar status mine` would run `status` */
    snprintf(word, sizeof word, "%.*s", (int)strcspn(command->name, " "), command->name);
    if (is_host_command && is_host_command(word))
        validate_complain(module, problems, "command \"%s\" begins like a command of the host",
                          command->name);
    snprintf(place, sizeof place, "%s: command %s", module->descriptor->name, command->name);
    validate_fields(&command->options, NULL, place, problems);
}

/* Checks the tables other than settings, routes, hooks and commands. */
static void validate_rows(const struct core_module *module, struct setting_problems *problems)
{
    const struct bb_module *descriptor = module->descriptor;
    const struct bb_table *const needs[] = {&descriptor->needs, &descriptor->wants};
    char place[256];

    MODULE_EACH (bb_event_descriptor, event, descriptor->events) {
        bool is_complete = validate_is_name(event->name, LOWER DIGITS "_.-") && event->version;

        validate_row(module, problems, is_complete, "event", event->name,
                     "a name of a-z, 0-9, . - _ and a version");
        snprintf(place, sizeof place, "%s: event %s", descriptor->name, event->name);
        if (is_complete)
            validate_fields(&event->payload, NULL, place, problems);
    }
    MODULE_EACH (bb_service_descriptor, given, descriptor->services)
        validate_row(module, problems, given->name && given->version && given->interface, "service",
                     given->name, "a name, a version and an interface");
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        MODULE_EACH (bb_need, need, *needs[i])
            if (!need->service || !need->version)
                validate_complain(module, problems, "a need must name a service and a version");
    MODULE_EACH (bb_channel, channel, descriptor->channels)
        validate_row(module, problems,
                     validate_is_name(channel->name, LOWER DIGITS "_") && channel->heard, "channel",
                     channel->name, "a name of a-z, 0-9 and _, and a function");
    MODULE_EACH (bb_job, job, descriptor->jobs)
        validate_row(module, problems, job->name && job->every_s && job->run, "job", job->name,
                     "a name, a period and a function");
    MODULE_EACH (bb_worker, worker, descriptor->workers)
        validate_row(module, problems, worker->name && worker->run, "worker", worker->name,
                     "a name and a function");
    MODULE_EACH (bb_pool, pool, descriptor->pools)
        validate_row(module, problems, pool->name && pool->threads <= THREADS_MAX && pool->queue,
                     "pool", pool->name, "a name, at most 256 threads and a queue");
    MODULE_EACH (bb_metric, metric, descriptor->metrics) {
        const char *fault = validate_metric(metric);

        if (fault)
            validate_complain(module, problems, "metric \"%s\" %s",
                              metric->name ? metric->name : "", fault);
    }
}

void module_validate(const struct core_module *module, struct setting_problems *problems)
{
    const struct bb_module *descriptor = module->descriptor;
    const char *cursor = descriptor->schema;
    struct migrate_step step;
    char place[256], why[128];
    int found = cursor ? 1 : 0;

    if (!validate_is_name(descriptor->name, LOWER DIGITS "_"))
        validate_complain(module, problems,
                          "its name must be of a-z, 0-9 and _, and begin with a letter");
    else if (host_settings_own(descriptor->name) || !strcmp(descriptor->name, "busbar"))
        validate_complain(module, problems, "its name is reserved");
    snprintf(place, sizeof place, "%s: settings", descriptor->name);
    if (descriptor->settings_size > SETTINGS_STRUCT_MAX)
        setting_problem(problems, "module %s: `settings_size` is more than %d bytes", place,
                        SETTINGS_STRUCT_MAX);
    validate_fields(&descriptor->settings, &descriptor->settings_size, place, problems);
    MODULE_EACH (bb_route, route, descriptor->routes)
        validate_route(module, route, problems);
    MODULE_EACH (bb_hook, hook, descriptor->hooks) {
        bool within = hook->kind == BB_WITHIN && hook->within && !hook->committed;
        bool committed = hook->kind == BB_COMMITTED && hook->committed && !hook->within;

        if (!hook->event)
            validate_complain(module, problems, "a hook names no event");
        else if (!within && !committed)
            validate_complain(module, problems,
                              "the hook on %s must have the function of its kind, and no other",
                              hook->event);
    }
    MODULE_EACH (bb_command, command, descriptor->commands)
        validate_command(module, command, problems);
    validate_rows(module, problems);
    for (unsigned number = 1; found == 1; number++)
        found = migrate_next(&cursor, number, &step, why, sizeof why);
    if (found < 0)
        validate_complain(module, problems, "its schema %s", why);
}

/* ---- all modules together ---- */

/* Tables whose rows begin with a name that must be unique. */
static const struct validate_kind {
    const char *what;
    size_t table;    /* offset in struct bb_module */
    bool per_module; /* the name must be unique only within its module */
} kinds[] = {
    {"service", offsetof(struct bb_module, services), false},
    {"event", offsetof(struct bb_module, events), false},
    {"command", offsetof(struct bb_module, commands), false},
    {"job", offsetof(struct bb_module, jobs), true},
    {"pool", offsetof(struct bb_module, pools), true},
    {"worker", offsetof(struct bb_module, workers), true},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static const struct bb_table *validate_table(const struct core_module *module,
                                             const struct validate_kind *kind)
{
    return (const struct bb_table *)(const void *)((const char *)module->descriptor + kind->table);
}

static const char *validate_name(const struct bb_table *table, size_t row)
{
    return *(const char *const *)(const void *)((const char *)table->rows + row * table->stride);
}

/* Returns the number of rows of the table before `end` that have this name. */
static size_t validate_named(const struct bb_table *table, size_t end, const char *name)
{
    size_t found = 0;

    for (size_t i = 0; i < end && i < table->count; i++)
        found += validate_name(table, i) && !strcmp(validate_name(table, i), name);
    return found;
}

/*
 * Refuses equal full names, because readers of GET /metrics would reject all metrics. For example,
 * busbar_a_b_c can be metric b_c of module a, or metric c of module a_b.
 */
static void validate_metric_names(const struct core_module *modules, size_t index,
                                  struct setting_problems *problems)
{
    char name[METRIC_NAME_MAX], other[METRIC_NAME_MAX];

    MODULE_EACH (bb_metric, metric, modules[index].descriptor->metrics) {
        if (!metric->name)
            continue;
        metric_full_name(modules[index].descriptor, metric, name);
        bool found = is_host_metric && is_host_metric(name);

        for (size_t i = 0; i <= index; i++)
            MODULE_EACH (bb_metric, before, modules[i].descriptor->metrics) {
                if (before == metric)
                    break;
                if (before->name)
                    metric_full_name(modules[i].descriptor, before, other);
                found = found || (before->name && !strcmp(other, name));
            }
        if (found)
            setting_problem(problems, "module %s: metric \"%s\": another metric has the name %s",
                            modules[index].descriptor->name, metric->name, name);
    }
}

/* Checks the `files_in` of a route if it names a setting of another module in the list. */
static void validate_files_in(const struct core_module *modules, size_t count, size_t index,
                              struct setting_problems *problems)
{
    MODULE_EACH (bb_route, route, modules[index].descriptor->routes) {
        const char *dot = route->files_in ? strchr(route->files_in, '.') : NULL;

        for (size_t i = 0; dot && i < count; i++) {
            const char *name = modules[i].descriptor->name;
            const struct bb_field *setting = field_find(&modules[i].descriptor->settings, dot + 1);
            bool named = strlen(name) == (size_t)(dot - route->files_in) &&
                         !strncmp(name, route->files_in, strlen(name));

            if (named && (!setting || setting->type != BB_TEXT))
                setting_problem(
                    problems, "module %s: route %s %s: module %s has no text setting \"%s\"",
                    modules[index].descriptor->name, route->method, route->path, name, dot + 1);
        }
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
        for (const struct validate_kind *kind = kinds; kind < kinds + KINDS; kind++) {
            const struct bb_table *own = validate_table(&modules[i], kind);

            for (size_t row = 0; row < own->count; row++) {
                const char *name = validate_name(own, row);

                if (name && validate_named(own, row, name))
                    setting_problem(problems, "module %s declares the %s \"%s\" twice",
                                    modules[i].descriptor->name, kind->what, name);
                for (size_t k = 0; name && k < i && !kind->per_module; k++)
                    if (validate_named(validate_table(&modules[k], kind), SIZE_MAX, name))
                        setting_problem(problems, "modules %s and %s both declare the %s \"%s\"",
                                        modules[k].descriptor->name, modules[i].descriptor->name,
                                        kind->what, name);
            }
        }
        validate_metric_names(modules, i, problems);
        validate_files_in(modules, count, i, problems);
        MODULE_EACH (bb_hook, hook, modules[i].descriptor->hooks) {
            size_t found = !hook->event || !strcmp(hook->event, "*");

            for (size_t k = 0; k < count && !found; k++)
                found = validate_named(&modules[k].descriptor->events, SIZE_MAX, hook->event);
            if (!found)
                setting_warning(problems,
                                "module %s has a hook on \"%s\", which no module declares",
                                modules[i].descriptor->name, hook->event);
        }
    }
}

#define MARK "-- step "

static const char *migrate_steps_next_line(const char *line)
{
    const char *end = strchr(line, '\n');

    return end ? end + 1 : line + strlen(line);
}

static int migrate_steps_read_mark(const char *line, struct migrate_step *step)
{
    int used = 0;

    if (sscanf(line, MARK "%9u: %n", &step->number, &used) < 1 || !used)
        return -1;
    size_t length = strcspn(line + used, "\r\n");

    if (!length || length >= sizeof step->title)
        return -1;
    memcpy(step->title, line + used, length);
    step->title[length] = '\0';
    return 0;
}

static bool migrate_steps_is_word_part(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* Returns the end of the comment at `at`; `at` if there is no comment. Comments can nest. */
static const char *migrate_steps_after_comment(const char *at)
{
    int depth = 0;

    if (!strncmp(at, "--", 2))
        return at + strcspn(at, "\n");
    do {
        bool opens = !strncmp(at, "/*", 2), closes = depth && !strncmp(at, "*/", 2);

        depth += opens - closes;
        at += opens || closes ? 2 : depth > 0;
    } while (depth && *at);
    return at;
}

/* Sets step->checksum. Returns 0, or -1 if memory ran out. */
static int migrate_steps_checksum(struct migrate_step *step)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length;
    char *sql = strndup(step->sql, step->length);

    if (!sql)
        return -1;
    /*
     * Removes comments and white space from the copy, so that changing them in a step does not
     * change its checksum. Keeps quoted text, and one space between two words.
     */
    char *to = sql, quote = 0;
    bool apart = false;

    for (const char *at = sql; *at;) {
        const char *next = quote ? at : migrate_steps_after_comment(at);

        if (next != at || (!quote && isspace((unsigned char)*at))) {
            apart = true;
            at = next != at ? next : at + 1;
            continue;
        }
        if (apart && to != sql && migrate_steps_is_word_part(to[-1]) &&
            migrate_steps_is_word_part(*at))
            *to++ = ' ';
        apart = false;
        if (quote)
            quote = *at == quote ? 0 : quote;
        else if (*at == '\'' || *at == '"')
            quote = *at;
        *to++ = *at++;
    }
    *to = '\0';
    int summed = EVP_Digest(sql, strlen(sql), digest, &length, EVP_sha256(), NULL);

    free(sql);
    if (!summed)
        return -1;
    text_hex(digest, length, step->checksum);
    return 0;
}

static int migrate_steps_refuse(char *why, size_t why_size, const char *reason, unsigned expected)
{
    snprintf(why, why_size, "%s (expected: \"" MARK "%u: title\")", reason, expected);
    return -1;
}

int migrate_next(const char **cursor, unsigned expected, struct migrate_step *step, char *why,
                 size_t why_size)
{
    const char *line = *cursor;

    while (*line && strncmp(line, MARK, sizeof MARK - 1) != 0) {
        const char *code = line + strspn(line, " \t\r");

        if (*code && *code != '\n' && strncmp(code, "--", 2) != 0)
            return migrate_steps_refuse(why, why_size, "has text before its first step", expected);
        line = migrate_steps_next_line(line);
    }
    if (!*line)
        return 0;
    if (migrate_steps_read_mark(line, step) || step->number != expected)
        return migrate_steps_refuse(why, why_size, "has a malformed or misnumbered step", expected);
    step->sql = line = migrate_steps_next_line(line);
    while (*line && strncmp(line, MARK, sizeof MARK - 1) != 0)
        line = migrate_steps_next_line(line);
    step->length = (size_t)(line - step->sql);
    *cursor = line;
    return migrate_steps_checksum(step)
               ? migrate_steps_refuse(why, why_size, "has a step whose checksum cannot be computed",
                                      expected)
               : 1;
}
