/*
 * IP addresses, and networks such as 10.0.0.0/8. An IPv4 address is stored as mapped into IPv6
 * (::ffff:10.0.0.1), so that both forms of it are the same address.
 */
#ifndef BUSBAR_NETWORK_H
#define BUSBAR_NETWORK_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct bb_network {
    struct in6_addr base;
    int prefix; /* length in bits; 96 more for an IPv4 network, which is mapped into IPv6 */
};

/* Sets *address to the IPv4-mapped IPv6 address ::ffff:a.b.c.d. */
static inline void bb_address_map(struct in6_addr *address, const struct in_addr *v4)
{
    memset(address->s6_addr, 0, 10);
    memset(address->s6_addr + 10, 0xFF, 2);
    memcpy(address->s6_addr + 12, v4, sizeof(*v4));
}

/* Parses an IP address. Returns whether the text is one. Sets *v4 to whether it is IPv4. */
static inline bool bb_address_read(struct in6_addr *address, const char *text, bool *v4)
{
    struct in_addr four;

    *v4 = inet_pton(AF_INET, text, &four) == 1;
    if (*v4)
        bb_address_map(address, &four);
    return *v4 || inet_pton(AF_INET6, text, address) == 1;
}

/* Parses "10.0.0.0/8", "fd00::/8" or "::1". Returns why the text is not a network, or NULL. */
static inline const char *bb_network_read(struct bb_network *network, const char *text)
{
    char address[INET6_ADDRSTRLEN];
    size_t length = strcspn(text, "/");
    bool v4;

    if (length >= sizeof(address))
        return "is not an IP network";
    memcpy(address, text, length);
    address[length] = '\0';
    if (!bb_address_read(&network->base, address, &v4))
        return "is not an IP network";
    int most = v4 ? 32 : 128, prefix = most;

    if (text[length]) {
        const char *digits = text + length + 1;
        size_t count = strspn(digits, "0123456789");

        if (!count || count > 3 || digits[count] || atoi(digits) > most)
            return "has a bad prefix length";
        prefix = atoi(digits);
    }
    network->prefix = prefix + (v4 ? 96 : 0);
    for (int bit = network->prefix; bit < 128; bit++)
        if (network->base.s6_addr[bit / 8] & 0x80 >> bit % 8)
            return "has bits set beyond its prefix length";
    return NULL;
}

/* Returns whether the address is in one of the networks. */
static inline bool bb_network_has(const struct bb_network *networks, size_t count,
                                  const struct in6_addr *address)
{
    for (size_t i = 0; i < count; i++) {
        const unsigned char *base = networks[i].base.s6_addr;
        int bytes = networks[i].prefix / 8, bits = networks[i].prefix % 8;
        int mask = 0xFF << (8 - bits) & 0xFF;

        if (!memcmp(base, address->s6_addr, (size_t)bytes) &&
            (!bits || (address->s6_addr[bytes] & mask) == base[bytes]))
            return true;
    }
    return false;
}

#endif
