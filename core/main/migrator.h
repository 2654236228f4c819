/*
 * Migrates the database on a separate thread, and retries while the database is unavailable. Until
 * it is done, the host answers 503 to requests that need the schema. If `database.migrate` is off,
 * or after a step has failed, the thread only checks whether another host or an operator has
 * migrated the database. readiness.h has the result.
 */
#ifndef CORE_MIGRATOR_H
#define CORE_MIGRATOR_H

#include "core/module/generation.h"

struct migrator;

/*
 * Starts the thread, which keeps a reference to the generation. NULL: cannot be started (logged).
 */
struct migrator *migrator_start(struct generation *generation);

/* Returns whether the database has been up to date at least once. Any thread. */
bool migrator_done(struct migrator *migrator);

/* Logs a step; a callback for migrate_run(). */
void migrator_say(void *arg, const char *line);

/* Ends and joins the thread; NULL is allowed. */
void migrator_stop(struct migrator *migrator);

#endif
