/*
 * Receivers: scheme, host and port of a URL, whichever webhooks use it. A receiver remembers the
 * number of attempts in flight to it, whether it supports HTTP/2, and its TLS sessions. libcurl
 * keeps the sessions of one transfer, or of only eight hosts if they are shared, so each receiver
 * has a separate share here. A session is used for at most an hour: then the certificate is checked
 * again, however often the receiver was called meanwhile.
 *
 * A receiver without attempts in flight and open connections is forgotten if its memory is needed.
 * One thread.
 */
#ifndef WEBHOOK_RECEIVERS_H
#define WEBHOOK_RECEIVERS_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECEIVER_SESSIONS_MS 3600000

/* libcurl does not free a share while a transfer uses it. */
struct receiver_sessions {
    CURLSH *share;
    size_t holders;
    int64_t made_ms;
};

struct receiver {
    struct receiver *next;          /* in its bucket */
    struct receiver *older, *newer; /* sorted by their last use */
    struct receiver_sessions *sessions;
    size_t flying;
    size_t open; /* connections */
    size_t idle; /* idle ones among them, while they are being counted */
    bool http2;  /* according to its last response */
    size_t length;
    char origin[];
};

struct receivers {
    struct receiver **buckets;
    size_t mask; /* number of buckets minus one */
    size_t count, most;
    struct receiver *oldest, *newest;
    struct receiver_sessions *plain; /* an empty share for all receivers without TLS */
};

/* Remembers up to `most` receivers, and more only while they are in use. Returns 0, or -1. */
int receivers_init(struct receivers *receivers, size_t most);
void receivers_free(struct receivers *receivers);

/*
 * Returns the receiver of a URL and counts one more attempt in flight, until receiver_finished().
 * NULL: out of memory.
 */
struct receiver *receivers_take(struct receivers *receivers, const char *url);
void receiver_finished(struct receiver *receiver);

/*
 * Returns the sessions for one attempt, referenced until receiver_sessions_let_go(); NULL: out of
 * memory. Every attempt gets a share, even if it does not need one: a handle used without a share
 * allocates its own session storage, which libcurl 7.88 leaks when the handle gets a share.
 */
struct receiver_sessions *receiver_sessions(struct receivers *receivers, struct receiver *receiver,
                                            int64_t now_ms);
void receiver_sessions_let_go(struct receiver_sessions *sessions); /* NULL is allowed */

#endif
