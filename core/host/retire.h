/*
 * Retiring: what becomes of a superseded generation. A thread of its own waits until the last
 * holder has gone, and then closes the modules, so that nothing of a module is closed below the
 * module's own code, and no loop waits for it. `reload.drain` seconds after the turnover what still
 * holds it is cut: fibers find their deadline over, clients' connections are ended. A worker that
 * does not return, and a call that never ends in a pool, cannot be cut; the generation stays then,
 * which is logged once and seen in `busbar status`.
 */
#ifndef CORE_RETIRE_H
#define CORE_RETIRE_H

#include "core/engine/engine.h"

struct retirer;

/* NULL (logged): the thread cannot be made. */
struct retirer *retirer_new(struct engine *engine);

/* Once the loops have ended: closes what is left and ends the thread. NULL is fine. */
void retirer_free(struct retirer *retirer);

/* What retiring the generation will need, in its arena: 0, or -1. */
int retire_prepare(struct generation *generation);

/*
 * Quiesces a superseded generation, tells its workers to return, and takes the engine's hold of it.
 * Any thread but a loop's.
 */
void retire(struct retirer *retirer, struct generation *generation);

#endif
