#include "core/module/generation.h"
#include "core/lib/lifecycle_call.h"

#include <stdlib.h>
#include <string.h>

#include "core/lib/meter.h"
#include "core/module/generation_load.h"

static struct generation *generation_new(unsigned number, struct setting_problems *problems)
{
    struct generation *g = calloc(1, sizeof *g);

    if (g)
        g->arena = arena_new();
    if (!g || !g->arena) {
        setting_problem(problems, "out of memory");
        free(g);
        return NULL;
    }
    atomic_init(&g->holders, 1);
    g->number = number;
    return g;
}

/* Takes the reason that the module passed to bb_open_fail(). */
static void report_open(struct core_module *module, struct setting_problems *problems)
{
    const char *reason = module->handle.open_problem;

    setting_problem(problems, "module %s: %s", module->descriptor->name,
                    reason ? reason : "cannot be opened: its open function gave no reason");
}

/* Records that this function of the module is about to be called. */
static void note(struct lifecycle_call *verb, const struct core_module *module, const char *kind)
{
    lifecycle_call_begin(verb, module->descriptor->name, kind);
}

/*
 * Creates the struct to which the module's settings are bound. Returns 0, or -1 if memory ran out.
 */
static int settings_place(struct core_module *module, const struct settings *settings)
{
    struct host_handle *handle = &module->handle;
    size_t size = module->descriptor->settings_size;

    handle->bound = size ? section_struct(settings, handle->settings, size) : NULL;
    return size && !handle->bound ? -1 : 0;
}

static int open_module(struct core_module *module, const struct generation *g,
                       struct setting_problems *problems)
{
    struct bb_host *host = &module->handle.host;
    int failed = 0;

    host->api = g->api;
    if (meters_bind(module, g->arena) || settings_place(module, g->settings)) {
        setting_problem(problems, "module %s: out of memory", module->descriptor->name);
        return -1;
    }
    module->handle.opening = true;
    struct lifecycle_call call;

    note(&call, module, "open");
    if (module->descriptor->open)
        failed = module->descriptor->open(host, &host->state);
    lifecycle_call_end(&call);
    module->handle.opening = false;
    module->opened = !failed;
    if (failed)
        report_open(module, problems);
    if (!failed && module->handle.broken)
        setting_problem(problems, "module %s: reads a setting that it does not declare",
                        module->descriptor->name);
    return failed || module->handle.broken ? -1 : 0;
}

struct generation *generation_check(const char *conf_path, unsigned number,
                                    struct setting_problems *problems)
{
    struct generation *g = generation_new(number, problems);

    if (!g || !generation_load(g, conf_path, problems))
        return g;
    generation_destroy(g);
    return NULL;
}

int generation_open(struct generation *g, const struct bb_api *api,
                    struct setting_problems *problems)
{
    g->api = api;
    for (size_t i = 0; i < g->module_count; i++)
        if (open_module(&g->modules[i], g, problems))
            return -1;
    return 0;
}

void generation_start(struct generation *g)
{
    for (size_t i = 0; i < g->module_count; i++) {
        struct core_module *module = &g->modules[i];
        struct lifecycle_call call;

        note(&call, module, "start");
        if (module->descriptor->start)
            module->descriptor->start(&module->handle.host, module->handle.host.state);
        lifecycle_call_end(&call);
        module->started = true;
    }
}

void generation_quiesce(struct generation *g)
{
    for (size_t i = g->module_count; i-- > 0;) {
        struct core_module *module = &g->modules[i];
        struct lifecycle_call call;

        note(&call, module, "quiesce");
        if (module->started && module->descriptor->quiesce)
            module->descriptor->quiesce(&module->handle.host, module->handle.host.state);
        lifecycle_call_end(&call);
        module->started = false;
    }
}

void generation_acquire(struct generation *g)
{
    atomic_fetch_add_explicit(&g->holders, 1, memory_order_relaxed);
}

bool generation_try_acquire(struct generation *g)
{
    size_t holders = atomic_load(&g->holders);

    while (holders && !atomic_compare_exchange_weak(&g->holders, &holders, holders + 1))
        ;
    return holders != 0;
}

/*
 * The destroying thread must see the effects of the last user: release here, acquire before the
 * end.
 */
void generation_release(struct generation *g)
{
    if (atomic_fetch_sub_explicit(&g->holders, 1, memory_order_acq_rel) != 1)
        return;
    if (g->released)
        g->released(g);
    else
        generation_destroy(g);
}

void generation_destroy(struct generation *g)
{
    generation_quiesce(g);
    for (size_t i = g->module_count; i-- > 0;) {
        struct core_module *module = &g->modules[i];
        struct lifecycle_call call;

        note(&call, module, "close");
        if (module->opened && module->descriptor->close)
            module->descriptor->close(&module->handle.host, module->handle.host.state);
        lifecycle_call_end(&call);
        free(module->handle.open_problem);
    }
    arena_free(g->arena);
    free(g);
}

const struct core_module *generation_module(const struct generation *g, const char *name)
{
    for (size_t i = 0; i < g->module_count; i++)
        if (!strcmp(g->modules[i].descriptor->name, name))
            return &g->modules[i];
    return NULL;
}

const struct core_event *generation_event(const struct generation *g, const char *name)
{
    for (size_t i = 0; i < g->event_count; i++)
        if (!strcmp(g->events[i].descriptor->name, name))
            return &g->events[i];
    return NULL;
}

const struct bb_command *generation_command(const struct generation *g, const char *name,
                                            struct core_module **module)
{
    for (size_t i = 0; i < g->module_count; i++) {
        const struct bb_table *table = &g->modules[i].descriptor->commands;
        const struct bb_command *rows = MODULE_ROWS(bb_command, *table);

        *module = &g->modules[i];
        for (size_t k = 0; k < table->count; k++)
            if (rows[k].name && !strcmp(rows[k].name, name))
                return &rows[k];
    }
    *module = NULL;
    return NULL;
}
