/* A route as an operation of a path. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <busbar/bulk.h>

#include "docs.h"

/* ---- the body of a request: JSON, a form, or parts with files ---- */

#define BYTES "application/octet-stream"

static json_t *content_of(json_t *schema)
{
    return json_pack("{s:o}", "schema", schema);
}

/* The name "*" means any name. */
static const char *part_name(const struct bb_part *part)
{
    return part->name[0] == '*' ? "file" : part->name;
}

static json_t *files_schema(struct docs_maker *maker, const struct bb_part *part)
{
    /* OpenAPI 3.1 needs only the media type; the format makes Swagger UI offer to choose a file. */
    json_t *file = json_pack("{s:s, s:s, s:s}", "type", "string", "format", "binary",
                             "contentMediaType", BYTES);

    if (part->count_max > 1)
        file = json_pack("{s:s, s:o, s:i}", "type", "array", "items", file, "maxItems",
                         (int)part->count_max);
    docs_put_text(maker, file, "description", part->help);
    return file;
}

static json_t *fields_schema(struct docs_maker *maker, const struct bb_route *route,
                             const struct bb_part *part)
{
    json_t *schema = docs_object(maker, &route->body, route->flags & BB_KEEP_OTHERS, false);

    docs_put_text(maker, schema, "description", part->help);
    return schema;
}

static json_t *parts_content(struct docs_maker *maker, const struct bb_route *route)
{
    json_t *properties = json_object(), *required = json_array(), *encoding = json_object();

    for (size_t i = 0; i < route->parts.count; i++) {
        const struct bb_part *part = DOCS_ROW(bb_part, route->parts, i);
        const char *name = part_name(part);
        bool fields = part->kind == BB_PART_FIELDS;

        docs_put(maker, properties, name,
                 fields ? fields_schema(maker, route, part) : files_schema(maker, part));
        if (fields)
            docs_put(maker, encoding, name, json_pack("{s:s}", "contentType", "application/json"));
        if (part->flags & BB_REQUIRED || part->name[0] == '*')
            docs_append(maker, required, json_string(name));
    }
    json_t *schema = json_pack("{s:s, s:o}", "type", "object", "properties", properties);

    if (json_array_size(required))
        docs_put(maker, schema, "required", required);
    else
        json_decref(required);
    return json_pack("{s:o, s:o}", "schema", schema, "encoding", encoding);
}

static bool needs_body(const struct bb_route *route)
{
    for (size_t i = 0; i < route->body.count; i++)
        if (DOCS_ROW(bb_field, route->body, i)->flags & BB_REQUIRED)
            return true;
    return route->parts.count && !(route->flags & BB_NO_BODY) && !route->body.count;
}

/* Builds the request body; NULL: none, or maker->failed is set. */
static json_t *docs_request_body(struct docs_maker *maker, const struct bb_route *route)
{
    json_t *content = json_object();

    if (route->body.count) {
        json_t *schema = docs_object(maker, &route->body, route->flags & BB_KEEP_OTHERS, false);

        if (route->flags & BB_FORM_TOO)
            docs_put(maker, content, "application/x-www-form-urlencoded",
                     content_of(json_incref(schema)));
        docs_put(maker, content, "application/json", content_of(schema));
    }
    if (route->parts.count)
        docs_put(maker, content, "multipart/form-data", parts_content(maker, route));
    if (json_object_size(content))
        return json_pack("{s:b, s:o}", "required", needs_body(route), "content", content);
    json_decref(content);
    return NULL;
}

/* ---- a Markdown table of the columns of each type of bulk rows ---- */

static void write_column(FILE *out, const struct bb_field *column)
{
    fprintf(out, "| `%s`", column->name);
    if (column->alias)
        fprintf(out, " or `%s`", column->alias);
    fprintf(out, " | %s | %s |\n", column->flags & BB_REQUIRED ? "yes" : "no",
            column->help ? column->help : "");
}

static void write_type(FILE *out, const struct bb_given *given)
{
    const struct bb_bulk_rows *rows = given->interface;

    fprintf(out,
            "\n\n**Columns of type %s:** %s\n\n| Column | Required | Meaning |\n|---|---|---|\n",
            given->name + strlen(BB_BULK_ROWS), rows->help ? rows->help : "");
    for (size_t i = 0; i < rows->columns.count; i++)
        write_column(out, DOCS_ROW(bb_field, rows->columns, i));
}

/*
 * Returns whether a route, of a module that uses such types, accepts a file or returns one without
 * naming an object.
 */
static bool is_about_rows(const struct bb_module *module, const struct bb_route *route)
{
    bool gives = route->reply_type && !strcmp(route->reply_type, "text/csv");

    if (!route->parts.count && !(gives && !route->segments.count))
        return false;
    for (size_t i = 0; i < module->wants.count; i++)
        if (!strcmp(DOCS_ROW(bb_need, module->wants, i)->service, BB_BULK_ROWS "*"))
            return true;
    return false;
}

/*
 * Returns the columns of bulk rows in Markdown, for the routes that accept a file and that return
 * its template. Owned by the caller; NULL: another route, or maker->failed is set.
 */
