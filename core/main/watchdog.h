/*
 * The watchdog of a service manager: it is notified as long as no loop is blocked. If a loop hangs,
 * the notifications stop, and the manager restarts the host. Runs on the first loop.
 */
#ifndef CORE_WATCHDOG_H
#define CORE_WATCHDOG_H

#include "core/module/engine.h"

struct watchdog;

/*
 * NULL: the manager does not request it ($WATCHDOG_USEC, see sd_watchdog_enabled(3)), or out of
 * memory (logged).
 */
struct watchdog *watchdog_new(struct engine *engine);

/* Call after the loops have ended. NULL is allowed. */
void watchdog_free(struct watchdog *watchdog);

#endif
