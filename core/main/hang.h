/*
 * The stall watchdog, a thread. It checks every second whether lifecycle functions of modules
 * return (thread.h), and, once hang_watch_loops() was called, whether the loops run. A loop that is
 * blocked for a second is logged, with the running code and its backtrace. After
 * `host.stall_timeout` the process ends with a crash report about the loop's thread, and the
 * supervisor starts the next server process. While a loop is blocked, bb_standstill() returns the
 * name of the code that blocks it. If all loops are blocked, this thread accepts connections itself
 * and sends a 503 response with this name. While no loop is blocked, this thread notifies the
 * watchdog of the service manager ($WATCHDOG_USEC, see sd_watchdog_enabled(3)).
 */
#ifndef CORE_HANG_H
#define CORE_HANG_H

#include "core/lib/listener.h"
#include "core/module/engine.h"

/* Starts the watchdog. Call once, before modules are loaded. Returns 0, or -1 (logged). */
int hang_watch_begin(void);

/* Makes the watchdog check the loops, too. Call when all loops run. */
void hang_watch_loops(struct engine *engine);

/* Ends the watchdog, if it runs. Call before the loops end. */
void hang_watch_end(void);

/* Waits up to `ms` milliseconds for connections; sends each a 503 response with the reason. */
void hang_answer(const struct listeners *listeners, int ms, const char *reason);

#endif
