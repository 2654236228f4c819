/* Putting an engine together, and what it runs: the service, or one command of a module. */
#ifndef CORE_SERVE_H
#define CORE_SERVE_H

#include "core/engine/engine.h"
#include "core/postgres/pg.h"

/*
 * Serves HTTP until SIGTERM or SIGINT, with the calling thread as the first loop. Takes the
 * generation. Returns the exit status; what went wrong has been logged.
 */
int engine_serve(struct generation *generation);

/*
 * Runs a module's command on a loop without listener. Takes the generation and `options` (checked).
 * Returns the exit status; an error answer of the command has been printed to standard error.
 */
int engine_command(struct generation *generation, struct core_module *module,
                   const struct bb_command *command, json_t *options);

/* Pools, and loops with what is in them. 0, or -1 (logged); then engine_free() follows. */
int engine_init(struct engine *engine, unsigned loop_count);

/* Frees what there is, and lets go of the generation. No request may be alive any more. */
void engine_free(struct engine *engine);

/* How the pools of a loop are to be set by a generation; see host_settings.c for what a reload can
 * change. */
struct pg_settings engine_pg_settings(const struct engine *engine,
                                      const struct generation *generation);

#endif
