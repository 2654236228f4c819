/* A pool: its threads, and the calls that wait for a thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/lib/activity.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/module/pool_parts.h"

static struct pool_call *call_of(struct fair_entry *queued)
{
    return BB_CONTAINER_OF(queued, struct pool_call, queued);
}

/* Waits for a call. False: the pool ends, and there is none. */
static bool await_call(struct work_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (!pool->queued && !pool->stop)
        pthread_cond_wait(&pool->more, &pool->lock);
    bool found = pool->queued > 0;

    pthread_mutex_unlock(&pool->lock);
    return found;
}

/*
 * Takes the next call; NULL: another thread took it. Only this thread knows the owner of the call
 * then.
 */
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

/* Runs before the caller is notified, so that the caller's next call has room. */
static void finished(struct work_pool *pool, struct fair_owner *owner, const struct pool_call *call)
{
    pthread_mutex_lock(&pool->lock);
    pool->busy--;
    leave(pool, owner, call);
    pthread_mutex_unlock(&pool->lock);
}

/* Sets the niceness relative to the process's. If this fails, the pool works without it. */
static void become_nicer(const struct bb_pool *descriptor)
{
    id_t self = (id_t)syscall(SYS_gettid);
    char reason[128];

    if (!descriptor->nice)
        return;
    errno = 0;
    int now = getpriority(PRIO_PROCESS, self); /* -1 is a valid result, too */

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
    call->run(call->arg);
    finished(pool, owner, call);
    loop_post(loop, &call->message);
}

static void *worker(void *arg)
{
    struct work_pool *pool = arg;

    thread_name(pool->host ? pool->host->module->name : "busbar", pool->descriptor->name);
    activity_enter((struct activity){.module = pool->host ? pool->host->module->name : NULL,
                                     .kind = "pool",
                                     .name = pool->descriptor->name});
    become_nicer(pool->descriptor);
    thread_wants_short_slices();
    while (await_call(pool))
        work_off(pool);
    arena_thread_end();
    return NULL;
}

/* Accounts never have negative numbers. */
static struct quota_owner subject_of(uint64_t subject)
{
    return (struct quota_owner){.account = (int64_t)(subject >> 1) + INT64_MIN};
}

/* Counts the call for its subject, too; false: the subject has used up its share. */
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

/* If memory runs out for the owner of a call that must not be refused, it counts as the host's. */
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

/*
 * Adds a thread if all are busy or reserved by waiting calls. If that fails, fewer threads must do.
 * Under the lock.
 */
static void grow(struct work_pool *pool)
{
    if (pool->started == pool->descriptor->threads || pool->busy + pool->queued <= pool->started ||
        !add_thread(pool) || pool->short_told)
        return;
    pool->short_told = true;
    log_line(BB_WARN, "a thread of a pool cannot be started, the others do its work", "pool",
             pool->descriptor->name, NULL);
}

/*
 * Exempt owners wait their turn like all others, but are refused only if the whole queue is full.
 */
enum quota_result pool_enqueue(struct work_pool *pool, struct pool_call *call, size_t each,
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

bool pool_take_back(struct work_pool *pool, struct pool_call *call)
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

int pool_start(struct work_pool *pool)
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

void pool_stop(struct work_pool *pool)
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
