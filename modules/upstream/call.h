/*
 * A call: one request in progress. The caller and the worker each hold a reference; the last one
 * frees it. The caller writes it before handing it over and reads it after the completion was
 * signaled; in between it belongs to the worker.
 */
#ifndef UPSTREAM_CALL_H
#define UPSTREAM_CALL_H

#include "modules/upstream/upstream.h"

enum {
    CALL_TIMEOUT_MAX_MS = 24 * 3600 * 1000, /* longer than any deadline */
    CALL_HEADERS_MAX = 64,                  /* of a request */
    CALL_HEADER_BYTES_MAX = 32768,   /* all headers of a request, or of a response, together */
    CALL_BODY_MAX = 16 * 1024 * 1024 /* bytes of a request's body */
};

struct call {
    struct call *next; /* in the list of calls handed over, later of calls in flight */
    struct upstream *upstream;
    struct bb_completion *completion;
    atomic_uint holders;
    atomic_bool left;      /* the caller does not wait any more */
    bool handed, answered; /* to the worker; by the worker, as seen by the caller */
    int64_t account;       /* account that holds the slot */
    size_t bytes_held; /* counted against upstream.memory: body and maximum response; at last only
                          the response */

    /* The request, copied. */
    char *method, *url;
    struct curl_slist *headers;
    char *body; /* NULL: none */
    size_t length;
    int64_t timeout_ms;
    size_t response_max;

    /* Used by the worker only. */
    CURL *easy;
    struct target_socket socket;
    int64_t late_at_ms; /* when libcurl should have ended it long before */
    int sendings;       /* times that libcurl began to send the request */
    bool too_large;     /* the response is too large */
    bool head_ended;    /* the empty line after the last header was received */

    /* The response. */
    struct bb_upstream_response response;
    struct bb_upstream_header *lines; /* its headers, followed by their texts */
    char *bytes;                      /* its body */
    size_t room, header_bytes;
};

/*
 * Returns why a request cannot be sent, in the request's memory. Returns NULL if it can; then *url
 * is its percent-encoded URL (target_encode()), which lives as long as `rq`.
 */
const char *call_problem(struct bb_request *rq, const struct upstream *upstream,
                         const struct bb_upstream_request *request, const char **url);

/*
 * Copies a request that has no problem; `rq` holds the call until it ends. Returns NULL if out of
 * memory.
 */
struct call *call_new(struct bb_request *rq, struct upstream *upstream,
                      const struct bb_upstream_request *request, const char *url);

/* Drops a reference; the last one frees the call. Any thread. */
void call_release(struct call *call);

/*
 * Gives back the call's slot. The response's bytes stay counted until the call is freed. Any
 * thread.
 */
void upstream_leave_place(struct upstream *upstream, struct call *call);

/* Sets an error instead of a response; `error` is a constant, or lives as long as the call. */
void call_fail(struct call *call, int failed, const char *error);

/* ---- response.c, transfer.c: on the worker's thread ---- */

/* Callbacks of libcurl for the body and for the header lines. */
size_t response_body(char *data, size_t size, size_t count, void *call);
size_t response_head(char *data, size_t size, size_t count, void *call);

/*
 * Keeps the headers of the final response. Returns false if out of memory, or if there are too
 * many.
 */
bool response_take_headers(struct call *call);

/* Starts a call in libcurl. Returns false if out of memory. */
bool transfer_begin(struct call *call, CURLM *multi, struct target_guard *guard);

/* Ends a call with libcurl's result, and frees its handle. */
enum upstream_outcome transfer_end(struct call *call, CURLM *multi, CURLcode code);

#endif
