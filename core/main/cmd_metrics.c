/* `busbar metrics`: the reference of all metrics, generated from the tables that define them. */
#include <stdio.h>

#include "core/main/cli.h"
#include "core/main/metrics.h"
#include "core/module/module_validate.h"

static void print_head(const char *title)
{
    printf("## %s\n\n| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n", title);
}

static void print_host(void)
{
    print_head("The host");
    for (size_t i = 0; i < host_metric_count; i++)
        printf("| `%s` | %s | %s | %s |\n", host_metrics[i].name, host_metrics[i].type,
               host_metrics[i].labels ? host_metrics[i].labels : "", host_metrics[i].help);
    putchar('\n');
}

static void print_metric(const struct bb_module *descriptor, const struct bb_metric *metric)
{
    char name[METRIC_NAME_MAX];

    metric_full_name(descriptor, metric, name);
    printf("| `%s` | %s | ", name, metric->kind == BB_COUNTER ? "counter" : "gauge");
    if (metric->label)
        printf("%s: ", metric->label);
    for (size_t i = 0; metric->label && metric->values[i]; i++)
        printf("%s`%s`", i ? ", " : "", metric->values[i]);
    printf(" | %s |\n", metric->help);
}

static void print_module(const struct bb_module *descriptor)
{
    char title[128];

    if (!descriptor->metrics.count)
        return;
    snprintf(title, sizeof title, "Module %s %s", descriptor->name, descriptor->version);
    print_head(title);
    for (size_t i = 0; i < descriptor->metrics.count; i++)
        print_metric(descriptor, &MODULE_ROWS(bb_metric, descriptor->metrics)[i]);
    putchar('\n');
}

/* As for `settings`, invalid values do not matter here. */
int cmd_metrics(const struct cli *cli)
{
    struct setting_problems problems = {0};
    struct generation *g = generation_check(cli->conf, 0, &problems);

    print_host();
    for (size_t i = 0; g && i < g->module_count; i++)
        print_module(g->modules[i].descriptor);
    if (g)
        generation_destroy(g);
    setting_problems_print(&problems, stderr);
    setting_problems_free(&problems);
    return CLI_DONE;
}
