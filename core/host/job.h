/*
 * Periodic jobs of a generation's modules and of the host, each on a loop that its name chooses. A
 * job with BB_ONCE runs on one host of a cluster at a time: it holds an advisory lock on a checked
 * out connection while it runs, so they fall due one after another and not together.
 */
#ifndef CORE_JOB_H
#define CORE_JOB_H

#include "core/engine/engine.h"

/* Those of a generation, none of them due. NULL: out of memory. */
struct jobs *jobs_new(struct engine *engine, struct generation *generation);

/* On the loop: makes its own due; those that `before` (or NULL) has as well, when they would have
 * been there. */
void jobs_begin(struct jobs *jobs, const struct jobs *before, struct loop *loop);

/* On the loop: none of its own is due any more; one that runs goes on, and holds its generation. */
void jobs_end(struct jobs *jobs, struct loop *loop);

/* The run that this is shall be followed by another one as soon as it has ended. */
void api_again(struct bb_request *rq);

/* After jobs_end() on all loops and the last run; any thread. */
void jobs_free(struct jobs *jobs);

#endif
