/*
 * A receiver inside of the test that speaks HTTP/2 over TLS and nothing else: what RFC 9113 wants
 * of a server that understands no header. It has threads, so it is made in the test that uses it.
 * Requests are answered in the order in which they became complete, whatever they say.
 */
#ifndef TESTS_HTTP2_H
#define TESTS_HTTP2_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "tls.h"

#define HTTP2_STUCK                                                                                \
    (-1) /* from the request's headers on nothing is read or said on its connection */

struct http2_answer {
    int status; /* 0: none, ever; HTTP2_STUCK */
    const char *retry_after;
    int wait_ms; /* before it */
};

struct http2 {
    int listener, port;
    struct ssl_ctx_st *context;
    const struct http2_answer *answers;
    pthread_mutex_t lock;
    size_t connections, requests, resets; /* RST_STREAM, from the client */
    size_t open, most_open;               /* streams of one connection at a time */
    int64_t at_ms[64];                    /* when each request was complete */
};

/* In this order; the one with wait_ms -1 ends the list, and the one before it goes on for ever.
 * `names` is the server's certificate. */
struct http2 *http2_start(const struct tls_pair *names, const struct http2_answer *answers);

/* A number of it, under its lock. */
size_t http2_now(struct http2 *server, const size_t *number);

/* Waits for so many requests in all; fails the test after `ms`. */
void http2_wait(struct http2 *server, size_t requests, int ms);

#endif
