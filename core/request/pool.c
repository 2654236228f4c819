#include "core/request/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/background.h"
#include "core/base/fair_queue.h"
#include "core/base/json_in.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/thread.h"
#include "core/recovery/running.h"
#include "core/request/module_error.h"
#include "core/request/quota.h"

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

static struct pool_call *call_of(struct fair_entry *queued)
{
    return BB_CONTAINER_OF(queued, struct pool_call, queued);
}

/* Until there is one. False: the pool ends, and there is none. */
static bool await_call(struct work_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (!pool->queued && !pool->stop)
        pthread_cond_wait(&pool->more, &pool->lock);
    bool found = pool->queued > 0;

    pthread_mutex_unlock(&pool->lock);
    return found;
}

/* The owner of a call that has been begun is its thread's to know. NULL: another thread has it. */
static struct pool_call *take(struct work_pool *pool, struct fair_owner **owner)
{
    pthread_mutex_lock(&pool->lock);
    struct fair_entry *queued = fair_take(&pool->calls);
    if (queued) {
        *owner = queued->owner;
        queued->owner = NULL;
        pool->queued--;
        pool->busy++;
    }
    pthread_mutex_unlock(&pool->lock);
    return queued ? call_of(queued) : NULL;
}

/* Under the lock. */
static void leave(struct work_pool *pool, struct fair_owner *owner, const struct pool_call *call)
{
    fair_leave(&pool->owners, owner);
    if (call->other)
        fair_leave(&pool->owners, call->other);
}

/* Before anybody hears of it: who asks for the next call then has room for it. */
static void finished(struct work_pool *pool, struct fair_owner *owner, const struct pool_call *call)
{
    pthread_mutex_lock(&pool->lock);
    pool->busy--;
    leave(pool, owner, call);
    pthread_mutex_unlock(&pool->lock);
}

/* Than the process is, whoever started it how. Without it the pool works, at others' expense. */
static void become_nicer(const struct bb_pool *descriptor)
{
    id_t self = (id_t)syscall(SYS_gettid);
    char reason[128];

    if (!descriptor->nice)
        return;
    errno = 0;
    int now = getpriority(PRIO_PROCESS, self); /* -1 is one, too */

    if (!errno && !setpriority(PRIO_PROCESS, self, now + descriptor->nice))
        return;
    log_line(BB_WARN, "a thread of a pool keeps its priority", "pool", descriptor->name, "reason",
             strerror_r(errno, reason, sizeof reason), NULL);
}

static void work_off(struct work_pool *pool)
{
    struct fair_owner *owner;
    struct pool_call *call = take(pool, &owner);

    if (!call)
        return;
    struct loop *loop = call->loop;

    call->begun_us = clock_mono_us();
    int64_t before_us = clock_thread_us();

    call->run(call->arg);
    call->cpu_us = clock_thread_us() - before_us;
    finished(pool, owner, call);
    loop_post(loop, &call->message);
}

static void *worker(void *arg)
{
    struct work_pool *pool = arg;

    thread_name(pool->host ? pool->host->module->name : "busbar", pool->descriptor->name);
    running_enter((struct running){.module = pool->host ? pool->host->module->name : NULL,
                                   .kind = "pool",
                                   .name = pool->descriptor->name});
    become_nicer(pool->descriptor);
    thread_wants_short_slices();
    while (await_call(pool)) {
        if (!pool->descriptor->nice) {
            work_off(pool);
            continue;
        }
        background_begin();
        work_off(pool);
        background_end();
    }
    arena_thread_end();
    return NULL;
}

/* What the thread has noted, the pool, with the request that it works for. */
static struct running running_for(const struct core_request *rq)
{
    struct running now = running_now();

    now.request = rq->id;
    now.method = rq->route ? rq->route->method : NULL;
    now.path = rq->route ? rq->route->path : NULL;
    return now;
}

/* In the request's name, as on its fiber. */
static void work_run(void *arg)
{
    struct work *work = arg;
    bool *before = json_starves(&work->rq->starved);
    struct running thread = running_enter(running_for(work->rq));

    work->run(work->arg);
    running_leave(thread);
    json_starves(before);
}

static void work_done(struct message *message)
{
    struct work *work = (struct work *)(void *)message;

    struct core_request *rq = work->rq;

    work->done = true;
    spending_charge(&rq->loop->spending, &rq->owner, rq->loop->now_ms, work->call.cpu_us);
    request_wake(rq);
}

