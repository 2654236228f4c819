#include "core/module/generation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "core/lib/crash.h"
#include "core/lib/host_settings.h"
#include "core/lib/redis_url.h"
#include "core/lib/supervised.h"
#include "core/lib/thread.h"
#include "core/module/module_validate.h"
#include "core/module/sandbox.h"

/*
 * ---- the order in which modules are opened ----
 *
 * Modules keep the order of the setting `modules`, except that providers of a service come before
 * the modules that need it.
 */

struct service_walk {
    const struct core_module *modules;
    size_t count;
    size_t *order, placed;
    struct setting_problems *problems;
};

/* The chain of modules that are being visited, from the current one back to the first. */
struct service_path {
    const struct service_path *from;
    size_t index;
};

const struct core_module *service_provider(const struct core_module *modules, size_t count,
                                           const char *service, unsigned version,
                                           const struct bb_service_descriptor **descriptor)
{
    *descriptor = NULL;
    for (size_t i = 0; i < count; i++)
        MODULE_EACH (bb_service_descriptor, row, modules[i].descriptor->services)
            if (row->name && !strcmp(row->name, service)) {
                *descriptor = row;
                return row->version >= version ? &modules[i] : NULL;
            }
    return NULL;
}

/* Adds a problem such as "… auth → log → auth"; `first` is the module at both ends. */
static void generation_service_report_cycle(const struct service_walk *walk,
                                            const struct service_path *last, size_t first)
{
    const char *name = walk->modules[first].descriptor->name;
    char text[512], longer[512];

    snprintf(text, sizeof text, "%s", name);
    for (const struct service_path *at = last; at; at = at->index == first ? NULL : at->from) {
        snprintf(longer, sizeof longer, "%s → %.400s", walk->modules[at->index].descriptor->name,
                 text);
        memcpy(text, longer, sizeof text);
    }
    setting_problem(walk->problems, "modules need each other in a circle: %s", text);
}

/* Appends to `order` the providers of services that a module needs, and then the module. */
static void generation_service_visit(struct service_walk *walk, size_t index,
                                     const struct service_path *from)
{
    const struct core_module *module = &walk->modules[index];
    const struct service_path here = {from, index};

    for (size_t i = 0; i < walk->placed; i++)
        if (walk->order[i] == index)
            return;
    MODULE_EACH (bb_need, need, module->descriptor->needs) {
        const struct bb_service_descriptor *descriptor;
        const struct core_module *giver =
            need->service ? service_provider(walk->modules, walk->count, need->service,
                                             need->version, &descriptor)
                          : NULL;
        const struct service_path *at = giver ? &here : NULL;

        while (at && giver != &walk->modules[at->index])
            at = at->from;
        if (at)
            generation_service_report_cycle(walk, &here, at->index);
        else if (giver)
            generation_service_visit(walk, (size_t)(giver - walk->modules), &here);
        if (giver || !need->service)
            continue;
        const struct core_module *older =
            service_provider(walk->modules, walk->count, need->service, 0, &descriptor);

        if (older)
            setting_problem(walk->problems,
                            "module %s needs the service \"%s\" in version %u; module %s provides "
                            "version %u: upgrade it",
                            module->descriptor->name, need->service, need->version,
                            older->descriptor->name, descriptor->version);
        else
            setting_problem(walk->problems,
                            "module %s needs the service \"%s\", which no module of the list "
                            "`modules` provides",
                            module->descriptor->name, need->service);
    }
    walk->order[walk->placed++] = index;
}

int service_order(const struct core_module *modules, size_t count, size_t *order,
                  struct setting_problems *problems)
{
    struct service_walk walk = {modules, count, order, 0, problems};
    size_t before = problems->count;

    for (size_t i = 0; i < count; i++)
        generation_service_visit(&walk, i, NULL);
    return problems->count == before ? 0 : -1;
}

/* ---- settings ---- */

static void generation_load_keys(struct generation *g, struct setting_problems *problems)
{
    json_t *keys = g->host->secrets.keys;
    const char *hex[AEAD_KEYS_MAX];
    size_t count = json_array_size(keys);
    char why[128];

    if (count > AEAD_KEYS_MAX)
        return; /* host_settings_bind() has reported this */
    for (size_t i = 0; i < count; i++)
        hex[i] = json_string_value(json_array_get(keys, i));
    g->seal = aead_keys_new(g->arena, hex, count, why, sizeof why);
    if (!g->seal)
        settings_complain(g->settings, problems, "secrets", "keys", "%s", why);
}

