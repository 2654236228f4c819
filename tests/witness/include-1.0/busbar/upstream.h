#ifndef BUSBAR_UPSTREAM_H
#define BUSBAR_UPSTREAM_H 
#include <string.h>
#include <busbar/request.h>
#define BB_UPSTREAM "upstream"
struct bb_upstream_header {
    const char *name;
    const char *value;
};
struct bb_upstream_request {
    size_t size;
    const char *method;
    const char *url;
    const struct bb_upstream_header *headers;
    size_t header_count;
    const void *body;
    size_t length;
    int64_t timeout_ms;
    size_t response_max;
};
struct bb_upstream_response {
    size_t size;
    int status;
    int failed;
    const char *error;
    bool sent;
    const struct bb_upstream_header *headers;
    size_t header_count;
    const char *body;
    size_t length;
};
struct bb_upstream {
    size_t size;
    const struct bb_upstream_response *(*send)(void *state, struct bb_request *rq,
                                               const struct bb_upstream_request *request);
};
static inline const struct bb_upstream_response *
bb_upstream_send(struct bb_service upstream, struct bb_request *rq,
                 const struct bb_upstream_request *request)
{
    const struct bb_upstream *interface = (const struct bb_upstream *)upstream.interface;
    return interface->send(upstream.state, rq, request);
}
static inline const char *bb_upstream_header(const struct bb_upstream_response *response,
                                             const char *name)
{
    for (size_t i = 0; i < response->header_count; i++)
        if (!strcmp(response->headers[i].name, name))
            return response->headers[i].value;
    return NULL;
}
#endif
