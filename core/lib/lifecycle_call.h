/*
 * Records and checks calls of a module's lifecycle functions (`open`, `start`, `quiesce`, `close`)
 * and of the constructors of its file. The records are for reports (thread.h). The checks find
 * calls that hang, which the checks of the loops do not, because these calls do not run on a loop.
 */
#ifndef CORE_LIFECYCLE_CALL_H
#define CORE_LIFECYCLE_CALL_H

#include "core/lib/thread.h"

/* A call, on the stack of the caller. Private to lifecycle_call.c. */
struct lifecycle_call {
    struct lifecycle_call *next;
    pthread_t thread;
    struct activity now, before;
    int64_t taken_ms; /* time for which checks have seen it run; -1: not seen yet */
    bool logged;
};

/* Records that the calling thread is about to call this function. The caller owns the texts. */
void lifecycle_call_begin(struct lifecycle_call *call, const char *module, const char *kind);
void lifecycle_call_end(struct lifecycle_call *call);

/* Set and return the maximum duration of a call in milliseconds; 0: no limit. Any thread. */
void lifecycle_calls_set_limit(int64_t ms);
int64_t lifecycle_calls_limit(void);

/*
 * Checks all running calls; `passed_ms` is the time since the last check. Logs a call that takes
 * five seconds with its backtrace; if a call exceeds the limit, ends the process with a crash
 * report about the call's thread. One caller at a time; no other thread may use crash_snapshot()
 * during the check.
 */
void lifecycle_calls_check(int64_t passed_ms);

#endif
