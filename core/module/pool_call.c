/* Calls of requests: bb_offload(), while the fiber waits. */
#include "core/lib/activity.h"
#include "core/lib/json_in.h"
#include "core/lib/text.h"
#include "core/module/module_error.h"
#include "core/module/pool_parts.h"

/* An offloaded call; on the stack of the fiber, because the fiber waits for it. */
struct work {
    struct pool_call call; /* first */
    struct core_request *rq;
    void (*run)(void *arg);
    void *arg;
    bool done;
};

/* The thread's current activity (the pool), with the request that it works for. */
static struct activity activity_for(const struct core_request *rq)
{
    struct activity now = activity_now();

    now.request = rq->id;
    now.method = rq->route ? rq->route->method : NULL;
    now.path = rq->route ? rq->route->path : NULL;
    return now;
}

/* Runs on behalf of the request, like code on its fiber. */
static void work_run(void *arg)
{
    struct work *work = arg;
    bool *before = json_starves(&work->rq->starved);
    struct activity thread = activity_enter(activity_for(work->rq));

    work->run(work->arg);
    activity_leave(thread);
    json_starves(before);
}

static void work_done(struct message *message)
{
    struct work *work = (struct work *)(void *)message;

    struct core_request *rq = work->rq;

    work->done = true;
    request_wake(rq);
}

/*
 * Waits for a call that a thread has started, because it uses memory of the request; the client is
 * answered meanwhile that the time is over. Returns true if the result is no longer wanted.
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

    work.call = (struct pool_call){.message.run = work_done,
                                   .loop = rq->loop,
                                   .owner = rq->owner,
                                   .subject = subject,
                                   .run = work_run,
                                   .arg = &work};
    int64_t asked_us = clock_mono_us();
    enum quota_result answer =
        pool_enqueue(pool, &work.call, quota_exempt(rq) ? SIZE_MAX : pool->each, true);
    if (answer != QUOTA_TAKEN)
        return quota_fail(rq, QUOTA_POOLS, answer);
    if (!request_wait_in_time(rq, &work.done)) {
        if (pool_take_back(pool, &work.call)) {
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
    struct work_pool *pool = pool_find(rq->generation->pools, pub->host, name);

    if (module_error_waits(rq, "bb_offload()"))
        return -1;
    if (pool)
        return offload(rq, pool, subject, run, arg);
    module_error(rq, "a module uses a pool that it does not declare", name);
    return -1;
}
