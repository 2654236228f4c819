/*
 * Access tokens of OAuth 2.0 (client credentials, RFC 6749) for the requests of a webhook. A token
 * is cached until shortly before it expires. Attempts of the webhook wait while a token is
 * requested. The sender's HTTP client sends the request, so the target guard checks the endpoint.
 *
 * The database task that reads a webhook creates a struct oauth; then only the worker uses it.
 */
#ifndef WEBHOOK_OAUTH_H
#define WEBHOOK_OAUTH_H

#include <sys/queue.h>

#include "modules/common/http_client.h"

struct oauth_waiter {
    STAILQ_ENTRY(oauth_waiter) next;
    /* Called once after the request for a token. `error` is NULL if there is a token now. */
    void (*ready)(struct oauth_waiter *waiter, const char *error);
};

STAILQ_HEAD(oauth_waiters, oauth_waiter);

enum { OAUTH_HEADERS = 4 };

struct oauth {
    char *url, *body;
    char *basic;  /* for the Authorization header of the request for a token */
    char *header; /* "Authorization: Bearer …"; NULL: there is no token */
    int64_t until_ms;
    struct oauth_waiters waiters; /* not empty: the token is being requested */
    struct http_request http;
    struct curl_slist headers[OAUTH_HEADERS];
};

/* Makes an object for requests with this header and body. NULL: out of memory. Any thread. */
struct oauth *oauth_new(const char *url, const char *basic, const char *body);
void oauth_free(struct oauth *oauth); /* not while a token is requested; NULL is allowed */

/* Returns the header with a valid token, or NULL. */
const char *oauth_header(const struct oauth *oauth);

/* Discards the token in this header, because a receiver refused it. */
void oauth_reject(struct oauth *oauth, const char *header);

/* Moves the token of `from` to `to` if both have the same credentials and `to` has no token. */
void oauth_move(struct oauth *from, struct oauth *to);

/*
 * Adds a waiter for a token, and starts the request for a token unless it is in progress. Returns
 * 0, or -1 if the request cannot start. The last waiter that is called may free the object.
 */
int oauth_wait(struct oauth *oauth, struct http_client *client, int64_t timeout_ms,
               struct oauth_waiter *waiter);

#endif
