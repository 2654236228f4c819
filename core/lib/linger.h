/*
 * Closes a connection without losing the response. If a connection is closed while the client still
 * sends, the kernel resets it, and the client may lose the response. So linger() keeps a copy of
 * the socket open and discards incoming data until the client has closed the connection, or for a
 * short time. Loop's thread only.
 */
#ifndef CORE_LINGER_H
#define CORE_LINGER_H

#include "core/lib/loop.h"

enum { LINGER_MOST = 64 }; /* maximum number of such sockets per loop; more are closed at once */

struct lingering;

struct lingers {
    struct lingering *first;
    unsigned count;
};

/* Keeps a copy of `fd` open. Call after the last bytes were sent, before closing `fd`. */
void linger(struct lingers *lingers, struct loop *loop, int fd);

void lingers_free(struct lingers *lingers);

#endif
