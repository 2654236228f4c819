#include "core/module/service_order.h"

#include <stdlib.h>
#include <string.h>

enum mark { MARK_NONE, MARK_OPEN, MARK_DONE };

struct walk {
    const struct core_module *modules;
    size_t count;
    size_t *order, placed;
    enum mark *marks;
    size_t *way, depth; /* modules on the path from the root, to describe a cycle */
    struct setting_problems *problems;
};

/* Returns the provider of a service in any version; NULL: none. */
static const struct core_module *service_giver(const struct core_module *modules, size_t count,
                                               const char *service,
                                               const struct bb_service_descriptor **descriptor)
{
    for (size_t i = 0; i < count; i++) {
        const struct bb_table *table = &modules[i].descriptor->services;
        const struct bb_service_descriptor *rows = MODULE_ROWS(bb_service_descriptor, *table);

        for (size_t k = 0; k < table->count; k++)
            if (rows[k].name && !strcmp(rows[k].name, service)) {
                *descriptor = &rows[k];
                return &modules[i];
            }
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
static void service_report_cycle(struct walk *walk, size_t again)
{
    char text[512] = "";
    size_t used = 0, start = 0;

    while (walk->way[start] != again)
        start++;
    for (size_t i = start; i < walk->depth && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s → ",
                                 walk->modules[walk->way[i]].descriptor->name);
    setting_problem(walk->problems, "modules need each other in a circle: %s%s", text,
                    walk->modules[again].descriptor->name);
}

static void service_report_gap(struct walk *walk, const struct core_module *module,
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

/* Depth first: providers are placed before the module that needs them. */
static void service_visit(struct walk *walk, size_t index)
{
    const struct bb_table *table = &walk->modules[index].descriptor->needs;
    const struct bb_need *needs = MODULE_ROWS(bb_need, *table);

    if (walk->marks[index] == MARK_DONE)
        return;
    walk->marks[index] = MARK_OPEN;
    walk->way[walk->depth++] = index;
    for (size_t i = 0; i < table->count; i++) {
        const struct bb_service_descriptor *descriptor;

        if (!needs[i].service)
            continue;
        const struct core_module *from = service_provider(
            walk->modules, walk->count, needs[i].service, needs[i].version, &descriptor);
        size_t provider = from ? (size_t)(from - walk->modules) : 0;

        if (!from)
            service_report_gap(walk, &walk->modules[index], &needs[i]);
        else if (walk->marks[provider] == MARK_OPEN)
            service_report_cycle(walk, provider);
        else
            service_visit(walk, provider);
    }
    walk->depth--;
    walk->marks[index] = MARK_DONE;
    walk->order[walk->placed++] = index;
}

int service_order(const struct core_module *modules, size_t count, size_t *order,
                  struct setting_problems *problems)
{
    struct walk walk = {.modules = modules, .count = count, .order = order, .problems = problems};
    size_t before = problems->count;

    walk.marks = calloc(count + 1, sizeof *walk.marks);
    walk.way = calloc(count + 1, sizeof *walk.way);
    if (walk.marks && walk.way)
        for (size_t i = 0; i < count; i++)
            service_visit(&walk, i);
    else
        setting_problem(problems, "out of memory");
    free(walk.marks);
    free(walk.way);
    return problems->count == before ? 0 : -1;
}
