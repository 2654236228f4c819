#include "core/main/stall.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/condition.h"
#include "core/lib/crash.h"
#include "core/lib/lifecycle_call.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/main/stall_answer.h"

enum { LOOK_MS = 1000, STANDS_MS = 1000, DOOR_MS = 100 };

struct seen {
    int64_t turn_ms;  /* start of the iteration, which identifies it */
    int64_t stood_ms; /* how long it has been observed to take */
    bool told;
};

struct stall {
    struct engine *engine;
    pthread_t thread;
    pthread_mutex_t lock; /* protects `stop` */
    pthread_cond_t news;
    bool stop;
    int64_t looked_ms;
    struct seen *seen;
    struct crash_snapshot snapshot;
};

/* 0: no timeout. */
static int64_t timeout_ms(struct engine *engine)
{
    struct generation *g = engine_generation(engine);
    int64_t seconds = settings_int(g->settings, "host", "stall_timeout");

    generation_release(g);
    return seconds * 1000;
}

static const char *some(const char *text)
{
    return *text ? text : NULL;
}

/* For health checks. */
static void give_reason(struct engine *engine, const struct crash_snapshot *snapshot)
{
    pthread_mutex_lock(&engine->lock);
    snprintf(engine->standstill, sizeof engine->standstill, "An event loop is blocked%s%s%s%s",
             *snapshot->module ? " in module " : "", snapshot->module, *snapshot->what ? ", " : "",
             snapshot->what);
    pthread_mutex_unlock(&engine->lock);
}

static void tell(struct stall *stall, const struct loop *loop, int64_t stood_ms)
{
    struct crash_snapshot *snapshot = &stall->snapshot;
    char index[16], ms[24];

    snprintf(index, sizeof index, "%u", loop->index);
    snprintf(ms, sizeof ms, "%" PRId64, stood_ms);
    memset(snapshot, 0, sizeof *snapshot);
    bool known = crash_snapshot(loop->thread, snapshot);

    log_line(BB_ERROR, "event loop blocked", "loop", index, "ms", ms, "module",
             some(snapshot->module), "ran", some(snapshot->kind), "what", some(snapshot->what),
             "request", some(snapshot->request), "stack", known ? snapshot->stack : NULL, NULL);
    give_reason(stall->engine, snapshot);
}

static void goes_on(const struct loop *loop, const struct seen *seen)
{
    char index[16], ms[24];

    snprintf(index, sizeof index, "%u", loop->index);
    snprintf(ms, sizeof ms, "%" PRId64, seen->stood_ms);
    log_line(BB_WARN, "event loop resumed", "loop", index, "ms", ms, NULL);
}

static void end(const struct loop *loop, int64_t stood_ms)
{
    static char reason[96];

    snprintf(reason, sizeof reason, "event loop blocked for %" PRId64 " ms (host.stall_timeout)",
             stood_ms);
    crash_end(loop->thread, reason);
}

static void look_at(struct stall *stall, struct loop *loop, struct seen *seen, int64_t passed_ms,
                    int64_t most_ms)
{
    int64_t turn_ms = atomic_load_explicit(&loop->turn_ms, memory_order_relaxed);

    if (!turn_ms || turn_ms != seen->turn_ms) {
        if (seen->told)
            goes_on(loop, seen);
        *seen = (struct seen){.turn_ms = turn_ms};
        atomic_store(&loop->stands_ms, 0);
        return;
    }
    seen->stood_ms += passed_ms;
    if (seen->stood_ms < STANDS_MS)
        return;
    if (!seen->told) {
        tell(stall, loop, seen->stood_ms);
        atomic_fetch_add(&stall->engine->stalls, 1);
    }
    seen->told = true;
    atomic_store(&loop->stands_ms, seen->stood_ms);
    if (most_ms && seen->stood_ms >= most_ms)
        end(loop, seen->stood_ms);
}

/*
 * Returns the time since the last check, limited so that a suspended process does not look blocked.
 */
static int64_t passed(struct stall *stall)
{
    int64_t now = clock_mono_ms(), passed_ms = now - stall->looked_ms;

    stall->looked_ms = now;
    return passed_ms <= 2 * LOOK_MS ? passed_ms : 0;
}

/* Checks all loops; returns whether all are blocked. */
static bool look(struct stall *stall)
{
    struct engine *engine = stall->engine;
    int64_t passed_ms = passed(stall), most_ms = timeout_ms(engine);
    bool all = true;

    lifecycle_calls_look(passed_ms, most_ms);
    for (unsigned i = 0; i < engine->loop_count; i++) {
        look_at(stall, &engine->loops[i], &stall->seen[i], passed_ms, most_ms);
        all = all && stall->seen[i].told;
    }
    return all;
}

/* Waits until the next check; false: stop. */
static bool wait_for_next(struct stall *stall, int ms)
{
    pthread_mutex_lock(&stall->lock);
    if (!stall->stop && ms)
        condition_wait(&stall->news, &stall->lock, clock_mono_ms() + ms);
    bool on = !stall->stop;
    pthread_mutex_unlock(&stall->lock);
    return on;
}

static void *stall_main(void *arg)
{
    struct stall *stall = arg;
    struct engine *engine = stall->engine;
    bool all = false;

    thread_name("stall", NULL);
    while (wait_for_next(stall, all ? 0 : LOOK_MS)) {
        if (all)
            stall_answer(&engine->listeners, DOOR_MS, engine->standstill); /* the reason is written
                                                                            * by this thread */
        all = look(stall);
    }
    return NULL;
}

struct stall *stall_new(struct engine *engine)
{
    struct stall *stall = calloc(1, sizeof *stall);

    if (stall)
        stall->seen = calloc(engine->loop_count, sizeof *stall->seen);
    if (stall && stall->seen) {
        stall->engine = engine;
        stall->looked_ms = clock_mono_ms();
        pthread_mutex_init(&stall->lock, NULL);
        condition_init(&stall->news);
        if (!pthread_create(&stall->thread, NULL, stall_main, stall))
            return stall;
        pthread_mutex_destroy(&stall->lock);
        pthread_cond_destroy(&stall->news);
    }
    log_line(BB_WARN, "cannot start the stall watchdog thread", NULL);
    if (stall)
        free(stall->seen);
    free(stall);
    return NULL;
}

void stall_free(struct stall *stall)
{
    if (!stall)
        return;
    pthread_mutex_lock(&stall->lock);
    stall->stop = true;
    pthread_cond_signal(&stall->news);
    pthread_mutex_unlock(&stall->lock);
    pthread_join(stall->thread, NULL);
    pthread_mutex_destroy(&stall->lock);
    pthread_cond_destroy(&stall->news);
    free(stall->seen);
    free(stall);
}
