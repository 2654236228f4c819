/*
 * Calls of a module's verbs (`open`, `start`, `quiesce`, `close`) and of the constructors of its
 * file: each is noted for reports (activity.h), and for who looks whether it returns. While the
 * host serves they run in reloads, on threads that no loop waits for, so that nobody else would
 * miss them.
 */
#ifndef CORE_LIFECYCLE_CALL_H
#define CORE_LIFECYCLE_CALL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/recovery/activity.h"

/* One call, on the stack of who makes it. Private to lifecycle_call.c. */
struct lifecycle_call {
    struct lifecycle_call *next;
    pthread_t thread;
    struct activity now, before;
    int64_t stood_ms; /* how long it was seen to take; -1: nobody has looked yet */
    bool told;
};

/* The calling thread calls this verb of this module from here on. Texts are the caller's. */
void lifecycle_call_begin(struct lifecycle_call *call, const char *module, const char *kind);
void lifecycle_call_end(struct lifecycle_call *call);

/*
 * Looks at all that run, `passed_ms` after the look before. One that takes five seconds gets a line
 * in the log, with its backtrace; after `most_ms` (0: never) the process is ended with a crash
 * report about its thread. One caller at a time, and nobody else may use crash_look() meanwhile.
 */
void lifecycle_calls_look(int64_t passed_ms, int64_t most_ms);

#endif
