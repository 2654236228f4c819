/*
 * Additions to the requests of a webhook: the headers that its owner chose, the keys of Ed25519
 * signatures, and the credentials for the receiver. The webhook and its attempts in flight share
 * the object, because libcurl reads the headers until a request has ended and a webhook may change
 * meanwhile. The thread that creates an object passes it to the worker, so only one thread at a
 * time changes `holders`.
 */
#ifndef WEBHOOK_EXTRAS_H
#define WEBHOOK_EXTRAS_H

#include <busbar/busbar.h>
#include <curl/curl.h>

#include "modules/webhook/http/sign.h"
#include "modules/webhook/sender/oauth.h"

struct extras {
    size_t holders;
    struct curl_slist *headers;     /* NULL: none */
    EVP_PKEY *pairs[SIGN_KEYS_MAX]; /* Ed25519: the current key, and the previous one, or NULL */
    bool no_hmac;                   /* requests are not signed with the secret */
    struct oauth *oauth;            /* NULL: no access tokens are used */
    /* A client certificate with its key, in PEM; data NULL: none. */
    struct curl_blob certificate, key;
};

/* The columns of webhook_hook that extras_read() reads. */
#define EXTRAS_COLUMNS                                                                             \
    "headers, signature, signing_key,"                                                             \
    " CASE WHEN previous_until > now() THEN previous_signing_key END, authentication"

/*
 * Reads the extras of a webhook from the columns from `first` on. Sets *extras; NULL: the webhook
 * has no extras. Returns SECRET_OPEN, or SECRET_LOCKED or SECRET_NO_MEMORY (webhook.h) with *extras
 * NULL.
 */
int extras_read(struct bb_request *rq, int64_t webhook, const struct bb_rows *rows, size_t row,
                size_t first, struct extras **extras);

struct extras *extras_hold(struct extras *extras); /* returns its argument; NULL is allowed */
void extras_release(struct extras *extras);        /* NULL is allowed */

#endif