/* No account has a negative number. */
static struct quota_owner subject_of(uint64_t subject)
{
    return (struct quota_owner){.account = (int64_t)(subject >> 1) + INT64_MIN};
}

/* Counts the call for its subject, too; false: that has its share. */
static bool enter_subject(struct work_pool *pool, struct pool_call *call, enum quota_result *answer)
{
    struct quota_owner key = subject_of(call->subject);
    struct fair_owner *owner = call->queued.owner;
    struct fair_owner *subject = fair_enter(&pool->owners, &key, pool->each, answer);

    if (!subject) {
        fair_leave(&pool->owners, owner);
        call->queued.owner = NULL;
        return false;
    }
    bool longer = subject->count > owner->count;

    call->queued.owner = longer ? subject : owner;
    call->other = longer ? owner : subject;
    return true;
}

/* What must not be refused goes as the host's own where there is no memory for its owner. */
static struct fair_owner *enter(struct work_pool *pool, const struct pool_call *call, size_t each,
                                bool bounded, enum quota_result *answer)
{
    struct fair_owner *owner = fair_enter(&pool->owners, &call->owner, each, answer);

    if (owner || bounded)
        return owner;
    return fair_enter(&pool->owners, &pool->own->owner, SIZE_MAX, answer);
}

static int add_thread(struct work_pool *pool)
{
    if (pthread_create(&pool->threads[pool->started], NULL, worker, pool))
        return -1;
    pool->started++;
    return 0;
}

/* Under the lock. One thread more where each has a call, or one that waits; or fewer have to do. */
static void grow(struct work_pool *pool)
{
    if (pool->started == pool->descriptor->threads || pool->busy + pool->queued <= pool->started ||
        !add_thread(pool) || pool->short_told)
        return;
    pool->short_told = true;
    log_line(BB_WARN, "a thread of a pool cannot be started, the others do its work", "pool",
             pool->descriptor->name, NULL);
}

