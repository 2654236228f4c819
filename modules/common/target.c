#include "modules/common/target.h"

#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/*
 * ---- networks ----
 *
 * Special networks are not part of the public Internet: private, loopback, link-local, multicast,
 * reserved, documentation, translation. An IPv4-mapped IPv6 address counts as the IPv4 address. All
 * NAT64, 6to4 and Teredo addresses are special, because they contain other IPv4 addresses.
 */

#define MAPPED 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF
#define V4(a, b, c, d, prefix)                                                                     \
    {                                                                                              \
        {{{MAPPED, (a), (b), (c), (d)}}}, 96 + (prefix)                                            \
    }

/* The IPv4 special-purpose registry of IANA, and multicast. */
static const struct bb_network special_v4[] = {
    V4(0, 0, 0, 0, 8),       /* this network */
    V4(10, 0, 0, 0, 8),      /* private */
    V4(100, 64, 0, 0, 10),   /* carrier-grade NAT */
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
static const struct bb_network special_v6[] = {
    {{{{0x20, 0x01}}}, 23},                   /* protocol assignments: Teredo, ORCHID, benchmarks */
    {{{{0x20, 0x01, 0x0D, 0xB8}}}, 32},       /* documentation */
    {{{{0x20, 0x02}}}, 16},                   /* 6to4: an IPv4 address inside */
    {{{{0x26, 0x20, 0x00, 0x4F, 0x80}}}, 48}, /* AS112 */
    {{{{0x3F, 0xFF}}}, 20},                   /* documentation */
};
static const struct bb_network global_v6[] = {{{{{0x20}}}, 3}};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Sets *out to the address, IPv4 as mapped IPv6. Returns 0, or -1 if it is not an IP address. */
static int target_address(struct in6_addr *out, const struct sockaddr *from)
{
    if (from->sa_family == AF_INET6) {
        *out = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
        return 0;
    }
    if (from->sa_family != AF_INET)
        return -1;
    bb_address_map(out, &((const struct sockaddr_in *)(const void *)from)->sin_addr);
    return 0;
}

/* ---- rules ---- */

/* Refused ports above 1024, which other services use. Below 1024, only 80 and 443 are allowed. */
static const int closed_ports[] = {
    1080, 1433, 1521, 1719, 1720, 1723,  2049,  2375,  2376,  2379,  2380, 3306,
    3389, 3659, 4045, 4190, 5060, 5061,  5432,  5433,  5672,  5900,  5984, 6000,
    6379, 6380, 6432, 6443, 6566, 6665,  6666,  6667,  6668,  6669,  6679, 6697,
    8086, 9042, 9092, 9200, 9300, 10250, 11211, 27017, 27018, 27019,
};

const struct bb_field target_network_item[1] = {
    {.name = "item", .type = BB_TEXT, .flags = BB_NOT_BLANK, .max = 1024},
};
const struct bb_field target_port_item[1] = {
    {.name = "item", .type = BB_INT, .min = 1, .max = 65535},
};

void target_rules_free(struct target_rules *rules)
{
    free(rules->networks);
    free(rules->open);
    *rules = (struct target_rules){0};
}

/*
 * Appends to *networks. An entry may contain several networks, separated by commas, because an
 * environment variable sets the whole list as one text. Returns NULL, or an error text.
 */
static const char *target_read_networks(const json_t *list, struct bb_network **networks,
                                        size_t *count)
{
    const json_t *entry;
    size_t i;

    json_array_foreach (list, i, entry) {
        const char *at = json_string_value(entry), *end;

        for (; at; at = *end ? end + 1 : NULL) {
            struct bb_network *longer = realloc(*networks, (*count + 1) * sizeof(*longer));
            char text[64];

            if (!longer)
                return "out of memory";
            *networks = longer;
            at += strspn(at, " ");
            end = at + strcspn(at, ",");
            size_t length = (size_t)(end - at);

            while (length && at[length - 1] == ' ')
                length--;
            snprintf(text, sizeof(text), "%.*s", (int)length, at);
            if (length >= sizeof(text) || bb_network_read(&longer[*count], text))
                return "an entry is not an IP network, or has bits set beyond its prefix length";
            ++*count;
        }
    }
    return NULL;
}

int target_rules_read(struct target_rules *rules, const json_t *networks, const json_t *ports,
                      const json_t *open, char *why, size_t why_size)
{
    const char *name = "allow_networks", *reason;

    *rules = (struct target_rules){.ports = ports};
    reason = target_read_networks(networks, &rules->networks, &rules->network_count);
    if (!reason) {
        name = "open_networks";
        reason = target_read_networks(open, &rules->open, &rules->open_count);
    }
    if (!reason)
        return 0;
    snprintf(why, why_size, "%s: %s", name, reason);
    target_rules_free(rules);
    return -1;
}

/* ---- registration -------------------------------------------------------------------------- */

static bool target_is_port_open(const struct target_rules *rules, int port)
{
    for (size_t i = 0; i < json_array_size(rules->ports); i++)
        if (json_integer_value(json_array_get(rules->ports, i)) == port)
            return true;
    if (port < 1024)
        return port == 80 || port == 443;
    for (size_t i = 0; i < sizeof(closed_ports) / sizeof(closed_ports[0]); i++)
        if (closed_ports[i] == port)
            return false;
    return port <= 65535;
}

static bool target_is_allowed(const struct target_rules *rules, const struct in6_addr *address)
{
    return bb_network_has(rules->networks, rules->network_count, address) ||
           bb_network_has(rules->open, rules->open_count, address);
}

static bool target_is_address_open(const struct target_rules *rules, const struct in6_addr *address,
                                   int port)
{
    if (!target_is_port_open(rules, port) &&
        !bb_network_has(rules->open, rules->open_count, address))
        return false;
    if (target_is_allowed(rules, address))
        return true;
    if (IN6_IS_ADDR_V4MAPPED(address))
        return !bb_network_has(special_v4, COUNT(special_v4), address);
    return bb_network_has(global_v6, COUNT(global_v6), address) &&
           !bb_network_has(special_v6, COUNT(special_v6), address);
}

/*
 * Returns whether a host is a literal address, and sets *out to it. Accepts the spellings of
 * inet_aton(), because resolvers do, too: 127.1, 2130706433, 0x7f.1, 0177.0.0.1.
 */
static bool target_is_literal(const char *host, struct in6_addr *out)
{
    struct in_addr v4;
    char bare[INET6_ADDRSTRLEN];
    size_t length = strlen(host);

    if (inet_aton(host, &v4)) {
        bb_address_map(out, &v4);
        return true;
    }
    if (length < 2 || host[0] != '[' || length - 2 >= sizeof(bare))
        return false;
    memcpy(bare, host + 1, length - 2);
    bare[length - 2] = '\0';
    return inet_pton(AF_INET6, bare, out) == 1;
}

/* Returns whether a name is "localhost" or below it, which means the machine itself (RFC 6761). */
static bool target_is_localhost(const char *host)
{
    size_t length = strlen(host), own = strlen("localhost");

    return length >= own && !strcasecmp(host + length - own, "localhost") &&
           (length == own || host[length - own - 1] == '.');
}

#define TARGET_HOST "must have a name in ASCII (xn--…) or an IP address as its host"

static const char *target_host_problem(const struct target_rules *rules, char *host, int port)
{
    struct in6_addr address = in6addr_loopback;
    size_t length = strlen(host), label = 0;

    for (const char *at = host; *at; at++)
        if ((unsigned char)*at <= ' ' || (unsigned char)*at > '~')
            return TARGET_HOST;
    if (length && host[length - 1] == '.') /* the root of DNS */
        host[--length] = '\0';
    bool known = target_is_literal(host, &address);
    const char *dot = strrchr(host, '.');
    /* Whether DNS can resolve the name. If its last label begins with a digit, a resolver may read
     * the name as an address. */
    bool named = length && length <= 253 && host[0] != '[' && !strchr(host, '%') &&
                 !strchr("0123456789", *(dot ? dot + 1 : host));

    for (const char *at = host; *at; at++) {
        label = *at == '.' ? 0 : label + 1;
        named = named && label <= 63 && (*at != '.' || (at > host && at[-1] != '.'));
    }
    if (!known && !named)
        return TARGET_HOST;
    if (!known && target_is_localhost(host))
        known = true; /* localhost is allowed if ::1 or 127.0.0.1 is allowed */
    /* A name's address is checked at connect time. In an open network, it may have any port. */
    if (known ? target_is_address_open(rules, &address, port)
              : target_is_port_open(rules, port) || rules->open_count)
        return NULL;
    if (target_is_localhost(host) && inet_pton(AF_INET6, "::ffff:127.0.0.1", &address) == 1 &&
        target_is_address_open(rules, &address, port))
        return NULL;
    if (!target_is_port_open(rules, port))
        return "must not use this port";
    return "must not point to a private, local or reserved address";
}

static const char *target_parts_problem(const struct target_rules *rules, CURLU *parts)
{
    static const CURLUPart banned[] = {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_ZONEID};
    char *host = NULL, *port = NULL, *part;
    const char *problem = NULL;

    for (size_t i = 0; i < COUNT(banned) && !problem; i++)
        if (curl_url_get(parts, banned[i], &part, 0) == CURLUE_OK) {
            curl_free(part);
            problem =
                banned[i] == CURLUPART_ZONEID ? TARGET_HOST : "must not carry a user or password";
        }
    if (problem)
        return problem;
    if (curl_url_get(parts, CURLUPART_HOST, &host, 0) ||
        curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT))
        problem = TARGET_HOST;
    else if (!atoi(port)) /* no receiver can listen on port 0 */
        problem = "must not use this port";
    else
        problem = target_host_problem(rules, host, atoi(port));
    curl_free(host);
    curl_free(port);
    return problem;
}

