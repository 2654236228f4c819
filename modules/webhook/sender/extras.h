/*
 * Additions to the requests of a webhook: the headers that its owner chose. The webhook and its
 * attempts in flight share the object, because libcurl reads the headers until a request has ended
 * and a webhook may change meanwhile. The thread that creates an object passes it to the worker,
 * so only one thread at a time changes `holders`.
 */
#ifndef WEBHOOK_EXTRAS_H
#define WEBHOOK_EXTRAS_H

#include <busbar/busbar.h>
#include <curl/curl.h>

struct extras {
    size_t holders;
    struct curl_slist *headers; /* NULL: none */
};

/*
 * Reads the extras of a webhook from its sealed headers (a cell, or NULL). Sets *extras, to NULL
 * if there are none. Returns SECRET_OPEN, SECRET_LOCKED or SECRET_NO_MEMORY (webhook.h); *extras
 * is NULL after the last two.
 */
int extras_read(struct bb_request *rq, int64_t webhook, const char *headers,
                struct extras **extras);

struct extras *extras_hold(struct extras *extras); /* returns its argument; NULL is allowed */
void extras_release(struct extras *extras);        /* NULL is allowed */

#endif
