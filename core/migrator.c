#include "core/migrator.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/log.h"
#include "core/migrate.h"

enum { AGAIN_TICKS = 10, TICK_US = 50000 }; /* between two attempts: half a second */

struct migrator {
    pthread_t thread;
    struct generation *generation;
    atomic_bool stop, done;
};

void migrator_say(void *arg, const char *line)
{
    (void)arg;
    log_line(BB_INFO, "migration applied", "step", line, NULL);
}

static void wait_a_little(struct migrator *migrator)
{
    for (int i = 0; i < AGAIN_TICKS && !atomic_load(&migrator->stop); i++)
        usleep(TICK_US);
}

/* Again and again while the database is away; the host serves meanwhile what needs no schema. */
static void migrate(struct migrator *migrator)
{
    enum migrate_outcome outcome = MIGRATE_UNREACHABLE;

    for (bool told = false; outcome == MIGRATE_UNREACHABLE && !atomic_load(&migrator->stop);) {
        struct migrate_report report = {0};

        outcome = migrate_run(migrator->generation, true, migrator_say, NULL, &report);
        if (outcome == MIGRATE_FAILED || (outcome == MIGRATE_UNREACHABLE && !told))
            log_line(outcome == MIGRATE_FAILED ? BB_ERROR : BB_WARN,
                     "the database cannot be migrated", "reason", report.problem, NULL);
        told = true;
        if (outcome == MIGRATE_UNREACHABLE)
            wait_a_little(migrator);
    }
    atomic_store(&migrator->done, outcome == MIGRATE_DONE);
}

static void *migrate_main(void *arg)
{
    struct migrator *migrator = arg;

    migrate(migrator);
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
    generation_acquire(generation);
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