char *target_encode(const char *given)
{
    /* of the path, query and fragment: ASCII characters to encode, characters that end the part */
    static const struct {
        const char *encoded, *next;
    } parts[] = {{" \"<>^`{}", "?#"}, {" \"<>'", "#"}, {" \"<>`", ""}};
    size_t part = 0, length;
    bool changed = false;

    given += strspn(given, " ");
    for (length = strlen(given); length && given[length - 1] == ' ';)
        length--;
    char *url = malloc(3 * length + 2);

    if (!url)
        return NULL;
    const char *host = strstr(given, "://");
    const char *at = host ? host + 3 : given, *end = given + length;

    at += strcspn(at, "/?#");
    if (at > end)
        at = end;
    memcpy(url, given, (size_t)(at - given));
    char *to = url + (at - given);

    if (*at != '/')
        *to++ = '/';
    for (; at < end; at++) {
        unsigned char byte = (unsigned char)*at;

        if (strchr(parts[part].next, byte)) {
            part = byte == '?' ? 1 : 2;
            *to++ = *at;
        } else if (byte < 0x80 && !strchr(parts[part].encoded, byte)) {
            *to++ = *at;
        } else {
            to += sprintf(to, "%%%02X", byte);
            changed = true;
        }
    }
    *to = '\0';
    if (changed)
        return url;
    free(url);
    return strndup(given, length);
}

