/*
 * `busbar modcheck`: judging a module's file for what breaks hosts, without loading it. What code
 * does when it is called cannot be seen from here.
 */
#ifndef CORE_MODCHECK_H
#define CORE_MODCHECK_H

#include <stdbool.h>

#include "core/settings/settings.h"

/* Adds a line "file: what, why; remedy" for each finding. */
void modcheck(const char *path, struct setting_problems *findings);

/* Whether a symbol belongs to the runtime library of a compiler, so that it is not a finding. */
bool modcheck_is_runtimes(const char *name);

#endif
