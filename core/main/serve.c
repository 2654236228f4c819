#include "core/main/serve.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/lib/crash.h"
#include "core/lib/listener.h"
#include "core/lib/log.h"
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/main/control.h"
#include "core/main/hang.h"
#include "core/main/job.h"
#include "core/main/reload.h"
#include "core/module/pool.h"
#include "core/module/request.h"
#include "core/server/connection.h"
#include "core/server/stream.h"
#include "core/store/pg_listener.h"
#include "core/store/redis.h"
#include "core/store/sql.h"

/* ---- signals, and the stop ---- */

enum { STOP_MS = 10000, LATE_MS = 1000, WORKERS_MS = 8000, DRAIN_TICK_MS = 20, REST_S = 5 };

struct stop {
    struct message message; /* must be first */
    struct timer timer;
    struct loop *loop;
    int64_t until_ms;
};

static _Noreturn void stop_end_now(enum bb_level level, const char *why, int status)
{
    log_line(level, why, NULL);
    log_close();
    crash_exits();
    _exit(status);
}

/* Ends the process after REST_S seconds, because a reload may still wait for a database lock. */
static void *stop_rest_main(void *arg)
{
    (void)arg;
    sleep(REST_S);
    stop_end_now(BB_WARN, "stopped with threads unfinished", 0);
}

/* Returns whether the loop may end. The first loop is last, because bb_run() uses it in a stop. */
static bool stop_is_last(const struct loop *loop)
{
    for (unsigned i = 1; !loop->index && i < loop->engine->loop_count; i++) {
        if (!atomic_load(&loop->engine->loops[i].ended))
            return false;
    }
    return true;
}

static void stop_tick(struct timer *timer)
{
    struct stop *stop = BB_CONTAINER_OF(timer, struct stop, timer);
    struct loop *loop = stop->loop;
    bool empty = http_drain(loop->http);

    /* a job that was cut can run again after the next start, so the exit status is still 0 */
    if (loop->now_ms >= stop->until_ms - (STOP_MS - WORKERS_MS))
        jobs_cut(loop);
    if (empty && !loop->requests && stop_is_last(loop) && engine_idle(loop->engine) &&
        loop_quiet(loop)) {
        loop->stop = true;
        atomic_store(&loop->ended, true);
        return;
    }
    /* the exit status is not 0, because unfinished requests are lost */
    if (loop->now_ms >= stop->until_ms)
        stop_end_now(BB_WARN, "stopped with requests unfinished", 1);
    timer_set(&loop->timers, timer, loop->now_ms + DRAIN_TICK_MS);
}

static void stop_begin(struct message *message)
{
    struct stop *stop = (struct stop *)(void *)message;
    struct generation *generation = engine_generation(stop->loop->engine);

    jobs_end(generation->jobs, stop->loop);
    generation_release(generation);
    streams_stop(stop->loop);
    stop->until_ms = stop->loop->now_ms + STOP_MS;
    stop_tick(&stop->timer);
}

struct signals {
    struct engine *engine;
    pthread_t thread;
    sigset_t set;
    atomic_bool end;  /* the thread ends at the next signal */
    int64_t until_ms; /* deadline of a stop; 0: not stopping */
    bool quiesced;    /* in a stop: the thread `quiescer` was started */
    pthread_t quiescer;
    struct stop stops[]; /* one per loop */
};

static void *quiesce_main(void *arg)
{
    struct engine *engine = arg;

    thread_name("quiesce", NULL);
    generation_quiesce(engine->generation);
    engine_unhold(engine);
    arena_thread_end();
    return NULL;
}

/*
 * In a stop, calls `quiesce` of the live modules, once no reload is replacing their generation. A
 * separate thread does, because a call may block. Returns how many milliseconds the caller may wait
 * for a signal before the next call.
 */
static int64_t signals_quiesce(struct signals *signals, int64_t left)
{
    struct engine *engine = signals->engine;

    if (signals->quiesced)
        return left;
    if (engine_held_once(engine)) /* tried again at the next call if no thread can be started */
        signals->quiesced = !pthread_create(&signals->quiescer, NULL, quiesce_main, engine);
    return left < DRAIN_TICK_MS ? left : DRAIN_TICK_MS;
}

