#include "core/lib/listener.h"

#include <busbar/network.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/lib/log.h"

enum {
    SPARE_FILES = 256,   /* file descriptors that the host needs in addition to connections */
    MODULE_FILES = 4096, /* file descriptors for modules, if the hard limit allows */
};

/* Splits "host:port" or "[host]:port". Returns -1 if there is no port or `host` is too small. */
static int listener_split(const char *address, char *host, size_t size, const char **port)
{
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;

    if (!colon || length >= size)
        return -1;
    if (length >= 2 && address[0] == '[' && address[length - 1] == ']') {
        address++;
        length -= 2;
    }
    memcpy(host, address, length);
    host[length] = '\0';
    *port = colon + 1;
    return 0;
}

/* Accepted sockets inherit this: a client that disappears in the middle of a body is noticed after
 * two and a half minutes. */
static int listener_keep_alive(int fd)
{
    int one = 1, idle_s = 60, interval_s = 10; /* 9 probes */

    return setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) ||
           setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s) ||
           setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
}

/* Returns a listening socket; -1 with errno. `only`: IPv6 only, because other sockets bind IPv4. */
static int listener_bind_one(const struct addrinfo *to, bool only)
{
    int one = 1;
    int fd = supervised_socket(to->ai_family);

    if (fd < 0)
        return -1;
    if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) && !listener_keep_alive(fd) &&
        (!only || to->ai_family != AF_INET6 ||
         !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one)) &&
        !bind(fd, to->ai_addr, to->ai_addrlen) && !listen(fd, LISTENER_BACKLOG))
        return fd;
    int why = errno;

    close(fd);
    errno = why;
    return -1;
}

/* Returns the port of the first socket. In sockaddr_in, the port is at the same offset. */
static in_port_t listener_port_got(const struct listeners *listeners)
{
    struct sockaddr_in6 address = {0};
    socklen_t length = sizeof address;

    return getsockname(listeners->fds[0], (struct sockaddr *)&address, &length) ? 0
                                                                                : address.sin6_port;
}

static int listener_bind_all(struct listeners *listeners, const struct addrinfo *found)
{
    int why = 0;

    for (const struct addrinfo *at = found; at && listeners->count < LISTENERS_MAX;
         at = at->ai_next) {
        if (listeners->count)
            ((struct sockaddr_in *)(void *)at->ai_addr)->sin_port = listener_port_got(listeners);
        int fd = listener_bind_one(at, found->ai_next != NULL);

        if (fd >= 0)
            listeners->fds[listeners->count++] = fd;
        else if ((why = errno) != EADDRNOTAVAIL && why != EAFNOSUPPORT)
            return -1; /* only addresses that this machine does not have are skipped */
    }
    errno = why;
    return listeners->count ? 0 : -1;
}

void listeners_close(struct listeners *listeners)
{
    while (listeners->count)
        close(listeners->fds[--listeners->count]);
}

int listeners_open(struct listeners *listeners, const char *address, unsigned connections)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    struct rlimit limit;
    rlim_t needed = connections + SPARE_FILES, wanted = needed + MODULE_FILES;
    char host[256];
    const char *port;

    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < needed)
            log_line(BB_WARN, "the limit of open files is below http.max_connections", NULL);
    }
    listeners->count = supervised_listening(address, listeners->fds);
    if (listeners->count)
        return 0;
    if (listener_split(address, host, sizeof host, &port)) {
        log_line(BB_ERROR, "http.listen must be host:port", NULL);
        return -1;
    }
    int unknown = getaddrinfo(*host ? host : NULL, port, &hints, &found);
    int failed = unknown ? -1 : listener_bind_all(listeners, found);

    if (failed) {
        log_line(BB_ERROR, "cannot listen", "address", address, "reason",
                 unknown ? gai_strerror(unknown) : strerror(errno), NULL);
        listeners_close(listeners);
    } else {
        supervised_listens(address);
    }
    if (found)
        freeaddrinfo(found);
    return failed;
}

void listeners_tell(const struct listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++) {
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        char host[64], port[8], text[80];

        if (getsockname(listeners->fds[i], (struct sockaddr *)&address, &length) ||
            getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                        NI_NUMERICHOST | NI_NUMERICSERV))
            continue;
        snprintf(text, sizeof text, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
        log_line(BB_INFO, "listening", "address", text, NULL);
    }
}

