#include "core/module/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/lib/fiber.h"
#include "core/lib/json.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/module/engine.h"
#include "core/module/reply.h"

enum {
    OWN_QUEUE = 4096,
    FEW = 2,  /* the first thread serves only owners with up to FEW calls, see pool_take() */
    REST = 2, /* a thread rests REST times as long as its call waited for a processor */
    REST_MAX_US = 1000000,
};

struct work_pool {
    const struct bb_host *host; /* the module that declared it; NULL: the host */
    const struct bb_pool *descriptor;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct quota_table owners; /* owners of waiting and running calls */
    struct fair_queue calls;   /* waiting calls */
    struct quota_entry *own;   /* entry for the host's own calls; exists as long as the pool */
    size_t each;               /* maximum number of calls of one owner */
    unsigned queued, busy;
    bool shared; /* its first thread serves owners with few calls: see pool_take() */
    bool stop;
    pthread_t *threads; /* array with room for `most`; protected by the lock */
    unsigned most;      /* maximum number of threads */
    unsigned started;
    bool short_told; /* logged that a thread cannot be created */
};

struct work_pools {
    struct bb_pool own;
    size_t count;
    struct work_pool list[]; /* the host's own pool first */
};

/* ---- threads ---- */

/* Under the lock. */
static void pool_leave(struct work_pool *pool, struct quota_entry *owner,
                       const struct pool_call *call)
{
    fair_leave(&pool->owners, owner);
    if (call->other)
        fair_leave(&pool->owners, call->other);
    if (pool->shared && pool->queued) /* the first thread may now serve this owner */
        pthread_cond_broadcast(&pool->more);
}

/*
 * Removes and returns the next call; NULL if there is none. With `first`, takes only calls of
 * owners with up to FEW calls, so that clients with one call do not wait for clients with many.
 */
static struct fair_entry *pool_take(struct work_pool *pool, bool first)
{
    struct fair_flow *flow;

    if (!first)
        return fair_take(&pool->calls);
    STAILQ_FOREACH (flow, &pool->calls.round, next) {
        if (STAILQ_FIRST(&flow->entries)->owner->taken <= FEW) {
            STAILQ_REMOVE(&pool->calls.round, flow, fair_flow, next);
            STAILQ_INSERT_HEAD(&pool->calls.round, flow, next);
            return fair_take(&pool->calls);
        }
    }
    return NULL;
}

/*
 * Pauses until until_ms (monotonic), or until the pool stops. A thread pauses if its call had to
 * wait for a processor: then processors are scarce, and the pause leaves them to other processes.
 */
static void pool_rest(struct work_pool *pool, int64_t until_ms)
{
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};

    while (!pool->stop && clock_mono_ms() < until_ms)
        pthread_cond_clockwait(&pool->more, &pool->lock, CLOCK_MONOTONIC, &until);
}

static void *pool_thread(void *arg)
{
    struct work_pool *pool = arg;

    thread_name(pool->host ? pool->host->module->name : "busbar", pool->descriptor->name);
    activity_enter((struct activity){.module = pool->host ? pool->host->module->name : NULL,
                                     .kind = "pool",
                                     .name = pool->descriptor->name});
    thread_schedule(pool->descriptor->nice);
    pthread_mutex_lock(&pool->lock);
    bool first = pool->shared && pthread_equal(pthread_self(), pool->threads[0]);
    bool rests = pool->shared && !first;

    while (pool->queued || !pool->stop) {
        struct fair_entry *queued = pool_take(pool, first && pool->started > 1 && !pool->stop);

        if (!queued) {
            pthread_cond_wait(&pool->more, &pool->lock);
            continue;
        }
        struct pool_call *call = BB_CONTAINER_OF(queued, struct pool_call, queued);
        struct quota_entry *owner = queued->owner;
        struct loop *loop = call->loop;

        queued->owner = NULL; /* pool_offload() can no longer cancel the call */
        pool->queued--;
        pool->busy++;
        pthread_mutex_unlock(&pool->lock);
        call->begun_us = clock_mono_us();
        int64_t cpu_us = clock_cpu_us(), delay_us = rests ? thread_delay_us() : 0;

        call->run(call->arg);
        delay_us = rests ? thread_delay_us() - delay_us : 0;
        account_add(call->account, ACCOUNT_CPU_US, clock_cpu_us() - cpu_us);
        pthread_mutex_lock(&pool->lock);
        pool->busy--;
        pool_leave(pool, owner, call); /* before loop_post(), which lets the caller call again */
        pthread_mutex_unlock(&pool->lock);
        loop_post(loop, &call->message);
        pthread_mutex_lock(&pool->lock);
        delay_us *= REST;
        pool_rest(pool, clock_mono_ms() + (delay_us < REST_MAX_US ? delay_us : REST_MAX_US) / 1000);
    }
    pthread_mutex_unlock(&pool->lock);
    arena_thread_end();
    return NULL;
}

