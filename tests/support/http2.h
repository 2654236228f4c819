/*
 * A receiver inside the test that speaks only HTTP/2 over TLS: as much as RFC 9113 requires of a
 * server that understands no header. It has threads, so make it in the test that uses it. It
 * responds to requests in the order in which they became complete, regardless of their contents.
 */
#ifndef TESTS_HTTP2_H
#define TESTS_HTTP2_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "tls.h"

#define HTTP2_STUCK                                                                                \
    (-1) /* after the request's headers, reads and sends nothing more on the connection */

struct http2_answer {
    int status; /* 0: never responds; HTTP2_STUCK */
    const char *retry_after;
    int wait_ms; /* before the response */
};

struct http2 {
    int port;
    struct ssl_ctx_st *context;
    const struct http2_answer *answers;
    pthread_mutex_t lock;
    size_t connections, requests;
    size_t most_open;  /* streams of one connection at the same time */
    int64_t at_ms[64]; /* when each request was complete */
};

/* Responds in this order; an entry with wait_ms -1 ends the list, and the entry before it repeats
 * forever. `names` is the server's certificate. */
struct http2 *http2_start(const struct tls_pair *names, const struct http2_answer *answers);

/* Reads one of the server's numbers under its lock. */
size_t http2_now(struct http2 *server, const size_t *number);

/* Waits for this many requests in total; fails the test after `ms`. */
void http2_wait(struct http2 *server, size_t requests, int ms);

#endif
