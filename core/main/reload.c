#include "core/main/reload.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/lib/log.h"
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/main/control.h"
#include "core/main/job.h"
#include "core/main/serve.h"
#include "core/module/pool.h"
#include "core/server/connection.h"
#include "core/store/migrate.h"
#include "core/store/pg.h"
#include "core/store/pg_listener.h"

enum { ASKERS_MAX = 32, MEMORY_AGAIN_MS = 100 };

struct reloader {
    struct engine *engine;
    pthread_t thread, reclaimer;
    struct migrator *migrator; /* migrates for the live generation; NULL: none runs */
    bool migrated;             /* a migrator has found the database up to date */
    pthread_mutex_t lock;      /* protects the members below */
    pthread_cond_t news;       /* wakes both threads */
    int askers[ASKERS_MAX];
    size_t asker_count;
    bool wanted, stop;
    struct reload_history history;
    LIST_HEAD(, generation) superseded; /* generations that the reclaimer will close */
    bool last;                          /* no more generations will be superseded */
};

/*
 * ---- the migrator ----
 *
 * Migrates the database on a separate thread, and retries while the database is unavailable. Until
 * it is done, the host answers with 503 to requests that need the schema. If `database.migrate` is
 * off, or after a step has failed, the thread only checks whether another host or an operator has
 * migrated the database.
 */

enum { AGAIN_TICKS = 10, LOOK_TICKS = 40, TICK_US = 50000 }; /* pauses between attempts */

struct migrator {
    pthread_t thread;
    struct generation *generation;
    bool apply; /* false: only checks, because database.migrate is off or a step has failed */
    char logged[sizeof((struct migrate_report){0}.problem)]; /* last problem in the log */
    atomic_bool stop;
    bool done; /* the database was up to date */
};

/* Sets the state of the schema. `problem` is one line for the operator, or NULL. */
static void migrator_set_schema(struct engine *engine, enum schema_state state, const char *problem)
{
    pthread_mutex_lock(&engine->lock);
    snprintf(engine->schema_problem, sizeof engine->schema_problem, "%s", problem ? problem : "");
    pthread_mutex_unlock(&engine->lock);
    atomic_store(&engine->schema, state);
}

static void migrator_say(void *arg, const char *line)
{
    (void)arg;
    log_line(BB_INFO, "migration applied", "step", line, NULL);
}

/* Migrates, or only checks, until the database is up to date or the thread must stop. */
static void *migrator_main(void *arg)
{
    struct migrator *migrator = arg;
    bool failed = false;

    thread_name("migrator", NULL);
    while (!atomic_load(&migrator->stop)) {
        struct migrate_report report = {0};
        enum migrate_outcome outcome =
            migrate_run(migrator->generation, migrator->apply, migrator_say, NULL, &report);
        int ticks = outcome == MIGRATE_FAILED ? LOOK_TICKS : AGAIN_TICKS;

        /* report.pending is not valid after a failed attempt to apply steps */
        if (outcome == MIGRATE_DONE || (outcome == MIGRATE_FAILED && !migrator->apply))
            atomic_store(&migrator->generation->engine->migrations_pending, report.pending);
        /* After a failed step, the state of the schema changes only when the migration is done. */
        struct engine *engine = migrator->generation->engine;
        const char *problem = report.problem;

        if (outcome == MIGRATE_DONE) {
            if (*migrator->logged)
                log_line(BB_INFO, "the database matches the modules", NULL);
            pause_note(engine, report.paused ? report.pause_reason : NULL);
            migrator_set_schema(engine, SCHEMA_READY, NULL);
        } else if (!failed) {
            bool unfit = outcome == MIGRATE_FAILED;

            if (strcmp(migrator->logged, problem) != 0)
                log_line(unfit ? BB_ERROR : BB_WARN,
                         migrator->apply ? "the database cannot be migrated"
                                         : "the database does not fit the modules",
                         "reason", problem, NULL);
            snprintf(migrator->logged, sizeof migrator->logged, "%s", problem);
            migrator_set_schema(engine, unfit ? SCHEMA_UNFIT : SCHEMA_PENDING, problem);
        }
        migrator->done = outcome == MIGRATE_DONE;
        if (migrator->done)
            break;
        failed = failed || (migrator->apply && outcome == MIGRATE_FAILED);
        migrator->apply = migrator->apply && !failed;
        for (int i = 0; i < ticks && !atomic_load(&migrator->stop); i++)
            usleep(TICK_US);
    }
    generation_release(migrator->generation);
    return NULL;
}

