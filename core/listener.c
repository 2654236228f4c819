#include "core/listener.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/log.h"

enum {
    SPARE_FILES = 256,   /* of the host itself */
    MODULE_FILES = 4096, /* of modules, as far as the hard limit goes */
};

static void raise_limit(unsigned connections)
{
    struct rlimit limit;
    rlim_t needed = connections + SPARE_FILES, wanted = needed + MODULE_FILES;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < needed)
        log_line(BB_WARN, "the limit of open files is below http.max_connections", NULL);
}

/* "host:port" or "[host]:port" */
static int split(const char *address, char *host, size_t size, const char **port)
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

static int bind_one(const struct addrinfo *to)
{
    int one = 1;
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) &&
        !bind(fd, to->ai_addr, to->ai_addrlen) && !listen(fd, LISTENER_BACKLOG))
        return fd;
    close(fd);
    return -1;
}

int listener_open(const char *address, unsigned connections)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[256];
    const char *port;
    int fd = -1;

    raise_limit(connections);
    if (split(address, host, sizeof host, &port)) {
        log_line(BB_ERROR, "http.listen must be host:port", NULL);
        return -1;
    }
    int failed = getaddrinfo(*host ? host : NULL, port, &hints, &found);
    if (!failed)
        fd = bind_one(found);
    if (fd < 0)
        log_line(BB_ERROR, "cannot listen", "address", address, "reason",
                 failed ? gai_strerror(failed) : strerror(errno), NULL);
    if (found)
        freeaddrinfo(found);
    return fd;
}

void listener_tell(int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[64], port[8], text[80];

    if (getsockname(fd, (struct sockaddr *)&address, &length) ||
        getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        return;
    snprintf(text, sizeof text, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    log_line(BB_INFO, "listening", "address", text, NULL);
}
