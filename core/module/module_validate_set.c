/* Checks modules together, see module_validate.h. */
#include <string.h>

#include "core/module/module_names.h"
#include "core/module/module_validate.h"

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

/* Whether an earlier metric, or the host, already uses the name. */
static bool metric_taken(const struct core_module *modules, size_t index, size_t row,
                         const char *name)
{
    size_t found = metrics_named(modules[index].descriptor, row, name);

    found += module_name_is_metric(name);
    for (size_t i = 0; i < index; i++)
        found += metrics_named(modules[i].descriptor, modules[i].descriptor->metrics.count, name);
    return found > 0;
}

/*
 * If a name occurs twice, readers of GET /metrics reject all metrics. busbar_a_b_c may be the
 * metric b_c of module a, or c of module a_b.
 */
static void check_metrics(const struct core_module *modules, size_t index,
                          struct setting_problems *problems)
{
    const struct bb_module *descriptor = modules[index].descriptor;
    const struct bb_metric *rows = MODULE_ROWS(bb_metric, descriptor->metrics);
    char name[METRIC_NAME_MAX];

    for (size_t i = 0; i < descriptor->metrics.count; i++) {
        if (!rows[i].name)
            continue;
        metric_full_name(descriptor, &rows[i], name);
        if (metric_taken(modules, index, i, name))
            setting_problem(problems, "module %s: metric \"%s\": there is a %s already",
                            descriptor->name, rows[i].name, name);
    }
}

static bool event_known(const struct core_module *modules, size_t count, const char *event)
{
    for (size_t i = 0; i < count; i++) {
        const struct bb_table *events = &modules[i].descriptor->events;

        if (rows_named(events, events->count, event))
            return true;
    }
    return !strcmp(event, "*");
}

static void check_hooks(const struct core_module *modules, size_t count, size_t index,
                        struct setting_problems *problems)
{
    const struct bb_table *table = &modules[index].descriptor->hooks;
    const struct bb_hook *hooks = MODULE_ROWS(bb_hook, *table);

    for (size_t i = 0; i < table->count; i++)
        if (hooks[i].event && !event_known(modules, count, hooks[i].event))
            setting_warning(problems, "module %s has a hook on \"%s\", which no module declares",
                            modules[index].descriptor->name, hooks[i].event);
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
        check_metrics(modules, i, problems);
        check_hooks(modules, count, i, problems);
    }
}
