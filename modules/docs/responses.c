/* The responses of a route: its success, and possible errors, which are the same for all routes. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "modules/docs/docs.h"

/* ---- components: headers, and the body of errors ---- */

static json_t *responses_shared_headers(struct docs_maker *maker)
{
    static const struct {
        const char *name, *type, *help, *example;
        bool certain; /* false: some responses lack the header */
    } rows[] = {
        {"RequestId", "string", "Id of the request, which is also in the log of the service.",
         "01a1fdfd-a419-7423-8a51-0d2f3f1c6f11", true},
        {"Link", "string", "`<…>; rel=\"next\"`: the next page. Absent on the last page.",
         "</api/device?limit=2&after=17>; rel=\"next\"", false},
        {"TotalCount", "integer", "Number of items on all pages. Only with `count=true`.", "42",
         false},
        {"RetryAfter", "integer", "Seconds to wait before trying again.", "1", true},
        {"Replayed", "string",
         "`true`: this is the response to an earlier request with the same key.", "true", false},
        {"Authenticate", "string", "The authentication scheme, and why the token was refused.",
         "Bearer error=\"invalid_token\"", true},
        {"Disposition", "string", "The file name under which browsers save the body.",
         "attachment; filename=\"failed.csv\"", true},
        {"EntityTag", "string",
         "Version of the body. Send it as `If-None-Match` to get 304 while it is unchanged.",
         "\"5bd1e9955bd1e995\"", true},
        {"Version", "string",
         "Version of the object. Send it as `If-Match` with a change, so that the change is refused"
         " if somebody else has changed the object.",
         "\"1f0c7e5ba2d94c83b6a07e11\"", true},
        {"IgnoredParameters", "string",
         "Query parameters that were ignored because they are unknown, separated by commas. Absent "
         "if none.",
         "sort", false},
    };
    json_t *headers = json_object();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        docs_put(maker, headers, rows[i].name,
                 json_pack("{s:s, s:b, s:{s:s, s:[o]}}", "description", rows[i].help, "required",
                           rows[i].certain, "schema", "type", rows[i].type, "examples",
                           strcmp(rows[i].type, "integer")
                               ? json_string(rows[i].example)
                               : json_loads(rows[i].example, JSON_DECODE_ANY, NULL)));
    return headers;
}

// clang-format off

/* The body of every error. Hand-formatted, like the tables of modules. */
static const struct bb_field error_problem[] = {
    {.name = "field", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "participant1"},
    {.name = "problem", .type = BB_TEXT, .flags = BB_REQUIRED,
     .example = "must be at most 255 characters", .help = "Description of the problem, for people."},
    {.name = "code", .type = BB_TEXT, .example = "too_long",
     .help = "The problem, for programs. Absent if the problem has no code."},
    {.name = "params", .type = BB_OBJECT, .example = "{\"limit\":255}",
     .help = "The parameters of the problem: numbers, texts, and the list `allowed`. Absent if it "
             "has none."},
};
static const struct bb_field error_body[] = {
    {.name = "statusCode", .type = BB_INT, .flags = BB_REQUIRED, .min = 400, .max = 599,
     .help = "The HTTP status code.", .example = "400"},
    {.name = "message", .type = BB_TEXT, .flags = BB_REQUIRED,
     .help = "Description of the error, for people.", .example = "The request is not valid"},
    {.name = "error", .type = BB_TEXT, .flags = BB_REQUIRED,
     .help = "The name of the status. From `POST /api/auth/getAccess`: an error code of RFC 6749.",
     .example = "Bad Request"},
    {.name = "requestId", .type = BB_TEXT, .flags = BB_REQUIRED,
     .help = "Id of the request. It is also in the log of the service.",
     .example = "01a1fdfd-a419-7423-8a51-0d2f3f1c6f11"},
    {.name = "code", .type = BB_TEXT, .example = "account_pending",
     .help = "The message, for programs. Absent if the message has no code."},
    {.name = "params", .type = BB_OBJECT, .help = "The parameters of the message."},
    {.name = "errors", .type = BB_LIST, .fields = BB_ITEMS(error_problem),
     .help = "All invalid fields of the request.",
     .example = "[{\"field\":\"participant1\",\"problem\":\"must be at most 255 characters\","
                "\"code\":\"too_long\",\"params\":{\"limit\":255}}]"},
    {.name = "success", .type = BB_BOOL, .help = "Only with status 409, and then false."},
    {.name = "error_description", .type = BB_TEXT,
     .help = "Only from `POST /api/auth/getAccess`: the message, with the name that RFC 6749 "
             "requires."},
};

// clang-format on

/* ---- the responses of a route ---- */

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

static const struct shared {
    int status;
    const char *name, *help;
    unsigned when; /* any of these */
} shared[] = {
    {202, "Accepted", "Received. It is processed later.", IF_NAMED},
    {204, "NoContent", "There is nothing to return.", IF_NAMED},
    {304, "NotModified", "Not modified since the version named in `If-None-Match`.", IF_NAMED},
    {400, "BadRequest", "The request is not valid. `errors` names the wrong fields, if it has any.",
     ALWAYS},
    {401, "Unauthorized", "The token is missing, not valid, expired or revoked.", WITH_TOKEN},
    {403, "Forbidden", "The account is not active, or its role is not allowed to do this.",
     WITH_TOKEN},
    {404, "NotFound", "The object does not exist, or the caller may not see it.", WITH_NAMES},
    {408, "RequestTimeout", "The body did not arrive in time.", WITH_BODY},
    {409, "Conflict",
     "The object already exists, or a rule forbids the request. `message` has the reason.",
     IF_NAMED},
    {410, "Gone", "Data that the request refers to was deleted. `message` says how to continue.",
     IF_NAMED},
    {412, "PreconditionFailed",
     "The object has another version than those in `If-Match`, or no longer exists. Read it again.",
     WITH_VERSION},
    {413, "PayloadTooLarge", "The body is too large.", WITH_BODY},
    {414, "UriTooLong", "Path and query are too long together.", WITH_LONG_TARGET},
    {415, "UnsupportedMediaType", "The content type of the body is not supported.", WITH_BODY},
    {422, "UnprocessableEntity", "The `Idempotency-Key` was used for a different request.",
     WITH_KEY},
    {429, "TooManyRequests", "Too many requests. Try again after `Retry-After` seconds.", ALWAYS},
    {500, "InternalServerError",
     "An internal error. The log of the service has the cause, with the `requestId`.", ALWAYS},
    {503, "ServiceUnavailable",
     "The service is busy, or its database is unavailable. Try again after `Retry-After` seconds.",
     ALWAYS},
};

