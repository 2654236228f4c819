#include "modules/upstream/call.h"

#include <stdlib.h>
#include <strings.h>

#include "modules/upstream/header.h"

enum { MIB = 1024 * 1024 };
enum { NOBODYS = -1 }; /* the common account of jobs, hooks, commands and public routes */

/* ---- checks of a request ---------------------------------------------------------------- */

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

const char *call_problem(struct bb_request *rq, const struct upstream *upstream,
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

static bool copy_body(struct call *call, const struct bb_upstream_request *request)
{
    call->length = request->length;
    if (!request->body)
        return true;
    call->body = malloc(request->length + 1);
    if (call->body && request->length)
        memcpy(call->body, request->body, request->length);
    return call->body != NULL;
}

static void set_limits(struct call *call, const struct bb_upstream_request *request)
{
    const struct upstream_settings *settings = call->upstream->settings;
    size_t memory = (size_t)settings->memory * MIB, wanted = request->response_max;

    call->timeout_ms = request->timeout_ms > 0 ? request->timeout_ms : settings->timeout;
    if (call->timeout_ms > CALL_TIMEOUT_MAX_MS)
        call->timeout_ms = CALL_TIMEOUT_MAX_MS;
    if (!wanted)
        wanted = (size_t)settings->response_max * 1024;
    call->response_max = wanted < memory ? wanted : memory;
}

struct call *call_new(struct bb_request *rq, struct upstream *upstream,
                      const struct bb_upstream_request *request, const char *url)
{
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
    set_limits(call, request);
    call->method = strdup(request->method ? request->method : "GET");
    call->url = strdup(url);
    bool good =
        call->method && call->url && copy_body(call, request) && add_headers(rq, call, request);

    return good ? call : NULL;
}
