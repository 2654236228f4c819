/* The meters of modules' metrics: created once, and kept across reloads. */
#include <stdio.h>
#include <stdlib.h>

#include "core/lib/meter.h"
#include "core/module/generation.h"

/*
 * Returns a line for the metric and each value; the caller frees it with free(). NULL: out of
 * memory.
 */
static char *name_of(const char *module, const struct bb_metric *metric)
{
    char *name = NULL;
    size_t size;
    FILE *out = open_memstream(&name, &size);

    if (!out)
        return NULL;
    fprintf(out, "%s.%s", module, metric->name);
    for (const char *const *value = metric->values; value && *value; value++)
        fprintf(out, "\n%s", *value);
    bool failed = ferror(out);
    if (!fclose(out) && !failed)
        return name;
    free(name);
    return NULL;
}

static size_t count_values(const struct bb_metric *metric)
{
    size_t count = 0;

    while (metric->values && metric->values[count])
        count++;
    return count ? count : 1;
}

int meters_bind(struct core_module *module, struct arena *arena)
{
    const struct bb_table *table = &module->descriptor->metrics;
    const struct bb_metric *rows = MODULE_ROWS(bb_metric, *table);

    module->handle.meters = arena_alloc(arena, (table->count + 1) * sizeof(struct meter *));
    if (!module->handle.meters)
        return -1;
    for (size_t i = 0; i < table->count; i++) {
        if (rows[i].read)
            continue;
        module->handle.meters[i] =
            meter_named(name_of(module->descriptor->name, &rows[i]), count_values(&rows[i]));
        if (!module->handle.meters[i])
            return -1;
    }
    return 0;
}

void api_metric_add(struct bb_host *host, size_t metric, size_t value, uint64_t by)
{
    const struct host_handle *handle = handle_of(host);
    struct meter *meter =
        metric < handle->module->descriptor->metrics.count ? handle->meters[metric] : NULL;

    if (meter)
        meter_add(meter, value, by);
}
