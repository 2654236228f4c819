/* Combines the parts of the modules: routes, events with hooks, the authenticator. */
#include <string.h>

#include "core/module/generation_load.h"
#include "core/module/service_order.h"

static void out_of_memory(const struct generation *g, struct setting_problems *problems)
{
    setting_problem(problems, "%s: out of memory", settings_path(g->settings));
}

static void add_routes(struct generation *g, struct core_module *module,
                       struct setting_problems *problems)
{
    const struct bb_route *routes = MODULE_ROWS(bb_route, module->descriptor->routes);
    char why[256];

    for (size_t i = 0; i < module->descriptor->routes.count; i++) {
        if (!routes[i].method || !routes[i].path)
            continue; /* reported by module_validate() */
        if (router_add(g->router, &routes[i], &module->handle, why, sizeof why))
            setting_problem(problems, "%s: module %s: %s", module->path, module->descriptor->name,
                            why);
    }
}

static bool hook_fits(const struct bb_hook *hook, const char *event, enum bb_hook_kind kind)
{
    return hook->event && hook->kind == kind &&
           (!strcmp(hook->event, "*") || !strcmp(hook->event, event));
}

/* Counts the hooks on an event, and stores them in `out` unless it is NULL. */
static size_t gather_hooks(struct generation *g, const char *event, enum bb_hook_kind kind,
                           struct core_hook *out)
{
    size_t found = 0;

    for (size_t i = 0; i < g->module_count; i++) {
        struct core_module *module = &g->modules[i];
        const struct bb_hook *hooks = MODULE_ROWS(bb_hook, module->descriptor->hooks);

        for (size_t k = 0; k < module->descriptor->hooks.count; k++) {
            if (!hook_fits(&hooks[k], event, kind))
                continue;
            if (out)
                out[found] = (struct core_hook){&hooks[k], &module->handle};
            found++;
        }
    }
    return found;
}

static const struct core_hook *hooks_on(struct generation *g, const char *event,
                                        enum bb_hook_kind kind, size_t *count,
                                        struct setting_problems *problems)
{
    *count = gather_hooks(g, event, kind, NULL);
    struct core_hook *hooks = arena_alloc(g->arena, (*count + 1) * sizeof *hooks);

    if (hooks)
        gather_hooks(g, event, kind, hooks);
    else
        out_of_memory(g, problems);
    return hooks;
}

static void link_events(struct generation *g, struct setting_problems *problems)
{
    size_t count = 0;

    for (size_t i = 0; i < g->module_count; i++)
        count += g->modules[i].descriptor->events.count;
    struct core_event *events = arena_alloc(g->arena, (count + 1) * sizeof *events);

    g->event_names = arena_alloc(g->arena, (count + 1) * sizeof *g->event_names);
    if (!events || !g->event_names) {
        out_of_memory(g, problems);
        return;
    }
    for (size_t i = 0; i < g->module_count; i++) {
        const struct bb_module *descriptor = g->modules[i].descriptor;

        for (size_t k = 0; k < descriptor->events.count; k++) {
            struct core_event *event = &events[g->event_count];

            event->descriptor = &MODULE_ROWS(bb_event_descriptor, descriptor->events)[k];
            if (!event->descriptor->name)
                continue; /* reported by module_validate() */
            event->module = &g->modules[i];
            event->within =
                hooks_on(g, event->descriptor->name, BB_WITHIN, &event->within_count, problems);
            event->committed = hooks_on(g, event->descriptor->name, BB_COMMITTED,
                                        &event->committed_count, problems);
            g->event_names[g->event_count++] = event->descriptor->name;
        }
    }
    g->events = events;
}

/* Returns the first route that requires a known account; NULL: all are public. */
static const struct bb_route *guarded_route(const struct generation *g,
                                            const struct core_module **module)
{
    for (size_t i = 0; i < g->module_count; i++) {
        const struct bb_route *routes = MODULE_ROWS(bb_route, g->modules[i].descriptor->routes);

        *module = &g->modules[i];
        for (size_t k = 0; k < g->modules[i].descriptor->routes.count; k++)
            if (!(routes[k].roles & BB_ANYONE))
                return &routes[k];
    }
    return NULL;
}

static void link_authenticator(struct generation *g, struct setting_problems *problems)
{
    const struct bb_service_descriptor *descriptor;
    const struct core_module *module = NULL;
    const struct core_module *giver =
        service_provider(g->modules, g->module_count, "authenticator", 1, &descriptor);
    const struct bb_authenticator *authenticator = giver ? descriptor->interface : NULL;

    if (authenticator && authenticator->size >= sizeof *authenticator &&
        authenticator->authenticate) {
        g->authenticator = authenticator;
        g->authenticator_host = &g->modules[giver - g->modules].handle;
        return;
    }
    if (giver)
        setting_problem(problems, "%s: module %s: its service \"authenticator\" is incomplete",
                        giver->path, giver->descriptor->name);
    else if (guarded_route(g, &module))
        setting_problem(problems,
                        "module %s has routes for certain roles, but no module of the list "
                        "`modules` gives the service \"authenticator\" (the module auth does)",
                        module->descriptor->name);
}

void generation_link(struct generation *g, struct setting_problems *problems)
{
    g->router = router_new(g->arena);
    if (!g->router) {
        out_of_memory(g, problems);
        return;
    }
    for (size_t i = 0; i < g->module_count; i++)
        add_routes(g, &g->modules[i], problems);
    link_events(g, problems);
    link_authenticator(g, problems);
}