static void *signals_main(void *arg)
{
    struct signals *signals = arg;
    struct engine *engine = signals->engine;

    thread_name("signals", NULL);
    while (!atomic_load(&signals->end)) {
        int64_t left = signals->until_ms - clock_mono_ms();

        if (signals->until_ms && left <= 0)
            stop_end_now(BB_WARN, "stopped with a blocked event loop", 1);
        if (signals->until_ms)
            left = signals_quiesce(signals, left);
        struct timespec limit = {left / 1000, left % 1000 * 1000000};
        int number = sigtimedwait(&signals->set, NULL, signals->until_ms ? &limit : NULL);

        if (number < 0 || atomic_load(&signals->end))
            continue;
        if (number == SIGUSR1) {
            log_reopen();
        } else if (number == SIGHUP) {
            reloader_ask(engine->reloader, -1);
        } else if (!engine_stopping(engine)) {
            log_line(BB_INFO, "stopping", NULL);
            sd_notify_stopping();
            signals->until_ms = clock_mono_ms() + STOP_MS + LATE_MS;
            engine_stop(engine, clock_mono_ms() + WORKERS_MS);
            for (unsigned i = 0; i < engine->loop_count; i++) {
                struct stop *stop = &signals->stops[i];

                *stop = (struct stop){
                    .message.run = stop_begin, .timer.fire = stop_tick, .loop = &engine->loops[i]};
                loop_post(stop->loop, &stop->message);
            }
        }
    }
    arena_thread_end();
    return NULL;
}

