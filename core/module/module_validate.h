/*
 * Judging the tables of loaded modules before a line of them runs. Reads only; any thread.
 */
#ifndef CORE_MODULE_VALIDATE_H
#define CORE_MODULE_VALIDATE_H

#include "core/module/module_load.h"

/* One module by itself: names, fields, routes, hooks, jobs, pools, commands. Adds problems. */
void module_validate(const struct core_module *module, struct setting_problems *problems);

/* module_sql.c: statements that its file shows and that would never be sent. Adds problems. */
void module_sql_check(const struct core_module *module, struct setting_problems *problems);

/*
 * Modules together: names, services, events, jobs, pools, workers, metrics and commands given
 * twice; hooks on events that nobody declares (a warning). Routes are the router's to judge.
 */
void module_validate_set(const struct core_module *modules, size_t count,
                         struct setting_problems *problems);

/* A table of fields, nested ones too; `place` names it: "auth: event account.new". None of its rows
 * may be bound: only settings are. */
void fields_sane(const struct bb_table *fields, const char *place,
                 struct setting_problems *problems);

/* The module's settings, and the struct that they are bound to. */
void settings_sane(const struct bb_module *descriptor, struct setting_problems *problems);

#endif
