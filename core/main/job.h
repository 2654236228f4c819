/*
 * Periodic jobs of a generation's modules and of the host, each on a loop that is determined by its
 * name. A job with BB_ONCE runs on one host of a cluster at a time: it holds an advisory lock on a
 * checked out connection while it runs. First runs are spread over time, so that jobs do not all
 * run at once.
 */
#ifndef CORE_JOB_H
#define CORE_JOB_H

#include "core/module/engine.h"

/* Creates the jobs of a generation; none is scheduled. NULL: out of memory. */
struct jobs *jobs_new(struct engine *engine, struct generation *generation);

/* On the loop: schedules its jobs. Jobs that `before` (or NULL) also has keep their due time. */
void jobs_begin(struct jobs *jobs, const struct jobs *before, struct loop *loop);

/*
 * On the loop: cancels the schedule of its jobs. A running job continues, and keeps its generation
 * loaded.
 */
void jobs_end(struct jobs *jobs, struct loop *loop);

/* Schedules another run right after the current run. */
void api_again(struct bb_request *rq);

/* Call after jobs_end() on all loops and the last run. Any thread. */
void jobs_free(struct jobs *jobs);

#endif
