/*
 * Periodic jobs of the modules and of the host, on the first loop. A job with BB_ONCE runs on one
 * host of a cluster at a time: it holds an advisory lock on a lent connection while it runs.
 */
#ifndef CORE_JOB_H
#define CORE_JOB_H

#include "core/engine.h"

struct jobs *jobs_new(struct loop *loop, const struct generation *generation);
void jobs_free(struct jobs *jobs);

#endif
