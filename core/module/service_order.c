#include "core/module/service_order.h"

#include <string.h>

struct service_walk {
    const struct core_module *modules;
    size_t count;
    size_t *order, placed;
    struct setting_problems *problems;
};

/* The modules between the root of a walk and the current one. */
struct service_path {
    const struct service_path *from;
    size_t index;
};

/* Returns the provider of a service in any version; NULL: none. */
static const struct core_module *service_giver(const struct core_module *modules, size_t count,
                                               const char *service,
                                               const struct bb_service_descriptor **descriptor)
{
    for (size_t i = 0; i < count; i++)
        MODULE_EACH (bb_service_descriptor, row, modules[i].descriptor->services)
            if (row->name && !strcmp(row->name, service)) {
                *descriptor = row;
                return &modules[i];
            }
    *descriptor = NULL;
    return NULL;
}

const struct core_module *service_provider(const struct core_module *modules, size_t count,
                                           const char *service, unsigned version,
                                           const struct bb_service_descriptor **descriptor)
{
    const struct core_module *module = service_giver(modules, count, service, descriptor);

    return module && (*descriptor)->version >= version ? module : NULL;
}

/* "auth → log → auth", from the first module of the cycle. */
static void service_report_cycle(const struct service_walk *walk, const struct service_path *last,
                                 size_t first)
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

static void service_report_gap(const struct service_walk *walk, const struct core_module *module,
                               const struct bb_need *need)
{
    const struct bb_service_descriptor *descriptor;
    const struct core_module *older =
        service_giver(walk->modules, walk->count, need->service, &descriptor);

    if (older)
        setting_problem(walk->problems,
                        "module %s needs the service \"%s\" in version %u; module %s gives "
                        "version %u: upgrade it",
                        module->descriptor->name, need->service, need->version,
                        older->descriptor->name, descriptor->version);
    else
        setting_problem(walk->problems,
                        "module %s needs the service \"%s\", which no module of the list "
                        "`modules` gives",
                        module->descriptor->name, need->service);
}

/* Places a module after the providers of its services (depth first). */
static void service_visit(struct service_walk *walk, size_t index, const struct service_path *from)
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
            service_report_cycle(walk, &here, at->index);
        else if (giver)
            service_visit(walk, (size_t)(giver - walk->modules), &here);
        else if (need->service)
            service_report_gap(walk, module, need);
    }
    walk->order[walk->placed++] = index;
}

int service_order(const struct core_module *modules, size_t count, size_t *order,
                  struct setting_problems *problems)
{
    struct service_walk walk = {modules, count, order, 0, problems};
    size_t before = problems->count;

    for (size_t i = 0; i < count; i++)
        service_visit(&walk, i, NULL);
    return problems->count == before ? 0 : -1;
}
