/* The listening sockets: opened once, shared by the loops, kept across reloads. */
#ifndef CORE_LISTENER_H
#define CORE_LISTENER_H

#include <stddef.h>

#include "core/lib/supervised.h"

enum { LISTENER_BACKLOG = 4096 }; /* maximum number of connections that the kernel queues */

/* A host name can have several addresses; each has a socket. */
enum { LISTENERS_MAX = SUPERVISED_SOCKETS };

struct listeners {
    int fds[LISTENERS_MAX];
    size_t count;
};

/*
 * Takes over the sockets of the previous server process if it listened at the same address;
 * otherwise binds "host:port" ("[::1]:8080" for IPv6; port 0: any free port, the same for all
 * addresses). Skips addresses that this machine does not have, unless it has none of them. Raises
 * the limit for open files as needed for `connections`. Returns 0, or -1 (logged).
 */
int listeners_open(struct listeners *listeners, const char *address, unsigned connections);
void listeners_close(struct listeners *listeners);

/* Logs each bound address: address=127.0.0.1:8080. */
void listeners_tell(const struct listeners *listeners);

#endif
