/*
 * The watchdog of a service manager: as long as every loop turns, the manager is told so, and when
 * one hangs it is told nothing, and starts the host again. Its own thread is the first loop.
 */
#ifndef CORE_WATCHDOG_H
#define CORE_WATCHDOG_H

#include "core/engine/engine.h"

struct watchdog;

/* NULL: no manager asks for it ($WATCHDOG_USEC, see sd_watchdog_enabled(3)), or no memory (logged).
 */
struct watchdog *watchdog_new(struct engine *engine);

/* NULL is fine. The loops have ended. */
void watchdog_free(struct watchdog *watchdog);

#endif
