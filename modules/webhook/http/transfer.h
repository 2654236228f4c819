/*
 * HTTP requests of the sender: libcurl's multi interface on an epoll of our own. Requests are
 * HTTP/1.1, or HTTP/2 where a receiver offers that over TLS, without redirects, proxies, .netrc or
 * cookies; certificates are verified; where a socket may go is the target guard's decision. Of an
 * answer 16 KiB of headers and 64 KiB of body are read, and the first 1 KiB of the body kept. A
 * transfer sends its request once: libcurl would send it again by itself when a kept-alive
 * connection dies unanswered.
 *
 * Connections are kept alive until nobody has used them for a while (transfer_idle.c). How many are
 * kept idle is bounded for each receiver and for all: neither bounds attempts, which would make
 * webhooks wait for each other. Where all connections are too many, libcurl closes the one that was
 * idle the longest.
 *
 * libcurl's own queue is never used: what is started is in flight. A socket's interest mask is
 * remembered, so that a kept-alive connection costs no epoll_ctl() from one request to the next.
 *
 * One thread.
 */
#ifndef WEBHOOK_TRANSFER_H
#define WEBHOOK_TRANSFER_H

#include "modules/common/target.h"
#include "modules/webhook/http/sign.h"

#define TRANSFER_KEPT 1024
#define TRANSFER_BODY_MAX 65536
#define TRANSFER_HEADERS_MAX 16384

struct transfers;
struct transfer;

struct transfer_request {
    const char *url;
    const struct sign_key *const *keys; /* 1 or 2; only read during the call */
    size_t key_count;
    const char *event;
    const char *event_id;
    const char *traceparent; /* "": none */
    int attempt;
    const char *body; /* borrowed until the end of the transfer */
    size_t length;
    int64_t wall_ms;
};

struct transfer_result {
    void *arg;
    int status;        /* 0: no complete answer */
    const char *error; /* NULL: there was an answer */
    const char *kind;  /* the error without what the receiver or the URL says; static, for logs */
    const char *answer;
    size_t answer_length;
    int64_t retry_after_s;
};

struct transfers_settings {
    int64_t timeout_ms;
    int64_t idle_ms;                 /* that a connection is kept without use */
    size_t connections;              /* kept, to all receivers */
    size_t connections_per_receiver; /* kept, to one */
    bool http2;                      /* where a receiver offers it */
};

/* `landed` is called on the same thread, from transfers_turn(); what it is given is borrowed. */
struct transfers *transfers_new(const struct target_rules *rules,
                                const struct transfers_settings *settings,
                                void (*landed)(void *, struct transfer_result *), void *landed_arg);
/* Ends what is in flight without a result. */
void transfers_free(struct transfers *transfers);

/*
 * A request that is ready to go, signed; NULL: no memory. It must be given to transfer_start() or
 * to transfer_drop(). `arg` comes back in the result.
 */
struct transfer *transfer_prepare(struct transfers *transfers,
                                  const struct transfer_request *request, void *arg);
/* Takes microseconds. 0, or -1: it was not started (no memory), and is dropped. */
int transfer_start(struct transfer *transfer);
void transfer_drop(struct transfer *transfer);

/*
 * Waits up to wait_ms (-1: for ever) for sockets, libcurl's timers, or wake_fd, which is read
 * empty; then says what landed. Must follow transfer_start() before requests are really sent.
 */
void transfers_turn(struct transfers *transfers, int wake_fd, int64_t wait_ms);

#endif
