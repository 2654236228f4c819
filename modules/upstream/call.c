/* A call on its caller's fiber: the checks of the request, its copy, its way to the worker and
 * back. */
#include "modules/upstream/upstream.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MIB = 1024 * 1024 };
enum { GRACE_MS = 500 }; /* time for the worker to report a late call itself */
enum { NOBODYS = -1 };   /* the common account of jobs, hooks, commands and public routes */

/* ---- checks of a request ---------------------------------------------------------------- */

bool header_is_name(const char *text)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    if (!*text)
        return false;
    for (; *text; text++) {
        bool letter = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z');

        if (!letter && !(*text >= '0' && *text <= '9') && !strchr(others, *text))
            return false;
    }
    return true;
}

bool header_is_value(const char *text)
{
    for (; *text; text++)
        if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7F)
            return false;
    return true;
}

/* Headers of the connection and of the body's length, which libcurl writes. */
static const char *const own_headers[] = {"host",
                                          "content-length",
                                          "transfer-encoding",
                                          "connection",
                                          "keep-alive",
                                          "proxy-connection",
                                          "proxy-authorization",
                                          "expect",
                                          "upgrade",
                                          "http2-settings",
                                          "te",
                                          "trailer",
                                          NULL};

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (!strcasecmp(name, *list))
            return true;
    return false;
}

static const char *headers_problem(struct bb_request *rq, const struct bb_upstream_header *headers,
                                   size_t count)
{
    size_t bytes = 0;

    if (count > CALL_HEADERS_MAX)
        return "The request has too many headers";
    for (size_t i = 0; i < count; i++) {
        const char *name = headers[i].name, *value = headers[i].value;

        if (!name || !value || !header_is_name(name) || !header_is_value(value))
            return "A header of the request is not valid";
        if (is_one_of(name, own_headers))
            return bb_format(rq, "The request must not bring the header %s", name);
        bytes += strlen(name) + strlen(value) + strlen(": \r\n");
    }
    return bytes > CALL_HEADER_BYTES_MAX ? "The headers of the request are too long" : NULL;
}

static bool is_method(const char *method)
{
    static const char *const tunnels[] = {"CONNECT", "TRACE", NULL};

    for (const char *at = method; *at; at++)
        if (*at < 'A' || *at > 'Z')
            return false;
    return *method && strlen(method) <= 32 && !is_one_of(method, tunnels);
}

/*
 * Returns why a request cannot be sent, in the request's memory. Returns NULL if it can; then *url
 * is its percent-encoded URL (target_encode()), which lives as long as `rq`.
 */
static const char *call_problem(struct bb_request *rq, const struct upstream *upstream,
                                const struct bb_upstream_request *request, const char **url)
{
    if (request->size < sizeof(*request))
        return "The request's struct has an unsupported version";
    if (request->method && !is_method(request->method))
        return "The method of the request is not valid";
    if (!request->url)
        return "The request has no URL";
    char *encoded = target_encode(request->url);

    if (!encoded)
        return "The URL of the request cannot be read now: out of memory";
    bb_defer(rq, free, encoded);
    *url = encoded;
    const char *problem = target_problem(&upstream->targets, encoded);

    if (problem)
        return bb_format(rq, "The URL of the request %s", problem);
    if (request->length > CALL_BODY_MAX || (request->length && !request->body))
        return "The body of the request is too long or missing";
    if (request->length && request->method && !strcmp(request->method, "HEAD"))
        return "A HEAD request has no body";
    return headers_problem(rq, request->headers, request->header_count);
}

/* ---- memory ----------------------------------------------------------------------------- */

void call_release(struct call *call)
{
    if (atomic_fetch_sub(&call->holders, 1) != 1)
        return;
    atomic_fetch_sub(&call->upstream->bytes, call->bytes_held);
    curl_slist_free_all(call->headers);
    free(call->method);
    free(call->url);
    free(call->body);
    free(call->lines);
    free(call->bytes);
    free(call);
}

void call_fail(struct call *call, int failed, const char *error)
{
    call->response.status = 0;
    call->response.failed = failed;
    call->response.error = error;
    call->response.headers = NULL;
    call->response.header_count = call->response.length = 0;
    call->response.body = "";
    free(call->bytes);
    call->bytes = NULL;
}

/* The request that made the call has ended, so nobody needs the response. */
static void call_leave(void *arg)
{
    struct call *call = arg;

    if (call->handed && !call->answered) {
        atomic_store(&call->left, true);
        bb_wake(call->upstream->host, UPSTREAM_WORKER);
    }
    call_release(call);
}

static bool append(struct call *call, const char *line)
{
    struct curl_slist *longer = curl_slist_append(call->headers, line);

    if (longer)
        call->headers = longer;
    return longer != NULL;
}

/*
 * libcurl reads "Name:" as removing a header that it would write, and "Name;" as a header without a
 * value.
 */
static bool add_headers(struct bb_request *rq, struct call *call,
                        const struct bb_upstream_request *request)
{
    bool traced = false, typed = false, good = append(call, "Expect:");

    for (size_t i = 0; i < request->header_count && good; i++) {
        const char *name = request->headers[i].name, *value = request->headers[i].value;

        value += strspn(value, BB_BLANKS);
        traced |= !strcasecmp(name, "traceparent");
        typed |= !strcasecmp(name, "content-type");
        good = append(call,
                      *value ? bb_format(rq, "%s: %s", name, value) : bb_format(rq, "%s;", name));
    }
    if (good && !typed)
        good = append(call, "Content-Type:");
    if (good && !traced)
        good = append(call, bb_format(rq, "traceparent: %s", bb_traceparent(rq)));
    return good;
}

