#include "core/module/engine.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/lib/crash.h"
#include "core/lib/listener.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/main/control.h"
#include "core/main/hang.h"
#include "core/main/job.h"
#include "core/main/reload.h"
#include "core/main/sd_notify.h"
#include "core/main/serve.h"
#include "core/main/stop.h"
#include "core/module/pool.h"
#include "core/module/request.h"
#include "core/server/http.h"
#include "core/server/stream.h"
#include "core/store/pg.h"
#include "core/store/pg_listener.h"
#include "core/store/redis.h"
#include "core/store/sql.h"

struct pg_settings engine_pg_settings(const struct engine *engine, const struct generation *g)
{
    const struct host_settings *host = host_settings(g->settings);

    return (struct pg_settings){
        .url = engine->database_url,
        .connections = {[PG_READ] = (unsigned)host->database.read_connections,
                        [PG_WRITE] = (unsigned)host->database.write_connections,
                        [PG_UNIT] = (unsigned)host->database.unit_connections,
                        [PG_LONG] = (unsigned)host->database.long_connections,
                        [PG_TX] = (unsigned)host->database.transaction_connections},
        .queue = (size_t)host->database.queue,
        .merge_max = (unsigned)host->database.gather,
        .share = (unsigned)host->http.client_percent,
        .statement_ms = (unsigned)host->database.statement_timeout,
        .connect_ms = (unsigned)host->database.connect_timeout,
    };
}

static void engine_run_http(void *http)
{
    http_run(http);
}

static int64_t engine_wait_for_http(void *http)
{
    return http_timeout_ms(http);
}

static void engine_flush_pg(void *pg)
{
    pg_flush(pg);
}

static int loop_fill(struct engine *engine, struct loop *loop)
{
    const struct generation *g = engine->generation;
    struct pg_settings pg = engine_pg_settings(engine, g);
    struct redis_settings redis = {.url = engine->redis_url,
                                   .authorities = engine->redis_authorities,
                                   .timeout_ms = host_settings(g->settings)->redis.timeout};
    struct http_settings http = http_settings_of(g, &engine->listeners);

    if (*pg.url) {
        loop->pg = pg_new(loop, &pg);
        if (!loop->pg)
            return -1;
    }
    if (*redis.url) {
        loop->redis = redis_new(loop, &redis);
        if (!loop->redis)
            return -1;
    }
    if (!engine->listeners.count)
        return 0;
    loop->http = http_new(loop, &http);
    return loop->http ? streams_init(loop) : -1;
}

