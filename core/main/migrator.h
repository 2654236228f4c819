/*
 * Migrates the database while the host serves: on a separate thread, with retries while the
 * database is unavailable. Meanwhile the host serves requests that need no schema, and answers 503
 * to others. If `database.migrate` is off, or after a step has failed, it only checks whether
 * someone else has migrated. readiness.h has the result.
 */
#ifndef CORE_MIGRATOR_H
#define CORE_MIGRATOR_H

#include "core/module/generation.h"

struct migrator;

/* NULL: not started (logged). Keeps a reference to the generation until it is done. */
struct migrator *migrator_start(struct generation *generation);

/* Whether the database has been up to date at least once. Any thread. */
bool migrator_done(struct migrator *migrator);

/* Logs a step; a callback for migrate_run(). */
void migrator_say(void *arg, const char *line);

/* Ends and joins it; NULL is allowed. */
void migrator_stop(struct migrator *migrator);

#endif
