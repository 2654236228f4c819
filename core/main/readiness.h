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

#endif
