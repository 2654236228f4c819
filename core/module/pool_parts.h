/* Internals shared by pool.c, pool_set.c and pool_call.c. */
#ifndef CORE_POOL_PARTS_H
#define CORE_POOL_PARTS_H

#include <pthread.h>

#include "core/module/pool.h"
#include "core/module/quota.h"

struct work_pool {
    const struct bb_host *host; /* the module that declared it; NULL: the host */
    const struct bb_pool *descriptor;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct fair_table owners; /* owners of waiting and running calls */
    struct fair_queue calls;  /* waiting calls */
    struct fair_owner *own;   /* owner entry for the host's own calls; exists as long as the pool */
    size_t each;              /* maximum number of calls of one owner */
    unsigned queued, busy;
    bool stop;
    pthread_t *threads; /* array with room for descriptor->threads */
    unsigned started;
    bool short_told; /* logged that a thread cannot be created */
};

struct work_pools {
    struct work_pool *list; /* the host's own pool first */
    size_t count;
    struct bb_pool own;
};

/*
 * pool.c: starts the first thread of a pool whose host, descriptor and share are set. Returns 0 or
 * -1.
 */
int pool_start(struct work_pool *pool);
/* Ends all threads after they have run the queued calls. Also call this if pool_start() failed. */
void pool_stop(struct work_pool *pool);

/*
 * Queues a call if its owner has fewer than `each`. If not `bounded`, only lack of memory can fail.
 */
enum quota_result pool_enqueue(struct work_pool *pool, struct pool_call *call, size_t each,
                               bool bounded);
/* Removes a call that no thread has started; false: a thread has started it. */
bool pool_take_back(struct work_pool *pool, struct pool_call *call);

/* pool_set.c: finds a pool of a module by name; NULL: the module declares no such pool. */
struct work_pool *pool_find(struct work_pools *pools, const struct bb_host *host, const char *name);

#endif
