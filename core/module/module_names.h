/* Names of module objects as they are displayed, and names reserved for the host. */
#ifndef CORE_MODULE_NAMES_H
#define CORE_MODULE_NAMES_H

#include <busbar/busbar.h>
#include <stdbool.h>

/* The full name of a module's metric. */
enum { METRIC_NAME_MAX = 128 };
void metric_full_name(const struct bb_module *descriptor, const struct bb_metric *metric,
                      char name[METRIC_NAME_MAX]);

/*
 * Sets the functions that recognize the host's own names, which modules must not use. Call once,
 * before any module is checked.
 */
void module_names_reserve(bool (*command)(const char *name), bool (*metric)(const char *name));
bool module_name_is_command(const char *name);
bool module_name_is_metric(const char *name);

#endif