void signals_block(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

static struct signals *signals_new(struct engine *engine, const sigset_t *set)
{
    struct signals *signals =
        calloc(1, sizeof *signals + engine->loop_count * sizeof signals->stops[0]);

    if (!signals)
        return NULL;
    signals->engine = engine;
    signals->set = *set;
    if (!pthread_create(&signals->thread, NULL, signals_main, signals))
        return signals;
    log_line(BB_ERROR, "cannot start the signal thread", NULL);
    free(signals);
    return NULL;
}

/* ---- readiness ---- */

int readiness_of(const struct loop *loop, enum bb_dependency dependency, int64_t *ms)
{
    struct engine *engine = loop->engine;
    enum schema_state schema = (enum schema_state)atomic_load(&engine->schema);

    *ms = 0;
    switch (dependency) {
    case BB_DATABASE:
        if (!loop->pg)
            return 1;
        *ms = pg_listener_fresh_ms() > 0 ? pg_listener_latency_ms() : -1;
        return *ms < 0 || pg_listener_no_writes() ? -1 : 0;
    case BB_SCHEMA:
        return schema == SCHEMA_NONE ? 1 : schema == SCHEMA_READY ? 0 : -1;
    case BB_HOST:
        return engine_stopping(engine) || engine_stands(engine) ? -1 : 0;
    case BB_CLOCK:
        if (!loop->pg || !shared_clock_known())
            return 1;
        *ms = shared_clock_offset_ms();
        return llabs(*ms) > SHARED_CLOCK_MOST_MS ? -1 : 0;
    default: /* BB_REDIS */
        if (!loop->redis)
            return 1;
        *ms = redis_latency_ms(loop->redis);
        return *ms < 0 ? -1 : 0;
    }
}

bool readiness(const struct engine *engine)
{
    static const enum bb_dependency needed[] = {BB_HOST, BB_SCHEMA, BB_DATABASE, BB_CLOCK};
    bool ready = true;
    int64_t ms;

    for (size_t i = 0; ready && i < sizeof needed / sizeof *needed; i++)
        ready = readiness_of(&engine->loops[0], needed[i], &ms) >= 0;
    return ready;
}

/* ---- setting up an engine ---- */

void engine_free(struct engine *engine)
{
    struct generation *g = engine->generation;

    if (engine->pg_listener)
        pg_listener_free(engine->pg_listener);
    for (unsigned i = 0; g->jobs && i < engine->loop_count; i++)
        jobs_end(g->jobs, &engine->loops[i]);
    if (g->pools)
        work_pools_free(g->pools); /* before the loops, because a pool's thread may wake a loop */
    g->pools = NULL;
    for (unsigned i = 0; i < engine->loop_count; i++) { /* no request exists any more */
        struct loop *loop = &engine->loops[i];

        if (loop->http)
            http_free(loop->http);
        if (loop->redis)
            redis_free(loop->redis);
        if (loop->pg)
            pg_free(loop->pg);
        sql_ids_free(loop);
        loop_free(loop);
    }
    free(engine->loops);
    for (size_t i = 0; i < QUOTA_TABLES; i++)
        quota_table_free(&quota_tables[i]);
    reload_discard(g);
    job_log_free(engine);
    pthread_mutex_destroy(&engine->lock);
    listeners_close(&engine->listeners);
}

int engine_init(struct engine *engine, unsigned loop_count)
{
    const struct host_settings *host = engine->generation->host;
    struct http_settings http = http_settings_of(engine->generation, &engine->listeners);

    activity_source(request_describe);
    engine->generation->engine = engine;
    engine->started_ms = clock_mono_ms();
    engine->loops = calloc(loop_count, sizeof *engine->loops);
    if (!engine->loops)
        return -1;
    for (; engine->loop_count < loop_count; engine->loop_count++) {
        if (loop_init(&engine->loops[engine->loop_count], engine, engine->loop_count))
            return -1;
    }
    for (unsigned i = 0; i < loop_count; i++) {
        struct loop *loop = &engine->loops[i];

        loop->host = host;
        if ((*host->database.url && !(loop->pg = pg_new(loop))) ||
            (*host->redis.url && !(loop->redis = redis_new(loop))))
            return -1;
        if (engine->listeners.count &&
            (!(loop->http = http_new(loop, &http)) || (loop->pg && pg_replicas_open(loop->pg))))
            return -1;
        /* pg_flush() is last, so that it sends statements of requests that http_run() starts */
        if (loop->http)
            loop_add_part(loop, &(struct loop_part){http_run, http_timeout_ms, loop->http});
        if (loop->pg)
            loop_add_part(loop, &(struct loop_part){.run = pg_flush, .of = loop->pg});
    }
    return 0;
}

static void *loop_main(void *arg)
{
    thread_name("loop", NULL);
    loop_run(arg);
    return NULL;
}

/* Starts the other threads, runs the loops until they end, and then ends the other threads. */
static int engine_serve_beside(struct engine *engine, const sigset_t *set)
{
    struct control *control = NULL;
    pthread_t rest;
    int status = 1;

    engine->reloader = reloader_new(engine);
    engine_hold(engine); /* until the modules have started; an early stop waits for this */
    struct signals *signals = engine->reloader ? signals_new(engine, set) : NULL;

    if (signals) {
        reload_first(engine);
        engine_unhold(engine);
        control = control_new(engine);
        for (unsigned i = 1; i < engine->loop_count; i++)
            if (pthread_create(&engine->loops[i].thread, NULL, loop_main, &engine->loops[i]))
                /* ends at once, because the loops that already run have no requests yet */
                stop_end_now(BB_ERROR, "the event loops cannot be started", 1);
        engine->loops[0].thread = pthread_self();
        hang_watch_loops(engine); /* the watchdog reads `thread` of each loop, which is now set */
        listeners_tell(&engine->listeners);
        sd_notify_ready();
        loop_run(&engine->loops[0]);
        hang_watch_end(); /* before pthread_join(), which makes `thread` of a loop invalid */
        for (unsigned i = 1; i < engine->loop_count; i++)
            pthread_join(engine->loops[i].thread, NULL);
        /* The process ends within 5 s, even if a thread still waits. */
        if (!pthread_create(&rest, NULL, stop_rest_main, NULL)) {
            pthread_detach(rest);
        } else {
            signal(SIGALRM, SIG_DFL); /* guard_process() had set SIG_IGN */
            alarm(REST_S); /* ends the process as the thread would, but without a log line */
        }
        control_free(control);
        atomic_store(&signals->end, true);
        pthread_kill(signals->thread, SIGUSR1);
        pthread_join(signals->thread, NULL); /* before the reloader is freed: the thread uses it */
        if (signals->quiesced)
            pthread_join(signals->quiescer, NULL);
        free(signals);
        status = 0;
    }
    reloader_free(engine->reloader);
    return status;
}

int engine_serve(struct generation *generation)
{
    struct engine engine = {.generation = generation};
    int64_t wanted = generation->host->http.loops;
    unsigned processors = thread_processors();
    unsigned loops = wanted > 0 ? (unsigned)wanted : processors > 3 ? processors / 2 : 1;
    sigset_t set;
    int status = 1;

    signals_block(&set);
    pthread_mutex_init(&engine.lock, NULL);
    if (!listeners_open(&engine.listeners, generation->host->http.listen,
                        (unsigned)generation->host->http.max_connections) &&
        !engine_init(&engine, loops)) {
        bool database = engine.loops[0].pg != NULL;

        if (database)
            engine.pg_listener = pg_listener_new(&engine.loops[0]);
        if ((engine.pg_listener || !database) && !reload_start_threads(&engine, generation))
            status = engine_serve_beside(&engine, &set);
    }
    engine_free(&engine);
    log_line(BB_INFO, "stopped", NULL);
    return status;
}
