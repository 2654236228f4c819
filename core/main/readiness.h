/*
 * Determines whether the host can serve: it is not stopping, no loop is blocked, PostgreSQL
 * responds, its clock agrees with this host's, and its tables match the modules. The liveness check
 * does not depend on this.
 *
 * Any thread, unless documented otherwise.
 */
#ifndef CORE_READINESS_H
#define CORE_READINESS_H

#include "core/module/engine.h"

/*
 * Returns the state of a dependency as bb_probe() does: 0, -1: down, 1: not configured. It uses the
 * results of the PostgreSQL listener and of the Redis probes, so it never waits and adds no load.
 */
int readiness_of(const struct loop *loop, enum bb_dependency dependency, int64_t *ms);

/* Returns whether no dependency that the host needs is down. */
bool readiness(const struct engine *engine);

/*
 * ---- the migrator ----
 *
 * Migrates the database on a separate thread, and retries while the database is unavailable. Until
 * it is done, the host answers with 503 to requests that need the schema. If `database.migrate` is
 * off, or after a step has failed, the thread only checks whether another host or an operator has
 * migrated the database.
 */

struct migrator;

/*
 * Starts the thread, which keeps a reference to the generation. NULL: cannot be started (logged).
 */
struct migrator *migrator_start(struct generation *generation);

/* Logs a step; a callback for migrate_run(). */
void migrator_say(void *arg, const char *line);

/* Ends and joins the thread; NULL is allowed. Returns whether the database was up to date once. */
bool migrator_stop(struct migrator *migrator);

#endif
