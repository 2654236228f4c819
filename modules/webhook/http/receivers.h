/*
 * Receivers as connections see them: scheme, host and port of a URL, whichever webhooks point
 * there. A receiver remembers how many attempts to it are under way, whether it speaks HTTP/2, and
 * its sessions of TLS. libcurl keeps those of a transfer, or of eight hosts where they are shared;
 * here each receiver has a share of its own. Sessions are used for an hour: then a certificate is
 * looked at anew, however often its receiver was called meanwhile.
 *
 * One to which nothing is under way or open is forgotten when others need the room. One thread.
 */
#ifndef WEBHOOK_RECEIVERS_H
#define WEBHOOK_RECEIVERS_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECEIVER_SESSIONS_MS 3600000

/* libcurl frees no share that a transfer still has. */
struct receiver_sessions {
    CURLSH *share;
    size_t holders;
    int64_t made_ms;
};

struct receiver {
    struct receiver *next;          /* in its bucket */
    struct receiver *older, *newer; /* by their last use */
    struct receiver_sessions *sessions;
    size_t flying;
    size_t open; /* connections */
    size_t idle; /* of them, while they are being counted */
    bool http2;  /* by its last answer */
    size_t length;
    char origin[];
};

struct receivers {
    struct receiver **buckets;
    size_t mask; /* buckets less one */
    size_t count, most;
    struct receiver *oldest, *newest;
    struct receiver_sessions *plain; /* of all that do not speak TLS: nothing is in it */
};

/* Remembers `most` of them, and more only while they are in use. 0, or -1. */
int receivers_init(struct receivers *receivers, size_t most);
void receivers_free(struct receivers *receivers);

/* The receiver of a URL, with one attempt more under way until receiver_landed(). NULL: no memory.
 */
struct receiver *receivers_take(struct receivers *receivers, const char *url);
void receiver_landed(struct receiver *receiver);

/*
 * The sessions for one attempt, held until receiver_sessions_let_go(); NULL: no memory. Each
 * attempt has some, whether it needs them or not: a handle that was used without a share has made
 * room for sessions of its own, which libcurl 7.88 loses when it is given one.
 */
struct receiver_sessions *receiver_sessions(struct receivers *receivers, struct receiver *receiver,
                                            int64_t now_ms);
void receiver_sessions_let_go(struct receiver_sessions *sessions); /* NULL: nothing */

#endif
