/*
 * Periodic jobs of a generation's modules and of the host, on the first loop. A job with BB_ONCE
 * runs on one host of a cluster at a time: it holds an advisory lock on a lent connection while it
 * runs.
 */
#ifndef CORE_JOB_H
#define CORE_JOB_H

#include "core/engine.h"

/* Those of a generation, none of them due. NULL: out of memory. */
struct jobs *jobs_new(struct loop *loop, struct generation *generation);

/* Makes them due; those that `before` (or NULL) has as well, when they would have been there. */
void jobs_begin(struct jobs *jobs, const struct jobs *before);

/* None is due any more; one that runs goes on, and holds its generation. */
void jobs_end(struct jobs *jobs);

/* After jobs_end() and the last run; any thread. */
void jobs_free(struct jobs *jobs);

#endif
