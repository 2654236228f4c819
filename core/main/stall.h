/*
 * The stall watchdog: a thread that checks whether loops are blocked. A loop that is blocked for a
 * second is logged, with the running code and its backtrace. After `host.stall_timeout` the process
 * ends with a crash report about the loop's thread, and the supervisor starts the next worker.
 * While a loop is blocked, `engine_standstill()` returns the reason, which the other loops use in
 * answers; if all are blocked, this thread accepts connections itself, and answers 503 with the
 * reason. It also checks whether lifecycle functions of modules return (lifecycle_call.h).
 */
#ifndef CORE_STALL_H
#define CORE_STALL_H

#include "core/module/engine.h"

struct stall;

/* NULL: the thread cannot be created, or out of memory (logged). The loops must end after it. */
struct stall *stall_new(struct engine *engine);

/* NULL is allowed. */
void stall_free(struct stall *stall);

#endif
