/*
 * Monitors the start of a worker, before its loops run: otherwise a module's constructor, `open` or
 * `start` that does not return would keep the service down forever. After five seconds a log line
 * reports what is running, and after the limit the process ends with a crash report about that
 * thread.
 */
#ifndef CORE_START_H
#define CORE_START_H

#include <stdint.h>

/* The calling thread begins the start. Call once. */
void start_begin(void);

/* Sets the time limit of the start; 0: none. No effect if the start is not monitored. */
void start_limit(int64_t ms);

/* The start has ended, successfully or not. Later calls have no effect. */
void start_over(void);

#endif
