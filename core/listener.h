/* The listening socket: opened once, shared by the loops, kept over reloads. */
#ifndef CORE_LISTENER_H
#define CORE_LISTENER_H

/*
 * Binds "host:port" ("[::1]:8080" for IPv6; port 0: any free one) and raises the limit of open
 * files to what `connections` need. -1: failed, and logged.
 */
int listener_open(const char *address, unsigned connections);

/* Logs the bound address: address=127.0.0.1:8080. */
void listener_tell(int fd);

#endif
