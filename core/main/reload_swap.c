#include "core/main/reload_swap.h"

#include <stdlib.h>

#include "core/lib/lifecycle_call.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/main/job.h"
#include "core/main/reclaim.h"
#include "core/main/serve.h"
#include "core/module/pool.h"
#include "core/module/worker.h"
#include "core/server/http.h"
#include "core/store/pg.h"
#include "core/store/pg_listener.h"

int swap_pools(struct generation *g)
{
    g->pools = work_pools_new(g, g->engine ? g->engine->loop_count : 1);
    return g->pools ? 0 : -1;
}

int swap_start_threads(struct engine *engine, struct generation *g)
{
    g->engine = engine;
    if (swap_pools(g))
        return -1;
    g->workers = workers_new(g);
    g->jobs = g->workers ? jobs_new(engine, g) : NULL;
    return g->jobs && !reclaim_prepare(g) ? 0 : -1;
}

void swap_discard(struct generation *g)
{
    if (g->workers)
        workers_free(g->workers);
    if (g->jobs)
        jobs_free(g->jobs);
    if (g->pools)
        work_pools_free(g->pools);
    generation_destroy(g);
}

static void add_alive(struct engine *engine, struct generation *g)
{
    g->live_ms = clock_mono_ms();
    pthread_mutex_lock(&engine->lock);
    g->next_alive = engine->alive;
    engine->alive = g;
    engine->alive_count++;
    pthread_mutex_unlock(&engine->lock);
}

void swap_first(struct engine *engine)
{
    struct generation *g = engine->generation;

    add_alive(engine, g);
    generation_start(g);
    for (unsigned i = 0; i < engine->loop_count; i++)
        jobs_begin(g->jobs, NULL, &engine->loops[i]);
    workers_go(g->workers);
}

struct change {
    struct engine *engine;
    struct generation *from, *to;
};

/* On each loop: requests that begin after this use nothing of the old generation. */
static void change_loop(struct loop *loop, void *arg)
{
    const struct change *change = arg;
    struct pg_settings pg = engine_pg_settings(change->engine, change->to);
    struct http_settings http = http_settings_of(change->to, &change->engine->listeners);

    http_apply(loop->http, &http);
    if (loop->pg)
        pg_set_limits(loop->pg, &pg);
    if (!engine_stopping(change->engine))
        jobs_begin(change->to->jobs, change->from->jobs, loop);
    jobs_end(change->from->jobs, loop);
    requests_tell_superseded(loop, change->from);
}

static struct generation *swap(struct engine *engine, struct generation *g)
{
    pthread_mutex_lock(&engine->lock);
    struct generation *before = engine->generation;
    engine->generation = g;
    before->superseded_ms = clock_mono_ms();
    before->cut_ms = before->superseded_ms + host_settings(before->settings)->reload.drain * 1000;
    atomic_store_explicit(&before->superseded, true, memory_order_release);
    pthread_mutex_unlock(&engine->lock);
    return before;
}

/* Called after the last loop, which may have been blocked. */
static void changed(void *arg)
{
    struct change *change = arg;

    generation_release(change->from);
    generation_release(change->to);
    free(change);
}

/* If memory runs out, waits for every loop. */
static void change_loops(const struct change *change)
{
    struct change *kept = malloc(sizeof *kept);

    if (kept) {
        *kept = *change;
        generation_acquire(kept->from);
        generation_acquire(kept->to);
        int left = engine_tell_loops(change->engine, change_loop, changed, kept);

        if (left > 0)
            log_line(BB_WARN, "event loop blocked: it takes the new configuration when it resumes",
                     NULL);
        if (left >= 0)
            return;
        changed(kept);
    }
    engine_each_loop(change->engine, change_loop, (void *)(uintptr_t)change);
}

void swap_generation(struct engine *engine, struct generation *g)
{
    struct change change = {.engine = engine, .to = g};

    add_alive(engine, g);
    if (engine->pg_listener)
        pg_listener_subscribe(engine->pg_listener);
    generation_start(g);
    change.from = swap(engine, g);
    lifecycle_calls_set_limit(host_settings(g->settings)->host.stall_timeout * 1000);
    change_loops(&change);
    workers_go(g->workers);
    reclaim(engine->reclaimer, change.from);
}
