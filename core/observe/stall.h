/*
 * A thread that looks whether the loops turn. One that stands for a second is named in the log,
 * with what runs on it and its backtrace. After `host.stall_timeout` the process is ended, with a
 * crash report about that thread; the supervisor starts the next worker. While one stands
 * `engine_standstill()` has the reason, by which the other loops answer; while all do, this thread
 * takes connections itself, and answers 503 with the reason. It also looks whether verbs of modules
 * return (lifecycle_call.h).
 */
#ifndef CORE_STALL_H
#define CORE_STALL_H

#include "core/engine/engine.h"

struct stall;

/* NULL: there is no thread or no memory for it (logged). The loops must end after it. */
struct stall *stall_new(struct engine *engine);

/* NULL is fine. */
void stall_free(struct stall *stall);

#endif
