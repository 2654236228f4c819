/*
 * Clients of the control socket that have not sent their command yet. A silent client delays
 * nobody: all have separate timeouts, and if there is no room for another one, the client closest
 * to its timeout is closed. One thread.
 */
#ifndef CORE_CONTROL_CLIENTS_H
#define CORE_CONTROL_CLIENTS_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

enum { CONTROL_CLIENTS_MAX = 16, CONTROL_LINE_BYTES = 64 };

struct control_client {
    int fd; /* -1: unused */
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

/* Fills `fds` for poll(); returns its timeout, -1: none. */
int control_clients_watch(const struct control_clients *clients,
                          struct pollfd fds[CONTROL_CLIENTS_MAX], int64_t now_ms);

/*
 * Returns the descriptor, which the caller then owns, of a client that has sent its line or timed
 * out, with the text that it sent. -1: there is none.
 */
int control_clients_next(struct control_clients *clients, int64_t now_ms,
                         char line[CONTROL_LINE_BYTES]);

void control_clients_close(struct control_clients *clients);

#endif
