#include "core/engine.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/ear.h"
#include "core/http.h"
#include "core/job.h"
#include "core/listener.h"
#include "core/log.h"
#include "core/migrator.h"
#include "core/pg.h"
#include "core/pool.h"
#include "core/redis.h"
#include "core/sql.h"
#include "core/stop.h"
#include "core/worker.h"

struct generation *engine_generation(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    struct generation *generation = engine->generation;
    generation_acquire(generation);
    pthread_mutex_unlock(&engine->lock);
    return generation;
}

static int64_t number(const struct engine *engine, const char *section, const char *name)
{
    return settings_int(engine->generation->settings, section, name);
}

static struct pg_settings pg_settings_of(const struct engine *engine)
{
    struct pg_settings settings = {
        .url = settings_text(engine->generation->settings, "database", "url"),
        .queue = (size_t)number(engine, "database", "queue"),
        .statement_ms = (unsigned)number(engine, "database", "statement_timeout"),
        .connect_ms = (unsigned)number(engine, "database", "connect_timeout"),
    };

    settings.connections[PG_READ] = (unsigned)number(engine, "database", "read_connections");
    settings.connections[PG_UNIT] = (unsigned)number(engine, "database", "unit_connections");
    settings.connections[PG_LONG] = (unsigned)number(engine, "database", "long_connections");
    settings.connections[PG_TX] = (unsigned)number(engine, "database", "transaction_connections");
    return settings;
}

static struct http_settings http_settings_of(const struct engine *engine)
{
    unsigned most = (unsigned)number(engine, "http", "max_connections");

    return (struct http_settings){
        .listen_fd = engine->listen_fd,
        .max_connections = (most + engine->loop_count - 1) / engine->loop_count,
        .per_address = (unsigned)number(engine, "http", "connections_per_address"),
        .header_ms = number(engine, "http", "header_timeout") * 1000,
        .body_ms = number(engine, "http", "body_timeout") * 1000,
        .idle_ms = number(engine, "http", "idle_timeout") * 1000,
        .write_ms = number(engine, "http", "write_timeout") * 1000,
    };
}

static int loop_fill(struct engine *engine, struct loop *loop)
{
    struct pg_settings pg = pg_settings_of(engine);
    struct redis_settings redis = {.url =
                                       settings_text(engine->generation->settings, "redis", "url"),
                                   .timeout_ms = number(engine, "redis", "timeout")};
    struct http_settings http = http_settings_of(engine);

    if (*pg.url) {
        loop->pg = pg_new(loop, &pg);
        if (!loop->pg)
            return -1;
    }
    if (redis.url && *redis.url) {
        loop->redis = redis_new(loop, &redis);
        if (!loop->redis)
            return -1;
    }
    if (engine->listen_fd < 0)
        return 0;
    loop->http = http_new(loop, &http);
    return loop->http ? 0 : -1;
}

/* Whatever of a loop there is; no request may be alive any more. */
static void loop_empty(struct loop *loop)
{
    if (loop->http)
        http_free(loop->http);
    if (loop->redis)
        redis_free(loop->redis);
    if (loop->pg)
        pg_free(loop->pg);
    sql_ids_free(loop);
    loop_free(loop);
}

void engine_free(struct engine *engine)
{
    if (engine->jobs)
        jobs_free(engine->jobs);
    if (engine->ear)
        ear_free(engine->ear);
    for (unsigned i = 0; i < engine->loop_count; i++)
        loop_empty(&engine->loops[i]);
    free(engine->loops);
    if (engine->pools)
        work_pools_free(engine->pools);
    generation_quiesce(engine->generation);
    generation_release(engine->generation);
    pthread_mutex_destroy(&engine->lock);
    if (engine->listen_fd >= 0)
        close(engine->listen_fd);
}

int engine_init(struct engine *engine, unsigned loop_count)
{
    engine->generation->engine = engine;
    engine->loops = calloc(loop_count, sizeof *engine->loops);
    engine->pools = engine->loops ? work_pools_new(engine->generation) : NULL;
    if (!engine->pools)
        return -1;
    for (; engine->loop_count < loop_count; engine->loop_count++) {
        if (loop_init(&engine->loops[engine->loop_count], engine, engine->loop_count))
            return -1;
    }
    for (unsigned i = 0; i < loop_count; i++) {
        if (loop_fill(engine, &engine->loops[i]))
            return -1;
    }
    return 0;
}

/* Not for a command: it is over before a notice could matter. 0, or -1 (logged). */
static int grow_ear(struct engine *engine)
{
    struct pg_settings pg = pg_settings_of(engine);

    if (!*pg.url)
        return 0;
    engine->ear = ear_new(&engine->loops[0], &pg);
    return engine->ear ? 0 : -1;
}

static void *loop_main(void *arg)
{
    loop_run(arg);
    return NULL;
}

static unsigned loops_wanted(const struct engine *engine)
{
    int64_t wanted = number(engine, "http", "loops");
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (wanted > 0)
        return (unsigned)wanted;
    return cores > 3 ? (unsigned)cores / 2 : 1;
}

static int run_loops(struct engine *engine)
{
    unsigned started = 1;

    for (; started < engine->loop_count; started++) {
        struct loop *loop = &engine->loops[started];

        if (pthread_create(&loop->thread, NULL, loop_main, loop)) {
            log_line(BB_ERROR, "the thread of a loop cannot be started", NULL);
            kill(getpid(), SIGTERM);
            break;
        }
    }
    loop_run(&engine->loops[0]);
    for (unsigned i = 1; i < started; i++)
        pthread_join(engine->loops[i].thread, NULL);
    return started == engine->loop_count ? 0 : 1;
}

static int serve(struct engine *engine, const sigset_t *set)
{
    struct migrator *migrator = NULL;

    if (engine_init(engine, loops_wanted(engine)) || grow_ear(engine))
        return 1;
    struct signals *signals = signals_new(engine, set);
    engine->jobs = jobs_new(&engine->loops[0], engine->generation);
    if (!signals || !engine->jobs)
        return 1;
    generation_start(engine->generation);
    engine->workers = workers_new(engine->generation);
    if (!engine->workers)
        return 1;
    if (engine->ear && number(engine, "database", "migrate"))
        migrator = migrator_start(engine->generation);
    listener_tell(engine->listen_fd);
    int status = run_loops(engine);
    workers_free(engine->workers);
    engine->workers = NULL;
    migrator_stop(migrator);
    signals_free(signals);
    return status;
}

int engine_serve(struct generation *generation)
{
    struct engine engine = {.generation = generation, .listen_fd = -1};
    sigset_t set;
    int status = 1;

    signals_block(&set);
    pthread_mutex_init(&engine.lock, NULL);
    engine.listen_fd =
        listener_open(settings_text(generation->settings, "http", "listen"),
                      (unsigned)settings_int(generation->settings, "http", "max_connections"));
    if (engine.listen_fd >= 0)
        status = serve(&engine, &set);
    engine_free(&engine);
    log_line(BB_INFO, "stopped", NULL);
    return status;
}
