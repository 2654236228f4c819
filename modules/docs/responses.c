/*
 * The responses of a route: its success, and possible errors, which are the same for all routes and
 * therefore in openapi.json.
 */
#include <stdio.h>
#include <string.h>

#include "modules/docs/docs.h"

enum when {
    ALWAYS,
    WITH_TOKEN = 1, /* the route requires a token */
    WITH_NAMES = 2, /* the path names an object, other than a person by e-mail */
    WITH_BODY = 4,
    WITH_KEY = 8,          /* Idempotency-Key */
    IF_NAMED = 16,         /* only if the route itself lists it */
    WITH_LONG_TARGET = 32, /* path and query may exceed the limit of the target */
    WITH_VERSION = 64      /* If-Match */
};

enum {
    TARGET_MAX = 6 * 1024, /* bytes of a target that the host always accepts */
    ESCAPED_MAX = 12       /* length of a character of four bytes, each as %XX */
};

static const struct {
    int status;
    const char *name; /* in openapi.json */
    unsigned when;    /* any of these */
} shared[] = {
    {202, "Accepted", IF_NAMED},
    {204, "NoContent", IF_NAMED},
    {304, "NotModified", IF_NAMED},
    {400, "BadRequest", ALWAYS},
    {401, "Unauthorized", WITH_TOKEN},
    {403, "Forbidden", WITH_TOKEN},
    {404, "NotFound", WITH_NAMES},
    {408, "RequestTimeout", WITH_BODY},
    {409, "Conflict", IF_NAMED},
    {410, "Gone", IF_NAMED},
    {412, "PreconditionFailed", WITH_VERSION},
    {413, "PayloadTooLarge", WITH_BODY},
    {414, "UriTooLong", WITH_LONG_TARGET},
    {415, "UnsupportedMediaType", WITH_BODY},
    {422, "UnprocessableEntity", WITH_KEY},
    {429, "TooManyRequests", ALWAYS},
    {500, "InternalServerError", ALWAYS},
    {503, "ServiceUnavailable", ALWAYS},
};

enum { SHARED = sizeof(shared) / sizeof(shared[0]) };

/* Returns the length that the texts of some fields may have in a target, up to TARGET_MAX. */
static size_t responses_longest(const struct bb_table *fields)
{
    size_t bytes = 0;

    for (size_t i = 0; i < fields->count && bytes < TARGET_MAX; i++) {
        const struct bb_field *field = BB_ROW(bb_field, *fields, i);

        if (field->type == BB_TEXT || field->type == BB_LIST)
            bytes += field->max > 0 && field->max < TARGET_MAX
                         ? strlen(field->name) + (size_t)field->max * ESCAPED_MAX
                         : TARGET_MAX;
    }
    return bytes;
}

static unsigned responses_cases(const struct bb_route *route)
{
    unsigned cases = route->roles & BB_ANYONE ? 0 : WITH_TOKEN;

    for (size_t i = 0; i < route->segments.count; i++)
        if (BB_ROW(bb_field, route->segments, i)->type != BB_EMAIL)
            cases |= WITH_NAMES;
    if (route->body.count || route->parts.count)
        cases |= WITH_BODY;
    /* The key of an anonymous caller applies only to this request, so it never conflicts. */
    if (route->flags & BB_CREATES && !(route->roles & BB_ANYONE))
        cases |= WITH_KEY;
    if (route->flags & BB_VERSIONED && route->body.count)
        cases |= WITH_VERSION;
    if (responses_longest(&route->segments) + responses_longest(&route->query) >= TARGET_MAX)
        cases |= WITH_LONG_TARGET;
    return cases;
}

static bool responses_has_status(const struct bb_route *route, int status)
{
    for (const int *own = route->errors; own && *own; own++)
        if (*own == status)
            return true;
    return false;
}

static bool responses_has_query(const struct bb_route *route, const char *name)
{
    for (size_t i = 0; i < route->query.count; i++)
        if (!strcmp(BB_ROW(bb_field, route->query, i)->name, name))
            return true;
    return false;
}

/*
 * A row named "." is the response itself. `warnings` has the parts of a request that the host
 * ignored (docs/reference.md).
 */
