/* The body of a request: JSON, a form, or parts with files. */
#include "docs.h"

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

json_t *docs_request_body(struct docs_maker *maker, const struct bb_route *route)
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
