#include "modules/common/network.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define MAPPED 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF
#define V4(a, b, c, d, prefix)                                                                     \
    {                                                                                              \
        {{{MAPPED, (a), (b), (c), (d)}}}, 96 + (prefix)                                            \
    }

static const unsigned char mapped[12] = {MAPPED};

/* The IPv4 special-purpose registry of IANA, and multicast. */
static const struct network special_v4[] = {
    V4(0, 0, 0, 0, 8),       /* this network */
    V4(10, 0, 0, 0, 8),      /* private */
    V4(100, 64, 0, 0, 10),   /* shared by carriers */
    V4(127, 0, 0, 0, 8),     /* loopback */
    V4(169, 254, 0, 0, 16),  /* link-local */
    V4(172, 16, 0, 0, 12),   /* private */
    V4(192, 0, 0, 0, 24),    /* protocol assignments */
    V4(192, 0, 2, 0, 24),    /* documentation */
    V4(192, 31, 196, 0, 24), /* AS112 */
    V4(192, 52, 193, 0, 24), /* AMT */
    V4(192, 88, 99, 0, 24),  /* 6to4 relays */
    V4(192, 168, 0, 0, 16),  /* private */
    V4(192, 175, 48, 0, 24), /* AS112 */
    V4(198, 18, 0, 0, 15),   /* benchmarks */
    V4(198, 51, 100, 0, 24), /* documentation */
    V4(203, 0, 113, 0, 24),  /* documentation */
    V4(224, 0, 0, 0, 4),     /* multicast */
    V4(240, 0, 0, 0, 4),     /* reserved, broadcast */
};

/* In IPv6 only 2000::/3 is the public Internet, except for these parts. */
static const struct network special_v6[] = {
    {{{{0x20, 0x01}}}, 23},                   /* protocol assignments: Teredo, ORCHID, benchmarks */
    {{{{0x20, 0x01, 0x0D, 0xB8}}}, 32},       /* documentation */
    {{{{0x20, 0x02}}}, 16},                   /* 6to4: an IPv4 address inside */
    {{{{0x26, 0x20, 0x00, 0x4F, 0x80}}}, 48}, /* AS112 */
    {{{{0x3F, 0xFF}}}, 20},                   /* documentation */
};
static const struct network global_v6[] = {{{{{0x20}}}, 3}};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool network_is_inside(const struct network *network, const struct in6_addr *address)
{
    int bytes = network->prefix / 8, bits = network->prefix % 8;
    int mask = 0xFF << (8 - bits) & 0xFF;

    if (memcmp(network->base.s6_addr, address->s6_addr, (size_t)bytes) != 0)
        return false;
    return !bits || (address->s6_addr[bytes] & mask) == network->base.s6_addr[bytes];
}

bool network_has(const struct network *list, size_t count, const struct in6_addr *address)
{
    for (size_t i = 0; i < count; i++)
        if (network_is_inside(&list[i], address))
            return true;
    return false;
}

bool network_special(const struct in6_addr *address)
{
    if (!memcmp(address->s6_addr, mapped, sizeof(mapped)))
        return network_has(special_v4, COUNT(special_v4), address);
    return !network_has(global_v6, COUNT(global_v6), address) ||
           network_has(special_v6, COUNT(special_v6), address);
}

void network_map(struct in6_addr *out, const struct in_addr *v4)
{
    memcpy(out->s6_addr, mapped, sizeof(mapped));
    memcpy(out->s6_addr + sizeof(mapped), v4, sizeof(*v4));
}

int network_address(struct in6_addr *out, const struct sockaddr *from)
{
    if (from->sa_family == AF_INET6) {
        *out = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
        return 0;
    }
    if (from->sa_family != AF_INET)
        return -1;
    network_map(out, &((const struct sockaddr_in *)(const void *)from)->sin_addr);
    return 0;
}

/* Returns whether all bits after the prefix are zero. */
static bool network_is_clear(const struct network *network)
{
    for (int bit = network->prefix; bit < 128; bit++)
        if (network->base.s6_addr[bit / 8] & 0x80 >> bit % 8)
            return false;
    return true;
}

/* Returns the number after the slash, 0 to max; `max` without a slash; -1 if it is not a number. */
static int network_read_prefix(const char *text, int max)
{
    if (!*text)
        return max;
    size_t length = strlen(++text);

    if (!length || length > 3 || strspn(text, "0123456789") != length)
        return -1;
    return atoi(text) <= max ? atoi(text) : -1;
}

int network_read(struct network *network, const char *text)
{
    char address[INET6_ADDRSTRLEN];
    size_t length = strcspn(text, "/");
    struct in_addr v4;

    if (length >= sizeof(address))
        return -1;
    memcpy(address, text, length);
    address[length] = '\0';

    bool four = inet_pton(AF_INET, address, &v4) == 1;
    int prefix = network_read_prefix(text + length, four ? 32 : 128);

    if (four)
        network_map(&network->base, &v4);
    else if (inet_pton(AF_INET6, address, &network->base) != 1)
        return -1;
    network->prefix = prefix + (four ? 96 : 0);
    return prefix >= 0 && network_is_clear(network) ? 0 : -1;
}