static int pool_add_thread(struct work_pool *pool)
{
    if (pthread_create(&pool->threads[pool->started], NULL, pool_thread, pool))
        return -1;
    pool->started++;
    return 0;
}

/* ---- calls ---- */

/*
 * Also counts the call for its subject, and makes it wait with the calls of its owner or of its
 * subject, whichever has more. The key of a subject is a negative number, which no account has.
 * Returns false with *answer if the subject has too many calls, or memory ran out.
 */
static bool pool_enter_subject(struct work_pool *pool, struct pool_call *call,
                               enum quota_result *answer)
{
    struct quota_owner key = {.account = (int64_t)(call->subject >> 1) + INT64_MIN};
    struct quota_entry *owner = call->queued.owner;
    struct quota_entry *subject = fair_enter(&pool->owners, &key, pool->each, answer);

    if (!subject) {
        fair_leave(&pool->owners, owner);
        call->queued.owner = NULL;
        return false;
    }
    bool longer = subject->taken > owner->taken;

    call->queued.owner = longer ? subject : owner;
    call->other = longer ? owner : subject;
    return true;
}

/*
 * Queues a call if the queue is not full, and the call's owner has fewer than `each` calls. If
 * `bounded` is false, both limits are ignored, and the call fails only if memory runs out.
 */
static enum quota_result pool_enqueue(struct work_pool *pool, struct pool_call *call, size_t each,
                                      bool bounded)
{
    enum quota_result answer = QUOTA_ALL_FULL;

    BB_LOCKED(&pool->lock);
    if (!bounded || pool->queued < pool->descriptor->queue) {
        call->queued.owner = fair_enter(&pool->owners, &call->owner, each, &answer);
        if (!call->queued.owner && !bounded) /* must not be refused, so it counts for the host */
            call->queued.owner = fair_enter(&pool->owners, &pool->own->owner, SIZE_MAX, &answer);
    }
    if (call->queued.owner && (!call->subject || pool_enter_subject(pool, call, &answer))) {
        fair_wait(&pool->calls, &call->queued);
        pool->queued++;
        if (pool->started < pool->most && pool->busy + pool->queued > pool->started &&
            pool_add_thread(pool) && !pool->short_told) {
            pool->short_told = true;
            log_line(BB_WARN, "cannot start another thread of a pool", "pool",
                     pool->descriptor->name, NULL);
        }
        pthread_cond_broadcast(&pool->more);
    }
    return answer;
}

/* Finds a pool of a module by name; NULL: the module declares no such pool. */
static struct work_pool *pool_find(struct work_pools *pools, const struct bb_host *host,
                                   const char *name)
{
    for (size_t i = 0; i < pools->count; i++) {
        if (pools->list[i].host == host && !strcmp(pools->list[i].descriptor->name, name))
            return &pools->list[i];
    }
    return NULL;
}

int pool_submit(struct work_pools *pools, const struct bb_host *host, const char *name,
                struct pool_call *call, bool bounded)
{
    struct work_pool *pool = pool_find(pools, host, name);

    call->account = account_of(host);
    return pool && pool_enqueue(pool, call, SIZE_MAX, bounded) == QUOTA_TAKEN ? 0 : -1;
}

/* ---- calls for which a request's fiber waits ---- */

/* A call for which a fiber waits; it is on the fiber's stack. */
struct work {
    struct pool_call call; /* first member */
    struct core_request *rq;
    void (*run)(void *arg);
    void *arg;
    bool done;
};

