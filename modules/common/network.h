/*
 * Networks of IP addresses, and the special networks that are not public: private, loopback,
 * link-local, multicast, reserved, documentation, translation. An IPv4 address mapped into IPv6
 * counts as the IPv4 address; other embeddings (NAT64, 6to4, Teredo) are special as a whole.
 *
 * No side effects; any thread.
 */
#ifndef COMMON_NETWORK_H
#define COMMON_NETWORK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* IPv4 networks are stored mapped into IPv6, with 96 added to the prefix. */
struct network {
    struct in6_addr base;
    int prefix;
};

/*
 * Parses "10.0.0.0/8", "fd00::/8", "::1". Returns 0, or -1 if the text is invalid or has bits set
 * after the prefix.
 */
int network_read(struct network *network, const char *text);

/* Maps an IPv4 address into IPv6. */
void network_map(struct in6_addr *out, const struct in_addr *v4);

/* Gets the address of a socket address, IPv4 mapped. Returns 0, or -1 if it is not IP. */
int network_address(struct in6_addr *out, const struct sockaddr *from);

bool network_has(const struct network *list, size_t count, const struct in6_addr *address);

/* Returns whether the address is in a special range (IANA's registries; see network.c). */
bool network_special(const struct in6_addr *address);

#endif
