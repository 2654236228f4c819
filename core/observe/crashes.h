/* What the supervisor remembers of crashes, for `busbar status` and the metrics. */
#ifndef CORE_CRASHES_H
#define CORE_CRASHES_H

#include <jansson.h>
#include <stdio.h>

#include "core/generation/generation.h"

/* Lines about crashes, and about modules that this generation does without; none if all is well. */
void crashes_print(FILE *out, const struct generation *generation);

/* The same as an object; the caller's. NULL: no memory. */
json_t *crashes_json(const struct generation *generation);

#endif
