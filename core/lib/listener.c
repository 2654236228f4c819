#include "core/lib/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/lib/log.h"

enum {
    SPARE_FILES = 256,   /* for the host */
    MODULE_FILES = 4096, /* for modules, if the hard limit allows */
};

static void listener_raise_limit(unsigned connections)
{
    struct rlimit limit;
    rlim_t needed = connections + SPARE_FILES, wanted = needed + MODULE_FILES;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < needed)
        log_line(BB_WARN, "the limit of open files is below http.max_connections", NULL);
}

/* Splits "host:port" or "[host]:port". */
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

/* `only` restricts an IPv6 socket to IPv6, because another socket has the port for IPv4. */
static int listener_bind_one(const struct addrinfo *to, bool only)
{
    int one = 1;
    int fd = supervised_socket(to->ai_family);

    if (fd < 0)
        return -1;
    if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) &&
        (!only || to->ai_family != AF_INET6 ||
         !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one)) &&
        !bind(fd, to->ai_addr, to->ai_addrlen) && !listen(fd, LISTENER_BACKLOG))
        return fd;
    int why = errno;

    close(fd);
    errno = why;
    return -1;
}

/* Returns the port of an address; both families have it at the same offset. */
static in_port_t *listener_port_of(void *address)
{
    return &((struct sockaddr_in *)address)->sin_port;
}

/* Returns the port of the first socket. */
static in_port_t listener_port_got(const struct listeners *listeners)
{
    struct sockaddr_in6 address = {0};
    socklen_t length = sizeof address;

    return getsockname(listeners->fds[0], (struct sockaddr *)&address, &length)
               ? 0
               : *listener_port_of(&address);
}

static int listener_bind_all(struct listeners *listeners, const struct addrinfo *found)
{
    int why = 0;

    for (const struct addrinfo *at = found; at && listeners->count < LISTENERS_MAX;
         at = at->ai_next) {
        if (listeners->count)
            *listener_port_of(at->ai_addr) = listener_port_got(listeners);
        int fd = listener_bind_one(at, found->ai_next != NULL);

        if (fd >= 0)
            listeners->fds[listeners->count++] = fd;
        else if ((why = errno) != EADDRNOTAVAIL && why != EAFNOSUPPORT)
            return -1; /* a name can have addresses of families that the machine does not support */
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
    char host[256];
    const char *port;

    listener_raise_limit(connections);
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
