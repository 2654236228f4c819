/*
 * Worker threads of modules. Each generation has a set of them; each thread has a reference to it.
 * They are created before the generation goes live, wait until workers_go(), and run until
 * workers_stop(). They end before the loops, which still do the work passed on with bb_run().
 */
#ifndef CORE_WORKER_H
#define CORE_WORKER_H

#include "core/module/generation.h"

struct workers;

/* Creates the threads of all modules' workers. NULL (logged): a thread cannot be created. */
struct workers *workers_new(struct generation *generation);

/* Starts the workers. */
void workers_go(struct workers *workers);

/* Asks all workers to return by until_ms (monotonic). A later call can only set an earlier time. */
void workers_stop(struct workers *workers, int64_t until_ms);

/* Returns the number of workers that have not returned. Any thread. */
size_t workers_running(const struct workers *workers);

/* Stops, joins and frees the workers. */
void workers_free(struct workers *workers);

API_FUNCTION(stopping);
API_FUNCTION(leave_ms);
API_FUNCTION(drained);
API_FUNCTION(wake);

/* Functions that pass work from any thread to a loop (run.c). */
API_FUNCTION(run);
API_FUNCTION(run_then);

#endif
