/* Builds the OpenAPI operation of a route. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/common/csv.h"
#include "modules/docs/docs.h"

/* ---- the body of a request: JSON, a form, or parts with files ---- */

/*
 * Returns the schema of the body. If the body may be a part of a multipart body, the schema has an
 * example of the whole body, because Swagger UI shows no other example of a part.
 */
static json_t *operation_body(struct docs_maker *maker, const struct bb_route *route)
{
    json_t *schema = docs_object(maker, &route->body, false);

    if (route->parts.count)
        docs_put(maker, schema, "examples", json_pack("[o]", example_of(&route->body, false)));
    return schema;
}

/* Returns a CSV text with the columns and one example row of the first type of bulk rows. */
static json_t *operation_rows(struct docs_maker *maker)
{
    struct bb_given given = {.size = sizeof(given)};
    const struct bb_bulk_rows *rows =
        bb_service_at(maker->host, BB_BULK_ROWS, 0, &given) ? given.interface : NULL;
    struct csv csv = {0};

    for (size_t i = 0; rows && i < rows->columns.count; i++)
        csv_plain(&csv, BB_ROW(bb_field, rows->columns, i)->name);
    csv_end_row(&csv);
    for (size_t i = 0; rows && i < rows->columns.count; i++)
        csv_text(&csv, BB_ROW(bb_field, rows->columns, i)->example);
    csv_end_row(&csv);
    json_t *text = csv.failed ? NULL : json_stringn(csv.bytes, csv.length);

    csv_drop(&csv);
    return text;
}

/* Describes a multipart body. Its example has the fields and one file, with bulk rows if `rows`. */
static json_t *operation_parts(struct docs_maker *maker, const struct bb_route *route, bool rows)
{
    json_t *properties = json_object(), *required = json_array(), *encoding = json_object();
    json_t *example = json_object();
    bool shown = false;

    for (size_t i = 0; i < route->parts.count; i++) {
        const struct bb_part *part = BB_ROW(bb_part, route->parts, i);
        bool any = part->name[0] == '*'; /* the name "*" means any name */
        const char *name = any ? "file" : part->name;
        json_t *schema;

        if (part->kind == BB_PART_FIELDS) {
            schema = operation_body(maker, route);
            docs_put(maker, example, name, example_of(&route->body, false));
            docs_put(maker, encoding, name, json_pack("{s:s}", "contentType", "application/json"));
        } else {
            /* OpenAPI 3.1 needs only the media type; `format` makes Swagger UI ask for a file. */
            schema = json_pack("{s:s, s:s, s:s}", "type", "string", "format", "binary",
                               "contentMediaType", "application/octet-stream");
            if (!shown)
                docs_put(maker, example, name,
                         json_pack(part->count_max > 1 ? "[o]" : "o",
                                   rows ? operation_rows(maker)
                                        : json_string(part->help ? part->help : name)));
            shown = true;
            if (part->count_max > 1)
                schema = json_pack("{s:s, s:o, s:i}", "type", "array", "items", schema, "maxItems",
                                   (int)part->count_max);
        }
        docs_put_text(maker, schema, "description", part->help);
        docs_put(maker, properties, name, schema);
        if (part->flags & BB_REQUIRED || any)
            docs_append(maker, required, json_string(name));
    }
    json_t *schema = json_pack("{s:s, s:o}", "type", "object", "properties", properties);

    docs_put_list(maker, schema, "required", required);
    return json_pack("{s:o, s:o, s:o}", "schema", schema, "encoding", encoding, "example", example);
}

/* ---- a Markdown table of the columns of each type of bulk rows ---- */

/*
 * If the module uses bulk rows, returns their columns in Markdown for the routes of the upload (a
 * route with parts) and the template (CSV, no path segments). The caller frees the text. Returns
 * NULL for other routes. If memory runs out, returns NULL and sets maker->failed.
 */
static char *operation_columns(struct docs_maker *maker, const struct bb_module *module,
                               const struct bb_route *route)
{
    struct bb_given given = {.size = sizeof(given)};
    char *text = NULL;
    size_t length;

    bool file = route->reply_type && !strcmp(route->reply_type, "text/csv"), used = false;

    for (size_t i = 0; i < module->wants.count; i++)
        used |= !strcmp(BB_ROW(bb_need, module->wants, i)->service, BB_BULK_ROWS "*");
    if (!used || !(route->parts.count || (file && !route->segments.count)))
        return NULL;
    FILE *out = open_memstream(&text, &length);

    for (size_t i = 0; out && bb_service_at(maker->host, BB_BULK_ROWS, i, &given); i++) {
        const struct bb_bulk_rows *rows = given.interface;

        fprintf(out,
                "\n\n**Columns of type %s:** %s\n\n"
                "| Column | Required | Meaning |\n|---|---|---|\n",
                given.name + strlen(BB_BULK_ROWS), rows->help ? rows->help : "");
        for (size_t k = 0; k < rows->columns.count; k++) {
            const struct bb_field *column = BB_ROW(bb_field, rows->columns, k);

            fprintf(out, "| `%s`", column->name);
            if (column->alias)
                fprintf(out, " or `%s`", column->alias);
            fprintf(out, " | %s | %s |\n", column->flags & BB_REQUIRED ? "yes" : "no",
                    column->help ? column->help : "");
        }
    }
    if (out && !fclose(out))
        return text;
    maker->failed = true;
    free(text);
    return NULL;
}