/* Starts the thread, which owns a reference to the generation. Returns NULL on failure. */
static struct migrator *migrator_start(struct generation *generation)
{
    struct migrator *migrator = calloc(1, sizeof *migrator);

    if (!migrator)
        return NULL;
    migrator->generation = generation;
    migrator->apply = generation->host->database.migrate;
    generation_acquire(generation);
    migrator_set_schema(generation->engine, SCHEMA_PENDING, NULL);
    if (!pthread_create(&migrator->thread, NULL, migrator_main, migrator))
        return migrator;
    log_line(BB_ERROR, "the migration cannot be started", NULL);
    generation_release(generation);
    free(migrator);
    return NULL;
}

/* Ends and joins the thread (NULL: none). Returns whether the database was up to date. */
static bool migrator_stop(struct migrator *migrator)
{
    if (!migrator)
        return false;
    atomic_store(&migrator->stop, true);
    pthread_join(migrator->thread, NULL);
    bool done = migrator->done;

    free(migrator);
    return done;
}

/*
 * ---- the swap of generations ----
 *
 * The swap makes the new generation the live one. It cannot fail, because everything that can fail
 * was created before. docs/architecture.md lists its steps.
 */

int reload_start_threads(struct engine *engine, struct generation *g)
{
    g->engine = engine;
    g->pools = work_pools_new(g);
    g->workers = g->pools ? workers_new(g) : NULL;
    g->jobs = g->workers ? jobs_new(engine, g) : NULL;
    return g->jobs ? 0 : -1;
}

void reload_discard(struct generation *g)
{
    if (g->workers)
        workers_free(g->workers);
    g->workers = NULL; /* makes bb_wake() do nothing in `close` */
    free(g->jobs);
    if (g->pools)
        work_pools_free(g->pools);
    generation_destroy(g);
}

void reload_first(struct engine *engine)
{
    struct generation *g = engine->generation;

    engine_add(engine, g);
    generation_start(g);
    for (unsigned i = 0; i < engine->loop_count; i++)
        jobs_begin(g->jobs, NULL, &engine->loops[i]);
    workers_go(g->workers);
}

/* ---- calls on all loops ---- */

enum { CALLS_MS = 2000 }; /* maximum wait of reload_call_on_loops() */

/* A call on every loop. Owns references to `from` and `to`. The last holder frees the call. */
struct loop_calls {
    atomic_uint holders; /* the caller, and each loop until it has made the call */
    sem_t done;
    void (*call)(struct loop *, const struct loop_calls *);
    struct generation *from, *to; /* `to` may be NULL */
    struct loop_call {
        struct message message; /* must be first */
        struct loop *loop;
        struct loop_calls *calls;
    } loops[];
};

static void reload_calls_release(struct loop_calls *calls)
{
    if (atomic_fetch_sub(&calls->holders, 1) != 1)
        return;
    generation_release(calls->from);
    if (calls->to)
        generation_release(calls->to);
    sem_destroy(&calls->done);
    free(calls);
}

static void reload_call_on_loop(struct message *message)
{
    const struct loop_call *one = (struct loop_call *)(void *)message;
    struct loop_calls *calls = one->calls;

    calls->call(one->loop, calls);
    sem_post(&calls->done);
    reload_calls_release(calls);
}

/*
 * Calls `call` on every loop, and waits up to CALLS_MS for the loops that are not blocked. Blocked
 * loops make the call when they resume. Releases one reference to each generation. Returns the
 * number of loops that have not made the call yet. If memory runs out, waits until there is some,
 * because the swap must not fail. Call engine_hold() before.
 */
static unsigned reload_call_on_loops(struct engine *engine,
                                     void (*call)(struct loop *, const struct loop_calls *),
                                     struct generation *from, struct generation *to)
{
    unsigned count = engine->loop_count, left = count, blocked = 0;
    struct loop_calls *calls;

    while (!(calls = calloc(1, sizeof *calls + count * sizeof *calls->loops)))
        poll(NULL, 0, MEMORY_AGAIN_MS);
    sem_init(&calls->done, 0, 0);
    atomic_init(&calls->holders, count + 1);
    calls->call = call;
    calls->from = from;
    calls->to = to;
    for (unsigned i = 0; i < count; i++) {
        struct loop_call *one = &calls->loops[i];

        *one = (struct loop_call){
            .message.run = reload_call_on_loop, .loop = &engine->loops[i], .calls = calls};
        loop_post(one->loop, &one->message);
    }
    int64_t until = clock_mono_ms() + CALLS_MS;