/* Whoever is exempt has its turn as everybody has, but is refused only where all are. */
static enum quota_result enqueue(struct work_pool *pool, struct pool_call *call, size_t each,
                                 bool bounded)
{
    enum quota_result answer = QUOTA_ALL_FULL;

    pthread_mutex_lock(&pool->lock);
    if (!bounded || pool->queued < pool->descriptor->queue) {
        call->queued.owner = enter(pool, call, each, bounded, &answer);
        if (call->queued.owner && (!call->subject || enter_subject(pool, call, &answer))) {
            fair_wait(&pool->calls, &call->queued);
            pool->queued++;
            grow(pool);
            pthread_cond_signal(&pool->more);
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return answer;
}

/* Takes back a call that no thread has begun; false: it has been begun. */
static bool take_back(struct work_pool *pool, struct pool_call *call)
{
    pthread_mutex_lock(&pool->lock);
    bool found = call->queued.owner != NULL;

    if (found) {
        fair_cancel(&pool->calls, &call->queued);
        leave(pool, call->queued.owner, call);
        pool->queued--;
    }
    pthread_mutex_unlock(&pool->lock);
    return found;
}

/* NULL: it declares none of this name. */
static struct work_pool *find(struct work_pools *pools, const struct bb_host *host,
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
    struct work_pool *pool = find(pools, host, name); /* a route's: those are checked */

    return pool && enqueue(pool, call, SIZE_MAX, bounded) == QUOTA_TAKEN ? 0 : -1;
}

/*
 * Waits for a call that a thread has begun, for it uses memory of the request; of a client it is
 * answered meanwhile that its time is over. true: nobody wants the result any more.
 */
static bool wait_late(struct core_request *rq, const struct work *work, bool leaves)
{
    bool late = leaves && rq->leave && rq->leave(rq);

    request_wait_always(rq, &work->done);
    return late;
}

static int offload(struct core_request *rq, struct work_pool *pool, uint64_t subject,
                   void (*run)(void *), void *arg)
{
    struct work work = {.rq = rq, .run = run, .arg = arg};

    if (!rq->txs && quota_wait(rq)) /* others may wait for what a transaction holds */
        return -1;
    work.call = (struct pool_call){.message.run = work_done,
                                   .loop = rq->loop,
                                   .owner = rq->owner,
                                   .subject = subject,
                                   .run = work_run,
                                   .arg = &work};
    int64_t asked_us = clock_mono_us();
    enum quota_result answer =
        enqueue(pool, &work.call, quota_exempt(rq) ? SIZE_MAX : pool->each, true);
    if (answer != QUOTA_TAKEN)
        return quota_fail(rq, QUOTA_POOLS, answer);
    if (!request_wait_in_time(rq, &work.done)) {
        if (take_back(pool, &work.call)) {
            rq->spent.queue_us += clock_mono_us() - asked_us;
            return request_fail(rq, FAILED_DEADLINE);
        }
        if (wait_late(rq, &work, pool->host))
            return request_fail(rq, FAILED_DEADLINE);
    }
    rq->spent.queue_us += work.call.begun_us - asked_us;
    return 0;
}

int pool_run(struct core_request *rq, void (*run)(void *), void *arg)
{
    return offload(rq, &rq->generation->pools->list[0], 0, run, arg);
}

int api_offload(struct bb_request *pub, const char *name, void (*run)(void *), void *arg)
{
    return api_offload_for(pub, name, 0, run, arg);
}

int api_offload_for(struct bb_request *pub, const char *name, uint64_t subject, void (*run)(void *),
                    void *arg)
{
    struct core_request *rq = request_of(pub);
    struct work_pool *pool = find(rq->generation->pools, pub->host, name);

    if (module_error_waits(rq, "bb_offload()"))
        return -1;
    if (pool)
        return offload(rq, pool, subject, run, arg);
    module_error(rq, "a module uses a pool that it does not declare", name);
    return -1;
}

static int pool_start(struct work_pool *pool)
{
    enum quota_result answer;

    fair_init(&pool->owners, 1);
    pool->own = fair_enter(&pool->owners, &(struct quota_owner){0}, 1, &answer);
    pool->threads = calloc(pool->descriptor->threads, sizeof(pthread_t));
    if (!pool->own || !pool->threads) {
        free(pool->threads);
        pool->threads = NULL;
        return -1;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->more, NULL);
    return add_thread(pool);
}

static void pool_stop(struct work_pool *pool)
{
    if (!pool->threads) {
        fair_free(&pool->owners);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->more);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->started; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->more);
    pthread_mutex_destroy(&pool->lock);
    fair_free(&pool->owners);
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
                                        .name = pool->descriptor->name,
                                        .threads = pool->descriptor->threads,
                                        .most = pool->descriptor->queue,
                                        .each = pool->each};
    pthread_mutex_lock(&pool->lock);
    status->started = pool->started;
    status->busy = pool->busy;
    status->waiting = pool->queued;
    pthread_mutex_unlock(&pool->lock);
    return true;
}

static size_t count_pools(const struct generation *generation)
{
    size_t count = 1;

    for (size_t i = 0; i < generation->module_count; i++)
        count += generation->modules[i].descriptor->pools.count;
    return count;
}

static int start_one(struct work_pools *pools, const struct generation *generation,
                     const struct bb_host *host, const struct bb_pool *descriptor)
{
    struct work_pool *pool = &pools->list[pools->count++];

    pool->host = host;
    pool->descriptor = descriptor;
    pool->each = quota_each(generation->settings, (size_t)descriptor->threads + descriptor->queue);
    return pool_start(pool);
}

static int start_all(struct work_pools *pools, const struct generation *generation, unsigned loops)
{
    pools->own =
        (struct bb_pool){.name = "bodies", .threads = loops, .queue = OWN_QUEUE, .nice = 10};
    if (start_one(pools, generation, NULL, &pools->own))
        return -1;
    for (size_t i = 0; i < generation->module_count; i++) {
        const struct core_module *module = &generation->modules[i];

        for (size_t j = 0; j < module->descriptor->pools.count; j++) {
            if (start_one(pools, generation, &module->handle.host,
                          &MODULE_ROWS(bb_pool, module->descriptor->pools)[j]))
                return -1;
        }
    }
    return 0;
}

struct work_pools *work_pools_new(const struct generation *generation, unsigned loops)
{
    struct work_pools *pools = calloc(1, sizeof *pools);

    if (!pools)
        return NULL;
    pools->list = calloc(count_pools(generation), sizeof *pools->list);
    if (pools->list && !start_all(pools, generation, loops))
        return pools;
    log_line(BB_ERROR, "the threads of a pool cannot be started", NULL);
    work_pools_free(pools);
    return NULL;
}
