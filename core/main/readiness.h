/*
 * Determines whether the host can serve: it is not stopping, no loop is blocked, PostgreSQL
 * responds, its clock agrees with this host's, and its tables match the modules. The liveness check
 * does not depend on this.
 *
 * Any thread.
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

#endif
