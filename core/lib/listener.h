/* The listening sockets. They are opened once, all loops use them, and reloads keep them open. */
#ifndef CORE_LISTENER_H
#define CORE_LISTENER_H

#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "core/lib/arena.h"
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
 * addresses). Skips addresses that this machine does not have; fails if no address is left. Raises
 * the limit for open files as needed for `connections`. Returns 0, or -1 (logged).
 */
int listeners_open(struct listeners *listeners, const char *address, unsigned connections);
void listeners_close(struct listeners *listeners);

/* Logs each bound address: address=127.0.0.1:8080. */
void listeners_tell(const struct listeners *listeners);

/*
 * Addresses: lists of networks, client addresses reported by trusted proxies, and CORS origins. An
 * IPv4 address mapped into IPv6 counts as the IPv4 address. Lists do not change after creation.
 */

struct cidr_list;

/*
 * Creates a list in the arena from a JSON array (NULL: empty) of networks such as "10.0.0.0/8" or
 * "::1". Returns NULL with the reason in `why`, for instance if bits are set after a prefix.
 */
struct cidr_list *cidr_list_new(struct arena *arena, const json_t *texts, char *why,
                                size_t why_size);

/* Writes the address of a peer as text, or "unknown" if it is not IP. */
void address_text(const struct sockaddr *peer, char out[INET6_ADDRSTRLEN]);

/* Returns whether `text` is an address in one of the networks (NULL: no networks). */
bool address_in(const struct cidr_list *list, const char *text);

/*
 * Returns the network that a client controls: an IPv4 address itself, or the 64-bit network of an
 * IPv6 address, because a client usually can use all addresses of this network. For all texts that
 * are not addresses it returns the same network.
 */
struct in6_addr address_network(const char *text);

/*
 * Writes the client's address to `out` and returns `out`. A peer that is not trusted is the client.
 * Otherwise, reads X-Forwarded-For (NULL: no header) backwards to the first address that is not
 * trusted. The client is the last address read, or `peer` if no entry or an invalid one was read.
 */
const char *address_client(const struct cidr_list *trusted, const char *peer,
                           const char *x_forwarded_for, char out[INET6_ADDRSTRLEN]);

/*
 * Returns whether `origin` (NULL: none) equals a string of the JSON array (NULL: empty) byte for
 * byte. "null" and "*" never match.
 */
bool origin_allowed(const json_t *origins, const char *origin);

#endif
