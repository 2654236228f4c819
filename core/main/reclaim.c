#include "core/main/reclaim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/lib/arena.h"
#include "core/lib/condition.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/main/reload_swap.h"
#include "core/module/request.h"
#include "core/module/worker.h"

/* A superseded generation that is being released. */
struct reclaiming {
    struct reclaiming *next;
    struct reclaimer *reclaimer;
    struct generation *generation;
    bool gone; /* the last reference is gone */
    bool cut;
};

struct reclaimer {
    struct engine *engine;
    pthread_t thread;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t news;
    struct reclaiming *list;
    bool stop;
};

/* Called by the last user of the generation on any thread: only notifies the thread. */
static void released(struct generation *g)
{
    struct reclaiming *reclaiming = g->reclaiming;
    struct reclaimer *reclaimer = reclaiming->reclaimer;

    pthread_mutex_lock(&reclaimer->lock);
    reclaiming->gone = true;
    pthread_cond_signal(&reclaimer->news);
    pthread_mutex_unlock(&reclaimer->lock);
}

static void remove_alive(struct engine *engine, const struct generation *g)
{
    struct generation **at = &engine->alive;

    pthread_mutex_lock(&engine->lock);
    while (*at != g)
        at = &(*at)->next_alive;
    *at = g->next_alive;
    engine->alive_count--;
    pthread_mutex_unlock(&engine->lock);
}

static void close_it(struct reclaimer *reclaimer, struct reclaiming *reclaiming)
{
    char number[16], ms[24];
    struct generation *g = reclaiming->generation;

    snprintf(number, sizeof number, "%u", g->number);
    snprintf(ms, sizeof ms, "%lld", (long long)(clock_mono_ms() - g->superseded_ms));
    remove_alive(reclaimer->engine, g);
    swap_discard(g);
    log_line(BB_INFO, "generation closed", "generation", number, "drained_ms", ms, NULL);
}

static void cut_loop(struct loop *loop, void *arg)
{
    requests_cut(loop, arg);
}

/* Cannot disappear meanwhile, because the caller's list has a reference. */
static void cut(struct reclaimer *reclaimer, struct reclaiming *reclaiming)
{
    struct generation *g = reclaiming->generation;
    char number[16], holders[24];

    snprintf(number, sizeof number, "%u", g->number);
    snprintf(holders, sizeof holders, "%zu", atomic_load(&g->holders));
    log_line(BB_WARN, "generation did not drain in time: its requests and streams are cut off",
             "generation", number, "holders", holders, NULL);
    if (engine_hold(reclaimer->engine))
        return;
    engine_each_loop(reclaimer->engine, cut_loop, g);
    engine_unhold(reclaimer->engine);
}

/*
 * Returns a generation without references, removed from the list, or one that must be cut; NULL:
 * none.
 */
static struct reclaiming *next_due(struct reclaimer *reclaimer, int64_t now)
{
    for (struct reclaiming **at = &reclaimer->list; *at; at = &(*at)->next) {
        struct reclaiming *reclaiming = *at;

        if (reclaiming->gone)
            *at = reclaiming->next;
        if (reclaiming->gone || (!reclaiming->cut && now >= reclaiming->generation->cut_ms))
            return reclaiming;
    }
    return NULL;
}

static void wait_for_news(struct reclaimer *reclaimer)
{
    int64_t until = INT64_MAX;

    for (const struct reclaiming *r = reclaimer->list; r; r = r->next)
        if (!r->cut && r->generation->cut_ms < until)
            until = r->generation->cut_ms;
    if (until == INT64_MAX) {
        pthread_cond_wait(&reclaimer->news, &reclaimer->lock);
        return;
    }
    condition_wait(&reclaimer->news, &reclaimer->lock, until);
}

static void *reclaimer_main(void *arg)
{
    struct reclaimer *reclaimer = arg;

    thread_name("reclaimer", NULL);
    pthread_mutex_lock(&reclaimer->lock);
    while (!reclaimer->stop || reclaimer->list) {
        struct reclaiming *due = next_due(reclaimer, clock_mono_ms());

        if (!due) {
            wait_for_news(reclaimer);
            continue;
        }
        bool gone = due->gone;

        due->cut = true;
        pthread_mutex_unlock(&reclaimer->lock);
        if (gone)
            close_it(reclaimer, due);
        else
            cut(reclaimer, due);
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
    log_line(BB_ERROR, "the thread that closes generations cannot be started", NULL);
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

int reclaim_prepare(struct generation *g)
{
    g->reclaiming = arena_alloc(g->arena, sizeof *g->reclaiming);
    return g->reclaiming ? 0 : -1;
}

void reclaim(struct reclaimer *reclaimer, struct generation *g)
{
    struct reclaiming *reclaiming = g->reclaiming;

    *reclaiming = (struct reclaiming){.reclaimer = reclaimer, .generation = g};
    workers_stop(g->workers, g->cut_ms);
    generation_quiesce(g);
    pthread_mutex_lock(&reclaimer->lock);
    g->released = released;
    reclaiming->next = reclaimer->list;
    reclaimer->list = reclaiming;
    pthread_cond_signal(&reclaimer->news);
    pthread_mutex_unlock(&reclaimer->lock);
    generation_release(g);
}