/*
 * ---- the responses: the success, and the responses that openapi.json defines once ----
 */

enum when {
    ALWAYS,
    WITH_TOKEN = 1, /* the route requires a token */
    WITH_NAMES = 2, /* a path segment is not an e-mail, so 404 is possible */
    WITH_BODY = 4,
    WITH_KEY = 8,          /* Idempotency-Key */
    IF_NAMED = 16,         /* only if the route lists this status */
    WITH_LONG_TARGET = 32, /* path and query may be longer than TARGET_MAX */
    WITH_VERSION = 64      /* If-Match */
};

enum {
    TARGET_MAX = 6 * 1024, /* bytes of a target that the host always accepts */
    ESCAPED_MAX = 12       /* length of a character of four bytes, each as %XX */
};

static const struct {
    int status;
    const char *name; /* of the response in openapi.json */
    unsigned when;    /* listed for a route in any of these cases */
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

/* Returns the bytes that text fields may have in a request target; stops counting at TARGET_MAX. */
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

/* Makes the schema of a reply. A row named "." describes the whole reply. */
static json_t *responses_schema(struct docs_maker *maker, const struct bb_route *route)
{
    const struct bb_field *first = BB_ROW(bb_field, route->reply, 0);
    json_t *schema = route->reply.count && !strcmp(first->name, ".")
                         ? docs_schema(maker, first, true)
                         : docs_object(maker, &route->reply, true);
    json_t *properties = json_object_get(schema, "properties");
    size_t given = route->segments.count + route->query.count + route->body.count;

    if (given && properties) {
        docs_put(maker, properties, "warnings", docs_reference("schemas", "Warnings"));
        docs_put(maker, properties, "warningDetails", docs_reference("schemas", "WarningDetails"));
    }
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

    if (route->success == 204)
        return json_pack("{s:s, s:o}", "description", "Success.", "headers", headers);
    json_t *schema = type && !route->reply.count ? json_pack("{s:s}", "type", "string")
                                                 : responses_schema(maker, route);
    /* A route that needs a token and returns a type such as CSV sends a file to be saved. */
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

/* Returns the 503 of a route with BB_REPLY_IN_503: the body of `reply`, or an error body. */
static json_t *responses_state(struct docs_maker *maker, const struct bb_route *route)
{
    json_t *either =
        json_pack("[o, o]", responses_schema(maker, route), docs_reference("schemas", "Error"));
    json_t *headers = responses_headers();

    docs_put(maker, headers, "Retry-After", docs_reference("headers", "RetryAfterError"));
    return json_pack("{s:s, s:o, s:{s:{s:{s:o}}}}", "description",
                     "A dependency is down. The body names it.", "headers", headers, "content",
                     "application/json", "schema", "anyOf", either);
}

static json_t *responses_all(struct docs_maker *maker, const struct bb_route *route)
{
    json_t *answers = json_object();
    unsigned cases = route->roles & BB_ANYONE ? 0 : WITH_TOKEN;
    char status[16];

    for (size_t i = 0; i < route->segments.count; i++)
        if (BB_ROW(bb_field, route->segments, i)->type != BB_EMAIL)
            cases |= WITH_NAMES;
    if (route->body.count || route->parts.count)
        cases |= WITH_BODY;
    /* The Idempotency-Key of an anonymous caller applies to one request, so it never conflicts. */
    if (route->flags & BB_CREATES && !(route->roles & BB_ANYONE))
        cases |= WITH_KEY;
    if (route->flags & BB_VERSIONED && route->body.count)
        cases |= WITH_VERSION;
    if (responses_longest(&route->segments) + responses_longest(&route->query) >= TARGET_MAX)
        cases |= WITH_LONG_TARGET;
    snprintf(status, sizeof(status), "%d", route->success ? route->success : 200);
    docs_put(maker, answers, status, responses_success(maker, route));
    for (size_t i = 0; i < SHARED; i++) {
        bool own = shared[i].status == 503 && route->flags & BB_REPLY_IN_503;

        if (shared[i].when != ALWAYS && !(shared[i].when & cases) &&
            !responses_has_status(route, shared[i].status))
            continue;
        snprintf(status, sizeof(status), "%d", shared[i].status);
        docs_put(maker, answers, status,
                 own ? responses_state(maker, route) : docs_reference("responses", shared[i].name));
    }
    return answers;
}

/* ---- the operation ---- */

/* Makes an id: GET /api/chat/chain/:headUuid becomes getChatChainByHeadUuid. */
static json_t *operation_id(const struct bb_route *route)
{
    const char *path = strncmp(route->path, "/api/", 5) ? route->path : route->path + 4;
    char id[256];
    size_t length = 0;
    bool upper = false;

    for (const char *at = route->method; *at; at++)
        id[length++] = (char)tolower((unsigned char)*at);
    for (const char *at = path; *at && length + 4 < sizeof(id); at++) {
        if (*at == ':') {
            memcpy(id + length, "By", 2);
            length += 2;
        }
        if (isalnum((unsigned char)*at))
            id[length++] = (char)(upper ? toupper((unsigned char)*at) : *at);
        upper = !isalnum((unsigned char)*at);
    }
    return json_stringn(id, length);
}

static void operation_parameters(struct docs_maker *maker, json_t *list,
                                 const struct bb_table *fields, const char *in)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct bb_field *field = BB_ROW(bb_field, *fields, i);
        json_t *schema = docs_schema(maker, field, false);
        bool required = !strcmp(in, "path") || (field->flags & BB_REQUIRED) != 0;
        json_t *row =
            json_pack("{s:s, s:s, s:b}", "name", field->name, "in", in, "required", required);

        json_object_del(schema, "description");
        docs_put_text(maker, row, "description", field->help);
        docs_put(maker, row, "schema", schema);
        docs_append(maker, list, row);
    }
}

