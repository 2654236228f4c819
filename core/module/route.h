/*
 * The router: finds the route for a path and method.
 *
 * The raw path is first split at '/'. Static segments are compared in raw form; the caller later
 * decodes segments that match a :name, once. So an encoded character cannot select another route,
 * and an encoded slash does not split a segment. If several routes match, static segments take
 * precedence over a :name.
 *
 * A router is built once in the arena of a generation. After that any thread may read it.
 */
#ifndef CORE_ROUTE_H
#define CORE_ROUTE_H

#include <busbar/module.h>

#include "core/lib/arena.h"

#define ROUTE_PARAMETERS_MAX 8
#define ROUTE_SEGMENTS_MAX 16

struct router;
struct meter;

enum route_found {
    ROUTE_OK,
    ROUTE_NO_PATH,   /* 404 */
    ROUTE_NO_METHOD, /* 405 with match->allow */
    ROUTE_BAD_PATH   /* 400 */
};

struct route_match {
    const struct bb_route *route;
    void *owner;
    struct meter *meter;
    size_t count; /* elements of `segment`: one for each :name, in order */
    struct {
        const char *start; /* raw, in the path; decode with text_percent() */
        size_t length;
        const struct bb_field *field; /* the row of the route's `segments` for this :name */
    } segment[ROUTE_PARAMETERS_MAX];
    char allow[64]; /* for ROUTE_NO_METHOD: the methods of the path, such as "GET, HEAD" */
    /* of the route; for ROUTE_NO_METHOD, combined from all routes with this path */
    unsigned roles, flags;
};

/* Creates a router that lives as long as the arena. NULL: out of memory. */
struct router *router_new(struct arena *arena);

/*
 * Adds a route, which must outlive the router; matches contain `owner`. Returns 0. Returns -1 with
 * the reason in `why` if another route has this method and pattern, `roles` is 0, the method is
 * unknown, the path is invalid, or its :names are not the same as the rows of `segments`.
 */
int router_add(struct router *router, const struct bb_route *route, void *owner, char *why,
               size_t why_size);

/* Fills *match. `raw_path` is not decoded and has no query. HEAD finds the routes of GET. */
enum route_found router_match(const struct router *router, const char *method, const char *raw_path,
                              struct route_match *match);

#endif
