#include "core/module/route.h"

#include <stdio.h>
#include <string.h>

#include "core/lib/field.h"
#include "core/lib/meter.h"
#include "core/lib/text.h"

#define METHODS 5
#define HEAD METHODS /* HEAD requests use the routes of GET; no route may have this method */

static const char *const method_names[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"};

/* A route, and the row of its `segments` for each :name of its path. */
struct entry {
    const struct bb_route *route;
    void *owner;
    struct meter *meter;
    size_t count;
    const struct bb_field *fields[ROUTE_PARAMETERS_MAX];
};

struct piece {
    const char *start;
    size_t length;
};

/* A path split into pieces; "/" has none. */
struct path {
    size_t count;
    struct piece pieces[ROUTE_SEGMENTS_MAX];
};

/* A node of the tree of segments. */
struct node {
    struct piece segment;         /* empty for a :name */
    struct node *children, *next; /* first child for a static segment; next sibling */
    struct node *parameter;
    struct entry *entries[METHODS];
};

struct router {
    struct arena *arena;
    struct node root;
};

struct search {
    const struct path *path;
    int method; /* index, or -1 if no route has this method */
    const struct entry *found;
    unsigned methods;          /* bits of the methods for which routes with this path exist */
    struct route_match *match; /* gets the segments that match a :name, and roles and flags */
};

struct router *router_new(struct arena *arena)
{
    struct router *router = arena_alloc(arena, sizeof(*router));

    if (!router)
        return NULL;
    router->arena = arena;
    return router;
}

static int route_method_index(const char *method)
{
    for (int i = 0; i <= HEAD; i++) {
        if (!strcmp(method, method_names[i]))
            return i;
    }
    return -1;
}

static bool route_same(struct piece piece, const char *text, size_t length)
{
    return piece.length == length && !memcmp(piece.start, text, length);
}

/*
 * Splits a path at its slashes; a trailing slash gives an empty last piece. Returns false if the
 * path has too many segments for any route, or does not begin with a slash.
 */
static bool route_cut(const char *text, struct path *path)
{
    path->count = 0;
    if (*text++ != '/')
        return false;
    if (!*text)
        return true;
    for (;;) {
        size_t length = strcspn(text, "/");

        if (path->count == ROUTE_SEGMENTS_MAX)
            return false;
        path->pieces[path->count++] = (struct piece){text, length};
        if (!text[length])
            return true;
        text += length + 1;
    }
}

static int route_refuse(char *why, size_t size, const struct bb_route *route, const char *reason)
{
    snprintf(why, size, "route %s %s: %s", route->method ? route->method : "(no method)",
             route->path ? route->path : "(no path)", reason);
    return -1;
}

static bool route_plain(const struct piece *piece)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-._~";

    if (!piece->length ||
        (piece->start[0] == '.' && piece->length <= 2 && piece->start[piece->length - 1] == '.'))
        return false;
    return strspn(piece->start, allowed) >= piece->length;
}

/* Finds the row of `segments` for each :name. Returns NULL, or why the path is invalid. */
static const char *route_bind_names(const struct path *path, struct entry *entry)
{
    const struct bb_table *rows = &entry->route->segments;

    for (size_t i = 0; i < path->count; i++) {
        struct piece piece = path->pieces[i];

        if (piece.start[0] != ':') {
            if (!route_plain(&piece))
                return "bad path";
            continue;
        }
        struct piece name = {piece.start + 1, piece.length - 1};

        if (entry->count == ROUTE_PARAMETERS_MAX)
            return "too many parameters";
        const struct bb_field *row = NULL;

        for (size_t k = 0; k < rows->count && !row; k++) {
            const struct bb_field *at = field_at(rows, k);

            row = at->name && route_same(name, at->name, strlen(at->name)) ? at : NULL;
        }
        if (!row)
            return "a parameter of the path has no row in segments";
        for (size_t other = 0; other < entry->count; other++) {
            if (!strcmp(entry->fields[other]->name, row->name))
                return "a parameter is given twice";
        }
        entry->fields[entry->count++] = row;
    }
    return entry->count == rows->count ? NULL : "a row of segments is not in the path";
}

static struct node *route_child_of(const struct node *node, struct piece piece)
{
    struct node *child = node->children;

    while (child && !route_same(child->segment, piece.start, piece.length))
        child = child->next;
    return child;
}

