#include "core/main/reload.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/lib/lifecycle_call.h"
#include "core/lib/log.h"
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/main/control.h"
#include "core/main/job.h"
#include "core/main/migrator.h"
#include "core/main/reclaim.h"
#include "core/main/sd_notify.h"
#include "core/main/serve.h"
#include "core/module/pool.h"
#include "core/module/worker.h"
#include "core/server/http.h"
#include "core/store/migrate.h"
#include "core/store/pg.h"
#include "core/store/pg_listener.h"

enum { ASKERS_MAX = 32, MEMORY_AGAIN_MS = 100 };

struct reloader {
    struct engine *engine;
    pthread_t thread;
    struct migrator *migrator; /* for the live generation; NULL: no database */
    pthread_mutex_t lock;      /* protects the members below */
    pthread_cond_t news;
    int askers[ASKERS_MAX];
    size_t asker_count;
    bool wanted, stop;
    struct reload_history history;
};

/*
 * ---- the swap: the new generation becomes the live one ----
 *
 * Everything that can fail is created before, so the swap itself cannot fail. The order is:
 * - the listener subscribes to the channels of the new modules;
 * - their `start` is called;
 * - a pointer is changed under the engine's lock: requests that begin from now on use the new
 *   generation;
 * - the loops take over settings and jobs, and notify long-lived requests;
 * - the workers of the new generation start, the old ones are asked to return;
 * - `quiesce` of the old generation is called;
 * - the reclaimer gets the old generation.
 */

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
    return g->jobs ? 0 : -1;
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

/* Called after the last loop, which may have been blocked. */
static void changed(void *arg)
{
    struct change *change = arg;

    generation_release(change->from);
    generation_release(change->to);
    free(change);
}

/* If memory runs out, waits for it: nothing can be refused any more. */
static void change_loops(const struct change *change)
{
    struct change *kept = NULL;
    int left = -1;

    generation_acquire(change->from);
    generation_acquire(change->to);
    while (!kept && !(kept = malloc(sizeof *kept)))
        poll(NULL, 0, MEMORY_AGAIN_MS);
    *kept = *change;
    while ((left = engine_tell_loops(change->engine, change_loop, changed, kept)) < 0)
        poll(NULL, 0, MEMORY_AGAIN_MS);
    if (left)
        log_line(BB_WARN, "event loop blocked: it takes the new configuration when it resumes",
                 NULL);
}

static void swap_generation(struct engine *engine, struct generation *g)
{
    struct change change = {.engine = engine, .to = g};

    add_alive(engine, g);
    if (engine->pg_listener)
        pg_listener_subscribe(engine->pg_listener);
    generation_start(g);
    pthread_mutex_lock(&engine->lock);
    struct generation *before = change.from = engine->generation;

    engine->generation = g;
    before->superseded_ms = clock_mono_ms();
    before->cut_ms = before->superseded_ms + host_settings(before->settings)->reload.drain * 1000;
    atomic_store_explicit(&before->superseded, true, memory_order_release);
    pthread_mutex_unlock(&engine->lock);
    lifecycle_calls_set_limit(host_settings(g->settings)->host.stall_timeout * 1000);
    change_loops(&change);
    workers_go(g->workers);
    reclaim(engine->reclaimer, change.from);
}

/* ---- building: each function returns 0, or -1 with problems added ---- */

static bool new_schema(const struct generation *from, const struct generation *to)
{
    for (size_t i = 0; i < to->module_count; i++) {
        const struct bb_module *module = to->modules[i].descriptor;
        const struct core_module *before = generation_module(from, module->name);

        if (module->schema && (!before || !before->descriptor->schema ||
                               strcmp(before->descriptor->schema, module->schema) != 0))
            return true;
    }
    return false;
}

static int migrate(const struct generation *from, const struct generation *to,
                   struct setting_problems *problems)
{
    bool apply = host_settings(to->settings)->database.migrate;
    struct migrate_report report = {0};

