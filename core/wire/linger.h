/*
 * Closing with care. Where a connection is closed while the client still sends, the kernel resets
 * it, and the client may lose the answer that says why. So a copy of the socket is kept, what still
 * comes is thrown away, and it is closed when the client has closed, or after a moment. Loop's
 * thread only.
 */
#ifndef CORE_LINGER_H
#define CORE_LINGER_H

#include "core/loop/loop.h"

enum { LINGER_MOST = 64 }; /* sockets that a loop keeps so; beyond them it just closes */

struct lingering;

struct lingers {
    struct lingering *first;
    unsigned count;
};

/* The owner of `fd` has sent its last bytes and closes it after this. */
void linger(struct lingers *lingers, struct loop *loop, int fd);

void lingers_free(struct lingers *lingers);

#endif
