#include "core/pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/engine.h"
#include "core/log.h"
#include "core/text.h"

/* One offloaded call; on the fiber's stack, for the fiber waits for it. */
struct work {
    struct pool_call call; /* first */
    struct core_request *rq;
    bool done;
};

struct work_pool {
    const struct bb_host *host; /* whose it is */
    const struct bb_pool *face;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct pool_call *first, *last;
    unsigned queued, busy;
    bool stop;
    pthread_t *threads;
    unsigned started;
};

struct work_pools {
    struct work_pool *list;
    size_t count;
};

static struct pool_call *take(struct work_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->busy--;
    while (!pool->first && !pool->stop)
        pthread_cond_wait(&pool->more, &pool->lock);
    pool->busy++;
    struct pool_call *call = pool->first;
    if (call) {
        pool->first = call->next;
        if (!pool->first)
            pool->last = NULL;
        pool->queued--;
    }
    pthread_mutex_unlock(&pool->lock);
    return call;
}

static void *worker(void *arg)
{
    struct work_pool *pool = arg;
    struct pool_call *call;

    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), pool->face->nice);
    while ((call = take(pool))) {
        struct loop *loop = call->loop;

        call->begun_us = clock_mono_us();
        call->run(call->arg);
        loop_post(loop, &call->message);
    }
    return NULL;
}

static void work_done(struct message *message)
{
    struct work *work = (struct work *)(void *)message;

    work->done = true;
    request_wake(work->rq);
}

static int enqueue(struct work_pool *pool, struct pool_call *call, bool bounded)
{
    int status = -1;

    call->next = NULL;
    pthread_mutex_lock(&pool->lock);
    if (!bounded || pool->queued < pool->face->queue) {
        if (pool->last)
            pool->last->next = call;
        else
            pool->first = call;
        pool->last = call;
        pool->queued++;
        pthread_cond_signal(&pool->more);
        status = 0;
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* Takes back a call that no thread has begun; false: it has been begun. */
static bool take_back(struct work_pool *pool, struct pool_call *call)
{
    struct pool_call *before = NULL;
    bool found = false;

    pthread_mutex_lock(&pool->lock);
    for (struct pool_call *at = pool->first; at && !found; before = at, at = at->next) {
        found = at == call;
        if (!found)
            continue;
        if (before)
            before->next = call->next;
        else
            pool->first = call->next;
        if (pool->last == call)
            pool->last = before;
        pool->queued--;
    }
    pthread_mutex_unlock(&pool->lock);
    return found;
}

static struct work_pool *find(struct work_pools *pools, const struct bb_host *host,
                              const char *name)
{
    for (size_t i = 0; i < pools->count; i++) {
        if (pools->list[i].host == host && !strcmp(pools->list[i].face->name, name))
            return &pools->list[i];
    }
    log_line(BB_ERROR, "a module uses a pool that it does not declare", "pool", name, NULL);
    abort();
}

int pool_submit(struct work_pools *pools, const struct bb_host *host, const char *name,
                struct pool_call *call, bool bounded)
{
    return enqueue(find(pools, host, name), call, bounded);
}

int api_offload(struct bb_request *pub, const char *name, void (*run)(void *), void *arg)
{
    struct core_request *rq = request_of(pub);
    struct work_pool *pool = find(rq->generation->pools, pub->host, name);
    struct work work = {
        .call = {.message.run = work_done, .loop = rq->loop, .run = run, .arg = arg}, .rq = rq};

    int64_t asked_us = clock_mono_us();
    if (enqueue(pool, &work.call, true))
        return request_fail(rq, FAILED_BUSY);
    if (request_wait(rq, &work.done)) {
        if (take_back(pool, &work.call)) {
            rq->spent.queue_us += clock_mono_us() - asked_us;
            return -1;
        }
        request_wait_always(rq, &work.done);
    }
    rq->spent.queue_us += work.call.begun_us - asked_us;
    return 0;
}

static int pool_start(struct work_pool *pool)
{
    pool->threads = calloc(pool->face->threads, sizeof(pthread_t));
    if (!pool->threads)
        return -1;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->more, NULL);
    pool->busy = pool->face->threads; /* until they have looked for work */
    for (; pool->started < pool->face->threads; pool->started++) {
        if (pthread_create(&pool->threads[pool->started], NULL, worker, pool))
            return -1;
    }
    return 0;
}

static void pool_stop(struct work_pool *pool)
{
    if (!pool->threads)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->more);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->started; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->more);
    pthread_mutex_destroy(&pool->lock);
    free(pool->threads);
}

void work_pools_free(struct work_pools *pools)
{
    for (size_t i = 0; i < pools->count; i++)
        pool_stop(&pools->list[i]);
    free(pools->list);
    free(pools);
}

bool work_pool_look(struct work_pools *pools, size_t index, struct work_pool_status *status)
{
    if (index >= pools->count)
        return false;
    struct work_pool *pool = &pools->list[index];

    *status = (struct work_pool_status){.module = pool->host->module->name,
                                        .name = pool->face->name,
                                        .threads = pool->started,
                                        .most = pool->face->queue};
    pthread_mutex_lock(&pool->lock);
    status->busy = pool->busy;
    status->waiting = pool->queued;
    pthread_mutex_unlock(&pool->lock);
    return true;
}

static size_t count_pools(const struct generation *generation)
{
    size_t count = 0;

    for (size_t i = 0; i < generation->module_count; i++)
        count += generation->modules[i].face->pools.count;
    return count;
}

static int start_all(struct work_pools *pools, const struct generation *generation)
{
    for (size_t i = 0; i < generation->module_count; i++) {
        const struct core_module *module = &generation->modules[i];

        for (size_t j = 0; j < module->face->pools.count; j++) {
            struct work_pool *pool = &pools->list[pools->count++];

            pool->host = &module->handle.host;
            pool->face = &MODULE_ROWS(bb_pool, module->face->pools)[j];
            if (pool_start(pool))
                return -1;
        }
    }
    return 0;
}

struct work_pools *work_pools_new(const struct generation *generation)
{
    struct work_pools *pools = calloc(1, sizeof *pools);

    if (!pools)
        return NULL;
    pools->list = calloc(count_pools(generation) + 1, sizeof *pools->list);
    if (pools->list && !start_all(pools, generation))
        return pools;
    log_line(BB_ERROR, "the threads of a pool cannot be started", NULL);
    work_pools_free(pools);
    return NULL;
}
