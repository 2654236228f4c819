#include "core/main/reclaim.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "core/lib/arena.h"
#include "core/lib/condition.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/main/reload.h"
#include "core/module/request.h"
#include "core/module/worker.h"

enum { MEMORY_AGAIN_MS = 100 };

struct reclaimer {
    struct engine *engine;
    pthread_t thread;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t news;
    struct generation *list;
    bool stop;
};

/* Called by the last user of the generation on any thread: only notifies the thread. */
static void released(struct generation *g)
{
    struct reclaimer *reclaimer = g->engine->reclaimer;

    pthread_mutex_lock(&reclaimer->lock);
    g->reclaim_gone = true;
    pthread_cond_signal(&reclaimer->news);
    pthread_mutex_unlock(&reclaimer->lock);
}

static void close_it(struct engine *engine, struct generation *g)
{
    struct generation **at = &engine->alive;
    unsigned number = g->number;
    int64_t ms = clock_mono_ms() - g->superseded_ms;

    pthread_mutex_lock(&engine->lock);
    while (*at != g)
        at = &(*at)->next_alive;
    *at = g->next_alive;
    engine->alive_count--;
    pthread_mutex_unlock(&engine->lock);
    swap_discard(g);
    log_line(BB_INFO, "generation closed", "generation", LOG_NUMBER(number), "drained_ms",
             LOG_NUMBER(ms), NULL);
}

static void cut_loop(struct loop *loop, void *arg)
{
    requests_cut(loop, arg);
}

static void cut_everywhere(void *g)
{
    generation_release(g);
}

static void cut(struct engine *engine, struct generation *g)
{
    log_line(BB_WARN, "generation did not drain in time: its requests and streams are cut off",
             "generation", LOG_NUMBER(g->number), "holders", LOG_NUMBER(atomic_load(&g->holders)),
             NULL);
    if (engine_hold(engine))
        return;
    if (generation_try_acquire(g))
        while (engine_tell_loops(engine, cut_loop, cut_everywhere, g) < 0)
            poll(NULL, 0, MEMORY_AGAIN_MS);
    engine_unhold(engine);
}

/*
 * Returns a generation without references, removed from the list, or one that must be cut; NULL:
 * none, and *until is when the next generation must be cut.
 */
static struct generation *next_due(struct reclaimer *reclaimer, int64_t *until)
{
    int64_t now = clock_mono_ms();

    *until = INT64_MAX;
    for (struct generation **at = &reclaimer->list; *at; at = &(*at)->reclaim_next) {
        struct generation *g = *at;

        if (g->reclaim_gone)
            *at = g->reclaim_next;
        if (g->reclaim_gone || (!g->reclaim_cut && now >= g->cut_ms))
            return g;
        if (!g->reclaim_cut && g->cut_ms < *until)
            *until = g->cut_ms;
    }
    return NULL;
}

static void *reclaimer_main(void *arg)
{
    struct reclaimer *reclaimer = arg;
    int64_t until;

    thread_name("reclaimer", NULL);
    pthread_mutex_lock(&reclaimer->lock);
    while (!reclaimer->stop || reclaimer->list) {
        struct generation *due = next_due(reclaimer, &until);

        if (!due && until == INT64_MAX)
            pthread_cond_wait(&reclaimer->news, &reclaimer->lock);
        else if (!due)
            condition_wait(&reclaimer->news, &reclaimer->lock, until);
        if (!due)
            continue;
        bool gone = due->reclaim_gone;

        due->reclaim_cut = true;
        pthread_mutex_unlock(&reclaimer->lock);
        if (gone)
            close_it(reclaimer->engine, due);
        else
            cut(reclaimer->engine, due);
        pthread_mutex_lock(&reclaimer->lock);
    }
    pthread_mutex_unlock(&reclaimer->lock);
    arena_thread_end();
    return NULL;
}

struct reclaimer *reclaimer_new(struct engine *engine)
{
    struct reclaimer *reclaimer = calloc(1, sizeof *reclaimer);

    if (!reclaimer)
        return NULL;
    reclaimer->engine = engine;
    pthread_mutex_init(&reclaimer->lock, NULL);
    condition_init(&reclaimer->news);
    if (!pthread_create(&reclaimer->thread, NULL, reclaimer_main, reclaimer))
        return reclaimer;
    log_line(BB_ERROR, "cannot start the thread that closes generations", NULL);
    pthread_cond_destroy(&reclaimer->news);
    pthread_mutex_destroy(&reclaimer->lock);
    free(reclaimer);
    return NULL;
}

void reclaimer_free(struct reclaimer *reclaimer)
{
    if (!reclaimer)
        return;
    pthread_mutex_lock(&reclaimer->lock);
    reclaimer->stop = true;
    pthread_cond_signal(&reclaimer->news);
    pthread_mutex_unlock(&reclaimer->lock);
    pthread_join(reclaimer->thread, NULL);
    pthread_cond_destroy(&reclaimer->news);
    pthread_mutex_destroy(&reclaimer->lock);
    free(reclaimer);
}

void reclaim(struct reclaimer *reclaimer, struct generation *g)
{
    workers_stop(g->workers, g->cut_ms);
    generation_quiesce(g);
    pthread_mutex_lock(&reclaimer->lock);
    g->released = released;
    g->reclaim_next = reclaimer->list;
    reclaimer->list = g;
    pthread_cond_signal(&reclaimer->news);
    pthread_mutex_unlock(&reclaimer->lock);
    generation_release(g);
}
