/* The listening socket: opened once, shared by the loops, kept over reloads. */
#ifndef CORE_LISTENER_H
#define CORE_LISTENER_H

enum { LISTENER_BACKLOG = 4096 }; /* connections that the kernel takes before the host does */

/*
 * Binds "host:port" ("[::1]:8080" for IPv6; port 0: any free one) and raises the limit of open
 * files to what `connections` need. -1: failed, and logged.
 */
int listener_open(const char *address, unsigned connections);

/* Logs the bound address: address=127.0.0.1:8080. */
void listener_tell(int fd);

#endif
