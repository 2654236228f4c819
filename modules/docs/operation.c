/* A route as an operation of a path. */
#include "docs.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    return json_sprintf(
        "%s%s**Required role:** %s%s.%s", rest, *rest ? "\n\n" : "", who,
        route->flags & BB_INSIDE ? "; clients in the networks of `http.inside` need no token" : "",
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
