/*
 * "upstream" 1: HTTP requests to other servers, given by the module `upstream`. The calling fiber
 * parks until the response is there; the loop goes on with others, and the request itself is sent
 * by a thread of that module, which keeps connections alive. Where it may connect to is bounded as
 * for webhooks: public addresses and ports of web servers, and what the settings of `upstream`
 * open. Redirects are not followed, proxies are not used, certificates are verified, and bodies are
 * not decoded. What a server sends unasked on a connection that is kept is taken for its response
 * to the next request there.
 *
 *     static const struct bb_need needs[] = {{BB_UPSTREAM, 1}};
 *
 *     state->upstream = bb_service(host, BB_UPSTREAM);          // in `open`
 *
 *     const struct bb_upstream_response *response = bb_upstream_send(
 *         state->upstream, rq,
 *         &(struct bb_upstream_request){.size = sizeof(struct bb_upstream_request),
 *                                       .url = "https://registry.example/v1/devices"});
 *
 *     if (!response->status)
 *         return bb_fail_text(rq, response->failed, response->error);
 *
 * Since minor 11.
 */
#ifndef BUSBAR_UPSTREAM_H
#define BUSBAR_UPSTREAM_H

#include <string.h>

#include <busbar/request.h>

#define BB_UPSTREAM "upstream" /* the name of the service */

struct bb_upstream_header {
    const char *name; /* of a response in lower case */
    const char *value;
};

/* All of it is borrowed for the time of the call. At most 64 headers of 32 KiB together, and 16 MiB
 * of body. */
struct bb_upstream_request {
    size_t size;                              /* sizeof(struct bb_upstream_request) */
    const char *method;                       /* "POST"; NULL: "GET". Not CONNECT, not TRACE */
    const char *url;                          /* http:// or https://, without user and password */
    const struct bb_upstream_header *headers; /* those of the connection are not the caller's */
    size_t header_count;
    const void *body; /* NULL: none */
    size_t length;
    int64_t
        timeout_ms; /* 0: the setting upstream.timeout; it ends at the caller's deadline anyway */
    size_t response_max; /* bytes of the response's body; 0: the setting upstream.response_max */
};

/* Lives as long as the memory of the request that called. Texts and body are as the server sent
 * them, which need not be UTF-8. */
struct bb_upstream_response {
    size_t size;
    int status;        /* of the final response, 200 to 599; 0: there is no whole response */
    int failed;        /* without one: what the caller may answer itself: 504 late, 503 too many are
                        * under way or none is sent now, else 502 */
    const char *error; /* without one: why, as a text that names no URL; else NULL */
    bool sent;         /* the request may have been carried out, whether it was answered or not */
    const struct bb_upstream_header *headers;
    size_t header_count;
    const char *body; /* never NULL; a NUL follows */
    size_t length;
};

struct bb_upstream {
    size_t size;
    /* See bb_upstream_send(). */
    const struct bb_upstream_response *(*send)(void *state, struct bb_request *rq,
                                               const struct bb_upstream_request *request);
};

/*
 * Sends a request and parks until it is answered, fails, or its time is up. Never NULL. A request
 * that is not answered may have been carried out where `sent` says so: GET, HEAD, OPTIONS, PUT and
 * DELETE may go out again over another connection when the first one dies, others never do. The
 * header traceparent is that of bb_traceparent() unless the caller gives one.
 */
static inline const struct bb_upstream_response *
bb_upstream_send(struct bb_service upstream, struct bb_request *rq,
                 const struct bb_upstream_request *request)
{
    const struct bb_upstream *interface = (const struct bb_upstream *)upstream.interface;

    return interface->send(upstream.state, rq, request);
}

/* The first header of that name, in lower case; NULL: there is none. */
static inline const char *bb_upstream_header(const struct bb_upstream_response *response,
                                             const char *name)
{
    for (size_t i = 0; i < response->header_count; i++)
        if (!strcmp(response->headers[i].name, name))
            return response->headers[i].value;
    return NULL;
}

#endif
