/* The socket to Redis. hiredis would make it, too, and ends the process when it gets no memory. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/redis.h"

/* Begins to connect. The descriptor, -1 with errno. */
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

static int begin_tcp(const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int one = 1, fd = -1;

    if (getaddrinfo(host, port, &hints, &found)) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next)
        fd = begin(at->ai_family, at->ai_addr, at->ai_addrlen);
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int error = errno;
    freeaddrinfo(found);
    errno = error;
    return fd;
}

int redis_socket(const char *url)
{
    const char *colon = strrchr(url, ':');
    char host[128];

    if (!strncmp(url, "unix:", 5))
        return begin_unix(url + 5);
    if (!colon || (size_t)(colon - url) >= sizeof host) {
        errno = EINVAL;
        return -1;
    }
    snprintf(host, sizeof host, "%.*s", (int)(colon - url), url);
    return begin_tcp(host, colon + 1);
}
