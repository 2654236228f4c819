#include "core/module/generation_load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "core/lib/crash.h"
#include "core/lib/host_settings.h"
#include "core/lib/lifecycle_call.h"

static void load_keys(struct generation *g, struct setting_problems *problems)
{
    json_t *keys = settings_json(g->settings, "secrets", "keys");
    const char *hex[AEAD_KEYS_MAX];
    size_t count = json_array_size(keys);
    char why[128];

    if (count > AEAD_KEYS_MAX)
        return; /* reported when the section was bound */
    for (size_t i = 0; i < count; i++)
        hex[i] = json_string_value(json_array_get(keys, i));
    g->seal = aead_keys_new(g->arena, hex, count, why, sizeof why);
    if (!g->seal)
        settings_complain(g->settings, problems, "secrets", "keys", "%s", why);
}

static struct cidr_list *load_networks(struct generation *g, const char *name,
                                       struct setting_problems *problems)
{
    char why[128];
    struct cidr_list *list =
        cidr_list_new(g->arena, settings_json(g->settings, "http", name), why, sizeof why);

    if (!list)
        settings_complain(g->settings, problems, "http", name, "%s", why);
    return list;
}

/* In the form that browsers send: scheme, host, port; compared byte for byte. */
static bool is_origin(const char *text)
{
    const char *host = strstr(text, "://");

    return (!strncmp(text, "http://", 7) || !strncmp(text, "https://", 8)) && host[3] &&
           !host[3 + strcspn(host + 3, "/*?# ")];
}

static void load_origins(struct generation *g, struct setting_problems *problems)
{
    json_t *origin;
    size_t i;

    g->cors_origins = settings_json(g->settings, "http", "cors_origins");
    json_array_foreach(g->cors_origins, i, origin)
    {
        if (!is_origin(json_string_value(origin)))
            settings_complain(g->settings, problems, "http", "cors_origins",
                              "item [%zu] must be an origin like https://app.example.org, "
                              "without path",
                              i);
    }
}

/* Whether the text ends in :port. A URL, possibly with a password, does not count. */
static bool has_port(const char *text)
{
    const char *colon = strpbrk(text, "/@") ? NULL : strrchr(text, ':');

    return colon && colon > text && colon[1] && !colon[1 + strspn(colon + 1, "0123456789")] &&
           strlen(colon + 1) <= 5 && strtol(colon + 1, NULL, 10) <= 65535;
}

/*
 * Checks the syntax of server addresses, without connecting. libpq's own message would contain the
 * password.
 */
static void check_places(struct generation *g, struct setting_problems *problems)
{
    const char *listen = settings_text(g->settings, "http", "listen");
    const char *database = settings_text(g->settings, "database", "url");
    const char *redis = settings_text(g->settings, "redis", "url");
    PQconninfoOption *options = database ? PQconninfoParse(database, NULL) : NULL;

    if (listen && !has_port(listen))
        settings_complain(g->settings, problems, "http", "listen", "must be address:port");
    if (database && !options)
        settings_complain(g->settings, problems, "database", "url",
                          "must be a connection string of libpq (host=… dbname=…)");
    if (redis && *redis && strncmp(redis, "unix:/", 6) != 0 && !has_port(redis))
        settings_complain(g->settings, problems, "redis", "url",
                          "must be host:port, unix:/path or empty");
    PQconninfoFree(options);
}

void generation_place_reports(const struct generation *g, struct setting_problems *problems)
{
    const char *path = settings_text(g->settings, "host", "state");
    const char *own = getenv("STATE_DIRECTORY"); /* may be a list */

    if (path && *path && *path != '/')
        path = arena_format(g->arena, "%s/%s", settings_directory(g->settings), path);
    else if ((!path || !*path) && own)
        path = arena_text(g->arena, own, strcspn(own, ":"));
    if (crash_directory(path))
        setting_warning(problems, "reports of crashes cannot be written to %s: %s", path,
                        strerror(errno));
}

/* Runs before modules are loaded, because their constructors may crash or hang. */
static void prepare_start(const struct generation *g, struct setting_problems *problems)
{
    if (g->number > 1)
        return; /* a reload may still be refused: swap_generation() does this later */
    generation_place_reports(g, problems);
    lifecycle_calls_set_limit(settings_int(g->settings, "host", "stall_timeout") * 1000);
}

static enum request_logged logged_of(const struct settings *settings)
{
    const char *which = settings_text(settings, "log", "requests");

    if (!settings_int(settings, "log", "access") || !which || *which == 'n')
        return LOGGED_NONE;
    return *which == 'a' ? LOGGED_ALL : LOGGED_PROBLEMS;
}

static struct request_settings request_settings_of(const struct settings *settings)
{
    return (struct request_settings){
        .deadline_ms = settings_int(settings, "http", "deadline"),
        .slow_us = settings_int(settings, "http", "slow_request") * 1000,
        .max_body = (size_t)settings_int(settings, "http", "max_body"),
        .max_requests = (size_t)settings_int(settings, "http", "max_requests"),
        .share = (size_t)settings_int(settings, "http", "client_percent"),
        .logged = logged_of(settings),
        .sample = (uint64_t)settings_int(settings, "log", "sample"),
    };
}

static bool sections_there(const struct generation *g)
{
    for (size_t i = 0; i < host_section_count; i++)
        if (!settings_section(g->settings, host_sections[i].name))
            return false;
    return true;
}

int generation_load(struct generation *g, const char *conf_path, struct setting_problems *problems)
{
    g->settings = settings_load(g->arena, conf_path, problems);
    if (!g->settings)
        return -1;
    host_settings_bind(g->settings, problems);
    if (!sections_there(g))
        return -1;
    g->request = request_settings_of(g->settings);
    prepare_start(g, problems);
    load_keys(g, problems);
    g->trusted_proxies = load_networks(g, "trusted_proxies", problems);
    g->inside = load_networks(g, "metrics_networks", problems);
    load_origins(g, problems);
    check_places(g, problems);
    generation_load_modules(g, problems);
    generation_link(g, problems);
    /* Without a valid module directory, sections of installed modules look like typing errors, and
     * the problem of the directory was reported already. */
    if (settings_text(g->settings, SETTINGS_ROOT, "module_path"))
        settings_unknown(g->settings, generation_is_installed, g, problems);
    return 0;
}
