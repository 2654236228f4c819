/*
 * Reclaiming: what becomes of a superseded generation. A thread of its own waits until the last
 * holder has gone, and then closes the modules, so that nothing of a module is closed below the
 * module's own code, and no loop waits for it. `reload.drain` seconds after the swap what
 * still holds it is cut: fibers find their deadline over, clients' connections are ended. A worker
 * that does not return, and a call that never ends in a pool, cannot be cut; the generation stays
 * then, which is logged once and seen in `busbar status`.
 */
#ifndef CORE_RECLAIM_H
#define CORE_RECLAIM_H

#include "core/engine/engine.h"

struct reclaimer;

/* NULL (logged): the thread cannot be made. */
struct reclaimer *reclaimer_new(struct engine *engine);

/* Once the loops have ended: closes what is left and ends the thread. NULL is fine. */
void reclaimer_free(struct reclaimer *reclaimer);

/* What reclaiming the generation will need, in its arena: 0, or -1. */
int reclaim_prepare(struct generation *generation);

/*
 * Quiesces a superseded generation, tells its workers to return, and takes the engine's hold of it.
 * Any thread but a loop's.
 */
void reclaim(struct reclaimer *reclaimer, struct generation *generation);

#endif