    for (unsigned i = 0; i < count; i++)
        blocked += atomic_load(&engine->loops[i].stands_ms) != 0;
    while (left > blocked) {
        if (!semaphore_wait(&calls->done, until))
            left--;
        else if (errno != EINTR)
            break;
    }
    reload_calls_release(calls);
    return left;
}

/* Makes the loop use the new generation for all later requests. */
static void reload_apply_on_loop(struct loop *loop, const struct loop_calls *calls)
{
    struct engine *engine = loop->engine;

    loop->host = calls->to->host;
    loop->http->settings = http_settings_of(calls->to, &engine->listeners);
    if (!engine_stopping(engine))
        jobs_begin(calls->to->jobs, calls->from->jobs, loop);
    jobs_end(calls->from->jobs, loop);
    requests_tell_superseded(loop, calls->from);
}

static void reload_cut_on_loop(struct loop *loop, const struct loop_calls *calls)
{
    requests_cut(loop, calls->from);
}

/*
 * ---- reclaiming superseded generations ----
 *
 * A separate thread waits until the last reference is gone, and then closes the modules. So no
 * module is closed while its own code is on the stack, and no loop has to wait. `reload.drain`
 * seconds after the swap, the thread cuts the remaining users: requests on fibers time out, and
 * client connections are closed. If a worker or a pool call never returns, it cannot be cut, and
 * the generation remains; this is logged once and shown by `busbar status`.
 */

/* Called on any thread when the last reference is released. Only notifies the reclaimer. */
static void reload_reclaim_released(struct generation *g)
{
    struct reloader *reloader = g->engine->reloader;

    BB_LOCKED(&reloader->lock);
    g->reclaim_gone = true;
    pthread_cond_broadcast(&reloader->news);
}

/*
 * Returns a generation without references, removed from the list, or one whose users must be cut,
 * because its cut_ms has passed. If there is none, returns NULL and sets *until to the next cut_ms.
 */
static struct generation *reload_reclaim_next_due(struct reloader *reloader, int64_t *until)
{
    int64_t now = clock_mono_ms();

    *until = INT64_MAX;
    for (struct generation *g = LIST_FIRST(&reloader->superseded); g; g = LIST_NEXT(g, reclaim)) {
        if (g->reclaim_gone)
            LIST_REMOVE(g, reclaim);
        if (g->reclaim_gone || (!g->reclaim_cut && now >= g->cut_ms))
            return g;
        if (!g->reclaim_cut && g->cut_ms < *until)
            *until = g->cut_ms;
    }
    return NULL;
}

static void *reload_reclaimer_main(void *arg)
{
    struct reloader *reloader = arg;
    struct engine *engine = reloader->engine;
    int64_t until;

    thread_name("reclaimer", NULL);
    pthread_mutex_lock(&reloader->lock);
    while (!reloader->last || !LIST_EMPTY(&reloader->superseded)) {
        struct generation *due = reload_reclaim_next_due(reloader, &until);

        if (!due && until == INT64_MAX)
            pthread_cond_wait(&reloader->news, &reloader->lock);
        else if (!due)
            condition_wait(&reloader->news, &reloader->lock, until);
        if (!due)
            continue;
        bool gone = due->reclaim_gone;

        due->reclaim_cut = true;
        pthread_mutex_unlock(&reloader->lock);
        if (gone) {
            unsigned number = due->number;
            int64_t ms = clock_mono_ms() - due->superseded_ms;

            pthread_mutex_lock(&engine->lock);
            LIST_REMOVE(due, alive);
            engine->alive_count--;
            pthread_mutex_unlock(&engine->lock);
            reload_discard(due);
            log_line(BB_INFO, "generation closed", LOG_NUMBER("generation", number),
                     LOG_NUMBER("drained_ms", ms), NULL);
        } else {
            log_line(BB_WARN,
                     "generation did not drain in time: its requests and streams are cut off",
                     LOG_NUMBER("generation", due->number),
                     LOG_NUMBER("holders", atomic_load(&due->holders)), NULL);
            if (!engine_hold(engine)) {
                if (generation_try_acquire(due))
                    reload_call_on_loops(engine, reload_cut_on_loop, due, NULL);
                engine_unhold(engine);
            }
        }
        pthread_mutex_lock(&reloader->lock);
    }
    pthread_mutex_unlock(&reloader->lock);
    arena_thread_end();
    return NULL;
}

