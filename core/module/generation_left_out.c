/*
 * Disabled modules: they crashed repeatedly, or their files have become invalid since the previous
 * worker was started.
 */
#include <string.h>

#include "core/lib/supervised.h"
#include "core/module/generation_load.h"
#include "core/module/service_order.h"

static void note(struct generation *g, const char *name, const char *why)
{
    g->left_out[g->left_out_count++] = (struct left_out){name, why};
    settings_claim(g->settings, name); /* its section remains, and is not an error */
}

/* Only when the supervisor restarts a worker: a reload tries all modules. */
static bool in_question(const struct generation *g)
{
    return g->number == 1 && settings_int(g->settings, "host", "quarantine");
}

bool generation_leaves_out(struct generation *g, const char *entry)
{
    const char *slash = strrchr(entry, '/'), *base = slash ? slash + 1 : entry;
    const char *file = arena_text(g->arena, base, strcspn(base, "."));
    const struct crash_row *row =
        file && in_question(g) ? history_out(supervised_history(), file) : NULL;

    if (!row)
        return false;
    settings_claim(g->settings, file);
    note(g, *row->module ? row->module : file, "it crashed three times within a minute");
    return true;
}

bool generation_leaves_refused_out(const struct generation *g)
{
    return in_question(g) && supervised_history()->restarts;
}

void generation_leave_out(struct generation *g, const char *entry, const char *why)
{
    const char *slash = strrchr(entry, '/'), *base = slash ? slash + 1 : entry;
    const char *file = arena_text(g->arena, base, strcspn(base, "."));

    if (file)
        note(g, file, why);
}

/* Whether a route requires a known account. */
static bool has_guarded_route(const struct core_module *module)
{
    const struct bb_route *routes = MODULE_ROWS(bb_route, module->descriptor->routes);

    for (size_t i = 0; i < module->descriptor->routes.count; i++)
        if (!(routes[i].roles & BB_ANYONE))
            return true;
    return false;
}

/* Returns a service that the module needs and no module provides; NULL: there is none. */
static const char *missing(const struct generation *g, const struct core_module *module)
{
    const struct bb_need *needs = MODULE_ROWS(bb_need, module->descriptor->needs);
    const struct bb_service_descriptor *descriptor;

    for (size_t i = 0; i < module->descriptor->needs.count; i++)
        if (needs[i].service && !service_provider(g->modules, g->module_count, needs[i].service,
                                                  needs[i].version, &descriptor))
            return needs[i].service;
    return has_guarded_route(module) &&
                   !service_provider(g->modules, g->module_count, "authenticator", 1, &descriptor)
               ? "authenticator"
               : NULL;
}

static void remove_at(struct generation *g, size_t index, const char *service)
{
    const char *why = arena_format(g->arena, "it needs the service %s", service);

    note(g, g->modules[index].descriptor->name, why ? why : "it needs another disabled module");
    g->module_count--;
    memmove(&g->modules[index], &g->modules[index + 1],
            (g->module_count - index) * sizeof *g->modules);
    for (size_t i = index; i < g->module_count; i++)
        module_set_handle(&g->modules[i]);
}

void generation_leave_needy_out(struct generation *g)
{
    bool again = g->left_out_count > 0;

    while (again) {
        again = false;
        for (size_t i = 0; i < g->module_count && !again; i++) {
            const char *service = missing(g, &g->modules[i]);

            if (!service)
                continue;
            remove_at(g, i, service);
            again = true;
        }
    }
}