void engine_free(struct engine *engine)
{
    struct generation *g = engine->generation;

    if (engine->pg_listener)
        pg_listener_free(engine->pg_listener);
    for (unsigned i = 0; g->jobs && i < engine->loop_count; i++)
        jobs_end(g->jobs, &engine->loops[i]);
    if (g->pools)
        work_pools_free(g->pools); /* a pool thread may still be waking a loop */
    g->pools = NULL;
    for (unsigned i = 0; i < engine->loop_count; i++) { /* no request exists any more */
        struct loop *loop = &engine->loops[i];

        streams_free(loop);
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
    generation_quiesce(g);
    reload_discard(g);
    job_log_free(engine);
    pthread_mutex_destroy(&engine->lock);
    free(engine->conf);
    free(engine->database_url);
    free(engine->redis_url);
    free(engine->redis_authorities);
    listeners_close(&engine->listeners);
}

int engine_init(struct engine *engine, unsigned loop_count)
{
    const struct settings *settings = engine->generation->settings;
    const char *database = host_settings(settings)->database.url;
    const char *redis = host_settings(settings)->redis.url;
    const char *authorities = host_settings(settings)->redis.authorities;

    requests_report();
    engine->generation->engine = engine;
    engine->started_ms = clock_mono_ms();
    engine->loops = calloc(loop_count, sizeof *engine->loops);
    engine->conf = strdup(settings->path);
    engine->database_url = strdup(database ? database : "");
    engine->redis_url = strdup(redis ? redis : "");
    engine->redis_authorities = strdup(authorities ? authorities : "");
    if (!engine->loops || !engine->conf || !engine->database_url || !engine->redis_url ||
        !engine->redis_authorities)
        return -1;
    for (; engine->loop_count < loop_count; engine->loop_count++) {
        if (loop_init(&engine->loops[engine->loop_count], engine, engine->loop_count))
            return -1;
    }
    for (unsigned i = 0; i < loop_count; i++) {
        struct loop *loop = &engine->loops[i];

        if (loop_fill(engine, loop))
            return -1;
        /* in this order: statements of requests that begin in an iteration are sent in it */
        if (loop->http)
            loop_add_part(loop,
                          &(struct loop_part){engine_run_http, engine_wait_for_http, loop->http});
        if (loop->pg)
            loop_add_part(loop, &(struct loop_part){.run = engine_flush_pg, .of = loop->pg});
    }
    return 0;
}

/*
 * Starts the PostgreSQL listener, except in a command, which ends before a notification could
 * matter. Returns 0, or -1 (logged).
 */
static int engine_grow_listener(struct engine *engine)
{
    struct pg_settings pg = engine_pg_settings(engine, engine->generation);

    if (!*pg.url)
        return 0;
    engine->pg_listener = pg_listener_new(&engine->loops[0], &pg);
    return engine->pg_listener ? 0 : -1;
}

static void *loop_main(void *arg)
{
    thread_name("loop", NULL);
    loop_run(arg);
    return NULL;
}

/* Ends the process without stopping the loops that already run: they have no requests yet. */
static _Noreturn void engine_give_up(void)
{
    log_line(BB_ERROR, "the event loops cannot be started", NULL);
    log_close();
    crash_exits();
    _exit(1);
}

/* Runs the loops, and the other threads for as long as the loops run. */
static int engine_serve_beside(struct engine *engine, const sigset_t *set)
{
    struct signals *signals = signals_new(engine, set);
    struct control *control = NULL;
    int status = 1;

    engine->reclaimer = reload_reclaimer_new(engine);
    engine->reloader = reloader_new(engine);
    if (signals && engine->reclaimer && engine->reloader && !signals_go(signals)) {
        reload_first(engine);
        control = control_new(engine);
        if (hang_watch_loops(engine))
            engine_give_up();
        for (unsigned i = 1; i < engine->loop_count; i++)
            if (pthread_create(&engine->loops[i].thread, NULL, loop_main, &engine->loops[i]))
                engine_give_up();
        engine->loops[0].thread = pthread_self();
        listeners_tell(&engine->listeners);
        sd_notify_ready();
        loop_run(&engine->loops[0]);
        hang_watch_end(); /* first, because it reads the loops' threads */
        for (unsigned i = 1; i < engine->loop_count; i++)
            pthread_join(engine->loops[i].thread, NULL);
        stop_rest();
        status = 0;
    }
    control_free(control);
    signals_free(signals); /* uses the reloader */
    reloader_free(engine->reloader);
    reload_reclaimer_free(engine->reclaimer);
    return status;
}

int engine_serve(struct generation *generation)
{
    struct engine engine = {.generation = generation};
    int64_t wanted = host_settings(generation->settings)->http.loops;
    unsigned processors = thread_processors();
    unsigned loops = wanted > 0 ? (unsigned)wanted : processors > 3 ? processors / 2 : 1;
    sigset_t set;
    int status = 1;

    signals_block(&set);
    pthread_mutex_init(&engine.lock, NULL);
    if (!listeners_open(&engine.listeners, host_settings(generation->settings)->http.listen,
                        (unsigned)host_settings(generation->settings)->http.max_connections) &&
        !engine_init(&engine, loops) && !engine_grow_listener(&engine) &&
        !reload_start_threads(&engine, generation))
        status = engine_serve_beside(&engine, &set);
    engine_free(&engine);
    log_line(BB_INFO, "stopped", NULL);
    return status;
}