static struct cidr_list *generation_load_networks(struct generation *g, const char *name,
                                                  json_t *networks,
                                                  struct setting_problems *problems)
{
    char why[128];
    struct cidr_list *list = cidr_list_new(g->arena, networks, why, sizeof why);

    if (!list)
        settings_complain(g->settings, problems, "http", name, "%s", why);
    return list;
}

/* Returns whether the text ends in :port; false for a URL, which may contain a password. */
static bool generation_has_port(const char *text)
{
    const char *colon = strpbrk(text, "/@") ? NULL : strrchr(text, ':');

    return colon && colon > text && colon[1] && !colon[1 + strspn(colon + 1, "0123456789")] &&
           strlen(colon + 1) <= 5 && strtol(colon + 1, NULL, 10) <= 65535;
}

void generation_place_reports(const struct generation *g, struct setting_problems *problems)
{
    const char *path = g->host->host.state;
    const char *own = getenv("STATE_DIRECTORY"); /* from systemd: paths separated by colons */

    if (path && *path && *path != '/')
        path = arena_format(g->arena, "%s/%s", g->settings->directory, path);
    else if ((!path || !*path) && own)
        path = arena_text(g->arena, own, strcspn(own, ":"));
    if (crash_directory(path))
        setting_warning(problems, "crash reports cannot be written to %s: %s", path,
                        strerror(errno));
}

bool generation_lacks(const struct generation *g, struct setting_problems *problems)
{
    const char *url = g->host->database.url, *tables = NULL, *seals = NULL;
    size_t before = problems->count;

    for (size_t i = g->module_count; i-- > 0;) {
        const struct bb_module *module = g->modules[i].descriptor;

        tables = module->schema ? module->name : tables;
        seals = module->flags & BB_MODULE_SEALS ? module->name : seals;
    }
    if (tables && (!url || !*url))
        settings_complain(g->settings, problems, "database", "url",
                          "is empty, but module %s has tables: set the connection string of "
                          "PostgreSQL",
                          tables);
    if (seals && !json_array_size(g->host->secrets.keys))
        settings_complain(g->settings, problems, "secrets", "keys",
                          "is empty, but module %s encrypts with it: `openssl rand -hex 32` makes "
                          "a key",
                          seals);
    return problems->count > before;
}

/* ---- loading modules; disabling those that crashed repeatedly or whose files are invalid ---- */

/* Resolves a path from the settings file's directory; the result has a slash, as dlopen() needs. */
static const char *generation_from_directory(const struct generation *g, const char *path)
{
    const char *directory = g->settings->directory;

    if (*path == '/' || (!strcmp(directory, ".") && !strncmp(path, "./", 2)))
        return path;
    return arena_format(g->arena, "%s/%s", directory, path);
}

static const char *generation_module_path(const struct generation *g, const char *entry)
{
    const char *directory = g->host->root.module_path;

    if (strchr(entry, '/'))
        return generation_from_directory(g, entry);
    directory = directory ? generation_from_directory(g, directory) : NULL;
    return directory ? arena_format(g->arena, "%s/%s.so", directory, entry) : NULL;
}

/* For settings_unknown(): returns whether module_path contains a module with this name. */
static bool generation_is_installed(const void *generation, const char *name)
{
    const struct generation *g = generation;
    const char *path = strchr(name, '/') ? NULL : generation_module_path(g, name);

    return path && !access(path, R_OK);
}

static void generation_left_out_add(struct generation *g, const char *name, const char *why)
{
    g->left_out[g->left_out_count++] = (struct left_out){name, why};
    settings_claim(g->settings, name); /* so that its section is not reported as unknown */
}

/* Returns the file name without suffix of an entry of the setting `modules`; NULL: no memory. */
static const char *generation_entry_file(const struct generation *g, const char *entry)
{
    const char *slash = strrchr(entry, '/'), *base = slash ? slash + 1 : entry;

    return arena_text(g->arena, base, strcspn(base, "."));
}

/* Returns whether modules that fail may be disabled: only at the start, not in a reload. */
static bool generation_in_question(const struct generation *g)
{
    return g->number == 1 && g->host->host.quarantine;
}

/* Returns the first route that requires a known account; NULL: all are public. */
static const struct bb_route *generation_guarded_route(const struct core_module *module)
{
    MODULE_EACH (bb_route, route, module->descriptor->routes)
        if (!(route->roles & BB_ANYONE))
            return route;
    return NULL;
}