int router_add(struct router *router, const struct bb_route *route, void *owner, char *why,
               size_t why_size)
{
    struct path path;
    int method = route->method ? route_method_index(route->method) : -1;

    if (method < 0 || method == HEAD)
        return route_refuse(why, why_size, route, "unknown method");
    if (!route->roles)
        return route_refuse(why, why_size, route, "no roles; a public route needs BB_ANYONE");
    if (!route->path || !route_cut(route->path, &path))
        return route_refuse(why, why_size, route, "bad path");
    struct entry *entry = arena_alloc(router->arena, sizeof(*entry));

    if (!entry)
        return route_refuse(why, why_size, route, "out of memory");
    *entry = (struct entry){
        .route = route, .owner = owner, .meter = meter_route(route->method, route->path)};
    const char *reason = route_bind_names(&path, entry);

    if (reason)
        return route_refuse(why, why_size, route, reason);
    struct node *node = &router->root;

    for (size_t i = 0; i < path.count; i++) {
        struct piece piece = path.pieces[i];
        bool parameter = piece.start[0] == ':';
        struct node *child = parameter ? node->parameter : route_child_of(node, piece);

        if (!child) {
            child = arena_alloc(router->arena, sizeof(*child));
            if (!child)
                return route_refuse(why, why_size, route, "out of memory");
            if (parameter)
                node->parameter = child;
            else
                *child = (struct node){.segment = piece, .next = node->children};
            if (!parameter)
                node->children = child;
        }
        node = child;
    }
    if (node->entries[method])
        return route_refuse(why, why_size, route, "another route has the same method and pattern");
    node->entries[method] = entry;
    return 0;
}

/*
 * Searches the tree, static segments first, and returns whether it found a route. Backtracks from
 * nodes without a route for the method. Uses at most ROUTE_SEGMENTS_MAX levels of recursion.
 */
static bool route_descend(struct search *search, const struct node *node, size_t level)
{
    struct route_match *match = search->match;

    if (level == search->path->count) {
        for (int i = 0; i < METHODS; i++) {
            const struct entry *entry = node->entries[i];

            search->methods |= entry ? 1U << i : 0;
            match->roles |= entry ? entry->route->roles : 0;
            match->flags |= entry ? entry->route->flags : 0;
        }
        if (search->method >= 0)
            search->found = node->entries[search->method == HEAD ? 0 : search->method];
        return search->found != NULL;
    }
    struct piece piece = search->path->pieces[level];
    const struct node *child = route_child_of(node, piece);

    if (child && route_descend(search, child, level + 1))
        return true;
    if (!node->parameter)
        return false;
    match->segment[match->count].start = piece.start;
    match->segment[match->count++].length = piece.length;
    if (route_descend(search, node->parameter, level + 1))
        return true;
    match->count--;
    return false;
}

/* Returns whether other software may interpret a segment differently: empty, dots, bad encoding. */
static bool route_segment_bad(struct piece piece)
{
    size_t characters = 0, dots = 0;

    for (; piece.length; piece.start++, piece.length--) {
        unsigned char c = (unsigned char)*piece.start;

        if (c == '%') {
            const char digits[] = {piece.start[1], piece.length > 2 ? piece.start[2] : '\0', '\0'};

            if (piece.length < 3 || text_hex_decode(digits, &c, 1))
                return true;
            piece.start += 2;
            piece.length -= 2;
        }
        if (c < 0x20 || c == 0x7F)
            return true;
        characters++;
        dots += c == '.';
    }
    return !characters || (characters == dots && dots <= 2);
}

enum route_found router_match(const struct router *router, const char *method, const char *raw_path,
                              struct route_match *match)
{
    struct path path;
    struct search search = {.path = &path, .method = route_method_index(method), .match = match};
    size_t used = 0;

    *match = (struct route_match){.count = 0};
    /* one trailing slash is ignored */
    for (const char *text = raw_path + (*raw_path == '/'); *text;) {
        size_t length = strcspn(text, "/");

        if (route_segment_bad((struct piece){text, length}))
            return ROUTE_BAD_PATH;
        text += length + (text[length] == '/');
    }
    if (!route_cut(raw_path, &path))
        return ROUTE_NO_PATH;
    if (path.count && !path.pieces[path.count - 1].length)
        path.count--;
    if (!route_descend(&search, &router->root, 0)) {
        for (int i = 0; i < METHODS; i++) {
            if (search.methods & 1U << i)
                used += (size_t)snprintf(match->allow + used, sizeof(match->allow) - used, "%s%s%s",
                                         used ? ", " : "", method_names[i], i ? "" : ", HEAD");
        }
        return search.methods ? ROUTE_NO_METHOD : ROUTE_NO_PATH;
    }
    match->route = search.found->route;
    match->roles = match->route->roles;
    match->flags = match->route->flags;
    match->owner = search.found->owner;
    match->meter = search.found->meter;
    for (size_t i = 0; i < match->count; i++)
        match->segment[i].field = search.found->fields[i];
    return ROUTE_OK;
}
