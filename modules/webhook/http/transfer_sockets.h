/*
 * Inside of transfer.h: the transfers, and the sockets and the timer of libcurl's multi interface
 * (transfer_sockets.c), which transfer.c need not know. One thread.
 */
#ifndef WEBHOOK_TRANSFER_SOCKETS_H
#define WEBHOOK_TRANSFER_SOCKETS_H

#include "modules/webhook/http/transfer.h"

#define TRANSFER_HEADERS 9
#define TRANSFER_HEADER_ROOM 192

struct transfer {
    struct transfer *next; /* free ones */
    struct transfers *all;
    CURL *easy;
    void *arg;       /* NULL: not in flight */
    int64_t late_at; /* when libcurl should have ended it long ago */
    struct target_socket socket;
    struct curl_slist headers[TRANSFER_HEADERS];
    char lines[TRANSFER_HEADERS][TRANSFER_HEADER_ROOM];
    char error[CURL_ERROR_SIZE];
    char answer[TRANSFER_KEPT];
    size_t body_bytes;
    size_t header_bytes;
    int64_t retry_after_s;
    int sendings;       /* of the request, as libcurl began them */
    bool informational; /* the headers that come now are a 1xx answer's */
    bool headed;        /* the final answer's headers are complete; trailers may follow */
    bool cut;           /* the body is longer than is read */
};

struct transfers {
    CURLM *multi; /* NULL: there was no memory for it */
    bool broken;  /* it had no memory in its middle: it must not be used any more */
    size_t connections;
    int epoll;
    int wake_fd; /* in the epoll, or -1 */
    struct target_guard guard;
    int64_t timeout_ms;
    void (*landed)(void *, struct transfer_result *);
    void *landed_arg;
    int64_t timer_at;     /* -1: none */
    int64_t check_at;     /* when to check next for transfers that are late */
    unsigned char *masks; /* by descriptor: 0, or EPOLLIN and EPOLLOUT as registered */
    size_t mask_room;
    struct transfer *free_ones;
    struct transfer **list; /* all that were made */
    size_t count, room;
};

/* The multi handle's callbacks; 0, or -1. */
int sockets_set_up(struct transfers *all);

/* Forgets what was known of sockets, all of which are closed. */
void sockets_forget(struct transfers *all);

/* CURLOPT_OPENSOCKETFUNCTION of a transfer, CURLOPT_CLOSESOCKETFUNCTION of all of them. */
curl_socket_t sockets_open(void *transfer, curlsocktype purpose, struct curl_sockaddr *address);
int sockets_close(void *transfers, curl_socket_t fd);

/* Adds the descriptor that wakes the thread, once. */
void sockets_watch_wake(struct transfers *all, int wake_fd);

/* Monotonic milliseconds. */
int64_t sockets_clock_ms(void);

/* Lets libcurl do what its timer is due for. */
void sockets_run_timer(struct transfers *all);

/* Waits for sockets, the timer or the waking descriptor, and tells libcurl. */
void sockets_wait(struct transfers *all, int64_t wait_ms);

#endif
