/*
 * Connects to a server on a helper thread: looking up a name, TLS and SCRAM would block a loop. The
 * loop watches dial_fd(), which becomes readable when there is a result, and takes it with
 * dial_end(). An owner that gives up does not wait: the thread frees the rest when its call
 * returns.
 */
#ifndef CORE_DIAL_H
#define CORE_DIAL_H

#include <stdbool.h>

enum { DIAL_PROBLEM = 512 };

struct dial;

struct dial_kind {
    /*
     * Connects to `to`; blocks. Returns the connection, or NULL with the reason in `problem`.
     * `again`: dial_again() makes the call, while the first one is still blocked.
     */
    void *(*connect)(const void *to, bool again, char problem[DIAL_PROBLEM]);
    void (*close)(void *connection);
};

/* Starts the thread. Takes `to`, which is from malloc(). NULL: no memory, descriptor or thread. */
struct dial *dial_new(const struct dial_kind *kind, void *to);

int dial_fd(const struct dial *dial);

/*
 * Makes a second attempt in parallel, at most once. The first connection counts; if there is none,
 * the reason of the attempt that failed last. No effect if no thread can be created.
 */
void dial_again(struct dial *dial);

/* Returns the connection, or NULL with the reason, and frees the rest. */
void *dial_end(struct dial *dial, char problem[DIAL_PROBLEM]);

/* Gives up. NULL is allowed. */
void dial_free(struct dial *dial);

#endif
