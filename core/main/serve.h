/*
 * Sets up an engine (the loops and their shared state), and runs the service or a module's command.
 *
 * A separate thread, independent of the loops, handles signals. On SIGHUP it reloads (reload.h), on
 * SIGUSR1 it reopens the log file. On SIGTERM and SIGINT each loop stops accepting, closes idle
 * connections, and finishes requests in progress, for at most 10 s.
 */
#ifndef CORE_SERVE_H
#define CORE_SERVE_H

#include <signal.h>

#include "core/module/engine.h"
#include "core/store/pg.h"

/* Blocks the signals that busbar handles, in this thread and those that it creates later. */
void signals_block(sigset_t *set);

/*
 * Serves HTTP until SIGTERM or SIGINT, with the calling thread as the first loop. Then frees the
 * generation. Returns the exit status; errors have been logged.
 */
int engine_serve(struct generation *generation);

/* Creates pools and loops with their parts. Returns 0, or -1 (logged): then call engine_free(). */
int engine_init(struct engine *engine, unsigned loop_count);

/* Frees the generation and all parts that exist. Call when no request exists any more. */
void engine_free(struct engine *engine);

/*
 * Returns the state of a dependency as bb_probe() does (0: up, -1: down, 1: not configured). Uses
 * results of the PostgreSQL listener and Redis probes, so it never waits or adds load. Any thread.
 */
int readiness_of(const struct loop *loop, enum bb_dependency dependency, int64_t *ms);

/*
 * Returns whether the host can serve: it is not stopping, no loop is blocked, PostgreSQL responds
 * and accepts writes, its clock agrees with this host's, and its tables match the modules. The
 * liveness check does not depend on this. Any thread.
 */
bool readiness(const struct engine *engine);

#endif