static char *docs_columns(struct docs_maker *maker, const struct bb_module *module,
                          const struct bb_route *route)
{
    struct bb_given given = {.size = sizeof(given)};
    char *text = NULL;
    size_t length;

    if (!is_about_rows(module, route))
        return NULL;
    FILE *out = open_memstream(&text, &length);

    for (size_t i = 0; out && bb_service_at(maker->host, BB_BULK_ROWS, i, &given); i++)
        write_type(out, &given);
    if (out && !fclose(out))
        return text;
    maker->failed = true;
    free(text);
    return NULL;
}

/* ---- a route as an operation of a path ---- */

/*
 * Turns each :name into {name}, which is one character longer; a path of colons would double in
 * length.
 */
char *docs_path(const char *path)
{
    char *text = malloc(strlen(path) * 2 + 1), *to = text;
    bool inside = false;

    for (const char *at = path; text && *at; at++) {
        if (inside && *at == '/') {
            *to++ = '}';
            inside = false;
        }
        *to++ = *at == ':' ? '{' : *at;
        inside |= *at == ':';
    }
    if (!text)
        return NULL;
    if (inside)
        *to++ = '}';
    *to = '\0';
    return text;
}

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

static json_t *parameter(struct docs_maker *maker, const struct bb_field *field, const char *in)
{
    bool path = !strcmp(in, "path");
    json_t *schema = docs_schema(maker, field, false);
    json_t *row = json_pack("{s:s, s:s, s:b}", "name", field->name, "in", in, "required",
                            path || (field->flags & BB_REQUIRED) != 0);

    json_object_del(schema, "description");
    docs_put_text(maker, row, "description", field->help);
    docs_put(maker, row, "schema", schema);
    return row;
}

static json_t *parameters_of(struct docs_maker *maker, const struct bb_route *route)
{
    json_t *list = json_array();

    for (size_t i = 0; i < route->segments.count; i++)
        docs_append(maker, list, parameter(maker, DOCS_ROW(bb_field, route->segments, i), "path"));
    for (size_t i = 0; i < route->query.count; i++)
        docs_append(maker, list, parameter(maker, DOCS_ROW(bb_field, route->query, i), "query"));
    if (route->flags & BB_CREATES)
        docs_append(maker, list, docs_reference("parameters", "IdempotencyKey"));
    return list;
}

static json_t *roles_of(struct docs_maker *maker, const struct bb_route *route)
{
    json_t *list = json_array();

    for (unsigned role = 1; role <= BB_ROLE_API_USER; role <<= 1)
        if (route->roles & role)
            docs_append(maker, list, json_string(bb_role_name(role)));
    return list;
}

/* Returns the length of a text's first sentence, including the full stop. */
static size_t first_sentence(const char *text)
{
    const char *end = strstr(text, ". ");

    return end ? (size_t)(end - text) + 1 : strlen(text);
}

/* Returns the first sentence of the route's help; without help, its path. */
static json_t *summary_of(const struct bb_route *route)
{
    const char *text = route->help && *route->help ? route->help : route->path;
    size_t length = first_sentence(text);

    return json_stringn(text, text[length - 1] == '.' ? length - 1 : length);
}

/*
 * Returns the rest of the route's help, the roles that may call it, and the columns of rows; NULL:
 * nothing.
 */
static json_t *description_of(const struct bb_route *route, const json_t *roles,
                              const char *columns)
{
    const char *rest = route->help ? route->help + first_sentence(route->help) : "";
    char who[160] = "";
    size_t length = 0;

    for (size_t i = 0; i < json_array_size(roles); i++)
        length += (size_t)snprintf(who + length, sizeof(who) - length, "%s%s", i ? ", " : "",
                                   json_string_value(json_array_get(roles, i)));
    if (route->roles & BB_ANYONE)
        snprintf(who, sizeof(who), "none, and no token is needed");
    else if (route->roles == BB_ANY_ROLE)
        snprintf(who, sizeof(who), "any");
    rest += strspn(rest, " ");
    return json_sprintf("%s%s**Required role:** %s%s.%s", rest, *rest ? "\n\n" : "", who,
                        route->flags & BB_INSIDE
                            ? "; clients in the networks of `http.metrics_networks` need no token"
                            : "",
                        columns ? columns : "");
}

static void put_security(struct docs_maker *maker, json_t *operation, const struct bb_route *route)
{
    bool open = route->roles & BB_ANYONE;

    docs_put(maker, operation, "security",
             open ? json_array() : json_pack("[{s:[]}, {s:[]}]", "bearer", "clientCredentials"));
}

json_t *docs_operation(struct docs_maker *maker, const struct bb_module *module,
                       const struct bb_route *route)
{
    json_t *roles = roles_of(maker, route);
    char *columns = docs_columns(maker, module, route);
    json_t *operation = json_pack("{s:o, s:[s], s:o, s:o}", "operationId", operation_id(route),
                                  "tags", module->name, "summary", summary_of(route), "description",
                                  description_of(route, roles, columns));
    json_t *parameters = parameters_of(maker, route), *body = docs_request_body(maker, route);

    free(columns);
    if (json_array_size(parameters))
        docs_put(maker, operation, "parameters", parameters);
    else
        json_decref(parameters);
    if (body)
        docs_put(maker, operation, "requestBody", body);
    docs_put(maker, operation, "responses", docs_answers(maker, route));
    put_security(maker, operation, route);
    docs_put(maker, operation, "x-roles", roles);
    return operation;
}
