/*
 * Checks that settings required by the modules are present. This is not checked when the file is
 * read.
 */
#ifndef CORE_GENERATION_LACKS_H
#define CORE_GENERATION_LACKS_H

#include "core/module/generation.h"

/* Adds a problem for each empty setting that a module requires; returns whether there are any. */
bool generation_lacks(const struct generation *generation, struct setting_problems *problems);

#endif
