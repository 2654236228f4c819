#include "core/engine.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/ear.h"
#include "core/http.h"
#include "core/job.h"
#include "core/listener.h"
#include "core/log.h"
#include "core/migrate.h"
#include "core/pool.h"
#include "core/redis.h"
#include "core/reply.h"
#include "core/sql.h"
#include "core/text.h"

enum { STOP_MS = 10000, DRAIN_TICK_MS = 20 };

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
    struct redis_settings redis = {
        .url = settings_text(engine->generation->settings, "redis", "url"),
        .timeout_ms = number(engine, "redis", "timeout")};
    struct http_settings http = http_settings_of(engine);

    loop->pg = pg_new(loop, &pg);
    if (!loop->pg)
        return -1;
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

static void engine_free(struct engine *engine)
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

static int engine_init(struct engine *engine, unsigned loop_count)
{
    struct pg_settings pg = pg_settings_of(engine);

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
    engine->ear = ear_new(&engine->loops[0], &pg);
    return engine->ear ? 0 : -1;
}

/* ---- stopping ---- */

struct stop {
    struct message message; /* first */
    struct timer timer;
    struct loop *loop;
    int64_t until_ms;
};

static void stop_tick(struct timer *timer)
{
    struct stop *stop = (struct stop *)(void *)((char *)timer - offsetof(struct stop, timer));
    struct loop *loop = stop->loop;
    bool empty = http_drain(loop->http);

    if (empty && !loop->requests) {
        loop->stop = true;
        return;
    }
    if (loop->now_ms >= stop->until_ms) {
        log_line(BB_WARN, "stopped with requests unfinished", NULL);
        log_close();
        _exit(0);
    }
    timer_set(&loop->timers, timer, loop->now_ms + DRAIN_TICK_MS);
}

static void stop_begin(struct message *message)
{
    struct stop *stop = (struct stop *)(void *)message;

    if (stop->loop->index == 0 && stop->loop->engine->jobs) {
        jobs_free(stop->loop->engine->jobs);
        stop->loop->engine->jobs = NULL;
    }
    stop->until_ms = stop->loop->now_ms + STOP_MS;
    stop_tick(&stop->timer);
}

struct signals {
    struct watch watch; /* first */
    struct engine *engine;
    struct stop *stops; /* one a loop */
    bool stopping;
};

