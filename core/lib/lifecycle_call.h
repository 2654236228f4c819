/*
 * Calls of a module's lifecycle functions (`open`, `start`, `quiesce`, `close`) and of the
 * constructors of its file. Each call is recorded for reports (activity.h), and checked: no loop
 * waits for these calls, so nothing else would notice that they hang.
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
    int64_t taken_ms; /* how long it has been observed to run; -1: not observed yet */
    bool told;
};

/* The calling thread is about to call this function of this module. The caller owns the texts. */
void lifecycle_call_begin(struct lifecycle_call *call, const char *module, const char *kind);
void lifecycle_call_end(struct lifecycle_call *call);

/* Sets and returns how long a call may take, in milliseconds; 0: no limit. Any thread. */
void lifecycle_calls_set_limit(int64_t ms);
int64_t lifecycle_calls_limit(void);

/*
 * Checks all running calls; `passed_ms` is the time since the last check. A call that takes five
 * seconds is logged with its backtrace; after the limit the process ends with a crash report about
 * its thread. One caller at a time, and crash_snapshot() must not be used elsewhere meanwhile.
 */
void lifecycle_calls_check(int64_t passed_ms);

#endif
