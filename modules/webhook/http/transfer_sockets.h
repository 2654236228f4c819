/*
 * Internals of transfer.h: the transfers, and the sockets and timer of libcurl's multi interface
 * (transfer_sockets.c). One thread.
 */
#ifndef WEBHOOK_TRANSFER_SOCKETS_H
#define WEBHOOK_TRANSFER_SOCKETS_H

#include "modules/webhook/http/receivers.h"
#include "modules/webhook/http/transfer.h"

#define TRANSFER_HEADERS 9
#define TRANSFER_HEADER_ROOM 192

struct transfer {
    struct transfer *next; /* in the list of free ones */
    struct transfers *all;
    CURL *easy;
    void *arg;                 /* NULL: not in flight */
    struct receiver *receiver; /* set while in flight */
    struct receiver_sessions *sessions;
    int64_t started_at;
    int64_t late_at; /* when libcurl should have ended it long before */
    struct target_socket socket;
    struct curl_slist headers[TRANSFER_HEADERS];
    char lines[TRANSFER_HEADERS][TRANSFER_HEADER_ROOM];
    char error[CURL_ERROR_SIZE];
    char answer[TRANSFER_KEPT];
    size_t body_bytes;
    size_t header_bytes;
    int64_t retry_after_s;
    int sendings;       /* times that libcurl began to send the request */
    bool unsent;        /* may_send() forbade it */
    bool failed;        /* the previous request, or setting its options: the handle needs a reset */
    bool informational; /* the current headers are of a 1xx response */
    bool headed;        /* the final response's headers are complete; trailers may follow */
    bool cut;           /* the body is longer than the limit */
};

struct socket_state {
    unsigned char mask; /* 0, or EPOLLIN and EPOLLOUT as registered */
    int64_t heard_at;   /* time of the last received data */
    struct receiver *receiver;
};

struct transfers {
    CURLM *multi;     /* NULL: out of memory */
    bool broken;      /* it ran out of memory internally and must not be used any more */
    bool authorities; /* the system's authorities are in one file, which libcurl caches */
    struct transfers_settings settings;
    struct receivers receivers;
    CURL *look; /* the dummy request that cleans up */
    bool looking;
    int64_t look_at;
    size_t open_count; /* connections, in use or idle */
    int epoll;
    int wake_fd; /* in the epoll, or -1 */
    struct target_guard guard;
    void (*finished)(void *, struct transfer_result *);
    bool (*may_send)(const void *);
    void *finished_arg;
    int64_t timer_at;             /* -1: none */
    int64_t check_at;             /* next check for late transfers */
    struct socket_state *sockets; /* indexed by descriptor */
    size_t socket_room;
    struct transfer *free_ones;
    struct transfer **list; /* all allocated transfers */
    size_t count, room;
};

/* Sets the multi handle's callbacks. Returns 0, or -1. */
int sockets_set_up(struct transfers *all);

/*
 * Shuts down the connection of a transfer that timed out, if nothing was received on it since the
 * transfer began: otherwise other transfers on the connection would have to time out too.
 */
void sockets_give_up(struct transfer *transfer);

/* Forgets the state of all sockets, which must be closed. */
void sockets_forget(struct transfers *all);

/* CURLOPT_OPENSOCKETFUNCTION of a transfer, and CURLOPT_CLOSESOCKETFUNCTION of all transfers. */
curl_socket_t sockets_open(void *transfer, curlsocktype purpose, struct curl_sockaddr *address);
int sockets_close(void *transfers, curl_socket_t fd);

/* Adds the descriptor that wakes the thread, once. */
void sockets_watch_wake(struct transfers *all, int wake_fd);

/* Returns milliseconds of the monotonic clock. */
int64_t sockets_clock_ms(void);

/* Runs libcurl's timer if it is due. */
void sockets_run_timer(struct transfers *all);

/* Waits for sockets, the timer or the wake descriptor, and notifies libcurl. */
void sockets_wait(struct transfers *all, int64_t wait_ms);

/* Makes libcurl close idle connections that are too old or dead, if it is time for that. */
void idle_look(struct transfers *all);
bool idle_looked(struct transfers *all, CURL *easy); /* true: it was such a check */
void idle_stop(struct transfers *all);

#endif
