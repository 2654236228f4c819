/*
 * "upstream" 1: HTTP requests to other servers, provided by the module `upstream`. The calling
 * fiber parks until the response arrives, and the loop runs other fibers; a thread of the module
 * sends the request and keeps connections alive. As for webhooks, `upstream` connects only to
 * public addresses and the ports of web servers, plus the addresses and ports that the settings of
 * `upstream` allow. Redirects are not followed, proxies are not used, certificates are verified,
 * and bodies are not decoded. If a server sends unsolicited data on a kept-alive connection,
 * `upstream` reads the data as the response to the next request on this connection.
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
 */
#ifndef BUSBAR_UPSTREAM_H
#define BUSBAR_UPSTREAM_H

#include <string.h>

#include <busbar/request.h>

#define BB_UPSTREAM "upstream" /* the name of the service */

struct bb_upstream_header {
    const char *name; /* in lower case in a response */
    const char *value;
};

/*
 * The call borrows all pointers until it returns. Limits: 64 headers with 32 KiB in total, and a
 * body of 16 MiB.
 */
struct bb_upstream_request {
    size_t size;                              /* sizeof(struct bb_upstream_request) */
    const char *method;                       /* "POST"; NULL: "GET". Not CONNECT, not TRACE */
    const char *url;                          /* http:// or https://, without user and password */
    const struct bb_upstream_header *headers; /* not those that libcurl writes, such as Host */
    size_t header_count;
    const void *body; /* NULL: none */
    size_t length;
    int64_t timeout_ms; /* 0: the setting upstream.timeout; the caller's deadline always applies */
    /* maximum bytes of the response's body; 0: the setting upstream.response_max */
    size_t response_max;
};

/*
 * Lives as long as the memory of the calling request. Texts and the body are as the server sent
 * them, not necessarily UTF-8.
 */
struct bb_upstream_response {
    size_t size;
    int status; /* of the final response, 200 to 599; 0: no complete response came */
    /* without a response, the status to answer with: 504 after a timeout, 503 if too many requests
     * are in progress or sending is paused, else 502 */
    int failed;
    const char *error; /* without a response, the reason, which contains no URL; otherwise NULL */
    bool sent;         /* the request may have been executed, with or without a response */
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
 * Sends a request and parks until the response arrives, the request fails, or it times out. Never
 * returns NULL. If `sent` is set, the server may have executed the request even without a response.
 * If the connection breaks, the module may send GET, HEAD, OPTIONS, PUT and DELETE again on another
 * connection; it never repeats other methods. The header traceparent is bb_traceparent() unless the
 * caller sets it.
 */
static inline const struct bb_upstream_response *
bb_upstream_send(struct bb_service upstream, struct bb_request *rq,
                 const struct bb_upstream_request *request)
{
    const struct bb_upstream *interface = (const struct bb_upstream *)upstream.interface;

    return interface->send(upstream.state, rq, request);
}

/* Returns the value of the first header with this lower-case name; NULL if there is none. */
static inline const char *bb_upstream_header(const struct bb_upstream_response *response,
                                             const char *name)
{
    for (size_t i = 0; i < response->header_count; i++)
        if (!strcmp(response->headers[i].name, name))
            return response->headers[i].value;
    return NULL;
}

#endif
