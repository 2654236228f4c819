/*
 * Puts the reader between libmicrohttpd and its sockets. libmicrohttpd reads with recv(), which a
 * program may define itself, like malloc(). The function only handles the sockets of the loop that
 * runs libmicrohttpd on this thread; for all other sockets it calls the kernel. http_txn_uri()
 * closes a connection whose head did not pass through the reader, so a libmicrohttpd that reads in
 * another way would serve nothing instead of serving unchecked requests.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "core/server/http.h"

/* A separate name in C, because headers may define recv() inline. */
ssize_t http_recv(int fd, void *into, size_t size, int flags) __asm__("recv");

static _Thread_local struct http *running;

void http_running(struct http *http)
{
    running = http;
}

int http_map_fd(struct http *http, int fd, struct connection *connection)
{
    size_t at = (size_t)fd, room = http->room ? http->room : 256;

    if (fd < 0)
        return -1;
    while (room <= at)
        room *= 2;
    if (room > http->room) {
        struct connection **by_fd = realloc(http->by_fd, room * sizeof(struct connection *));

        if (!by_fd)
            return -1;
        for (size_t i = http->room; i < room; i++)
            by_fd[i] = NULL;
        http->by_fd = by_fd;
        http->room = room;
    }
    http->by_fd[at] = connection;
    return 0;
}

static struct connection *known(int fd)
{
    return running && fd >= 0 && (size_t)fd < running->room ? running->by_fd[fd] : NULL;
}

struct connection *http_connection(int fd)
{
    struct connection *connection = known(fd);

    return connection && connection != &running->nobody ? connection : NULL;
}

struct http *http_of_set(int epoll)
{
    return running && running->daemon_watch.fd == epoll ? running : NULL;
}

ssize_t http_recv(int fd, void *into, size_t size, int flags)
{
    struct connection *connection = flags ? NULL : known(fd);

    if (!connection)
        return recvfrom(fd, into, size, flags, NULL, NULL);
    ssize_t got = reader_recv(&connection->reader, fd, into, size);

    if (got > 0)
        http_epoll_again(connection);
    if (connection->stage == STAGE_IDLE && connection->reader.began)
        connection_stage(connection, STAGE_HEADER, 0);
    return got;
}
