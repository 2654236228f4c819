/*
 * Thread pools for what blocks or burns the processor: bb_offload(). The pools that the modules of
 * a generation declare are started before it goes live, and end with it. Each has a bounded queue.
 */
#ifndef CORE_POOL_H
#define CORE_POOL_H

#include "core/generation.h"
#include "core/request.h"

struct work_pools;

/* Starts the pools of all modules. NULL (logged) when a thread cannot be made. */
struct work_pools *work_pools_new(const struct generation *generation);

/* Stops and joins all threads; nothing may be queued any more. */
void work_pools_free(struct work_pools *pools);

/* A pool, for who watches. */
struct work_pool_status {
    const char *module, *name; /* as long as the generation */
    unsigned threads, busy, waiting, most;
};

/* The pool at this place; false: there are no more. Any thread. */
bool work_pool_look(struct work_pools *pools, size_t index, struct work_pool_status *status);

/* bb_offload() */
int api_offload(struct bb_request *rq, const char *pool, void (*work)(void *), void *arg);

#endif