/*
 * Copies a request that has no problem; `rq` holds the call until it ends. Returns NULL if out of
 * memory.
 */
static struct call *call_new(struct bb_request *rq, struct upstream *upstream,
                             const struct bb_upstream_request *request, const char *url)
{
    const struct upstream_settings *settings = upstream->settings;
    size_t memory = (size_t)settings->memory * MIB, wanted = request->response_max;
    struct call *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    atomic_init(&call->holders, 1);
    call->upstream = upstream;
    bb_defer(rq, call_leave, call);
    if (rq->principal && rq->principal->account)
        call->account = rq->principal->account;
    else
        call->account = NOBODYS;
    call->timeout_ms = request->timeout_ms > 0 ? request->timeout_ms : settings->timeout;
    if (call->timeout_ms > CALL_TIMEOUT_MAX_MS)
        call->timeout_ms = CALL_TIMEOUT_MAX_MS;
    if (!wanted)
        wanted = (size_t)settings->response_max * 1024;
    call->response_max = wanted < memory ? wanted : memory;
    call->method = strdup(request->method ? request->method : "GET");
    call->url = strdup(url);
    call->length = request->length;
    call->body = request->body ? malloc(request->length + 1) : NULL;
    if (!call->method || !call->url || (request->body && !call->body))
        return NULL;
    if (call->body && request->length)
        memcpy(call->body, request->body, request->length);
    return add_headers(rq, call, request) ? call : NULL;
}

void upstream_count(const struct upstream *upstream, enum upstream_outcome outcome)
{
    bb_metric_add(upstream->host, 0, outcome, 1);
}

/* ---- the service ------------------------------------------------------------------------ */

static const struct bb_upstream_response *without_response(struct bb_request *rq, int failed,
                                                           const char *error, bool sent)
{
    struct bb_upstream_response *response = bb_alloc(rq, sizeof(*response));

    *response = (struct bb_upstream_response){
        .size = sizeof(*response), .failed = failed, .error = error, .sent = sent, .body = ""};
    return response;
}

/* The response to a request that did not become a call. */
static const struct bb_upstream_response *not_sent(struct bb_request *rq, struct upstream *upstream,
                                                   enum upstream_outcome outcome, int failed,
                                                   const char *error)
{
    upstream_count(upstream, outcome);
    return without_response(rq, failed, error, false);
}

/* A single call may exceed the limit; otherwise large calls would never be possible. */
static bool take_bytes(struct upstream *upstream, struct call *call)
{
    size_t most = (size_t)upstream->settings->memory * 1024 * 1024;
    size_t bytes = call->length + call->response_max, held = atomic_load(&upstream->bytes);

    do
        if (held && held + bytes > most)
            return false;
    while (!atomic_compare_exchange_weak(&upstream->bytes, &held, held + bytes));
    call->bytes_held = bytes;
    return true;
}

void upstream_leave_place(struct upstream *upstream, struct call *call)
{
    size_t over = call->bytes_held - call->response.length;

    call->bytes_held = call->response.length;
    atomic_fetch_sub(&upstream->bytes, over);
    slot_release(upstream->slots, call->account);
}

/* Returns NULL, or why the call cannot be handed over. */
static const char *hand_over(struct bb_request *rq, struct upstream *upstream, struct call *call)
{
    call->completion = bb_completion(rq);
    if (!call->completion)
        return "Out of memory";
    pthread_mutex_lock(&upstream->lock);
    bool open = upstream->open;

    if (open) {
        call->handed = true;
        atomic_fetch_add(&call->holders, 1);
        atomic_fetch_add(&upstream->under_way, 1);
        call->next = upstream->incoming;
        upstream->incoming = call;
    }
    pthread_mutex_unlock(&upstream->lock);
    if (open) {
        bb_wake(upstream->host, UPSTREAM_WORKER);
        return NULL;
    }
    bb_completion_signal(rq->host, call->completion);
    return "Requests to other servers are not sent now";
}

const struct bb_upstream_response *upstream_send(void *state, struct bb_request *rq,
                                                 const struct bb_upstream_request *request)
{
    struct upstream *upstream = state;
    const char *url;
    const char *problem = call_problem(rq, upstream, request, &url);

    if (problem)
        return not_sent(rq, upstream, UPSTREAM_REFUSED, 502, problem);
    if (bb_pause_reason(rq))
        return not_sent(rq, upstream, UPSTREAM_PAUSED, 503, "Requests to other servers are paused");
    struct call *call = call_new(rq, upstream, request, url);

    if (!call)
        return not_sent(rq, upstream, UPSTREAM_BUSY, 503, "Out of memory");
    bool placed = !slot_try(upstream->slots, call->account);

    if (placed && !take_bytes(upstream, call)) {
        slot_release(upstream->slots, call->account);
        placed = false;
    }
    if (!placed)
        return not_sent(rq, upstream, UPSTREAM_BUSY, 503,
                        "Too many requests to other servers in progress");
    problem = hand_over(rq, upstream, call);
    if (problem) {
        upstream_leave_place(upstream, call);
        return not_sent(rq, upstream, UPSTREAM_BUSY, 503, problem);
    }
    /* If the worker did not answer in time, it may still be using the call. */
    if (bb_completion_wait(rq, call->completion, call->timeout_ms + GRACE_MS))
        return without_response(rq, 504, "The request was not answered in time", true);
    call->answered = true;
    return &call->response;
}