enum { SHARED = sizeof(shared) / sizeof(shared[0]) };

/* Returns the length that the texts of some fields may have in a target, up to TARGET_MAX. */
static size_t responses_longest(const struct bb_table *fields)
{
    size_t bytes = 0;

    for (size_t i = 0; i < fields->count && bytes < TARGET_MAX; i++) {
        const struct bb_field *field = DOCS_ROW(bb_field, *fields, i);

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
        if (DOCS_ROW(bb_field, route->segments, i)->type != BB_EMAIL)
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
        if (!strcmp(DOCS_ROW(bb_field, route->query, i)->name, name))
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
    const struct bb_field *first = DOCS_ROW(bb_field, route->reply, 0);
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
        docs_put(maker, media, "example", docs_example(maker, &route->reply));
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

/* Returns the body of a shared response: of an error, or of 202. */
static json_t *responses_example(struct docs_maker *maker, const struct shared *row)
{
    char error[64];
    size_t length = 0;

    if (row->status == 202)
        return json_pack("{s:s}", "message", row->help);
    json_t *example = docs_example(maker, &(struct bb_table)BB_TABLE(error_body));

    for (const char *at = row->name; *at && length + 2 < sizeof(error); at++) {
        if (at > row->name && isupper((unsigned char)*at))
            error[length++] = ' '; /* BadRequest: Bad Request */
        error[length++] = *at;
    }
    if (row->status == 400)
        return example;
    json_object_del(example, "errors");
    docs_put(maker, example, "message", json_string(row->help));
    docs_put(maker, example, "statusCode", json_integer(row->status));
    docs_put(maker, example, "error", json_stringn(error, length));
    return example;
}

static json_t *responses_shared(struct docs_maker *maker)
{
    json_t *answers = json_object();

    for (size_t i = 0; i < SHARED; i++) {
        int status = shared[i].status;
        json_t *headers = responses_headers();
        json_t *schema = docs_reference("schemas", status == 202 ? "Accepted" : "Error");

        if (status == 304)
            responses_put_header(maker, headers, "ETag", "EntityTag");
        else if (status == 401)
            responses_put_header(maker, headers, "WWW-Authenticate", "Authenticate");
        else if (status == 429 || status == 503)
            responses_put_header(maker, headers, "Retry-After", "RetryAfter");
        json_t *answer = json_pack("{s:s, s:o}", "description", shared[i].help, "headers", headers);

        if (status != 204 && status != 304)
            docs_put(maker, answer, "content",
                     json_pack("{s:{s:O, s:o}}", "application/json", "schema", schema, "example",
                               responses_example(maker, &shared[i])));
        json_decref(schema);
        docs_put(maker, answers, shared[i].name, answer);
    }
    return answers;
}

json_t *docs_components(struct docs_maker *maker)
{
    json_t *schemes = json_pack(
        "{s:{s:s, s:s, s:s, s:s}, s:{s:s, s:s, s:{s:{s:s, s:{}}}}}", "bearer", "type", "http",
        "scheme", "bearer", "bearerFormat", "JWT", "description",
        "Paste the `accessToken` from `POST /api/auth/login` or `POST /api/auth/getAccess`. On the "
        "page /swagger it is enough to execute one of them.",
        "clientCredentials", "type", "oauth2", "description",
        "For programs: the `client_id` and `client_secret` from `POST /api/auth/clients`.", "flows",
        "clientCredentials", "tokenUrl", "/api/auth/getAccess", "scopes");
    json_t *key = json_pack(
        "{s:s, s:s, s:b, s:s, s:{s:s, s:i, s:i}}", "name", "Idempotency-Key", "in", "header",
        "required", false, "description",
        "A text of your choice, new for each thing you create (a UUID, for example). The same "
        "request with the same key returns the first response again and creates nothing.",
        "schema", "type", "string", "minLength", 1, "maxLength", 255);

    json_t *match = json_pack(
        "{s:s, s:s, s:b, s:s, s:{s:s}}", "name", "If-Match", "in", "header", "required", false,
        "description",
        "The `ETag` of the object as you read it, a list of these, or `*`. If the object has "
        "changed since, the response is 412 and nothing is changed. Weak tags (`W/`) never match.",
        "schema", "type", "string");

    return json_pack("{s:{s:o, s:{s:s, s:{s:{s:s}}}}, s:o, s:o, s:{s:o, s:o}, s:o}", "schemas",
                     "Error", docs_object(maker, &(struct bb_table)BB_TABLE(error_body), true),
                     "Accepted", "type", "object", "properties", "message", "type", "string",
                     "responses", responses_shared(maker), "headers",
                     responses_shared_headers(maker), "parameters", "IdempotencyKey", key,
                     "IfMatch", match, "securitySchemes", schemes);
}
