#include "core/module/module_names.h"

#include <stdio.h>

static bool (*is_command)(const char *name), (*is_metric)(const char *name);

void metric_full_name(const struct bb_module *descriptor, const struct bb_metric *metric,
                      char name[METRIC_NAME_MAX])
{
    snprintf(name, METRIC_NAME_MAX, "busbar_%s_%s", descriptor->name, metric->name);
}

void module_names_reserve(bool (*command)(const char *name), bool (*metric)(const char *name))
{
    is_command = command;
    is_metric = metric;
}

bool module_name_is_command(const char *name)
{
    return is_command && is_command(name);
}

bool module_name_is_metric(const char *name)
{
    return is_metric && is_metric(name);
}
