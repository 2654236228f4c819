/*
 * Closing without losing the answer. If a connection is closed while the client still sends, the
 * kernel resets it, and the client may lose the answer that explains why. So a copy of the socket
 * is kept open, incoming data is discarded, and the copy is closed when the client has closed, or
 * after a moment. Loop's thread only.
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

/* Call when the last bytes were sent, before closing `fd`. */
void linger(struct lingers *lingers, struct loop *loop, int fd);

void lingers_free(struct lingers *lingers);

#endif
