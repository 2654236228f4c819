/*
 * HTTP requests of the sender: libcurl's multi interface on a separate epoll. Requests are
 * HTTP/1.1, or HTTP/2 if a receiver offers it over TLS, without redirects, proxies, .netrc or
 * cookies. Certificates are verified, and the target guard decides where a socket may connect. Up
 * to 16 KiB of a response's headers and 64 KiB of its body are read, and the first 1 KiB of the
 * body is kept. A transfer sends its request once; libcurl by default would send it again if a
 * kept-alive connection dies without a response.
 *
 * Connections are kept alive until they have been idle for a while (transfer_sockets.c). The number
 * of idle connections is limited per receiver and in total. Neither limit applies to attempts,
 * because webhooks would then wait for each other. If there are too many connections in total,
 * libcurl closes the one that has been idle longest.
 *
 * libcurl's own queue is never used: a started transfer is in flight. A socket's interest mask is
 * cached, so that a kept-alive connection needs no epoll_ctl() between requests.
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
    int status;        /* 0: no complete response */
    const char *error; /* NULL: there was a response */
    const char *kind;  /* the error without details of the receiver or URL; static, for logs */
    const char *answer;
    size_t answer_length;
    int64_t retry_after_s;
    bool unsent; /* may_send() forbade it: no request was sent */
};

struct transfers_settings {
    int64_t timeout_ms;
    int64_t idle_ms;                 /* how long an unused connection is kept */
    size_t connections;              /* idle connections kept, in total */
    size_t connections_per_receiver; /* idle connections kept per receiver */
    bool http2;                      /* if a receiver offers it */
};

/*
 * `finished` is called on the same thread, from transfers_turn(). `may_send` is called right before
 * a request is sent. `arg` is passed to both, and borrowed.
 */
struct transfers *transfers_new(const struct target_rules *rules,
                                const struct transfers_settings *settings,
                                void (*finished)(void *, struct transfer_result *),
                                bool (*may_send)(const void *), void *arg);
/* Ends the transfers in flight without a result. */
void transfers_free(struct transfers *transfers);

/*
 * Prepares a signed request; NULL: out of memory. It must be passed to transfer_start() or
 * transfer_drop(). `arg` is returned in the result.
 */
struct transfer *transfer_prepare(struct transfers *transfers,
                                  const struct transfer_request *request, void *arg);
/* Takes microseconds. Returns 0, or -1 if out of memory; then the transfer is dropped. */
int transfer_start(struct transfer *transfer);
void transfer_drop(struct transfer *transfer);

/*
 * Waits up to wait_ms (-1: forever) for sockets, libcurl's timers, or wake_fd, which is drained;
 * then reports the results. Call it after transfer_start(), because only this really sends
 * requests.
 */
void transfers_turn(struct transfers *transfers, int wake_fd, int64_t wait_ms);

#endif
