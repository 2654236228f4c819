/* Access to the engine from other threads: references to live generations, and engine_hold(). */
#include <stdio.h>
#include <string.h>

#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/module/engine.h"
#include "core/module/pool.h"

struct generation *engine_generation(struct engine *engine)
{
    BB_LOCKED(&engine->lock);
    generation_acquire(engine->generation);
    return engine->generation;
}

size_t engine_generations(struct engine *engine, struct generation **list)
{
    size_t count = 0;

    BB_LOCKED(&engine->lock);
    for (struct generation *g = LIST_FIRST(&engine->alive); g && count < GENERATIONS_MAX;
         g = LIST_NEXT(g, alive))
        if (generation_try_acquire(g))
            list[count++] = g;
    return count;
}

void engine_generations_release(struct generation **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        generation_release(list[i]);
}

void engine_add(struct engine *engine, struct generation *g)
{
    g->live_ms = clock_mono_ms();
    BB_LOCKED(&engine->lock);
    LIST_INSERT_HEAD(&engine->alive, g, alive);
    engine->alive_count++;
    if (engine->stopping)
        workers_stop(g->workers, engine->stop_ms);
}

int engine_hold(struct engine *engine)
{
    BB_LOCKED(&engine->lock);
    if (engine->stopping)
        return -1;
    engine->held++;
    return 0;
}

void engine_unhold(struct engine *engine)
{
    BB_LOCKED(&engine->lock);
    engine->held--;
}

bool engine_stopping(struct engine *engine)
{
    BB_LOCKED(&engine->lock);
    return engine->stopping;
}

void engine_stop(struct engine *engine, int64_t until_ms)
{
    BB_LOCKED(&engine->lock);
    engine->stopping = true;
    engine->held++;
    engine->stop_ms = until_ms;
    for (struct generation *g = LIST_FIRST(&engine->alive); g; g = LIST_NEXT(g, alive))
        workers_stop(g->workers, until_ms);
}

bool engine_held_once(struct engine *engine)
{
    BB_LOCKED(&engine->lock);
    return engine->held == 1;
}

bool engine_idle(struct engine *engine)
{
    BB_LOCKED(&engine->lock);
    bool idle = !engine->held;
    for (struct generation *g = LIST_FIRST(&engine->alive); g && idle; g = LIST_NEXT(g, alive))
        idle = !workers_running(g->workers);
    return idle;
}

bool engine_stands(const struct engine *engine)
{
    for (unsigned i = 0; i < engine->loop_count; i++)
        if (atomic_load_explicit(&engine->loops[i].stands_ms, memory_order_relaxed))
            return true;
    return false;
}

/* ---- pausing of background work ---- */

void pause_note(struct engine *engine, const char *reason)
{
    enum pause_state now = reason ? PAUSE_ON : PAUSE_OFF;

    pthread_mutex_lock(&engine->lock);
    bool same = !reason || !strcmp(engine->pause_reason, reason);
    enum pause_state before = (enum pause_state)atomic_load(&engine->pause);

    snprintf(engine->pause_reason, sizeof engine->pause_reason, "%s", reason ? reason : "");
    atomic_store(&engine->pause, now);
    pthread_mutex_unlock(&engine->lock);
    if (now == PAUSE_ON && (before != PAUSE_ON || !same))
        log_line(BB_WARN, "deliveries, jobs and calls to other servers are paused", "reason",
                 reason, NULL);
    if (now == PAUSE_OFF && before == PAUSE_ON)
        log_line(BB_WARN, "deliveries, jobs and calls to other servers are resumed", NULL);
}

bool pause_holds(const struct engine *engine)
{
    return engine->pg_listener && atomic_load(&engine->pause) != PAUSE_OFF;
}

bool pause_why(struct engine *engine, char *reason, size_t size)
{
    if (!pause_holds(engine))
        return false;
    BB_LOCKED(&engine->lock);
    snprintf(reason, size, "%s",
             *engine->pause_reason ? engine->pause_reason
                                   : "the database has not been queried yet");
    return true;
}
