/* Raw bytes on a socket, for requests that no client library would send. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"

int raw_open(const struct host *host)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)host->port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Sends all bytes, unless the host closes its side first. */
static void send_all(int fd, const char *bytes, size_t length)
{
    while (length) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);

        if (sent <= 0)
            return;
        bytes += sent;
        length -= (size_t)sent;
    }
}

char *raw_send(const struct host *host, const void *bytes, size_t length, int quiet_ms,
               bool *closed)
{
    int fd = raw_open(host);
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    size_t size = 65536, used = 0;
    char *reply = kept(calloc(1, size));
    ssize_t got = 1;

    send_all(fd, bytes, length);
    while (used + 1 < size && poll(&readable, 1, quiet_ms) > 0) {
        got = recv(fd, reply + used, size - used - 1, 0);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(fd);
    if (closed)
        *closed = got <= 0;
    return reply;
}

int raw_statuses(const char *reply, int *statuses, int max)
{
    int count = 0;

    for (const char *at = reply; (at = strstr(at, "HTTP/1.1 ")) && count < max; at++)
        statuses[count++] = (int)strtol(at + 9, NULL, 10);
    return count;
}
