/*
 * Networks of IP addresses, and which of them are nobody's business: private, loopback, link-local,
 * multicast, reserved, documentation, translation. An IPv4 address counts as itself however IPv6
 * wraps it (mapped); other wrappings (NAT64, 6to4, Teredo) are special as a whole.
 *
 * Pure; any thread.
 */
#ifndef COMMON_NETWORK_H
#define COMMON_NETWORK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* IPv4 networks are held mapped into IPv6, with 96 added to the prefix. */
struct network {
    struct in6_addr base;
    int prefix;
};

/* Reads "10.0.0.0/8", "fd00::/8", "::1". 0, or -1: it is none, or bits are set behind the prefix.
 */
int network_read(struct network *network, const char *text);

/* An IPv4 address as one of IPv6. */
void network_map(struct in6_addr *out, const struct in_addr *v4);

/* The address of a socket address, IPv4 mapped. 0, or -1: not IP. */
int network_address(struct in6_addr *out, const struct sockaddr *from);

bool network_has(const struct network *list, size_t count, const struct in6_addr *address);

/* Whether the address lies in a special range (IANA's registries; see network.c). */
bool network_special(const struct in6_addr *address);

#endif
