/*
 * Thread pools for what blocks or burns the processor: bb_offload(). The pools that the modules of
 * a generation declare, and one of the host's own with a thread for each loop, are there before it
 * goes live, and end with it. Each begins with one thread, which it has for certain, and makes
 * others when all that it has are taken, up to its number; they stay. Each has a bounded queue, of
 * which one owner has a share (quota.h); the owners take turns, so that a crowd of one delays
 * another by one call. A call may have a subject beside its owner, as the account that a password
 * is tried of: all calls for it have a share together. It then waits in the line of owner or
 * subject, whichever is the longer.
 */
#ifndef CORE_POOL_H
#define CORE_POOL_H

#include "core/base/fair_queue.h"
#include "core/generation/generation.h"
#include "core/request/request.h"

struct work_pools;

/* Starts the pools of all modules. NULL (logged) when the first thread of one cannot be made. */
struct work_pools *work_pools_new(const struct generation *generation, unsigned loops);

/* Stops and joins all threads; nothing may be queued any more. */
void work_pools_free(struct work_pools *pools);

/* A call for a thread of a pool, of who does not wait on a fiber; its memory is the caller's. */
struct pool_call {
    struct message message; /* first; message.run hears on the loop that `run` has returned */
    struct fair_entry queued;
    struct quota_owner owner; /* zero: the host */
    uint64_t subject;         /* that it is for, too; 0: none */
    struct fair_owner *other; /* the one of owner and subject in whose line it is not; or NULL */
    struct loop *loop;
    void (*run)(void *arg);
    void *arg;
    int64_t begun_us; /* by a thread of the pool */
};

/*
 * Hands a call to a pool of the module. 0; or -1 when the queue is full, if it is to be `bounded`:
 * a caller that has only one call under way may go beyond.
 */
int pool_submit(struct work_pools *pools, const struct bb_host *host, const char *name,
                struct pool_call *call, bool bounded);

/* A pool, for who watches. */
struct work_pool_status {
    const char *module, *name;                      /* as long as the generation */
    unsigned threads, started, busy, waiting, most; /* `threads` at most */
    size_t each;                                    /* of those, for one owner */
};

/* The pool at this place; false: there are no more. Any thread. */
bool work_pool_look(struct work_pools *pools, size_t index, struct work_pool_status *status);

/*
 * Runs a call in the host's own pool, while the fiber waits. 0: it has returned; -1: it was not
 * begun, for the pool is too busy, or with too much of the request's owner, or its time is over
 * (request_fail()).
 */
int pool_run(struct core_request *rq, void (*run)(void *), void *arg);

/* bb_offload() */
int api_offload(struct bb_request *rq, const char *pool, void (*work)(void *), void *arg);

/* bb_offload_for() */
int api_offload_for(struct bb_request *rq, const char *pool, uint64_t subject, void (*work)(void *),
                    void *arg);

#endif
