/* The listening sockets: opened once, shared by the loops, kept across reloads. */
#ifndef CORE_LISTENER_H
#define CORE_LISTENER_H

#include <stddef.h>

#include "core/lib/supervised.h"

enum { LISTENER_BACKLOG = 4096 }; /* maximum number of connections that the kernel queues */

/* One for each address of the host name. */
enum { LISTENERS_MAX = SUPERVISED_SOCKETS };

struct listeners {
    int fds[LISTENERS_MAX];
    size_t count;
};

/*
 * Takes over the sockets of a previous worker if it listened at the same address, or binds
 * "host:port"
 * ("[::1]:8080" for IPv6; port 0: any free port, the same one for all addresses), and raises the
 * limit for open files as needed for `connections`. Addresses that this machine does not have are
 * skipped if there is another one. -1: failed, and logged.
 */
int listeners_open(struct listeners *listeners, const char *address, unsigned connections);
void listeners_close(struct listeners *listeners);

/* Logs each bound address: address=127.0.0.1:8080. */
void listeners_tell(const struct listeners *listeners);

#endif
