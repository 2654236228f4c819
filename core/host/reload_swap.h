/*
 * The swap: a generation becomes the live one, and the one before it is superseded. What can fail
 * is made before (swap_start_threads(): threads of pools and workers, jobs); the swap itself cannot
 * be refused any more.
 *
 * In this order: the listener subscribes to the channels of the new modules; their `start`; one
 * pointer under the engine's lock, and every request that begins from here on holds the new
 * generation; the loops take over settings and jobs, and tell what lasts; workers of the new one
 * run, those of the old one are told to return; the old one's `quiesce`; then it is left to the
 * reclaimer.
 */
#ifndef CORE_RELOAD_SWAP_H
#define CORE_RELOAD_SWAP_H

#include "core/engine/engine.h"

/* Makes what runs for a generation. 0, or -1 (logged); swap_discard() follows then. */
int swap_start_threads(struct engine *engine, struct generation *generation);

/* Pools alone, for a command. 0, or -1 (logged). */
int swap_pools(struct generation *generation);

/* Ends and frees what swap_start_threads() made, then the generation, of which the caller is
 * the one holder beside the workers. */
void swap_discard(struct generation *generation);

/* The generation of the start goes live; before the loops run. */
void swap_first(struct engine *engine);

/* Exchanges the live generation, which the caller gives, while it holds the engine. */
void swap_generation(struct engine *engine, struct generation *generation);

#endif
