/*
 * Watches a worker's start, for which no loop turns yet: a module's constructor, `open` or `start`
 * that does not return would keep the service down for good. After five seconds a line of the log
 * says what runs, and after the limit the process ends by a crash report about that thread.
 */
#ifndef CORE_START_H
#define CORE_START_H

#include <stdint.h>

/* The calling thread starts. Once. */
void start_begin(void);

/* It may take so long from now on; 0: as long as it likes. No effect where nothing is watched. */
void start_limit(int64_t ms);

/* It is over, well or not. No effect a second time. */
void start_over(void);

#endif
