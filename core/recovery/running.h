/*
 * What runs on a thread: the record from which a report names a module. A request on a fiber has
 * all of it already, and asking costs its way nothing; threads and calls beside requests (open,
 * start, a worker, a pool, a channel) note it here.
 */
#ifndef CORE_RUNNING_H
#define CORE_RUNNING_H

#include <stdbool.h>

/* Texts are the caller's, and are read by signal handlers while the call lasts. */
struct running {
    const char *module;        /* NULL: the host itself */
    const char *kind;          /* "handler", "open", "pool" …; NULL: nothing is noted */
    const char *name;          /* of job, event, channel, pool; or NULL */
    const char *method, *path; /* of the route; or NULL */
    const char *request;       /* its id, or NULL */
};

/* Notes what runs on this thread from here on. Returns what was noted before, to be put back. */
struct running running_enter(struct running now);
void running_leave(struct running before);

/*
 * What fills a record with the request that has the calling thread, and says whether there is one;
 * what says whether an address is a guard page below the fiber that has it. Both are called in
 * signal handlers. Once, before threads.
 */
void running_sources(bool (*request)(struct running *running), bool (*guards)(const void *address));

/* The calling thread makes a generation for a reload from here on, or is through with it. */
void running_reload(bool begun);

/* Whether it does. Async-signal-safe. */
bool running_reloads(void);

/* The record of the calling thread. Async-signal-safe. */
struct running running_now(void);

/* Whether the address is in the guard of the running fiber. Async-signal-safe. */
bool running_guards(const void *address);

#endif
