/* The listening sockets: opened once, shared by the loops, kept over reloads. */
#ifndef CORE_LISTENER_H
#define CORE_LISTENER_H

#include <stddef.h>

enum { LISTENER_BACKLOG = 4096 }; /* connections that the kernel takes before the host does */

/* One for each address of the host's name. */
enum { LISTENERS_MAX = 8 };

struct listeners {
    int fds[LISTENERS_MAX];
    size_t count;
};

/*
 * Takes over what the supervisor has kept from a worker before this one, or binds "host:port"
 * ("[::1]:8080" for IPv6; port 0: any free one, the same for all addresses) and raises the limit of
 * open files to what `connections` need. Addresses that this machine does not have are passed over
 * while there is another one. -1: failed, and logged.
 */
int listeners_open(struct listeners *listeners, const char *address, unsigned connections);
void listeners_close(struct listeners *listeners);

/* Logs each bound address: address=127.0.0.1:8080. */
void listeners_tell(const struct listeners *listeners);

#endif