/* ---- the swap itself ---- */

static void reload_swap(struct engine *engine, struct generation *g)
{
    struct reloader *reloader = engine->reloader;

    engine_add(engine, g);
    if (engine->pg_listener)
        pg_listener_subscribe(engine->pg_listener);
    generation_start(g);
    pthread_mutex_lock(&engine->lock);
    struct generation *before = engine->generation;

    engine->generation = g;
    before->superseded_ms = clock_mono_ms();
    before->cut_ms = before->superseded_ms + before->host->reload.drain * 1000;
    atomic_store_explicit(&before->superseded, true, memory_order_release);
    pthread_mutex_unlock(&engine->lock);
    atomic_store(&lifecycle_limit_ms, g->host->host.stall_timeout * 1000);
    generation_acquire(before);
    generation_acquire(g);
    if (reload_call_on_loops(engine, reload_apply_on_loop, before, g))
        log_line(BB_WARN, "event loop blocked: it will use the new configuration when it resumes",
                 NULL);
    workers_go(g->workers);
    workers_stop(before->workers, before->cut_ms);
    generation_quiesce(before);
    pthread_mutex_lock(&reloader->lock);
    before->released = reload_reclaim_released;
    LIST_INSERT_HEAD(&reloader->superseded, before, reclaim);
    pthread_cond_broadcast(&reloader->news);
    pthread_mutex_unlock(&reloader->lock);
    generation_release(before);
}

/* ---- building: each function returns 0, or -1 with problems added ---- */

/* If a schema has changed, migrates the database, or only checks it if database.migrate is off. */
static int reload_migrate(const struct generation *from, const struct generation *to,
                          struct setting_problems *problems)
{
    bool apply = to->host->database.migrate, changed = false;
    struct migrate_report report = {0};

    for (size_t i = 0; i < to->module_count && !changed; i++) {
        const struct bb_module *module = to->modules[i].descriptor;
        const struct core_module *before = generation_module(from, module->name);

        changed = module->schema && (!before || !before->descriptor->schema ||
                                     strcmp(before->descriptor->schema, module->schema) != 0);
    }
    if (!changed || migrate_run(to, apply, migrator_say, NULL, &report) == MIGRATE_DONE)
        return 0;
    setting_problem(problems, "the database cannot be migrated: %s", report.problem);
    return -1;
}

/* Builds a generation that can become live; NULL after adding problems. */
static struct generation *reload_build(struct engine *engine, const struct generation *live,
                                       struct setting_problems *problems)
{
    pthread_mutex_lock(&engine->lock);
    bool full = engine->alive_count >= GENERATIONS_MAX;
    pthread_mutex_unlock(&engine->lock);
    if (full) {
        setting_problem(problems,
                        "%d generations exist, because old generations still drain: try "
                        "again later",
                        GENERATIONS_MAX);
        return NULL;
    }
    struct generation *g = generation_check(live->settings->path, live->number + 1, problems);

    if (g && !problems->count)
        settings_fit(g->settings, live->settings, problems);
    if (g && !problems->count && !generation_lacks(g, problems) &&
        !generation_open(g, live->api, problems) && !reload_migrate(live, g, problems)) {
        if (!reload_start_threads(engine, g))
            return g;
        setting_problem(problems, "threads of the modules cannot be started");
    }
    if (g)
        reload_discard(g);
    return NULL;
}

/* ---- the thread ---- */

/* Reloads. Returns 0 with a message in now->last, or -1 after adding problems. */
static int reload_once(struct reloader *reloader, struct reload_history *now,
                       struct setting_problems *problems)
{
    struct engine *engine = reloader->engine;
    struct generation *live = engine_generation(engine);
    int64_t began = clock_mono_ms();

    struct generation *next = reload_build(engine, live, problems);

    generation_release(live);
    if (next && engine_hold(engine)) {
        setting_problem(problems, "the host is stopping");
        reload_discard(next);
        next = NULL;
    }
    if (!next)
        return -1;
    const struct host_settings *host = next->host;
    bool json = !strcmp(host->log.format, "json");
    unsigned number = next->number;
    size_t modules = next->module_count;

    log_level(log_level_of(host->log.level), json);
    supervised_log(json);
    generation_place_reports(next, problems);

