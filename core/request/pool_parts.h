/* What pool.c, pool_set.c and pool_call.c have of each other. */
#ifndef CORE_POOL_PARTS_H
#define CORE_POOL_PARTS_H

#include <pthread.h>

#include "core/request/pool.h"
#include "core/request/quota.h"

struct work_pool {
    const struct bb_host *host; /* whose it is; NULL: the host's own */
    const struct bb_pool *descriptor;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct fair_table owners; /* of what waits and of what runs */
    struct fair_queue calls;  /* that wait */
    struct fair_owner *own;   /* of the host's own calls; there for as long as the pool */
    size_t each;              /* calls of one owner */
    unsigned queued, busy;
    bool stop;
    pthread_t *threads; /* of descriptor->threads places */
    unsigned started;
    bool short_told; /* that a thread cannot be had */
};

struct work_pools {
    struct work_pool *list; /* the host's own first */
    size_t count;
    struct bb_pool own;
};

/* pool.c: starts the first thread of a pool whose host, descriptor and share are set. 0, or -1. */
int pool_start(struct work_pool *pool);
/* Ends all threads, when they have done what is queued; also one that pool_start() refused. */
void pool_stop(struct work_pool *pool);

/* Queues a call, of whose owner `each` may be there. Not `bounded`: only memory is a bound. */
enum quota_result pool_enqueue(struct work_pool *pool, struct pool_call *call, size_t each,
                               bool bounded);
/* Takes back a call that no thread has begun; false: it has been begun. */
bool pool_take_back(struct work_pool *pool, struct pool_call *call);

/* pool_set.c: the pool of a module, or NULL: it declares none of this name. */
struct work_pool *pool_find(struct work_pools *pools, const struct bb_host *host, const char *name);

#endif