/* Returns a service that the module needs and no module provides; NULL: there is none. */
static const char *generation_missing_service(const struct generation *g,
                                              const struct core_module *module)
{
    const struct bb_service_descriptor *descriptor;

    MODULE_EACH (bb_need, need, module->descriptor->needs)
        if (need->service && !service_provider(g->modules, g->module_count, need->service,
                                               need->version, &descriptor))
            return need->service;
    return generation_guarded_route(module) &&
                   !service_provider(g->modules, g->module_count, "authenticator", 1, &descriptor)
               ? "authenticator"
               : NULL;
}

static void generation_load_entry(struct generation *g, const char *entry,
                                  struct setting_problems *problems)
{
    const char *where = arena_format(g->arena, "%s:%u: modules", g->settings->path,
                                     settings_line(g->settings, SETTINGS_ROOT, "modules"));
    const char *path = generation_module_path(g, entry), *file = generation_entry_file(g, entry);
    struct core_module *module = &g->modules[g->module_count];
    struct setting_problems own = {0};
    bool no_directory = !strchr(entry, '/') && !g->host->root.module_path;

    if (!where || !file || (!path && !no_directory))
        return;
    if (no_directory) { /* module_path is invalid, which was reported already */
        settings_claim(g->settings, file);
        return;
    }
    /* after a crash, an invalid file disables only its module; otherwise the start fails */
    bool leave_out = generation_in_question(g) && supervised_history()->restarts;

    sandbox_file(path);
    if (!module_load(module, g->arena, path, where, leave_out ? &own : problems)) {
        g->module_count++;
    } else {
        memset(module, 0, sizeof *module);
        settings_claim(g->settings, file); /* so that its section is not reported as unknown */
        if (leave_out)
            generation_left_out_add(g, file, "its file is refused");
    }
    setting_problems_free(&own);
}

/* Fills generation->modules from the setting `modules`, in the order in which to open them. */
static void generation_load_modules(struct generation *g, struct setting_problems *problems)
{
    json_t *entries = g->host->root.modules;
    size_t count = json_array_size(entries);

    g->modules = arena_alloc(g->arena, (count + 1) * sizeof *g->modules);
    g->left_out = arena_alloc(g->arena, (count + 1) * sizeof *g->left_out);
    if (!g->modules || !g->left_out)
        return;
    for (size_t i = 0; i < count; i++) {
        const char *entry = json_string_value(json_array_get(entries, i));
        const char *file = generation_entry_file(g, entry);
        const struct crash_row *row =
            file && generation_in_question(g) ? history_out(supervised_history(), file) : NULL;

        if (!row) {
            generation_load_entry(g, entry, problems);
            continue;
        }
        settings_claim(g->settings, file);
        generation_left_out_add(g, *row->module ? row->module : file,
                                "it crashed three times within a minute");
    }
    /* Repeatedly disables loaded modules that need a service of a disabled module. */
    for (size_t i = 0; g->left_out_count && i < g->module_count;) {
        const char *service = generation_missing_service(g, &g->modules[i]);

        if (!service) {
            i++;
            continue;
        }
        const char *why = arena_format(g->arena, "it needs the service %s", service);

        generation_left_out_add(g, g->modules[i].descriptor->name,
                                why ? why : "it needs another disabled module");
        g->module_count--;
        memmove(&g->modules[i], &g->modules[i + 1], (g->module_count - i) * sizeof *g->modules);
        for (size_t k = i; k < g->module_count; k++)
            module_set_handle(&g->modules[k]);
        i = 0;
    }
    for (size_t i = 0; i < g->module_count; i++) {
        sandbox_file(g->modules[i].path);
        module_validate(&g->modules[i], problems);
    }
    module_validate_set(g->modules, g->module_count, problems);
    size_t *order = arena_alloc(g->arena, (g->module_count + 1) * sizeof *order);
    struct core_module *copy = arena_alloc(g->arena, (g->module_count + 1) * sizeof *copy);

    /* orders modules by their services; after a problem they keep the configured order */
    if (order && copy && !service_order(g->modules, g->module_count, order, problems)) {
        for (size_t i = 0; i < g->module_count; i++)
            copy[i] = g->modules[order[i]];
        g->modules = copy;
    }
    for (size_t i = 0; i < g->module_count; i++) {
        struct core_module *module = &g->modules[i];
        const char *name = module->descriptor->name;

        module->handle.generation = g;
        module->handle.module = module;
        if (!settings_section(g->settings, name))
            module->handle.settings =
                settings_bind(g->settings, name, &module->descriptor->settings, problems);
    }
}

