#include "core/main/control_clients.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void control_clients_init(struct control_clients *clients)
{
    for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++)
        clients->list[i].fd = -1;
}

/* Returns an unused entry, or the entry of the client that has been silent for longest. */
static struct control_client *place_in(struct control_clients *clients)
{
    struct control_client *place = &clients->list[0];

    for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        struct control_client *at = &clients->list[i];

        if (at->fd < 0)
            return at;
        if (at->until_ms < place->until_ms)
            place = at;
    }
    close(place->fd);
    return place;
}

void control_clients_add(struct control_clients *clients, int fd, int64_t until_ms)
{
    *place_in(clients) = (struct control_client){.fd = fd, .until_ms = until_ms};
}

int control_clients_watch(const struct control_clients *clients,
                          struct pollfd fds[CONTROL_CLIENTS_MAX], int64_t now_ms)
{
    int64_t wait_ms = -1;

    for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        const struct control_client *at = &clients->list[i];
        int64_t left_ms = at->until_ms > now_ms ? at->until_ms - now_ms : 0;

        fds[i] = (struct pollfd){.fd = at->fd, .events = POLLIN}; /* poll() ignores -1 */
        if (at->fd >= 0 && (wait_ms < 0 || left_ms < wait_ms))
            wait_ms = left_ms;
    }
    return (int)wait_ms;
}

/* Whether nothing more will arrive from the client. */
static bool is_complete(struct control_client *client)
{
    ssize_t got;

    do
        got = recv(client->fd, client->line + client->length,
                   sizeof client->line - 1 - client->length, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno != EAGAIN && errno != EWOULDBLOCK;
    client->length += (size_t)got;
    return !got || client->length + 1 == sizeof client->line ||
           memchr(client->line, '\n', client->length);
}

int control_clients_next(struct control_clients *clients, int64_t now_ms,
                         char line[CONTROL_LINE_BYTES])
{
    for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        struct control_client *at = &clients->list[i];
        int fd = at->fd;

        if (fd < 0 || (!is_complete(at) && now_ms < at->until_ms))
            continue;
        at->fd = -1;
        at->line[at->length] = '\0';
        memcpy(line, at->line, sizeof at->line);
        line[strcspn(line, "\n")] = '\0';
        return fd;
    }
    return -1;
}

void control_clients_close(struct control_clients *clients)
{
    for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++)
        if (clients->list[i].fd >= 0)
            close(clients->list[i].fd);
    control_clients_init(clients);
}
