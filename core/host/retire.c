#include "core/host/retire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/arena.h"
#include "core/base/condition.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/thread.h"
#include "core/host/turnover.h"
#include "core/request/request.h"
#include "core/request/worker.h"

/* A superseded generation on its way out. */
struct retiring {
    struct retiring *next;
    struct retirer *retirer;
    struct generation *generation;
    bool gone; /* its last holder has */
    bool cut;
};

struct retirer {
    struct engine *engine;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t news;
    struct retiring *list;
    bool stop;
};

/* By whoever held it last, on whatever thread: only leaves word. */
static void released(struct generation *g)
{
    struct retiring *retiring = g->retiring;
    struct retirer *retirer = retiring->retirer;

    pthread_mutex_lock(&retirer->lock);
    retiring->gone = true;
    pthread_cond_signal(&retirer->news);
    pthread_mutex_unlock(&retirer->lock);
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

static void close_it(struct retirer *retirer, struct retiring *retiring)
{
    char number[16], ms[24];
    struct generation *g = retiring->generation;

    snprintf(number, sizeof number, "%u", g->number);
    snprintf(ms, sizeof ms, "%lld", (long long)(clock_mono_ms() - g->superseded_ms));
    remove_alive(retirer->engine, g);
    turnover_discard(g);
    log_line(BB_INFO, "generation closed", "generation", number, "drained_ms", ms, NULL);
}

static void cut_loop(struct loop *loop, void *arg)
{
    requests_cut(loop, arg);
}

/* Held while this runs, for the caller's list has it. */
static void cut(struct retirer *retirer, struct retiring *retiring)
{
    struct generation *g = retiring->generation;
    char number[16], holders[24];

    snprintf(number, sizeof number, "%u", g->number);
    snprintf(holders, sizeof holders, "%zu", atomic_load(&g->holders));
    log_line(BB_WARN, "a generation did not drain in time: what holds it is cut", "generation",
             number, "holders", holders, NULL);
    if (engine_hold(retirer->engine))
        return;
    engine_each_loop(retirer->engine, cut_loop, g);
    engine_unhold(retirer->engine);
}

/* One that has gone, taken out of the list; or one that is to be cut; NULL: neither. */
static struct retiring *next_due(struct retirer *retirer, int64_t now)
{
    for (struct retiring **at = &retirer->list; *at; at = &(*at)->next) {
        struct retiring *retiring = *at;

        if (retiring->gone)
            *at = retiring->next;
        if (retiring->gone || (!retiring->cut && now >= retiring->generation->cut_ms))
            return retiring;
    }
    return NULL;
}

static void wait_for_news(struct retirer *retirer)
{
    int64_t until = INT64_MAX;

    for (const struct retiring *r = retirer->list; r; r = r->next)
        if (!r->cut && r->generation->cut_ms < until)
            until = r->generation->cut_ms;
    if (until == INT64_MAX) {
        pthread_cond_wait(&retirer->news, &retirer->lock);
        return;
    }
    condition_wait(&retirer->news, &retirer->lock, until);
}

static void *retirer_main(void *arg)
{
    struct retirer *retirer = arg;

    thread_name("retirer", NULL);
    pthread_mutex_lock(&retirer->lock);
    while (!retirer->stop || retirer->list) {
        struct retiring *due = next_due(retirer, clock_mono_ms());

        if (!due) {
            wait_for_news(retirer);
            continue;
        }
        bool gone = due->gone;

        due->cut = true;
        pthread_mutex_unlock(&retirer->lock);
        if (gone)
            close_it(retirer, due);
        else
            cut(retirer, due);
        pthread_mutex_lock(&retirer->lock);
    }
    pthread_mutex_unlock(&retirer->lock);
    arena_thread_end();
    return NULL;
}

struct retirer *retirer_new(struct engine *engine)
{
    struct retirer *retirer = calloc(1, sizeof *retirer);

    if (!retirer)
        return NULL;
    retirer->engine = engine;
    pthread_mutex_init(&retirer->lock, NULL);
    condition_init(&retirer->news);
    if (!pthread_create(&retirer->thread, NULL, retirer_main, retirer))
        return retirer;
    log_line(BB_ERROR, "the thread that closes generations cannot be started", NULL);
    pthread_cond_destroy(&retirer->news);
    pthread_mutex_destroy(&retirer->lock);
    free(retirer);
    return NULL;
}

void retirer_free(struct retirer *retirer)
{
    if (!retirer)
        return;
    pthread_mutex_lock(&retirer->lock);
    retirer->stop = true;
    pthread_cond_signal(&retirer->news);
    pthread_mutex_unlock(&retirer->lock);
    pthread_join(retirer->thread, NULL);
    pthread_cond_destroy(&retirer->news);
    pthread_mutex_destroy(&retirer->lock);
    free(retirer);
}

int retire_prepare(struct generation *g)
{
    g->retiring = arena_alloc(g->arena, sizeof *g->retiring);
    return g->retiring ? 0 : -1;
}

void retire(struct retirer *retirer, struct generation *g)
{
    struct retiring *retiring = g->retiring;

    *retiring = (struct retiring){.retirer = retirer, .generation = g};
    workers_stop(g->workers, g->cut_ms);
    generation_quiesce(g);
    pthread_mutex_lock(&retirer->lock);
    g->released = released;
    retiring->next = retirer->list;
    retirer->list = retiring;
    pthread_cond_signal(&retirer->news);
    pthread_mutex_unlock(&retirer->lock);
    generation_release(g);
}
