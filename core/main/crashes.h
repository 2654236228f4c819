/* Reports the supervisor's crash history, for `busbar status` and the metrics. */
#ifndef CORE_CRASHES_H
#define CORE_CRASHES_H

#include <jansson.h>
#include <stdio.h>

#include "core/module/generation.h"

/* Prints lines about crashes, and about disabled modules of this generation, if there are any. */
void crashes_print(FILE *out, const struct generation *generation);

/* Returns the same information as an object, which the caller owns. NULL: out of memory. */
json_t *crashes_json(const struct generation *generation);

#endif