    if (!new_schema(from, to) ||
        migrate_run(to, apply, migrator_say, NULL, &report) == MIGRATE_DONE)
        return 0;
    setting_problem(problems, "the database cannot be migrated: %s", report.problem);
    return -1;
}

static int start_threads(struct engine *engine, struct generation *to,
                         struct setting_problems *problems)
{
    if (!swap_start_threads(engine, to))
        return 0;
    setting_problem(problems, "threads of the modules cannot be started");
    return -1;
}

/* Builds a generation that can take over; NULL with problems. */
static struct generation *build(struct engine *engine, const struct generation *live,
                                struct setting_problems *problems)
{
    pthread_mutex_lock(&engine->lock);
    bool full = engine->alive_count >= GENERATIONS_MAX;
    pthread_mutex_unlock(&engine->lock);
    if (full) {
        setting_problem(problems, "%d generations are alive, the old ones still drain: try later",
                        GENERATIONS_MAX);
        return NULL;
    }
    struct generation *g = generation_check(engine->conf, live->number + 1, problems);

    if (g && !problems->count)
        settings_fit(g->settings, live->settings, problems);
    if (g && !problems->count && !generation_lacks(g, problems) &&
        !generation_open(g, live->api, problems) && !migrate(live, g, problems) &&
        !start_threads(engine, g, problems))
        return g;
    if (g)
        swap_discard(g);
    return NULL;
}

static bool has_database(const struct generation *g)
{
    return *g->engine->database_url;
}

/* If the database has been unavailable, the new generation continues the first one's migration. */
static void hand_migration_on(struct reloader *reloader, struct generation *to)
{
    bool pending = !reloader->migrator || !migrator_done(reloader->migrator);

    migrator_stop(reloader->migrator);
    reloader->migrator = pending && has_database(to) ? migrator_start(to) : NULL;
}

/* ---- reporting ---- */

static void say_lines(FILE *out, char *const *lines, size_t count, const char *before)
{
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s\n", before, lines && lines[i] ? lines[i] : "out of memory");
}

static void tell_askers(const int *fds, size_t count, const struct reload_history *now,
                        const struct setting_problems *problems)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (out) {
        fputs(now->last_done ? CONTROL_DONE : CONTROL_FAILED, out);
        say_lines(out, problems->warnings, problems->warning_count, "warning: ");
        if (now->last_done)
            fprintf(out, "%s\n", now->last);
        else
            say_lines(out, problems->lines, problems->count, "refused: ");
        fclose(out);
    }
    for (size_t i = 0; i < count; i++)
        control_answer(fds[i], text);
    free(text);
}

static void note(struct reloader *reloader, const struct reload_history *now)
{
    pthread_mutex_lock(&reloader->lock);
    struct reload_history *history = &reloader->history;
    unsigned done = history->done + now->last_done, refused = history->refused + !now->last_done;

    atomic_store(&reloader->engine->reloads_done, done);
    atomic_store(&reloader->engine->reloads_refused, refused);
    *history = *now;
    history->done = done;
    history->refused = refused;
    pthread_mutex_unlock(&reloader->lock);
}

/* ---- the thread ---- */

/* Returns 0 with the message in `now`, or -1 with problems. */
static int reload(struct reloader *reloader, struct reload_history *now,
                  struct setting_problems *problems)
{
    struct engine *engine = reloader->engine;
    struct generation *live = engine_generation(engine);
    int64_t began = clock_mono_ms();

    struct generation *next = build(engine, live, problems);

    generation_release(live);
    if (next && engine_hold(engine)) {
        setting_problem(problems, "the host is stopping");
        swap_discard(next);
        next = NULL;
    }
    if (!next)
        return -1;
    const struct host_settings *host = host_settings(next->settings);
    bool json = !strcmp(host->log.format, "json");
    unsigned number = next->number;
    size_t modules = next->module_count;

    log_level(log_level_of(host->log.level), json);
    supervised_log(json);
    generation_place_reports(next, problems);

    swap_generation(engine, next);
    supervised_forgive(); /* try disabled modules again */
    engine_unhold(engine);
    hand_migration_on(reloader, next); /* may wait for the database, so the engine is not held */
    snprintf(now->last, sizeof now->last, "generation %u is live: %zu modules, built in %lld ms",
             number, modules, (long long)(clock_mono_ms() - began));
    return 0;
}