/* Runs a call; meanwhile, a crash report of the thread also names the call's request. */
static void pool_work_run(void *arg)
{
    struct work *work = arg;
    const struct core_request *rq = work->rq;
    bool *before = json_set_oom_flag(&work->rq->json_oom);
    struct activity now = activity_now();

    now.request = rq->id;
    now.method = rq->route ? rq->route->method : NULL;
    now.path = rq->route ? rq->route->path : NULL;
    now = activity_enter(now);
    work->run(work->arg);
    activity_leave(now);
    json_set_oom_flag(before);
}

static void pool_work_done(struct message *message)
{
    struct work *work = (struct work *)(void *)message;
    struct core_request *rq = work->rq;

    work->done = true;
    request_wake(rq);
}

static int pool_offload(struct core_request *rq, struct work_pool *pool, uint64_t subject,
                        void (*run)(void *), void *arg)
{
    struct work work = {.rq = rq, .run = run, .arg = arg};

    work.call = (struct pool_call){.message.run = pool_work_done,
                                   .loop = rq->loop,
                                   .owner = rq->owner,
                                   .subject = subject,
                                   .run = pool_work_run,
                                   .account = account_of(rq->pub.host),
                                   .arg = &work};
    int64_t asked_us = clock_mono_us();
    enum quota_result answer =
        pool_enqueue(pool, &work.call, quota_exempt(rq) ? SIZE_MAX : pool->each, true);
    if (answer != QUOTA_TAKEN)
        return quota_fail(rq, QUOTA_POOLS, answer);
    if (!request_wait_in_time(rq, &work.done)) {
        pthread_mutex_lock(&pool->lock);
        bool queued = work.call.queued.owner != NULL; /* no thread has started it */

        if (queued) {
            fair_cancel(&pool->calls, &work.call.queued);
            pool_leave(pool, work.call.queued.owner, &work.call);
            pool->queued--;
        }
        pthread_mutex_unlock(&pool->lock);
        if (queued) {
            rq->time_spent.queue_us += clock_mono_us() - asked_us;
            return request_fail(rq, FAILED_DEADLINE);
        }
        /* The fiber must wait, because a thread still uses memory of the request. If the pool
         * belongs to a module, the client gets an error now. */
        bool late = pool->host && rq->answer_timeout && rq->answer_timeout(rq);

        while (!work.done)
            fiber_park();
        if (late)
            return request_fail(rq, FAILED_DEADLINE);
    }
    rq->time_spent.queue_us += work.call.begun_us - asked_us;
    return 0;
}

int pool_run(struct core_request *rq, void (*run)(void *), void *arg)
{
    return pool_offload(rq, &rq->generation->pools->list[0], 0, run, arg);
}

int api_offload(struct bb_request *pub, const char *name, void (*run)(void *), void *arg)
{
    return api_offload_for(pub, name, 0, run, arg);
}

int api_offload_for(struct bb_request *pub, const char *name, uint64_t subject, void (*run)(void *),
                    void *arg)
{
    struct core_request *rq = request_of(pub);
    struct work_pool *pool = pool_find(rq->generation->pools, pub->host, name);

    if (module_error_waits(rq, "bb_offload()"))
        return -1;
    if (pool)
        return pool_offload(rq, pool, subject, run, arg);
    module_error(rq, "module used a pool that it does not declare", name);
    return -1;
}

/* ---- the pools of a generation: the host's pool and the pools of its modules ---- */

bool work_pool_snapshot(struct work_pools *pools, size_t index, struct work_pool_status *status)
{
    if (index >= pools->count)
        return false;
    struct work_pool *pool = &pools->list[index];

    *status = (struct work_pool_status){.module = pool->host ? pool->host->module->name : "busbar",
                                        .name = pool->descriptor->name,
                                        .threads = pool->most,
                                        .queue = pool->descriptor->queue,
                                        .each = pool->each};
    BB_LOCKED(&pool->lock);
    status->started = pool->started;
    status->busy = pool->busy;
    status->waiting = pool->queued;
    return true;
}

