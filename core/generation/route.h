/*
 * The router: which route of which module a path and method lead to.
 *
 * The raw path is split at '/' first; a static segment is compared as it stands, and what meets a
 * :name is decoded once by the caller, afterwards. So no encoding can lead to another route, and an
 * encoded slash stays in its segment. Where several routes fit, a static segment beats a :name.
 *
 * Built once for a generation in its arena, then only read, from any thread.
 */
#ifndef CORE_ROUTE_H
#define CORE_ROUTE_H

#include <busbar/module.h>

#include "core/base/arena.h"

#define ROUTE_PARAMETERS_MAX 8
#define ROUTE_SEGMENTS_MAX 16

struct router;
struct route_meter;

enum route_found {
    ROUTE_OK,
    ROUTE_NO_PATH,   /* 404 */
    ROUTE_NO_METHOD, /* 405 with match->allow */
    ROUTE_BAD_PATH   /* 400 */
};

struct route_match {
    const struct bb_route *route;
    void *owner;
    struct route_meter *meter;
    size_t count; /* segments that met a :name, in the order of the path */
    struct {
        const char *start; /* raw, in the path that was matched; decode with text_percent() */
        size_t length;
        const struct bb_field *field; /* its row, with the name */
    } segment[ROUTE_PARAMETERS_MAX];
    char allow[64]; /* "GET, PATCH" */
    /* of the route; without one for the method, of all that the path has together */
    unsigned roles, flags;
};

/* NULL when there is no memory. Lives as long as the arena. */
struct router *router_new(struct arena *arena);

/*
 * Adds a route, which must outlive the router, with the pointer that a match gives back. Refuses a
 * second route of the same method and shape, roles 0, unknown methods, bad paths, and a :name
 * without a row in `segments` or the reverse: -1 with the reason in `why`. 0 otherwise.
 */
int router_add(struct router *router, const struct bb_route *route, void *owner, char *why,
               size_t why_size);

/* `raw_path` is not decoded and has no query. HEAD finds GET's routes. Fills *match. */
enum route_found router_match(const struct router *router, const char *method, const char *raw_path,
                              struct route_match *match);

/* Visits all routes in the order they were added, until `visit` returns other than 0, and returns
 * that. */
int router_each(const struct router *router,
                int (*visit)(const struct bb_route *route, void *owner, void *arg), void *arg);

#endif
