/* Checks the tables of loaded modules before any of their code runs. Only reads; any thread. */
#ifndef CORE_MODULE_VALIDATE_H
#define CORE_MODULE_VALIDATE_H

#include "core/module/module_load.h"

/* Checks one module: names, fields, routes, hooks, jobs, pools, commands. Adds problems. */
void module_validate(const struct core_module *module, struct setting_problems *problems);

/*
 * Checks modules together: names, services, events, jobs, pools, workers, metrics and commands that
 * are defined twice; hooks on events that no module declares (a warning). The router checks routes.
 */
void module_validate_set(const struct core_module *modules, size_t count,
                         struct setting_problems *problems);

#endif
