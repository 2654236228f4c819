/* What the modules of a generation need of the configuration to serve, beyond what reads well. */
#ifndef CORE_GENERATION_LACKS_H
#define CORE_GENERATION_LACKS_H

#include "core/generation/generation.h"

/* Adds a problem for each setting that is empty though a module cannot do without; true: any. */
bool generation_lacks(const struct generation *generation, struct setting_problems *problems);

#endif