    reload_swap(engine, next);
    supervised_forgive(); /* the new generation has loaded the modules that were disabled */
    engine_unhold(engine);
    /*
     * If the migration for the previous generation is not done, starts one for the new generation.
     * This may wait for the database, so the engine is not held here.
     */
    reloader->migrated |= migrator_stop(reloader->migrator);
    reloader->migrator = !reloader->migrated && engine->pg_listener ? migrator_start(next) : NULL;
    snprintf(now->last, sizeof now->last, "generation %u is live: %zu modules, built in %lld ms",
             number, modules, (long long)(clock_mono_ms() - began));
    return 0;
}

static void *reload_main(void *arg)
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
        struct setting_problems problems = {0};
        struct reload_history now = {.last_wall_ms = clock_wall_ms()};
        struct reload_history *history = &reloader->history;

        sd_notify_reloading();
        now.last_done = !reload_once(reloader, &now, &problems);
        sd_notify_ready();
        if (!now.last_done)
            snprintf(now.last, sizeof now.last, "%s",
                     problems.lines && problems.lines[0] ? problems.lines[0] : "out of memory");
        pthread_mutex_lock(&reloader->lock);
        now.done = history->done + now.last_done;
        now.refused = history->refused + !now.last_done;
        *history = now;
        pthread_mutex_unlock(&reloader->lock);
        if (now.last_done)
            log_line(BB_INFO, "reloaded", "outcome", now.last, NULL);
        else
            log_line(BB_ERROR, "reload refused, the current configuration stays in use", "reason",
                     now.last, LOG_NUMBER_IF(problems.count > 1, "more", problems.count - 1), NULL);
        char *text = NULL;
        size_t length;
        FILE *out = open_memstream(&text, &length);

        if (out) {
            fputs(now.last_done ? CONTROL_DONE : CONTROL_FAILED, out);
            setting_lines_print(problems.warnings, problems.warning_count, "warning: ", out);
            if (now.last_done)
                fprintf(out, "%s\n", now.last);
            else
                setting_lines_print(problems.lines, problems.count, "refused: ", out);
            fclose(out);
        }
        for (size_t i = 0; i < count; i++)
            control_answer(fds[i], text);
        free(text);
        setting_problems_free(&problems);
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
    pthread_cond_broadcast(&reloader->news);
    pthread_mutex_unlock(&reloader->lock);
    if (full)
        control_answer(fd, CONTROL_FAILED "too many reloads are waiting\n");
}

void reloader_history(struct reloader *reloader, struct reload_history *history)
{
    BB_LOCKED(&reloader->lock);
    *history = reloader->history;
}

/* Sets the flag that ends one of the threads, and joins the thread. */
static void reload_join(struct reloader *reloader, pthread_t thread, bool *flag)
{
    pthread_mutex_lock(&reloader->lock);
    *flag = true;
    pthread_cond_broadcast(&reloader->news);
    pthread_mutex_unlock(&reloader->lock);
    pthread_join(thread, NULL);
}

static void reload_drop(struct reloader *reloader)
{
    pthread_cond_destroy(&reloader->news);
    pthread_mutex_destroy(&reloader->lock);
    free(reloader);
}

struct reloader *reloader_new(struct engine *engine)
{
    struct reloader *reloader = calloc(1, sizeof *reloader);

    if (!reloader)
        return NULL;
    reloader->engine = engine;
    pthread_mutex_init(&reloader->lock, NULL);
    pthread_cond_init(&reloader->news, NULL);
    if (!pthread_create(&reloader->reclaimer, NULL, reload_reclaimer_main, reloader)) {
        if (!pthread_create(&reloader->thread, NULL, reload_main, reloader)) {
            if (engine->pg_listener)
                reloader->migrator = migrator_start(engine->generation);
            return reloader;
        }
        reload_join(reloader, reloader->reclaimer, &reloader->last);
    }
    log_line(BB_ERROR, "cannot start the reload thread", NULL);
    reload_drop(reloader);
    return NULL;
}

void reloader_free(struct reloader *reloader)
{
    if (!reloader)
        return;
    reload_join(reloader, reloader->thread, &reloader->stop);
    migrator_stop(reloader->migrator);
    for (size_t i = 0; i < reloader->asker_count; i++)
        control_answer(reloader->askers[i], CONTROL_FAILED "the host is stopping\n");
    reload_join(reloader, reloader->reclaimer, &reloader->last);
    reload_drop(reloader);
}
