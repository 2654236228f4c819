/* Builds a generation up to the point where modules are called; for generation.c only. */
#ifndef CORE_GENERATION_LOAD_H
#define CORE_GENERATION_LOAD_H

#include "core/module/generation.h"

/*
 * Fills generation->settings and everything derived from it: modules loaded, checked, ordered,
 * their settings bound, router, events, keys, lists. Adds problems and continues as far as
 * possible. -1 if the file could not be read.
 */
int generation_load(struct generation *generation, const char *conf_path,
                    struct setting_problems *problems);

#endif