/* Sets the limits of modules. An entry for a module that is not loaded has no effect. */
static void generation_load_limits(struct generation *g, struct setting_problems *problems)
{
    const json_t *item;
    size_t i;

    json_array_foreach (g->host->root.module_limits, i, item) {
        const char *name = json_string_value(json_object_get(item, "module"));
        const struct core_module *loaded = generation_module(g, name);
        struct host_handle *handle = loaded ? &g->modules[loaded - g->modules].handle : NULL;

        if (handle && handle->limited)
            settings_complain(g->settings, problems, SETTINGS_ROOT, "module_limits",
                              "item [%zu] names the same module as an earlier item", i);
        else if (!handle && !settings_section(g->settings, name) &&
                 !generation_is_installed(g, name))
            settings_complain(g->settings, problems, SETTINGS_ROOT, "module_limits",
                              "item [%zu] names a module that is not installed", i);
        else if (!handle)
            setting_warning(problems,
                            "%s: item [%zu] of module_limits has no effect, because its module is "
                            "not loaded",
                            g->settings->path, i);
        for (int k = 0; handle && k < ACCOUNT_LIMITS; k++)
            handle->limits[k] = json_integer_value(json_object_get(item, account_limit_names[k]));
        if (handle)
            handle->limited = true;
    }
}

/* ---- routes, events with hooks, services for the host ---- */

/* Returns the hooks of a kind on an event, in an array with room for all hooks. */
static const struct core_hook *generation_hooks_on(struct generation *g, const char *event,
                                                   enum bb_hook_kind kind, size_t all,
                                                   size_t *count)
{
    struct core_hook *hooks = arena_alloc(g->arena, (all + 1) * sizeof *hooks);

    *count = 0;
    for (size_t i = 0; hooks && i < g->module_count; i++)
        MODULE_EACH (bb_hook, hook, g->modules[i].descriptor->hooks)
            if (hook->event && hook->kind == kind &&
                (!strcmp(hook->event, "*") || !strcmp(hook->event, event)))
                hooks[(*count)++] = (struct core_hook){hook, &g->modules[i].handle};
    return hooks;
}

static void generation_link_events(struct generation *g)
{
    size_t count = 0, hooks = 0;

    for (size_t i = 0; i < g->module_count; i++) {
        count += g->modules[i].descriptor->events.count;
        hooks += g->modules[i].descriptor->hooks.count;
    }
    struct core_event *events = arena_alloc(g->arena, (count + 1) * sizeof *events);

    g->event_names = arena_alloc(g->arena, (count + 1) * sizeof *g->event_names);
    if (!events || !g->event_names)
        return;
    for (size_t i = 0; i < g->module_count; i++)
        MODULE_EACH (bb_event_descriptor, row, g->modules[i].descriptor->events) {
            struct core_event *event = &events[g->event_count];

            if (!row->name)
                continue; /* reported by module_validate() */
            event->descriptor = row;
            event->module = &g->modules[i];
            event->within =
                generation_hooks_on(g, row->name, BB_WITHIN, hooks, &event->within_count);
            event->committed =
                generation_hooks_on(g, row->name, BB_COMMITTED, hooks, &event->committed_count);
            g->event_names[g->event_count++] = row->name;
        }
    g->events = events;
}

/* Returns a service's interface; sets *host to its module. NULL: no such service, or incomplete. */
static const void *generation_link_service(struct generation *g, const char *service, size_t size,
                                           struct host_handle **host,
                                           struct setting_problems *problems)
{
    const struct bb_service_descriptor *descriptor;
    const struct core_module *giver =
        service_provider(g->modules, g->module_count, service, 1, &descriptor);
    const uintptr_t *interface = giver ? descriptor->interface : NULL; /* size, then functions */
    bool complete = interface && *interface >= size;

    if (!giver)
        return NULL;
    *host = &g->modules[giver - g->modules].handle;
    for (size_t i = 1; complete && i < size / sizeof *interface; i++)
        complete = interface[i] != 0;
    if (!complete)
        setting_problem(problems, "%s: module %s: its service \"%s\" is incomplete", giver->path,
                        giver->descriptor->name, service);
    return complete ? interface : NULL;
}

