/*
 * Connects to servers on helper threads, because looking up a name, TLS and SCRAM would block a
 * loop. Attempts wait in a queue for up to eight threads, which end when the queue is empty. Second
 * attempts, which need no name lookup, have a separate queue and threads, because a silent name
 * server can block all threads of first attempts for several seconds.
 */
#ifndef CORE_DIAL_H
#define CORE_DIAL_H

#include "core/lib/loop.h"

enum { DIAL_PROBLEM = 512 };

struct dial;

struct dial_kind {
    /*
     * Connects to `to`; blocks. Returns the connection, or NULL with the reason in `problem`.
     * `again` is set for the second attempt, which is made while the first one is still blocked.
     */
    void *(*connect)(const void *to, bool again, char problem[DIAL_PROBLEM]);
    void (*close)(void *connection);
    int64_t again_ms; /* time until the second attempt; 0: there is none */
    bool apart;       /* uses separate threads, so that silent servers delay no other kind */
};

/* Called on the loop's thread with the connection, or NULL and the reason. The dial is freed. */
typedef void dial_done(void *owner, void *connection, const char *problem);

/*
 * Begins to connect, and takes ownership of `to`, which must be from malloc(). `done` gets the
 * first connection that is established, or the reason of the attempt that failed last. Returns NULL
 * if no memory, file descriptor or thread is available.
 */
struct dial *dial_new(struct loop *loop, const struct dial_kind *kind, void *to, dial_done *done,
                      void *owner);

/*
 * Cancels connecting without waiting: a helper thread frees the memory when its blocking call has
 * returned. `dial` may be NULL. Must not be called from a watch's `ready`.
 */
void dial_free(struct dial *dial);

/*
 * Returns whether helper threads exist. The process must then end without exit handlers, because
 * the handlers of libraries, such as libkrb5, would free data that such a thread uses. Any thread.
 */
bool dial_busy(void);

#endif
