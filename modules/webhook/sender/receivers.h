/*
 * A receiver is the scheme, host and port of a URL; several webhooks may use it. It has the numbers
 * of its attempts and connections, and its TLS sessions. libcurl keeps the sessions of one request,
 * or of only eight hosts if they are shared, so each receiver has a separate share here. A session
 * is used for at most an hour, so that the certificate is checked again, however often the receiver
 * is called.
 *
 * A receiver without attempts in flight and open connections is forgotten if its memory is needed.
 * One thread.
 */
#ifndef WEBHOOK_RECEIVERS_H
#define WEBHOOK_RECEIVERS_H

#include <curl/curl.h>
#include <sys/queue.h>

#include "modules/webhook/sender/idmap.h"

/* libcurl does not free a share while a request uses it. */
struct receiver_sessions {
    CURLSH *share;
    size_t holders;
    int64_t made_ms;
};

struct receiver {
    struct idmap_node node; /* a hash of the origin: see receivers_take() */
    TAILQ_ENTRY(receiver) by_use;
    struct receiver_sessions *sessions;
    size_t flying;  /* attempts */
    size_t waiting; /* attempts without the headers of a response */
    size_t open;    /* connections */
    const struct sender *sender;
};

struct receivers {
    struct idmap map;
    TAILQ_HEAD(receiver_list, receiver) by_use; /* the oldest first */
    size_t most; /* receivers kept; more only while they are in use */
};

void receivers_free(struct receivers *receivers);

/*
 * Returns the receiver of a URL, counts one more attempt in flight and waiting, and holds its
 * sessions until receiver_sessions_release(); NULL: out of memory. Two spellings of an origin are
 * two receivers. Two origins with the same hash are one receiver; their sessions do not mix,
 * because libcurl compares hosts and ports.
 *
 * Every attempt gets a share, even without TLS: a handle used without a share allocates its own
 * session storage, which libcurl 7.88 leaks when the handle gets a share.
 */
struct receiver *receivers_take(struct receivers *receivers, const char *url, int64_t now_ms);
void receiver_sessions_release(struct receiver_sessions *sessions); /* NULL is allowed */

#endif