void work_pools_free(struct work_pools *pools)
{
    for (size_t i = 0; i < pools->count; i++) {
        struct work_pool *pool = &pools->list[i];

        pthread_mutex_lock(&pool->lock);
        pool->stop = true;
        pthread_cond_broadcast(&pool->more);
        pthread_mutex_unlock(&pool->lock);
        for (unsigned j = 0; j < pool->started; j++)
            pthread_join(pool->threads[j], NULL);
        pthread_cond_destroy(&pool->more);
        pthread_mutex_destroy(&pool->lock);
        quota_table_free(&pool->owners);
        free(pool->threads);
    }
    free(pools);
}

/* Creates a pool. Returns 0, or -1 if memory ran out or its first thread cannot be started. */
static int pool_start(struct work_pools *pools, const struct generation *generation,
                      const struct bb_host *host, const struct bb_pool *descriptor)
{
    struct work_pool *pool = &pools->list[pools->count++];
    const struct engine *engine = generation->engine;
    bool shared = !descriptor->threads && engine;
    unsigned threads = shared                ? engine->loop_count + 1
                       : descriptor->threads ? descriptor->threads
                                             : 1;
    enum quota_result answer;

    *pool = (struct work_pool){
        .host = host,
        .descriptor = descriptor,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .more = PTHREAD_COND_INITIALIZER,
        .owners = QUOTA_TABLE(1),
        .calls = FAIR_QUEUE(pool->calls, 0),
        .each = quota_part((size_t)generation->host->http.client_percent,
                           (size_t)threads + descriptor->queue),
        .threads = calloc(threads, sizeof(pthread_t)),
        .most = threads,
        .shared = shared,
    };
    pool->own = fair_enter(&pool->owners, &(struct quota_owner){0}, 1, &answer);
    BB_LOCKED(&pool->lock);
    return pool->own && pool->threads ? pool_add_thread(pool) : -1;
}

struct work_pools *work_pools_new(const struct generation *generation)
{
    size_t count = 1;

    for (size_t i = 0; i < generation->module_count; i++)
        count += generation->modules[i].descriptor->pools.count;
    struct work_pools *pools = calloc(1, sizeof *pools + count * sizeof pools->list[0]);

    if (!pools)
        return NULL;
    pools->own = (struct bb_pool){.name = "bodies", .queue = OWN_QUEUE, .nice = 15};
    bool failed = pool_start(pools, generation, NULL, &pools->own);

    for (size_t i = 0; i < generation->module_count; i++) {
        const struct core_module *module = &generation->modules[i];

        MODULE_EACH (bb_pool, row, module->descriptor->pools)
            failed = failed || pool_start(pools, generation, &module->handle.host, row);
    }
    if (!failed)
        return pools;
    log_line(BB_ERROR, "the threads of a pool cannot be started", NULL);
    work_pools_free(pools);
    return NULL;
}

enum { LEAVE_MS = 8000 }; /* default time for a worker to return */

struct worker {
    struct bb_worker_context context; /* first member */
    const struct bb_worker *descriptor;
    struct workers *all;
    pthread_t thread;
    int64_t cpu_us; /* processor time of the thread that was charged so far */
};

static _Thread_local struct worker *worker_here; /* the worker of this thread, or NULL */

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t gone; /* signals that `go` or `stop` has changed */
    bool go;
    atomic_bool stop;
    atomic_int_least64_t until_ms; /* if `stop` is set: monotonic deadline for returning */
    atomic_size_t ended;
    size_t count; /* threads */
    struct worker list[];
};

/* On the worker's own thread, charges the module for processor time since the last call. */
static void worker_charge(struct worker *worker)
{
    int64_t us = worker == worker_here ? clock_cpu_us() - worker->cpu_us : 0;

    worker->cpu_us += us;
    account_add(account_of(worker->context.host), ACCOUNT_CPU_US, us);
}

/* Workers call this function in each iteration, so it also charges their time. */
bool api_stopping(struct bb_worker_context *context)
{
    struct worker *worker = (struct worker *)(void *)context;

    worker_charge(worker);
    return atomic_load(&worker->all->stop);
}

int64_t api_leave_ms(struct bb_worker_context *context)
{
    const struct workers *workers = ((struct worker *)(void *)context)->all;

    return atomic_load(&workers->stop) ? atomic_load(&workers->until_ms) - clock_mono_ms()
                                       : LEAVE_MS;
}

