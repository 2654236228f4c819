#include "core/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/engine.h"
#include "core/json_in.h"
#include "core/log.h"
#include "core/text.h"

enum { OWN_QUEUE = 4096 };

/* One offloaded call; on the fiber's stack, for the fiber waits for it. */
struct work {
    struct pool_call call; /* first */
    struct core_request *rq;
    void (*run)(void *arg);
    void *arg;
    bool done;
};

struct work_pool {
    const struct bb_host *host; /* whose it is; NULL: the host's own */
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
    struct work_pool *list; /* the host's own first */
    size_t count;
    struct bb_pool own;
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

/* Than the process is, whoever started it how. Without it the pool works, at others' expense. */
static void become_nicer(const struct bb_pool *face)
{
    id_t self = (id_t)syscall(SYS_gettid);
    char reason[128];

    if (!face->nice)
        return;
    errno = 0;
    int now = getpriority(PRIO_PROCESS, self); /* -1 is one, too */

    if (!errno && !setpriority(PRIO_PROCESS, self, now + face->nice))
        return;
    log_line(BB_WARN, "a thread of a pool keeps its priority", "pool", face->name, "reason",
             strerror_r(errno, reason, sizeof reason), NULL);
}

static void *worker(void *arg)
{
    struct work_pool *pool = arg;
    struct pool_call *call;

    become_nicer(pool->face);
    while ((call = take(pool))) {
        struct loop *loop = call->loop;

        call->begun_us = clock_mono_us();
        call->run(call->arg);
        loop_post(loop, &call->message);
    }
    arena_thread_end();
    return NULL;
}

/* In the request's name, as on its fiber. */
static void work_run(void *arg)
{
    struct work *work = arg;
    bool *before = json_starves(&work->rq->starved);

    work->run(work->arg);
    json_starves(before);
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

static int offload(struct core_request *rq, struct work_pool *pool, void (*run)(void *), void *arg)
{
    struct work work = {.rq = rq, .run = run, .arg = arg};

    work.call = (struct pool_call){
        .message.run = work_done, .loop = rq->loop, .run = work_run, .arg = &work};
    int64_t asked_us = clock_mono_us();
    if (enqueue(pool, &work.call, true))
        return request_fail(rq, FAILED_BUSY);
    if (!request_wait_in_time(rq, &work.done)) {
        if (take_back(pool, &work.call)) {
            rq->spent.queue_us += clock_mono_us() - asked_us;
            return request_fail(rq, FAILED_DEADLINE);
        }
        request_wait_always(rq, &work.done);
    }
    rq->spent.queue_us += work.call.begun_us - asked_us;
    return 0;
}

int pool_run(struct core_request *rq, void (*run)(void *), void *arg)
{
    return offload(rq, &rq->generation->pools->list[0], run, arg);
}

int api_offload(struct bb_request *pub, const char *name, void (*run)(void *), void *arg)
{
    struct core_request *rq = request_of(pub);

    return offload(rq, find(rq->generation->pools, pub->host, name), run, arg);
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

    *status = (struct work_pool_status){.module = pool->host ? pool->host->module->name : "busbar",
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
    size_t count = 1;

    for (size_t i = 0; i < generation->module_count; i++)
        count += generation->modules[i].face->pools.count;
    return count;
}

static int start_one(struct work_pools *pools, const struct bb_host *host,
                     const struct bb_pool *face)
{
    struct work_pool *pool = &pools->list[pools->count++];

    pool->host = host;
    pool->face = face;
    return pool_start(pool);
}

static int start_all(struct work_pools *pools, const struct generation *generation)
{
    unsigned loops = generation->engine ? generation->engine->loop_count : 1;

    pools->own = (struct bb_pool){.name = "bodies", .threads = loops, .queue = OWN_QUEUE};
    if (start_one(pools, NULL, &pools->own))
        return -1;
    for (size_t i = 0; i < generation->module_count; i++) {
        const struct core_module *module = &generation->modules[i];

        for (size_t j = 0; j < module->face->pools.count; j++) {
            if (start_one(pools, &module->handle.host,
                          &MODULE_ROWS(bb_pool, module->face->pools)[j]))
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
    pools->list = calloc(count_pools(generation), sizeof *pools->list);
    if (pools->list && !start_all(pools, generation))
        return pools;
    log_line(BB_ERROR, "the threads of a pool cannot be started", NULL);
    work_pools_free(pools);
    return NULL;
}