json_t *docs_operation(struct docs_maker *maker, const struct bb_module *module,
                       const struct bb_route *route)
{
    json_t *roles = json_array(), *parameters = json_array();
    json_t *operation = json_pack("{s:o, s:[s]}", "operationId", operation_id(route), "tags",
                                  docs_tag(maker, module));
    char *columns = operation_columns(maker, module, route);

    for (unsigned role = 1; role <= BB_ROLE_API_USER; role <<= 1)
        if (route->roles & role)
            docs_append(maker, roles, json_string(bb_role_name(role)));
    /*
     * Adds the first sentence of the route's help as summary, or its path if it has no help. The
     * description has the rest of the help, the required role, and the columns of bulk rows.
     */
    const char *help = route->help && *route->help ? route->help : route->path;
    const char *end = strstr(help, ". ");
    size_t length = end ? (size_t)(end - help) + 1 : strlen(help), used = 0;
    const char *rest = route->help ? help + length : "";
    char who[160] = "";

    for (size_t i = 0; i < json_array_size(roles); i++)
        used += (size_t)snprintf(who + used, sizeof(who) - used, "%s%s", i ? ", " : "",
                                 json_string_value(json_array_get(roles, i)));
    if (route->roles & BB_ANYONE)
        snprintf(who, sizeof(who), "none, and no token is needed");
    else if (route->roles == BB_ANY_ROLE)
        snprintf(who, sizeof(who), "any");
    rest += strspn(rest, " ");
    docs_put(maker, operation, "summary",
             json_stringn(help, help[length - 1] == '.' ? length - 1 : length));
    docs_put(maker, operation, "description",
             json_sprintf("%s%s**Required role:** %s%s.%s", rest, *rest ? "\n\n" : "", who,
                          route->flags & BB_INSIDE
                              ? "; clients in the networks of `http.metrics_networks` need no token"
                              : "",
                          columns ? columns : ""));
    if (strstr(help, "(older path of "))
        docs_put(maker, operation, "deprecated", json_true());
    operation_parameters(maker, parameters, &route->segments, "path");
    operation_parameters(maker, parameters, &route->query, "query");
    if (route->flags & BB_CREATES)
        docs_append(maker, parameters, docs_reference("parameters", "IdempotencyKey"));
    if (route->flags & BB_VERSIONED && route->body.count)
        docs_append(maker, parameters, docs_reference("parameters", "IfMatch"));
    docs_put_list(maker, operation, "parameters", parameters);
    json_t *content = json_object();
    bool required = route->parts.count && !(route->flags & BB_NO_BODY) && !route->body.count;
    bool json = route->body.count > 0; /* no JSON body if a part with files is required */

    for (size_t i = 0; i < route->parts.count; i++) {
        const struct bb_part *part = BB_ROW(bb_part, route->parts, i);

        json &= part->kind != BB_PART_FILES || !(part->flags & BB_REQUIRED);
    }
    for (size_t i = 0; i < route->body.count; i++)
        required |= (BB_ROW(bb_field, route->body, i)->flags & BB_REQUIRED) != 0;
    if (json) {
        json_t *media = json_pack("{s:o, s:o}", "schema", operation_body(maker, route), "example",
                                  example_of(&route->body, false));

        if (route->flags & BB_FORM_TOO)
            docs_put(maker, content, "application/x-www-form-urlencoded", json_incref(media));
        docs_put(maker, content, "application/json", media);
    }
    if (route->parts.count)
        docs_put(maker, content, "multipart/form-data",
                 operation_parts(maker, route, columns != NULL));
    if (json_object_size(content))
        docs_put(maker, operation, "requestBody",
                 json_pack("{s:b, s:o}", "required", required, "content", content));
    else
        json_decref(content);
    free(columns);
    docs_put(maker, operation, "responses", responses_all(maker, route));
    docs_put(maker, operation, "security",
             route->roles & BB_ANYONE
                 ? json_array()
                 : json_pack("[{s:[]}, {s:[]}]", "bearer", "clientCredentials"));
    docs_put(maker, operation, "x-roles", roles);
    return operation;
}
