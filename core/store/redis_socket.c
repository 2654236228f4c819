/* The socket to Redis. It is not created by hiredis, which ends the process if memory runs out. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/store/redis.h"
#include "core/store/resolver.h"

/* Starts to connect. Returns the descriptor, or -1 with errno. */
static int begin(int family, const struct sockaddr *address, socklen_t length)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || !connect(fd, address, length) || errno == EINPROGRESS)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int begin_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    return begin(AF_UNIX, (const struct sockaddr *)&address, sizeof address);
}

/* For an address, not a name: nothing is looked up. */
static int begin_tcp(const char *address, const char *port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int one = 1;

    if (getaddrinfo(address, port, &hints, &found)) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    int fd = begin(found->ai_family, found->ai_addr, found->ai_addrlen);
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int error = errno;
    freeaddrinfo(found);
    errno = error;
    return fd;
}

/* Tries the selected address, and then the following ones until connecting can start. */
static int begin_found(char *addresses, const char *ports, unsigned turn)
{
    char *list[RESOLVER_ADDRESSES_MAX], *rest = NULL, port[8];
    unsigned count = 0;
    int fd = -1;

    snprintf(port, sizeof port, "%.*s", (int)strcspn(ports, ","), ports);
    for (char *at = strtok_r(addresses, ",", &rest); at && count < RESOLVER_ADDRESSES_MAX;
         at = strtok_r(NULL, ",", &rest))
        list[count++] = at;
    for (unsigned i = 0; i < count && fd < 0; i++)
        fd = begin_tcp(list[(turn + i) % count], port);
    return fd;
}

static int begin_plain(const char *url)
{
    const char *colon = strrchr(url, ':');
    char host[128];

    if (!colon || (size_t)(colon - url) >= sizeof host) {
        errno = EINVAL;
        return -1;
    }
    bool bracketed = *url == '[' && colon[-1] == ']'; /* an IPv6 address before a port */

    snprintf(host, sizeof host, "%.*s", (int)(colon - url) - 2 * bracketed, url + bracketed);
    return begin_tcp(host, colon + 1);
}

int redis_socket(const struct redis_settings *settings, unsigned turn)
{
    struct resolver_found found;

    if (!strncmp(settings->url, "unix:", 5))
        return begin_unix(settings->url + 5);
    switch (resolver_look_up(settings->resolver, &found)) {
    case RESOLVER_PLAIN:
        return begin_plain(settings->url);
    case RESOLVER_FOUND:
        return begin_found(found.hostaddr, found.port, turn);
    case RESOLVER_LATER:
        errno = EALREADY;
        return -1;
    default:
        errno = EADDRNOTAVAIL;
        return -1;
    }
}