static void signals_ready(struct watch *watch, uint32_t events)
{
    struct signals *signals = (struct signals *)(void *)watch;
    struct signalfd_siginfo info;

    (void)events;
    while (read(watch->fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (signals->stopping)
            continue;
        signals->stopping = true;
        log_line(BB_INFO, "stopping", NULL);
        for (unsigned i = 0; i < signals->engine->loop_count; i++) {
            struct stop *stop = &signals->stops[i];

            *stop = (struct stop){.message.run = stop_begin,
                                  .timer.fire = stop_tick,
                                  .loop = &signals->engine->loops[i]};
            loop_post(stop->loop, &stop->message);
        }
    }
}

static void signals_block(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

static int signals_init(struct signals *signals, struct engine *engine, const sigset_t *set)
{
    int fd = signalfd(-1, set, SFD_NONBLOCK | SFD_CLOEXEC);

    *signals = (struct signals){.watch = {.fd = -1, .ready = signals_ready}, .engine = engine};
    signals->stops = calloc(engine->loop_count, sizeof *signals->stops);
    if (fd < 0 || !signals->stops)
        return -1;
    return loop_watch(&engine->loops[0], &signals->watch, fd, EPOLLIN);
}

/* ---- migrating in the background ---- */

struct migrator {
    pthread_t thread;
    struct generation *generation;
    atomic_bool stop;
    bool started;
};

static void say_step(void *arg, const char *line)
{
    (void)arg;
    log_line(BB_INFO, "migration applied", "step", line, NULL);
}

/* Again and again while the database is away; the host serves meanwhile what needs no schema. */
static void *migrate_main(void *arg)
{
    struct migrator *migrator = arg;
    bool told = false;

    while (!atomic_load(&migrator->stop)) {
        struct migrate_report report = {0};
        enum migrate_outcome outcome = migrate_run(migrator->generation, true, say_step, NULL, &report);

        if (outcome == MIGRATE_DONE)
            return NULL;
        if (!told || outcome == MIGRATE_FAILED)
            log_line(BB_ERROR, "the database cannot be migrated", "reason", report.problem, NULL);
        told = true;
        if (outcome == MIGRATE_FAILED)
            return NULL;
        for (int i = 0; i < 10 && !atomic_load(&migrator->stop); i++)
            usleep(50000);
    }
    return NULL;
}

static void migrator_start(struct migrator *migrator, struct engine *engine)
{
    *migrator = (struct migrator){.generation = engine->generation};
    if (!number(engine, "database", "migrate"))
        return;
    migrator->started = !pthread_create(&migrator->thread, NULL, migrate_main, migrator);
    if (!migrator->started)
        log_line(BB_ERROR, "the migration cannot be started", NULL);
}

static void migrator_stop(struct migrator *migrator)
{
    atomic_store(&migrator->stop, true);
    if (migrator->started)
        pthread_join(migrator->thread, NULL);
}

/* ---- serving ---- */

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
    struct signals signals;
    struct migrator migrator;

    if (engine_init(engine, loops_wanted(engine)) || signals_init(&signals, engine, set))
        return 1;
    engine->jobs = jobs_new(&engine->loops[0], engine->generation);
    if (!engine->jobs)
        return 1;
    generation_start(engine->generation);
    migrator_start(&migrator, engine);
    listener_tell(engine->listen_fd);
    int status = run_loops(engine);
    migrator_stop(&migrator);
    close(signals.watch.fd);
    free(signals.stops);
    return status;
}

int engine_serve(struct generation *generation)
{
    struct engine engine = {.generation = generation, .listen_fd = -1};
    sigset_t set;
    int status = 1;

    signals_block(&set);
    pthread_mutex_init(&engine.lock, NULL);
    engine.listen_fd = listener_open(
        settings_text(generation->settings, "http", "listen"),
        (unsigned)settings_int(generation->settings, "http", "max_connections"));
    if (engine.listen_fd >= 0)
        status = serve(&engine, &set);
    engine_free(&engine);
    log_line(BB_INFO, "stopped", NULL);
    return status;
}

/* ---- commands ---- */

struct command_run {
    struct core_request rq; /* first */
    const struct bb_command *command;
    int status;
};

static void command_entry(struct core_request *rq)
{
    struct command_run *run = (struct command_run *)(void *)rq;

    run->status = run->command->run(&rq->pub);
}

static void print_answer(const struct answer *answer)
{
    json_t *body =
        answer->body ? json_loadb(answer->body, answer->length, JSON_DECODE_ANY, NULL) : NULL;
    const char *message = json_string_value(json_object_get(body, "message"));

    if (answer->status >= 400 && message)
        fprintf(stderr, "busbar: %s\n", message);
    json_decref(body);
}

static void command_ended(struct core_request *rq)
{
    print_answer(&rq->answer);
    rq->loop->stop = true;
}

static int run_command(struct engine *engine, struct core_module *module,
                       const struct bb_command *command, json_t *options)
{
    struct command_run run = {.command = command, .status = 1};

    if (engine_init(engine, 1) ||
        request_init(&run.rq, REQUEST_COMMAND, &engine->loops[0], engine->generation)) {
        json_decref(options);
        return 1;
    }
    run.rq.entry = command_entry;
    run.rq.ended = command_ended;
    run.rq.body = options;
    run.rq.deadline_ms = clock_mono_ms() + 30000;
    request_enter(&run.rq, &module->handle.host);
    request_schedule(&run.rq);
    loop_run(&engine->loops[0]);
    request_clear(&run.rq);
    return run.status;
}

int engine_command(struct generation *generation, struct core_module *module,
                   const struct bb_command *command, json_t *options)
{
    struct engine engine = {.generation = generation, .listen_fd = -1};

    pthread_mutex_init(&engine.lock, NULL);
    int status = run_command(&engine, module, command, options);
    engine_free(&engine);
    return status;
}
