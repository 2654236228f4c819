/*
 * The swap: a generation becomes the live one, and the previous one is superseded. Everything that
 * can fail is created before (swap_start_threads(): threads of pools and workers, jobs), so the
 * swap itself cannot fail.
 *
 * The order is:
 * - the listener subscribes to the channels of the new modules;
 * - their `start` is called;
 * - a pointer is changed under the engine's lock: requests that begin from now on use the new
 *   generation;
 * - the loops take over settings and jobs, and notify long-lived requests;
 * - the workers of the new generation start, the old ones are asked to return;
 * - `quiesce` of the old generation is called;
 * - the reclaimer gets the old generation.
 */
#ifndef CORE_RELOAD_SWAP_H
#define CORE_RELOAD_SWAP_H

#include "core/module/engine.h"

/* Creates the threads of a generation. Returns 0, or -1 (logged): then call swap_discard(). */
int swap_start_threads(struct engine *engine, struct generation *generation);

/* Creates only the pools, as a command needs them. Returns 0, or -1 (logged). */
int swap_pools(struct generation *generation);

/*
 * Ends and frees the result of swap_start_threads(), then the generation. The caller has the only
 * reference, apart from the workers.
 */
void swap_discard(struct generation *generation);

/* Makes the first generation live, before the loops run. */
void swap_first(struct engine *engine);

/* Replaces the live generation by one that the caller passes, while the caller holds the engine. */
void swap_generation(struct engine *engine, struct generation *generation);

#endif
