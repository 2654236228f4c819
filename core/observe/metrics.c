#include "core/observe/metrics.h"

#include <stdlib.h>

#include "core/base/meter.h"
#include "core/module/module_names.h"

/* Fifteen digits are sufficient for counters below 2^53, and are the precision of a double. */
void metric_end(struct metrics *metrics, double number)
{
    fprintf(metrics->out, " %.15g\n", number);
}

void metric_number(struct metrics *metrics, double number)
{
    fputs(metrics->name, metrics->out);
    metric_end(metrics, number);
}

void metric_labelled(struct metrics *metrics, const char *label, const char *value, double number)
{
    fprintf(metrics->out, "%s{%s=\"%s\"}", metrics->name, label, value);
    metric_end(metrics, number);
}

static void write_head(struct metrics *metrics, const char *type, const char *help)
{
    fprintf(metrics->out, "# HELP %s ", metrics->name);
    for (; *help; help++) {
        if (*help == '\\' || *help == '\n')
            fputs(*help == '\n' ? "\\n" : "\\\\", metrics->out);
        else
            fputc(*help, metrics->out);
    }
    fprintf(metrics->out, "\n# TYPE %s %s\n", metrics->name, type);
}

static double read_metric(const struct core_module *module, size_t row, size_t value)
{
    const struct bb_metric *metric = &MODULE_ROWS(bb_metric, module->descriptor->metrics)[row];

    if (metric->read)
        return metric->read(module->handle.host.state, value);
    return (double)meter_sum(module->handle.meters[row], value);
}

static void write_module(struct metrics *metrics, const struct core_module *module)
{
    const struct bb_metric *rows = MODULE_ROWS(bb_metric, module->descriptor->metrics);
    char name[METRIC_NAME_MAX];

    for (size_t i = 0; i < module->descriptor->metrics.count; i++) {
        metric_full_name(module->descriptor, &rows[i], name);
        metrics->name = name;
        write_head(metrics, rows[i].kind == BB_COUNTER ? "counter" : "gauge", rows[i].help);
        if (!rows[i].label)
            metric_number(metrics, read_metric(module, i, 0));
        for (size_t k = 0; rows[i].label && rows[i].values[k]; k++)
            metric_labelled(metrics, rows[i].label, rows[i].values[k], read_metric(module, i, k));
    }
    metrics->name = NULL; /* the name was allocated here */
}

static void write_all(struct metrics *metrics)
{
    const struct generation *g = metrics->rq->generation;

    metrics->generation_count = engine_generations(metrics->engine, metrics->generations);
    for (size_t i = 0; i < host_metric_count; i++) {
        metrics->name = host_metrics[i].name;
        write_head(metrics, host_metrics[i].type, host_metrics[i].help);
        host_metrics[i].write(metrics);
    }
    for (size_t i = 0; i < g->module_count; i++)
        write_module(metrics, &g->modules[i]);
    engine_generations_release(metrics->generations, metrics->generation_count);
}

char *api_metrics(struct bb_request *rq, size_t *length)
{
    char *text = NULL;
    struct metrics metrics = {.rq = request_of(rq), .engine = request_of(rq)->loop->engine};

    *length = 0;
    metrics.out = open_memstream(&text, length);
    if (metrics.out)
        write_all(&metrics);
    int failed = metrics.out ? fclose(metrics.out) : -1;
    if (!failed && !arena_defer(metrics.rq->arena, free, text))
        return text;
    free(text);
    request_out_of_memory(metrics.rq);
}
