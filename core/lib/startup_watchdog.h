/*
 * Monitors the start of a worker, before its loops run: otherwise a module's constructor, `open` or
 * `start` that does not return would keep the service down forever. After five seconds a log line
 * reports what is running, and after the limit the process ends with a crash report about that
 * thread.
 */
#ifndef CORE_STARTUP_WATCHDOG_H
#define CORE_STARTUP_WATCHDOG_H

#include <stdint.h>

/* The calling thread begins the start. Call once. */
void startup_begin(void);

/* Sets the time limit of the start; 0: none. No effect if the start is not monitored. */
void startup_limit(int64_t ms);

/* The start has ended, successfully or not. Later calls have no effect. */
void startup_over(void);

#endif
