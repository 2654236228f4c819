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

/* Sets the state of the schema; `problem` is one line for the operator, NULL: none. */
void readiness_set_schema(struct engine *engine, enum schema_state state, const char *problem);

enum schema_state readiness_schema(const struct engine *engine);

/* Gets the problem, or "" if there is none. */
void readiness_problem(struct engine *engine, char *out, size_t size);

/* Return the state of a dependency as bb_probe() does: 0, -1: down, 1: not configured. */
int readiness_of_schema(const struct engine *engine);
int readiness_of_host(struct engine *engine);
int readiness_of_database(const struct engine *engine, int64_t *latency_ms);

/*
 * Returns -1 while this host's clock differs too much; *offset_ms is PostgreSQL's clock minus it.
 */
int readiness_of_clock(const struct engine *engine, int64_t *offset_ms);

/* Returns whether no dependency is down. */
bool readiness(struct engine *engine);

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

/* Returns whether the database has been up to date at least once. Any thread. */
bool migrator_done(struct migrator *migrator);

/* Logs a step; a callback for migrate_run(). */
void migrator_say(void *arg, const char *line);

/* Ends and joins the thread; NULL is allowed. */
void migrator_stop(struct migrator *migrator);

#endif
