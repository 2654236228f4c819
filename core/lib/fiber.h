/*
 * Fibers: small stacks for sequential handler code. A fiber belongs to the thread that started it.
 * It runs until it parks or returns; code on the thread's own stack (the loop's) resumes it.
 * Boost.Context's C functions switch stacks in a few nanoseconds, without a system call.
 *
 * Each thread keeps unused stacks for its next fibers. Below each stack, 1 MiB of addresses is not
 * accessible (the guard), so that an overflow causes a fault instead of overwriting memory.
 */
#ifndef CORE_FIBER_H
#define CORE_FIBER_H

#include <stdbool.h>

struct fiber;

/* Frees the unused stacks of the calling thread. Call before the thread ends. */
void fiber_thread_end(void);

/*
 * Runs entry(arg) on a fiber at once, until the fiber has parked (*parked is the fiber, for
 * fiber_resume()) or ended (*parked is NULL). Returns 0, or -1 if there is no memory for a stack.
 * Must be called on the loop's stack.
 */
int fiber_start(void (*entry)(void *), void *arg, struct fiber **parked);

/*
 * Continues a parked fiber until it parks again (returns false) or has ended and was freed (returns
 * true). Must be called on the loop's stack.
 */
bool fiber_resume(struct fiber *fiber);

/* Parks the running fiber until fiber_resume(), and continues the loop. Call this on a fiber. */
void fiber_park(void);

/* Ends the running fiber at any depth of calls without unwinding: cleanup belongs in the arena. */
_Noreturn void fiber_exit(void);

/* Returns whether the address is in the guard of the running fiber's stack. Async-signal-safe. */
bool fiber_guards(const void *address);

#endif
