/* Names of modules' things as they are shown, and those that the host keeps for itself. */
#ifndef CORE_MODULE_NAMES_H
#define CORE_MODULE_NAMES_H

#include <busbar/busbar.h>
#include <stdbool.h>

/* The name of a module's metric, in full. */
enum { METRIC_NAME_MAX = 128 };
void metric_full_name(const struct bb_module *descriptor, const struct bb_metric *metric,
                      char name[METRIC_NAME_MAX]);

/* The host's own names, which no module may take. Set once, before any module is judged. */
void module_names_reserve(bool (*command)(const char *name), bool (*metric)(const char *name));
bool module_name_is_command(const char *name);
bool module_name_is_metric(const char *name);

#endif