/* Returns whether the generation is used only by workers and, while it is live, by the engine. */
bool api_drained(struct bb_worker_context *context)
{
    const struct worker *worker = (struct worker *)(void *)context;
    const struct generation *generation = handle_of(context->host)->generation;
    size_t holders = atomic_load(&generation->holders); /* first: a worker may end meanwhile */

    return holders <= workers_running(worker->all) + !generation_superseded(generation);
}

void api_wake(struct bb_host *host, const char *name)
{
    struct workers *workers = handle_of(host)->generation->workers;

    for (size_t i = 0; workers && i < workers->count; i++) {
        if (workers->list[i].context.host == host &&
            !strcmp(workers->list[i].descriptor->name, name))
            eventfd_write(workers->list[i].context.wake_fd, 1);
    }
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct generation *generation = handle_of(worker->context.host)->generation;

    thread_name(worker->context.host->module->name, worker->descriptor->name);
    thread_schedule(worker->descriptor->nice);
    activity_enter((struct activity){.module = worker->context.host->module->name,
                                     .kind = "worker",
                                     .name = worker->descriptor->name});
    /* waits until the generation is live, or is discarded */
    struct workers *workers = worker->all;

    pthread_mutex_lock(&workers->lock);
    while (!workers->go && !atomic_load(&workers->stop))
        pthread_cond_wait(&workers->gone, &workers->lock);
    bool go = workers->go;

    pthread_mutex_unlock(&workers->lock);
    worker_here = worker;
    if (go)
        worker->descriptor->run(&worker->context);
    worker_charge(worker);
    atomic_fetch_add(&workers->ended, 1);
    generation_release(generation);
    return NULL;
}

struct workers *workers_new(struct generation *generation)
{
    size_t count = 0;
    bool failed = false;

    for (size_t i = 0; i < generation->module_count; i++)
        count += generation->modules[i].descriptor->workers.count;
    struct workers *workers = calloc(1, sizeof *workers + count * sizeof workers->list[0]);

    if (!workers)
        return NULL;
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->gone, NULL);

    for (size_t i = 0; i < generation->module_count; i++) {
        struct core_module *module = &generation->modules[i];

        MODULE_EACH (bb_worker, row, module->descriptor->workers) {
            struct worker *worker = &workers->list[workers->count];
            int fd = failed ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

            *worker = (struct worker){.context = {.size = sizeof worker->context,
                                                  .host = &module->handle.host,
                                                  .wake_fd = fd},
                                      .descriptor = row,
                                      .all = workers};
            if (fd < 0) {
                failed = true;
                continue;
            }
            generation_acquire(generation); /* the thread's reference */
            if (!pthread_create(&worker->thread, NULL, worker_main, worker)) {
                workers->count++;
                continue;
            }
            failed = true;
            generation_release(generation);
            close(fd);
        }
    }
    if (!failed)
        return workers;
    log_line(BB_ERROR, "cannot start the workers of modules", NULL);
    workers_free(workers);
    return NULL;
}

void workers_go(struct workers *workers)
{
    BB_LOCKED(&workers->lock);
    workers->go = true;
    pthread_cond_broadcast(&workers->gone);
}

void workers_stop(struct workers *workers, int64_t until_ms)
{
    pthread_mutex_lock(&workers->lock);
    if (!atomic_load(&workers->stop) || atomic_load(&workers->until_ms) > until_ms)
        atomic_store(&workers->until_ms, until_ms);
    atomic_store(&workers->stop, true);
    pthread_cond_broadcast(&workers->gone);
    pthread_mutex_unlock(&workers->lock);
    for (size_t i = 0; i < workers->count; i++)
        eventfd_write(workers->list[i].context.wake_fd, 1);
}

size_t workers_running(const struct workers *workers)
{
    return workers->count - atomic_load(&workers->ended);
}

void workers_free(struct workers *workers)
{
    workers_stop(workers, clock_mono_ms() + LEAVE_MS);
    for (size_t i = 0; i < workers->count; i++) {
        pthread_join(workers->list[i].thread, NULL);
        close(workers->list[i].context.wake_fd);
    }
    pthread_cond_destroy(&workers->gone);
    pthread_mutex_destroy(&workers->lock);
    free(workers);
}
