/* Checks the tables of loaded modules before any of their code runs. Only reads; any thread. */
#ifndef CORE_MODULE_VALIDATE_H
#define CORE_MODULE_VALIDATE_H

#include <stddef.h>

#include "core/module/module_load.h"

/* Checks one module: names, fields, routes, hooks, jobs, pools, commands. Adds problems. */
void module_validate(const struct core_module *module, struct setting_problems *problems);

/*
 * Adds a problem for modules, services, events, commands or metrics with the same name, and for
 * jobs, pools or workers of a module with the same name; a warning for hooks on unknown events.
 */
void module_validate_set(const struct core_module *modules, size_t count,
                         struct setting_problems *problems);

/* Writes the full name of a module's metric. */
enum { METRIC_NAME_MAX = 128 };
void metric_full_name(const struct bb_module *descriptor, const struct bb_metric *metric,
                      char name[METRIC_NAME_MAX]);

/* Sets functions that return whether busbar itself uses a name. Call once, before any check. */
void module_names_reserve(bool (*command)(const char *name), bool (*metric)(const char *name));

/* ---- splitting the text of a schema into its steps ---- */

/* A step of a schema; `sql` is borrowed from the text and not NUL-terminated. */
struct migrate_step {
    unsigned number;
    char title[96];
    const char *sql;
    size_t length;
    char checksum[65]; /* SHA-256 of its text without comments and white space, in hexadecimal */
};

/*
 * Finds the next step after *cursor, which is initially the schema's text, and moves *cursor past
 * it. Returns 1 with *step filled; 0 if there is no further step; -1 with the reason in `why` if
 * the text is malformed, the step's number is not `expected`, or memory ran out.
 */
int migrate_next(const char **cursor, unsigned expected, struct migrate_step *step, char *why,
                 size_t why_size);

#endif