struct cidr_list {
    size_t count;
    struct bb_network list[];
};

struct cidr_list *cidr_list_new(struct arena *arena, const json_t *texts, char *why,
                                size_t why_size)
{
    size_t count = json_array_size(texts);
    struct cidr_list *list =
        arena_alloc(arena, sizeof(struct cidr_list) + count * sizeof(struct bb_network));

    if (!list) {
        snprintf(why, why_size, "out of memory");
        return NULL;
    }
    for (; list->count < count; list->count++) {
        const char *text = json_string_value(json_array_get(texts, list->count));
        const char *reason =
            text ? bb_network_read(&list->list[list->count], text) : "must be a string";

        if (reason) {
            snprintf(why, why_size, "entry %zu %s", list->count + 1, reason);
            return NULL;
        }
    }
    return list;
}

bool address_in(const struct cidr_list *list, const char *text)
{
    struct in6_addr ip;
    bool v4;

    return list && bb_address_read(&ip, text, &v4) && bb_network_has(list->list, list->count, &ip);
}

struct in6_addr address_network(const char *text)
{
    struct in6_addr address;
    bool v4;

    if (!bb_address_read(&address, text, &v4))
        return (struct in6_addr){0};
    if (!IN6_IS_ADDR_V4MAPPED(&address))
        memset(address.s6_addr + 8, 0, 8);
    return address;
}

static const char *address_as_text(const struct in6_addr *address, char out[INET6_ADDRSTRLEN])
{
    if (IN6_IS_ADDR_V4MAPPED(address))
        return inet_ntop(AF_INET, address->s6_addr + 12, out, INET6_ADDRSTRLEN);
    return inet_ntop(AF_INET6, address, out, INET6_ADDRSTRLEN);
}

void address_text(const struct sockaddr *peer, char out[INET6_ADDRSTRLEN])
{
    if (peer->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)peer)->sin_addr, out,
                  INET6_ADDRSTRLEN);
    else if (peer->sa_family == AF_INET6)
        address_as_text(&((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr, out);
    else
        memcpy(out, "unknown", sizeof("unknown"));
}

/* Parses 1.2.3.4, 1.2.3.4:80, 2001:db8::1, [2001:db8::1] or [2001:db8::1]:80; false: no address. */
static bool address_read_hop(const char *text, size_t length, struct in6_addr *out)
{
    char copy[INET6_ADDRSTRLEN + 8];
    bool v4, bracket = length && *text == '[';

    if (length >= sizeof(copy))
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    char *end = bracket ? strchr(copy, ']') : strchrnul(copy, ':');

    if (!bracket && *end && strchr(end + 1, ':'))
        end = copy + length; /* an IPv6 address without a port */
    if (!end)
        return false;
    const char *port = end + bracket;

    if (*port && (*port != ':' || !port[1] || port[1 + strspn(port + 1, "0123456789")]))
        return false;
    *end = '\0';
    return bb_address_read(out, copy + bracket, &v4) && !(bracket && v4);
}

const char *address_client(const struct cidr_list *trusted, const char *peer,
                           const char *x_forwarded_for, char out[INET6_ADDRSTRLEN])
{
    const char *list = x_forwarded_for ? x_forwarded_for : "";
    size_t left = strlen(list);
    struct in6_addr found;

    strcpy(out, peer);
    while (left && address_in(trusted, out)) {
        size_t end = left, start; /* range of the last hop */

        while (end && strchr(" \t", list[end - 1]))
            end--;
        for (start = end; start && list[start - 1] != ',';)
            start--;
        left = start ? start - 1 : 0;
        start += strspn(list + start, " \t");
        if (!address_read_hop(list + start, end > start ? end - start : 0, &found))
            return strcpy(out, peer);
        address_as_text(&found, out);
    }
    return out;
}

bool origin_allowed(const json_t *origins, const char *origin)
{
    if (!origin || !strcmp(origin, "null") || !strcmp(origin, "*"))
        return false;
    for (size_t i = 0; i < json_array_size(origins); i++) {
        const char *allowed = json_string_value(json_array_get(origins, i));

        if (allowed && !strcmp(allowed, origin))
            return true;
    }
    return false;
}
