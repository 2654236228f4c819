/*
 * A call: one request on its way. Who asked and the worker both hold it; the last of them frees it.
 * The one that asked writes it before it is handed over and reads it after the completion was
 * signalled; in between it is the worker's.
 */
#ifndef UPSTREAM_CALL_H
#define UPSTREAM_CALL_H

#include "modules/upstream/upstream.h"

enum {
    CALL_TIMEOUT_MAX_MS = 24 * 3600 * 1000, /* longer than any deadline */
    CALL_HEADERS_MAX = 64,                  /* of a request */
    CALL_HEADER_BYTES_MAX = 32768,   /* of a request's headers together, and of a response's */
    CALL_BODY_MAX = 16 * 1024 * 1024 /* bytes of a request's body */
};

struct call {
    struct call *next; /* of those that are handed over, and of those in flight */
    struct upstream *upstream;
    struct bb_completion *completion;
    atomic_uint holders;
    atomic_bool left;      /* nobody waits for it any more */
    bool handed, answered; /* to the worker; by it, as who asked knows */
    int64_t account;       /* whose slot it holds */
    size_t bytes_held; /* of upstream.memory: body and largest response, at last the response's */

    /* the request, copied */
    char *method, *url;
    struct curl_slist *headers;
    char *body; /* NULL: none */
    size_t length;
    int64_t timeout_ms;
    size_t response_max;

    /* the worker's */
    CURL *easy;
    struct target_socket socket;
    int64_t late_at_ms; /* when libcurl should have ended it long ago */
    int sendings;       /* of the request, as libcurl began them */
    bool too_large;     /* the response is */
    bool head_ended;    /* the empty line behind its last head has come */

    /* the response */
    struct bb_upstream_response response;
    struct bb_upstream_header *lines; /* its headers, and their texts behind them */
    char *bytes;                      /* its body */
    size_t room, header_bytes;
};

/*
 * Why a request cannot be sent, in the request's memory; NULL: it can, and *url is its URL,
 * percent-encoded (target_encode()), which lives as long as `rq`.
 */
const char *call_problem(struct bb_request *rq, const struct upstream *upstream,
                         const struct bb_upstream_request *request, const char **url);

/* A copy of a request without a problem, which `rq` holds until it ends; NULL: no memory. */
struct call *call_new(struct bb_request *rq, struct upstream *upstream,
                      const struct bb_upstream_request *request, const char *url);

/* Gives a hold back; the last one frees. Any thread. */
void call_release(struct call *call);

/* Gives back the place of a call among those under way; the response's bytes stay its own until it
 * is freed. Any thread. */
void upstream_leave_place(struct upstream *upstream, struct call *call);

/* What there is instead of a response; `error` is a constant, or lives as long as the call. */
void call_fail(struct call *call, int failed, const char *error);

/* ---- response.c, transfer.c: on the worker's thread ---- */

/* libcurl's callbacks, for its body and for the lines of its head. */
size_t response_body(char *data, size_t size, size_t count, void *call);
size_t response_head(char *data, size_t size, size_t count, void *call);

/* Keeps the headers of the final response. False: no memory, or too many. */
bool response_take_headers(struct call *call);

/* Hands a call to libcurl. False: no memory. */
bool transfer_begin(struct call *call, CURLM *multi, struct target_guard *guard);

/* What became of it, as libcurl says. Its handle is given back. */
enum upstream_outcome transfer_end(struct call *call, CURLM *multi, CURLcode code);

#endif
