#include "core/main/readiness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/store/migrate.h"
#include "core/store/pg_listener.h"
#include "core/store/redis.h"

/* `problem` is one line for the operator, NULL: none. */
static void readiness_set_schema(struct engine *engine, enum schema_state state,
                                 const char *problem)
{
    pthread_mutex_lock(&engine->lock);
    snprintf(engine->schema_problem, sizeof engine->schema_problem, "%s", problem ? problem : "");
    pthread_mutex_unlock(&engine->lock);
    atomic_store(&engine->schema, state);
}

int readiness_of(const struct loop *loop, enum bb_dependency dependency, int64_t *ms)
{
    struct engine *engine = loop->engine;
    enum schema_state schema = (enum schema_state)atomic_load(&engine->schema);

    *ms = 0;
    switch (dependency) {
    case BB_DATABASE:
        if (!*engine->database_url)
            return 1;
        *ms = pg_listener_fresh_ms() > 0 ? pg_listener_latency_ms() : -1;
        return *ms < 0 || pg_listener_no_writes() ? -1 : 0;
    case BB_SCHEMA:
        return schema == SCHEMA_NONE ? 1 : schema == SCHEMA_READY ? 0 : -1;
    case BB_HOST:
        return engine_stopping(engine) || engine_stands(engine) ? -1 : 0;
    case BB_CLOCK:
        if (!*engine->database_url || !shared_clock_known())
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

/* ---- the migrator ---- */

enum { AGAIN_TICKS = 10, LOOK_TICKS = 40, TICK_US = 50000 }; /* pauses between attempts */

struct migrator {
    pthread_t thread;
    struct generation *generation;
    bool apply; /* false after a step has failed: the thread then only checks the database */
    char logged[sizeof((struct migrate_report){0}.problem)]; /* last problem in the log */
    atomic_bool stop;
    bool done; /* the database was up to date */
};

void migrator_say(void *arg, const char *line)
{
    (void)arg;
    log_line(BB_INFO, "migration applied", "step", line, NULL);
}

/* Repeats the migration until the database is up to date. */
static void *readiness_migrator_main(void *arg)
{
    struct migrator *migrator = arg;
    bool failed = false;

    thread_name("migrator", NULL);
    while (!atomic_load(&migrator->stop)) {
        struct migrate_report report = {0};
        enum migrate_outcome outcome =
            migrate_run(migrator->generation, migrator->apply, migrator_say, NULL, &report);
        int ticks = outcome == MIGRATE_FAILED ? LOOK_TICKS : AGAIN_TICKS;

        /* after a failed attempt to apply steps the number is unknown */
        if (outcome == MIGRATE_DONE || (outcome == MIGRATE_FAILED && !migrator->apply))
            atomic_store(&migrator->generation->engine->migrations_pending, report.pending);
        /* Readiness reports a failed step until the migration is done. */
        struct engine *engine = migrator->generation->engine;
        const char *problem = report.problem;

        if (outcome == MIGRATE_DONE) {
            if (*migrator->logged)
                log_line(BB_INFO, "the database matches the modules", NULL);
            pause_note(engine, report.paused ? report.pause_reason : NULL);
            readiness_set_schema(engine, SCHEMA_READY, NULL);
        } else if (!failed) {
            bool unfit = outcome == MIGRATE_FAILED;

            if (strcmp(migrator->logged, problem) != 0)
                log_line(unfit ? BB_ERROR : BB_WARN,
                         migrator->apply ? "the database cannot be migrated"
                                         : "the database does not fit the modules",
                         "reason", problem, NULL);
            snprintf(migrator->logged, sizeof migrator->logged, "%s", problem);
            readiness_set_schema(engine, unfit ? SCHEMA_UNFIT : SCHEMA_PENDING, problem);
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

struct migrator *migrator_start(struct generation *generation)
{
    struct migrator *migrator = calloc(1, sizeof *migrator);

    if (!migrator)
        return NULL;
    migrator->generation = generation;
    migrator->apply = host_settings(generation->settings)->database.migrate;
    generation_acquire(generation);
    readiness_set_schema(generation->engine, SCHEMA_PENDING, NULL);
    if (!pthread_create(&migrator->thread, NULL, readiness_migrator_main, migrator))
        return migrator;
    log_line(BB_ERROR, "the migration cannot be started", NULL);
    generation_release(generation);
    free(migrator);
    return NULL;
}

bool migrator_stop(struct migrator *migrator)
{
    if (!migrator)
        return false;
    atomic_store(&migrator->stop, true);
    pthread_join(migrator->thread, NULL);
    bool done = migrator->done;

    free(migrator);
    return done;
}
