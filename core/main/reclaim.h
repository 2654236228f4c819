/*
 * Releases superseded generations. A separate thread waits until the last reference is gone, and
 * then closes the modules, so that no module is closed while its own code is on the stack, and no
 * loop has to wait. `reload.drain` seconds after the swap, the remaining users are cut: fibers
 * reach their deadline, and connections of clients are closed. A worker that does not return, and a
 * pool call that never ends, cannot be cut; the generation remains then, which is logged once and
 * shown by `busbar status`.
 */
#ifndef CORE_RECLAIM_H
#define CORE_RECLAIM_H

#include "core/module/engine.h"

struct reclaimer;

/* NULL (logged): the thread cannot be created. */
struct reclaimer *reclaimer_new(struct engine *engine);

/*
 * Call after the loops have ended: closes the remaining generations and ends the thread. NULL is
 * allowed.
 */
void reclaimer_free(struct reclaimer *reclaimer);

/*
 * Quiesces a superseded generation, asks its workers to return, and takes over the engine's
 * reference. Any thread except a loop's.
 */
void reclaim(struct reclaimer *reclaimer, struct generation *generation);

#endif
