/* Routes of all kinds, shared by the tests of the router and its fuzzer. */
#ifndef TESTS_ROUTE_ROWS_H
#define TESTS_ROUTE_ROWS_H

#include <busbar/busbar.h>

static int answer(struct bb_request *rq)
{
    (void)rq;
    return 200;
}

static const struct bb_field id[] = {{.name = "id", .type = BB_INT}};
static const struct bb_field two[] = {{.name = "file", .type = BB_UUID},
                                      {.name = "id", .type = BB_TEXT}};

#define ROUTE(verb, where, ...)                                                                    \
    {                                                                                              \
        .method = (verb), .path = (where), .roles = BB_ANYONE, .handler = answer, __VA_ARGS__      \
    }

static const struct bb_route routes[] = {
    ROUTE("GET", "/", .flags = 0),
    ROUTE("GET", "/api/health", .flags = 0),
    ROUTE("GET", "/api/device", .flags = 0),
    ROUTE("POST", "/api/device", .flags = 0),
    ROUTE("GET", "/api/device/:id", .segments = BB_TABLE(id)),
    ROUTE("PATCH", "/api/device/:id", .segments = BB_TABLE(id)),
    ROUTE("GET", "/api/device/by-site", .flags = 0),
    ROUTE("GET", "/api/device/:id/documents/:file", .segments = BB_TABLE(two)),
    ROUTE("DELETE", "/api/device/by-site/documents", .flags = 0),
};

#endif
