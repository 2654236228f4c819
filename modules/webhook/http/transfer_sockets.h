/*
 * Inside of transfer.h: the transfers, and the sockets and the timer of libcurl's multi interface
 * (transfer_sockets.c), which transfer.c need not know. One thread.
 */
#ifndef WEBHOOK_TRANSFER_SOCKETS_H
#define WEBHOOK_TRANSFER_SOCKETS_H

#include "modules/webhook/http/receivers.h"
#include "modules/webhook/http/transfer.h"

#define TRANSFER_HEADERS 9
#define TRANSFER_HEADER_ROOM 192

struct transfer {
    struct transfer *next; /* free ones */
    struct transfers *all;
    CURL *easy;
    void *arg;                 /* NULL: not in flight */
    struct receiver *receiver; /* while in flight */
    struct receiver_sessions *sessions;
    int64_t started_at;
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
    bool failed;        /* the request before, or to set its options again: reset the handle */
    bool informational; /* the headers that come now are a 1xx answer's */
    bool headed;        /* the final answer's headers are complete; trailers may follow */
    bool cut;           /* the body is longer than is read */
};

struct socket_state {
    unsigned char mask; /* 0, or EPOLLIN and EPOLLOUT as registered */
    int64_t heard_at;   /* when something last came */
    struct receiver *receiver;
};

struct transfers {
    CURLM *multi;     /* NULL: there was no memory for it */
    bool broken;      /* it had no memory in its middle: it must not be used any more */
    bool authorities; /* the system has them in one file, which libcurl reads once for many */
    struct transfers_settings settings;
    struct receivers receivers;
    CURL *look; /* see transfer_idle.c */
    bool looking;
    int64_t look_at;
    size_t open_count; /* connections, in use or not */
    int epoll;
    int wake_fd; /* in the epoll, or -1 */
    struct target_guard guard;
    void (*landed)(void *, struct transfer_result *);
    void *landed_arg;
    int64_t timer_at;             /* -1: none */
    int64_t check_at;             /* when to check next for transfers that are late */
    struct socket_state *sockets; /* by descriptor */
    size_t socket_room;
    struct transfer *free_ones;
    struct transfer **list; /* all that were made */
    size_t count, room;
};

/* The multi handle's callbacks; 0, or -1. */
int sockets_set_up(struct transfers *all);

/* Shuts idle connections that are too many for their receivers. */
void sockets_shut_surplus(struct transfers *all);

/* Shuts the connection of a transfer whose time is up, if nothing came on it since it began: else
 * the others of the same connection would wait for theirs to be up. */
void sockets_give_up(struct transfer *transfer);

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

/* ---- transfer_options.c ---- */

/* What is the same in every request; once for each handle. */
bool transfer_options_set(struct transfer *transfer);

/* ---- transfer_idle.c ---- */

/* Has libcurl close idle connections that are old or dead, if it is time. */
void idle_look(struct transfers *all);
void idle_soon(struct transfers *all);               /* one was closed by its receiver */
bool idle_looked(struct transfers *all, CURL *easy); /* true: this was such a look, now over */
void idle_stop(struct transfers *all);
int64_t idle_wait(const struct transfers *all, int64_t wait_ms); /* that, or less */

#endif
