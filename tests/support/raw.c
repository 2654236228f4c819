/* Raw bytes on a socket, for requests that no client library would send. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

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

int raw_statuses(const char *reply, int *statuses, int max)
{
    int count = 0;

    for (const char *at = reply; (at = strstr(at, "HTTP/1.1 ")) && count < max; at++)
        statuses[count++] = (int)strtol(at + 9, NULL, 10);
    return count;
}
