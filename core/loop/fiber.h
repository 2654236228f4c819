/*
 * Fibers: small stacks on which straight-line handlers run. A fiber belongs to the thread that
 * started it; it runs until it parks or returns, and the thread's own stack (the loop's) resumes
 * it. The switch is Boost.Context's C entry point: a few nanoseconds, no system call.
 *
 * Stacks are pooled per thread and lie above a guard of a megabyte, so that an overflow is a fault
 * and not a silent overwrite.
 */
#ifndef CORE_FIBER_H
#define CORE_FIBER_H

#include <stdbool.h>

struct fiber;
struct fiber_pool;

/* One pool a thread; NULL: out of memory. */
struct fiber_pool *fiber_pool_new(void);

/* Every fiber of the pool must have ended. */
void fiber_pool_free(struct fiber_pool *pool);

/*
 * Runs entry(arg) on a fiber at once. Returns when it has parked (*parked is the fiber, given to
 * fiber_resume()) or ended (*parked is NULL). 0, or -1 when no stack could be had.
 * Loop's stack only.
 */
int fiber_start(struct fiber_pool *pool, void (*entry)(void *), void *arg, struct fiber **parked);

/* Continues a parked fiber; true when it has ended and is gone. Loop's stack only. */
bool fiber_resume(struct fiber *fiber);

/* Gives the thread back to the loop until the fiber is resumed. Fiber's stack only. */
void fiber_park(void);

/* Ends the running fiber from however deep. Nothing is unwound: undo belongs in the arena. */
_Noreturn void fiber_exit(void);

/* Whether the address lies in the guard below the running fiber's stack. Async-signal-safe. */
bool fiber_guards(const void *address);

#endif
