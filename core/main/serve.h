/* Sets up an engine, and runs the service or one command of a module. */
#ifndef CORE_SERVE_H
#define CORE_SERVE_H

#include "core/module/engine.h"
#include "core/store/pg.h"

/*
 * Serves HTTP until SIGTERM or SIGINT, with the calling thread as the first loop. Takes the
 * generation. Returns the exit status; errors have been logged.
 */
int engine_serve(struct generation *generation);

/* Creates pools and loops with their parts. Returns 0, or -1 (logged): then call engine_free(). */
int engine_init(struct engine *engine, unsigned loop_count);

/* Frees all parts that exist, and drops the generation. No request may exist any more. */
void engine_free(struct engine *engine);

/*
 * Returns a generation's settings for the connection pools of a loop. A reload can change some of
 * them, see host_settings.c.
 */
struct pg_settings engine_pg_settings(const struct engine *engine,
                                      const struct generation *generation);

#endif
