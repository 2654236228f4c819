/*
 * Addresses: lists of networks, the client's address behind trusted proxies, origins of CORS.
 * An IPv4 address mapped into IPv6 counts as the IPv4 address. Lists are only read once built.
 */
#ifndef CORE_ADDRESS_H
#define CORE_ADDRESS_H

#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "core/base/arena.h"

struct cidr_list;

/*
 * The list of a JSON array (NULL: empty) of "10.0.0.0/8", "::1" and the like, in the arena. NULL
 * with the reason in `why`: an entry is none, or has bits set behind its prefix.
 */
struct cidr_list *cidr_list_new(struct arena *arena, const json_t *texts, char *why,
                                size_t why_size);

/* Whether the address is in one of the networks; other families than IP never are. */
bool cidr_list_has(const struct cidr_list *list, const struct sockaddr *address);

/* The same for an address as address_client() writes it. */
bool address_in(const struct cidr_list *list, const char *text);

/*
 * What a client has for itself, by its address as address_client() writes it: of IPv4 the address,
 * of IPv6 the network of 64 bits, for who has one address there has them all. What is no address is
 * as one.
 */
struct in6_addr address_network(const char *text);
struct in6_addr address_peer_network(const struct sockaddr *peer);

/*
 * The client's address as text in `out`, which is returned: the peer's; or, where the peer is
 * trusted, the rightmost of X-Forwarded-For (NULL: none) that is not. Where an entry is no address,
 * the peer's. A peer that is not IP is "unknown".
 */
const char *address_client(const struct cidr_list *trusted, const struct sockaddr *peer,
                           const char *x_forwarded_for, char out[INET6_ADDRSTRLEN]);

/* Whether `origin` (NULL: none) is, byte for byte, in the JSON array of strings (NULL: empty).
 * "null" and "*" never match. */
bool origin_allowed(const json_t *origins, const char *origin);

#endif