static void run(struct reloader *reloader, const int *fds, size_t count)
{
    struct setting_problems problems = {0};
    struct reload_history now = {.last_wall_ms = clock_wall_ms()};

    sd_notify_reloading();
    now.last_done = !reload(reloader, &now, &problems);
    sd_notify_ready();
    if (!now.last_done)
        snprintf(now.last, sizeof now.last, "%s",
                 problems.lines && problems.lines[0] ? problems.lines[0] : "out of memory");
    note(reloader, &now);
    if (now.last_done)
        log_line(BB_INFO, "reloaded", "outcome", now.last, NULL);
    else
        log_line(BB_ERROR, "reload refused, the previous configuration stays in use", "reason",
                 now.last, "more", problems.count > 1 ? LOG_NUMBER(problems.count - 1) : NULL,
                 NULL);
    tell_askers(fds, count, &now, &problems);
    setting_problems_free(&problems);
}

static void *reloader_main(void *arg)
{
    struct reloader *reloader = arg;
    int fds[ASKERS_MAX];

    thread_name("reloader", NULL);
    pthread_mutex_lock(&reloader->lock);
    while (!reloader->stop) {
        if (!reloader->wanted) {
            pthread_cond_wait(&reloader->news, &reloader->lock);
            continue;
        }
        size_t count = reloader->asker_count;

        memcpy(fds, reloader->askers, count * sizeof *fds);
        reloader->asker_count = 0;
        reloader->wanted = false;
        pthread_mutex_unlock(&reloader->lock);
        run(reloader, fds, count);
        arena_thread_end();
        pthread_mutex_lock(&reloader->lock);
    }
    pthread_mutex_unlock(&reloader->lock);
    return NULL;
}

void reloader_ask(struct reloader *reloader, int fd)
{
    bool full = false;

    pthread_mutex_lock(&reloader->lock);
    if (fd >= 0 && reloader->asker_count == ASKERS_MAX)
        full = true;
    else if (fd >= 0)
        reloader->askers[reloader->asker_count++] = fd;
    reloader->wanted = true;
    pthread_cond_signal(&reloader->news);
    pthread_mutex_unlock(&reloader->lock);
    if (full)
        control_answer(fd, CONTROL_FAILED "too many reloads are waiting\n");
}

void reloader_history(struct reloader *reloader, struct reload_history *history)
{
    pthread_mutex_lock(&reloader->lock);
    *history = reloader->history;
    pthread_mutex_unlock(&reloader->lock);
}

struct reloader *reloader_new(struct engine *engine)
{
    struct reloader *reloader = calloc(1, sizeof *reloader);

    if (!reloader)
        return NULL;
    reloader->engine = engine;
    pthread_mutex_init(&reloader->lock, NULL);
    pthread_cond_init(&reloader->news, NULL);
    if (!pthread_create(&reloader->thread, NULL, reloader_main, reloader)) {
        if (has_database(engine->generation))
            reloader->migrator = migrator_start(engine->generation);
        return reloader;
    }
    log_line(BB_ERROR, "cannot start the reload thread", NULL);
    pthread_cond_destroy(&reloader->news);
    pthread_mutex_destroy(&reloader->lock);
    free(reloader);
    return NULL;
}

void reloader_free(struct reloader *reloader)
{
    if (!reloader)
        return;
    pthread_mutex_lock(&reloader->lock);
    reloader->stop = true;
    pthread_cond_signal(&reloader->news);
    pthread_mutex_unlock(&reloader->lock);
    pthread_join(reloader->thread, NULL);
    migrator_stop(reloader->migrator);
    for (size_t i = 0; i < reloader->asker_count; i++)
        control_answer(reloader->askers[i], CONTROL_FAILED "the host is stopping\n");
    pthread_cond_destroy(&reloader->news);
    pthread_mutex_destroy(&reloader->lock);
    free(reloader);
}
