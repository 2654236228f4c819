/* The state of the running host for the control socket: as text for people, and as JSON. */
#ifndef CORE_STATUS_H
#define CORE_STATUS_H

#include "core/module/engine.h"

/*
 * Returns the output of `busbar status`, or of `busbar status --json`, for control_answer(). The
 * caller frees it; NULL: out of memory. The names in the JSON must stay stable.
 */
char *status_text(struct engine *engine, bool json);

#endif
