/*
 * What runs on a thread: the record from which a report names a module. A request on a fiber has
 * all of it already, and asking costs its way nothing; threads and calls beside requests (open,
 * start, a worker, a pool, a channel) note it here.
 */
#ifndef CORE_ACTIVITY_H
#define CORE_ACTIVITY_H

#include <stdbool.h>

/* Texts are the caller's, and are read by signal handlers while the call lasts. */
struct activity {
    const char *module;        /* NULL: the host itself */
    const char *kind;          /* "handler", "open", "pool" …; NULL: nothing is noted */
    const char *name;          /* of job, event, channel, pool; or NULL */
    const char *method, *path; /* of the route; or NULL */
    const char *request;       /* its id, or NULL */
};

/* Notes what runs on this thread from here on. Returns what was noted before, to be put back. */
struct activity activity_enter(struct activity now);
void activity_leave(struct activity before);

/*
 * What fills a record with the request that has the calling thread, and says whether there is one;
 * what says whether an address is a guard page below the fiber that has it. Both are called in
 * signal handlers. Once, before threads.
 */
void activity_sources(bool (*request)(struct activity *running),
                      bool (*guards)(const void *address));

/* The calling thread makes a generation for a reload from here on, or is through with it. */
void activity_reload(bool begun);

/* Whether it does. Async-signal-safe. */
bool activity_reloads(void);

/* The record of the calling thread. Async-signal-safe. */
struct activity activity_now(void);

/* Whether the address is in the guard of the running fiber. Async-signal-safe. */
bool activity_guards(const void *address);

#endif
