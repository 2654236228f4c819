/*
 * Calls of a module's lifecycle functions (`open`, `start`, `quiesce`, `close`) and of the
 * constructors of its file. Each call is recorded for reports (activity.h), and monitored. While
 * the host serves, these calls run in reloads, on threads that no loop waits for, so nothing else
 * would notice that they hang.
 */
#ifndef CORE_LIFECYCLE_CALL_H
#define CORE_LIFECYCLE_CALL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/lib/activity.h"

/* A call, on the stack of the caller. Private to lifecycle_call.c. */
struct lifecycle_call {
    struct lifecycle_call *next;
    pthread_t thread;
    struct activity now, before;
    int64_t stood_ms; /* how long it has been observed to run; -1: not observed yet */
    bool told;
};

/* The calling thread is about to call this function of this module. The caller owns the texts. */
void lifecycle_call_begin(struct lifecycle_call *call, const char *module, const char *kind);
void lifecycle_call_end(struct lifecycle_call *call);

/*
 * Checks all running calls; `passed_ms` is the time since the last check. A call that takes five
 * seconds is logged with its backtrace; after `most_ms` (0: never) the process ends with a crash
 * report about its thread. One caller at a time, and crash_snapshot() must not be used elsewhere
 * meanwhile.
 */
void lifecycle_calls_look(int64_t passed_ms, int64_t most_ms);

#endif