static void generation_link_host_services(struct generation *g, struct setting_problems *problems)
{
    g->auditor =
        generation_link_service(g, "auditor", sizeof *g->auditor, &g->auditor_host, problems);
    g->authenticator = generation_link_service(g, "authenticator", sizeof *g->authenticator,
                                               &g->authenticator_host, problems);
    if (g->authenticator_host)
        return;
    for (size_t i = 0; i < g->module_count; i++) {
        if (!generation_guarded_route(&g->modules[i]))
            continue;
        setting_problem(problems,
                        "module %s has routes for certain roles, but no module of the list "
                        "`modules` provides the service \"authenticator\" (the module auth "
                        "provides it)",
                        g->modules[i].descriptor->name);
        return;
    }
}

static void generation_link_routes(struct generation *g, struct setting_problems *problems)
{
    char why[256];

    g->router = router_new(g->arena);
    for (size_t i = 0; g->router && i < g->module_count; i++) {
        struct core_module *module = &g->modules[i];

        MODULE_EACH (bb_route, route, module->descriptor->routes) {
            if (!route->method || !route->path)
                continue; /* reported by module_validate() */
            if (router_add(g->router, route, &module->handle, why, sizeof why))
                setting_problem(problems, "%s: module %s: %s", module->path,
                                module->descriptor->name, why);
        }
    }
}

int generation_load(struct generation *g, const char *conf_path, struct setting_problems *problems)
{
    g->settings = settings_load(g->arena, conf_path, problems);
    if (g->settings)
        host_settings_bind(g->settings, problems);
    if (!g->settings || !g->settings->host)
        return -1;
    const struct host_settings *host = g->host = g->settings->host;

    /* Sets the crash directory and the stall timeout before modules are loaded, because their
     * constructors may crash or hang. A reload may still fail, so reload_once() sets them later. */
    if (g->number == 1) {
        generation_place_reports(g, problems);
        atomic_store(&lifecycle_limit_ms, host->host.stall_timeout * 1000);
    }
    generation_load_keys(g, problems);
    g->trusted_proxies =
        generation_load_networks(g, "trusted_proxies", host->http.trusted_proxies, problems);
    g->inside =
        generation_load_networks(g, "metrics_networks", host->http.metrics_networks, problems);
    json_t *origin;
    size_t i;

    json_array_foreach (host->http.cors_origins, i, origin) {
        /* must be as browsers send it (scheme, host, port), because it is compared byte for byte */
        const char *text = json_string_value(origin);
        size_t scheme = !strncmp(text, "http://", 7) ? 7 : !strncmp(text, "https://", 8) ? 8 : 0;

        if (!scheme || !text[scheme] || strpbrk(text + scheme, "/*?# "))
            settings_complain(g->settings, problems, "http", "cors_origins",
                              "item [%zu] must be an origin like https://app.example.org, "
                              "without path",
                              i);
    }
    /* Checks addresses of servers. Does not report libpq's message, which contains the password. */
    const char *listen = g->host->http.listen;
    const char *database = g->host->database.url;
    const char *redis = g->host->redis.url;
    struct redis_url url;
    PQconninfoOption *options = database ? PQconninfoParse(database, NULL) : NULL;

    if (listen && !generation_has_port(listen))
        settings_complain(g->settings, problems, "http", "listen", "must be address:port");
    if (database && !options)
        settings_complain(g->settings, problems, "database", "url",
                          "must be a connection string of libpq (host=… dbname=…)");
    json_array_foreach (g->host->database.replicas, i, origin) {
        PQconninfoOption *replica = PQconninfoParse(json_string_value(origin), NULL);

        if (!replica)
            settings_complain(g->settings, problems, "database", "replicas",
                              "item [%zu] must be a connection string of libpq", i);
        PQconninfoFree(replica);
    }
    if (redis && *redis && redis_url_parse(redis, g->arena, &url))
        settings_complain(g->settings, problems, "redis", "url",
                          "must be host:port, unix:/path, redis://…, redis+sentinel://… or empty");
    PQconninfoFree(options);
    generation_load_modules(g, problems);
    generation_load_limits(g, problems);
    generation_link_routes(g, problems);
    generation_link_events(g);
    generation_link_host_services(g, problems);
    /* with an invalid module_path, which was reported, sections of modules would seem unknown */
    if (host->root.module_path)
        settings_unknown(g->settings, generation_is_installed, g, problems);
    if (arena_starved(g->arena))
        setting_problem(problems, "%s: out of memory", g->settings->path);
    return 0;
}
