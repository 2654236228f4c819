/*
 * The stall watchdog, a thread. It checks every second whether lifecycle functions of modules
 * return (lifecycle_call.h), from before the modules are loaded, and then also whether the loops
 * run. A loop that is blocked for a second is logged, with the running code and its backtrace.
 * After `host.stall_timeout` the process ends with a crash report about the loop's thread, and the
 * supervisor starts the next worker. While a loop is blocked, `engine_standstill()` returns the
 * reason, which the other loops use in answers; if all are blocked, this thread accepts connections
 * itself, and answers 503 with the reason. As long as no loop is blocked, it notifies the watchdog
 * of the service manager ($WATCHDOG_USEC, see sd_watchdog_enabled(3)).
 */
#ifndef CORE_HANG_H
#define CORE_HANG_H

#include "core/lib/listener.h"
#include "core/module/engine.h"

/* Starts the thread. Call once, before modules are loaded. Returns 0, or -1 (logged). */
int hang_watch_begin(void);

/* The loops run from now on. Returns 0, or -1 if memory ran out (logged). */
int hang_watch_loops(struct engine *engine);

/* Ends the thread, if it runs. The loops must end after it. */
void hang_watch_end(void);

/* Accepts connections for `ms` milliseconds, and answers each with 503 and this reason. */
void hang_answer(const struct listeners *listeners, int ms, const char *reason);

#endif
