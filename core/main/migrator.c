#include "core/main/migrator.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/lib/log.h"
#include "core/lib/thread.h"
#include "core/main/readiness.h"
#include "core/store/migrate.h"

enum { AGAIN_TICKS = 10, LOOK_TICKS = 40, TICK_US = 50000 }; /* pauses between attempts */

struct migrator {
    pthread_t thread;
    struct generation *generation;
    bool apply; /* false after a step has failed: the thread then only checks the database */
    char logged[sizeof((struct migrate_report){0}.problem)]; /* last problem in the log */
    atomic_bool stop, done;
};

void migrator_say(void *arg, const char *line)
{
    (void)arg;
    log_line(BB_INFO, "migration applied", "step", line, NULL);
}

/*
 * Records the outcome of an attempt. Readiness reports a failed step until the migration is done.
 */
static void migrator_note_outcome(struct migrator *migrator, enum migrate_outcome outcome,
                                  bool failed, const struct migrate_report *report)
{
    struct engine *engine = migrator->generation->engine;
    const char *problem = report->problem;

    if (outcome == MIGRATE_DONE) {
        if (*migrator->logged)
            log_line(BB_INFO, "the database matches the modules", NULL);
        pause_note(engine, report->paused ? report->pause_reason : NULL);
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
}

/* Repeats the migration until the database is up to date. */
static void *migrate_main(void *arg)
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
        migrator_note_outcome(migrator, outcome, failed, &report);
        if (outcome == MIGRATE_DONE) {
            atomic_store(&migrator->done, true);
            break;
        }
        failed = failed || (migrator->apply && outcome == MIGRATE_FAILED);
        migrator->apply = migrator->apply && !failed;
        for (int i = 0; i < ticks && !atomic_load(&migrator->stop); i++)
            usleep(TICK_US);
    }
    generation_release(migrator->generation);
    return NULL;
}

bool migrator_done(struct migrator *migrator)
{
    return atomic_load(&migrator->done);
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
    if (!pthread_create(&migrator->thread, NULL, migrate_main, migrator))
        return migrator;
    log_line(BB_ERROR, "the migration cannot be started", NULL);
    generation_release(generation);
    free(migrator);
    return NULL;
}

void migrator_stop(struct migrator *migrator)
{
    if (!migrator)
        return;
    atomic_store(&migrator->stop, true);
    pthread_join(migrator->thread, NULL);
    free(migrator);
}
