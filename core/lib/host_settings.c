#include "core/lib/host_settings.h"

#include <string.h>

#include "core/lib/field.h"
#include "core/lib/loop.h"

#ifndef BUSBAR_MODULES
#define BUSBAR_MODULES "/usr/local/lib/busbar/modules"
#endif

/* Macros for rows of each type. A row is bound to the member with the name of its key. */
// NOLINTBEGIN(bugprone-macro-parentheses)
#define ROW(section, key, kind, options, least, most, absent, text, ...)                           \
    {                                                                                              \
        .name = #key, .type = kind, .flags = options, .min = least, .max = most,                   \
        .fallback = absent, .help = text, .bind = BB_BIND(struct host_settings, section.key),      \
        __VA_ARGS__                                                                                \
    }
#define INT(section, key, options, least, most, absent, text)                                      \
    ROW(section, key, BB_INT, options, least, most, absent, text, .example = NULL)
#define BOOL(section, key, absent, text)                                                           \
    ROW(section, key, BB_BOOL, 0, 0, 0, absent, text, .example = NULL)
#define TEXT(section, key, options, most, absent, sample, text)                                    \
    ROW(section, key, BB_TEXT, options, 0, most, absent, text, .example = sample)
#define CHOICE(section, key, list, absent, text)                                                   \
    ROW(section, key, BB_CHOICE, 0, 0, 0, absent, text, .choices = list)
#define LIST(section, key, options, most, items, sample, text)                                     \
    ROW(section, key, BB_LIST, options, 0, most, "[]", text, .fields = BB_TABLE(items),            \
        .example = sample)
// NOLINTEND(bugprone-macro-parentheses)

static const struct bb_field text_item[] = {
    {.name = "item", .type = BB_TEXT, .min = 1, .max = 512}};
static const struct bb_field key_item[] = {
    {.name = "item", .type = BB_TEXT, .flags = BB_SECRET, .min = 64, .max = 64}};
static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const requests[] = {"all", "problems", "none", NULL};
static const char *const formats[] = {"logfmt", "json", NULL};

static const struct bb_field limit_fields[] = {
    {.name = "module", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NOT_BLANK, .max = 64},
    {.name = "requests", .type = BB_INT, .min = 1, .max = 1000000},
    {.name = "cpu_time", .type = BB_INT, .min = 1, .max = 1000000},
    {.name = "database_time", .type = BB_INT, .min = 1, .max = 1000000},
};
static const struct bb_field limit_item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(limit_fields)}};

#include "core/lib/host_fields.h"

const struct host_section host_sections[] = {
    {SETTINGS_ROOT, "Settings at the top of the file, outside of any section.",
     BB_TABLE(root_fields)},
    {"http", "The HTTP server and its limits.", BB_TABLE(http_fields)},
    {"database", "Connections to PostgreSQL.", BB_TABLE(database_fields)},
    {"redis", "Redis, which holds small shared data that may be lost.", BB_TABLE(redis_fields)},
    {"secrets", "Keys that encrypt secrets in the database.", BB_TABLE(secrets_fields)},
    {"log", "The log, on standard error or in a file.", BB_TABLE(log_fields)},
    {"idempotency", "Requests with an Idempotency-Key.", BB_TABLE(idempotency_fields)},
    {"control", "The socket for commands to a running host.", BB_TABLE(control_fields)},
    {"host", "Crash reports and failing modules; see operating.md.", BB_TABLE(host_fields)},
    {"reload", "Reloads of the configuration.", BB_TABLE(reload_fields)},
};

const size_t host_section_count = sizeof host_sections / sizeof host_sections[0];

int host_settings_bind(struct settings *settings, struct setting_problems *problems)
{
    struct host_settings *host = arena_alloc(settings->arena, sizeof *host);
    size_t before = problems->count;

    if (!host)
        setting_problem(problems, "%s: out of memory", settings->path);
    for (size_t i = 0; host && i < host_section_count; i++) {
        const struct host_section *section = &host_sections[i];

        settings_bind(settings, section->name, &section->fields, problems);
        const struct setting_section *bound = settings_section(settings, section->name);

        if (bound)
            section_store(bound, host);
    }
    settings->host = host;
    return problems->count == before ? 0 : -1;
}

bool host_settings_own(const char *section)
{
    for (size_t i = 0; i < host_section_count; i++)
        if (!strcmp(host_sections[i].name, section))
            return true;
    return field_find(&host_sections[0].fields, section) != NULL;
}
