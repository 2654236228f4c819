/*
 * Fibers: small stacks for sequential handler code. A fiber belongs to the thread that started it.
 * It runs until it parks or returns, and the thread's own stack (the loop's) resumes it. Switching
 * uses Boost.Context's C functions: a few nanoseconds, no system call.
 *
 * Stacks are pooled per thread, each above a guard of a megabyte, so that an overflow causes a
 * fault instead of overwriting memory.
 */
#ifndef CORE_FIBER_H
#define CORE_FIBER_H

#include <stdbool.h>

struct fiber;
struct fiber_pool;

/* One pool per thread; NULL: out of memory. */
struct fiber_pool *fiber_pool_new(void);

/* All fibers of the pool must have ended. */
void fiber_pool_free(struct fiber_pool *pool);

/*
 * Runs entry(arg) on a fiber at once. Returns when it has parked (*parked is the fiber, for
 * fiber_resume()) or ended (*parked is NULL). Returns 0, or -1 if there is no memory for a stack.
 * Loop's stack only.
 */
int fiber_start(struct fiber_pool *pool, void (*entry)(void *), void *arg, struct fiber **parked);

/* Continues a parked fiber; returns true if it has ended and was freed. Loop's stack only. */
bool fiber_resume(struct fiber *fiber);

/* Returns to the loop until the fiber is resumed. Fiber's stack only. */
void fiber_park(void);

/*
 * Ends the running fiber at any depth of calls. Nothing is unwound: cleanup belongs in the arena.
 */
_Noreturn void fiber_exit(void);

/* Whether the address is in the guard below the running fiber's stack. Async-signal-safe. */
bool fiber_guards(const void *address);

#endif