static json_t *responses_schema(struct docs_maker *maker, const struct bb_route *route)
{
    static const struct bb_field item[] = {{.name = "item", .type = BB_TEXT}};
    static const struct bb_field warnings = {.name = "warnings",
                                             .type = BB_LIST,
                                             .fields = BB_TABLE(item),
                                             .help = "Values that were accepted but may be "
                                                     "mistakes. Absent if there are none."};
    const struct bb_field *first = BB_ROW(bb_field, route->reply, 0);
    json_t *schema = route->reply.count && !strcmp(first->name, ".")
                         ? docs_schema(maker, first, true)
                         : docs_object(maker, &route->reply, true);
    json_t *properties = json_object_get(schema, "properties");
    size_t given = route->segments.count + route->query.count + route->body.count;

    if (given && properties && !json_object_get(properties, warnings.name))
        docs_put(maker, properties, warnings.name, docs_schema(maker, &warnings, true));
    return schema;
}

/* Returns the headers that every response of a route has. */
static json_t *responses_headers(void)
{
    return json_pack("{s:o, s:o}", "X-Request-Id", docs_reference("headers", "RequestId"),
                     "X-Ignored-Parameters", docs_reference("headers", "IgnoredParameters"));
}

static void responses_put_header(struct docs_maker *maker, json_t *headers, const char *name,
                                 const char *component)
{
    docs_put(maker, headers, name, docs_reference("headers", component));
}

static json_t *responses_success(struct docs_maker *maker, const struct bb_route *route)
{
    const char *type = route->reply_type;
    json_t *headers = responses_headers();
    json_t *schema = type && !route->reply.count ? json_pack("{s:s}", "type", "string")
                                                 : responses_schema(maker, route);
    /* Private content that is neither JSON nor read only by programs is sent as a file. */
    bool download = type && !(route->roles & BB_ANYONE) && strcmp(type, "text/event-stream") != 0 &&
                    strcmp(type, "text/plain") != 0;

    if (responses_has_query(route, "after"))
        responses_put_header(maker, headers, "Link", "Link");
    if (responses_has_query(route, "count"))
        responses_put_header(maker, headers, "X-Total-Count", "TotalCount");
    if (responses_has_status(route, 304))
        responses_put_header(maker, headers, "ETag", "EntityTag");
    if (route->flags & BB_VERSIONED)
        responses_put_header(maker, headers, "ETag", "Version");
    if (route->flags & BB_CREATES)
        responses_put_header(maker, headers, "Idempotency-Replayed", "Replayed");
    if (download)
        responses_put_header(maker, headers, "Content-Disposition", "Disposition");
    json_t *media = json_pack("{s:o}", "schema", schema);

    if (route->reply.count)
        docs_put(maker, media, "example", example_of(&route->reply, false));
    return json_pack("{s:s, s:o, s:{s:o}}", "description",
                     route->success == 201 ? "Created." : "Success.", "headers", headers, "content",
                     type ? type : "application/json", media);
}

/* Some routes report their state in the usual body, with any status. */
static json_t *responses_state(struct docs_maker *maker, const struct bb_route *route)
{
    json_t *either =
        json_pack("[o, o]", responses_schema(maker, route), docs_reference("schemas", "Error"));
    json_t *headers = responses_headers();

    /* Only an error has this header; a reported state does not. */
    docs_put(maker, headers, "Retry-After",
             json_pack("{s:s, s:{s:s}}", "description",
                       "Seconds to wait before trying again. Only with an error.", "schema", "type",
                       "integer"));
    return json_pack("{s:s, s:o, s:{s:{s:{s:o}}}}", "description",
                     "A dependency is down. The body names it.", "headers", headers, "content",
                     "application/json", "schema", "anyOf", either);
}

json_t *docs_answers(struct docs_maker *maker, const struct bb_route *route)
{
    json_t *answers = json_object();
    char status[16];

    snprintf(status, sizeof(status), "%d", route->success ? route->success : 200);
    docs_put(maker, answers, status, responses_success(maker, route));
    for (size_t i = 0; i < SHARED; i++) {
        bool own = shared[i].status == 503 && route->flags & BB_REPLY_IN_503;

        if (shared[i].when != ALWAYS && !(shared[i].when & responses_cases(route)) &&
            !responses_has_status(route, shared[i].status))
            continue;
        snprintf(status, sizeof(status), "%d", shared[i].status);
        docs_put(maker, answers, status,
                 own ? responses_state(maker, route) : docs_reference("responses", shared[i].name));
    }
    return answers;
}