const char *target_problem(const struct target_rules *rules, const char *url)
{
    bool bad = false;
    const char *problem = "must be an http or https URL";
    size_t characters = 0; /* not bytes */

    for (const char *at = url; *at; at++) {
        unsigned char byte = (unsigned char)*at;

        characters += (byte & 0xC0) != 0x80;
        /* U+0080 to U+009F are controls too: C2 80 to C2 9F. */
        if (byte <= ' ' || byte == 0x7F || byte == '\\' ||
            (byte == 0xC2 && (unsigned char)at[1] < 0xA0))
            bad = true;
    }
    if (characters > TARGET_URL_MAX)
        return "must be at most 2048 characters";
    if (bad)
        return "must not contain spaces, control characters or backslashes";
    if (strncasecmp(url, "http://", 7) && strncasecmp(url, "https://", 8))
        return problem;
    if (strchr(url, ':')[3] == '/') /* curl would accept a third slash */
        return problem;

    CURLU *parts = curl_url();

    if (!parts)
        return "cannot be checked now: out of memory";
    CURLUcode parsed = curl_url_set(parts, CURLUPART_URL, url, CURLU_DISALLOW_USER);

    if (parsed == CURLUE_OK)
        problem = target_parts_problem(rules, parts);
    else if (parsed == CURLUE_USER_NOT_ALLOWED)
        problem = "must not carry a user or password";
    curl_url_cleanup(parts);
    return problem;
}

/* ---- connect ------------------------------------------------------------------------------- */

/* Returns whether this machine has the address. Caches the machine's addresses for a second. */
static bool target_is_own(struct target_guard *guard, const struct in6_addr *address)
{
    struct timespec now;
    struct ifaddrs *list = NULL;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec >= guard->own_until_s) {
        guard->own_until_s = now.tv_sec + 1;
        guard->own_count = 0;
        guard->own_known = getifaddrs(&list) == 0;
    }
    for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
        if (!at->ifa_addr || target_address(&guard->own[guard->own_count], at->ifa_addr))
            continue;
        /* To be safe, all addresses count as own if the machine has more of them than fit. */
        if (guard->own_count + 1 == TARGET_OWN_MAX)
            guard->own_known = false;
        else
            guard->own_count++;
    }
    if (list)
        freeifaddrs(list);
    for (size_t i = 0; i < guard->own_count; i++)
        if (!memcmp(&guard->own[i], address, sizeof(*address)))
            return true;
    return !guard->own_known;
}

bool target_allowed(struct target_guard *guard, const struct sockaddr *address)
{
    const struct target_rules *rules = guard->rules;
    struct in6_addr at;

    if (target_address(&at, address))
        return false;
    in_port_t port = address->sa_family == AF_INET6
                         ? ((const struct sockaddr_in6 *)(const void *)address)->sin6_port
                         : ((const struct sockaddr_in *)(const void *)address)->sin_port;

    if (!target_is_address_open(rules, &at, ntohs(port)))
        return false;
    return target_is_allowed(rules, &at) || !target_is_own(guard, &at);
}

curl_socket_t target_open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct target_socket *state = data;

    if (purpose != CURLSOCKTYPE_IPCXN || !target_allowed(state->guard, &address->addr)) {
        state->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                  address->protocol);
}
