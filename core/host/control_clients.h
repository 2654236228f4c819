/*
 * Who has connected to the control socket and has not yet said what it wants. One that says nothing
 * holds nobody up: all are waited for at once, each for its own time, and where there is no room
 * for another, the one that has had most of its time goes. One thread.
 */
#ifndef CORE_CONTROL_CLIENTS_H
#define CORE_CONTROL_CLIENTS_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

enum { CONTROL_CLIENTS_MAX = 16, CONTROL_LINE_BYTES = 64 };

struct control_client {
    int fd; /* -1: a free place */
    int64_t until_ms;
    size_t length;
    char line[CONTROL_LINE_BYTES];
};

struct control_clients {
    struct control_client list[CONTROL_CLIENTS_MAX];
};

void control_clients_init(struct control_clients *clients);

/* Takes the descriptor. */
void control_clients_add(struct control_clients *clients, int fd, int64_t until_ms);

/* What to poll for; for how long at most, -1: until something comes. */
int control_clients_watch(const struct control_clients *clients,
                          struct pollfd fds[CONTROL_CLIENTS_MAX], int64_t now_ms);

/*
 * One that has said its line, or whose time is over, with what it has said; the descriptor is the
 * caller's then. -1: there is none.
 */
int control_clients_next(struct control_clients *clients, int64_t now_ms,
                         char line[CONTROL_LINE_BYTES]);

void control_clients_close(struct control_clients *clients);

#endif
