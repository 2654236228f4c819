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
    atomic_bool stop;
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
        enum migrate_outcome outcome =
            migrate_run(migrator->generation, true, say_step, NULL, &report);

        if (outcome == MIGRATE_DONE)
            return NULL;
        if (!told || outcome == MIGRATE_FAILED)
            log_line(outcome == MIGRATE_FAILED ? BB_ERROR : BB_WARN,
                     "the database cannot be migrated", "reason", report.problem, NULL);
        told = true;
        if (outcome == MIGRATE_FAILED)
            return NULL;
        for (int i = 0; i < AGAIN_TICKS && !atomic_load(&migrator->stop); i++)
            usleep(TICK_US);
    }
    return NULL;
}

struct migrator *migrator_start(struct generation *generation)
{
    struct migrator *migrator = calloc(1, sizeof *migrator);

    if (!migrator)
        return NULL;
    migrator->generation = generation;
    if (!pthread_create(&migrator->thread, NULL, migrate_main, migrator))
        return migrator;
    log_line(BB_ERROR, "the migration cannot be started", NULL);
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
