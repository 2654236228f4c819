/*
 * Records what a thread is running, so that reports can name a module. A request on a fiber needs
 * no record, because the request itself has the information; other threads and calls (open, start,
 * a worker, a pool, a channel) record it here.
 */
#ifndef CORE_ACTIVITY_H
#define CORE_ACTIVITY_H

#include <stdbool.h>

/* The caller owns the texts; signal handlers read them during the call. */
struct activity {
    const char *module;        /* NULL: the host */
    const char *kind;          /* "handler", "open", "pool" …; NULL: nothing recorded */
    const char *name;          /* name of the job, event, channel or pool; or NULL */
    const char *method, *path; /* the route's; or NULL */
    const char *request;       /* its id, or NULL */
};

/* Records the activity of this thread from now on. Returns the previous record, to be restored. */
struct activity activity_enter(struct activity now);
void activity_leave(struct activity before);

/*
 * Sets the function that fills a record with the request that runs on the calling thread, or
 * returns false if none runs. Signal handlers call the function. Call once, before threads are
 * created.
 */
void activity_source(bool (*request)(struct activity *running));

/* Returns the record of the calling thread. Async-signal-safe. */
struct activity activity_now(void);

#endif
