/* Builds JSON objects and lists, and describes fields as JSON Schema. */
#include <string.h>

#include "modules/docs/docs.h"

void docs_put(struct docs_maker *maker, json_t *object, const char *key, json_t *value)
{
    maker->failed |= json_object_set_new(object, key, value) != 0;
}

void docs_append(struct docs_maker *maker, json_t *list, json_t *value)
{
    maker->failed |= json_array_append_new(list, value) != 0;
}

void docs_put_text(struct docs_maker *maker, json_t *object, const char *key, const char *text)
{
    if (text && *text)
        docs_put(maker, object, key, json_string(text));
}

void docs_put_list(struct docs_maker *maker, json_t *object, const char *key, json_t *list)
{
    if (json_array_size(list) || !list)
        docs_put(maker, object, key, list);
    else
        json_decref(list);
}

json_t *docs_reference(const char *kind, const char *name)
{
    return json_pack("{s:o}", "$ref", json_sprintf("#/components/%s/%s", kind, name));
}

/* ---- fields ---- */

static const struct {
    const char *name, *least, *most; /* the JSON Schema type; the keywords of its bounds, or NULL */
    const char *format;
} types[] = {
    [BB_TEXT] = {"string", "minLength", "maxLength", NULL},
    [BB_EMAIL] = {"string", NULL, NULL, "email"},
    [BB_UUID] = {"string", NULL, NULL, "uuid"},
    [BB_INT] = {"integer", "minimum", "maximum", NULL},
    [BB_NUMBER] = {"number", "minimum", "maximum", NULL},
    [BB_BOOL] = {"boolean", NULL, NULL, NULL},
    [BB_TIME] = {"string", NULL, NULL, "date-time"},
    [BB_CHOICE] = {"string", NULL, NULL, NULL},
    [BB_OBJECT] = {"object", NULL, NULL, NULL},
    [BB_LIST] = {"array", "minItems", "maxItems", NULL},
    [BB_ANY] = {NULL, NULL, NULL, NULL},
};

static void schema_members(struct docs_maker *maker, json_t *schema, const struct bb_table *fields,
                           bool answer)
{
    json_t *properties = json_object(), *required = json_array();

    for (size_t i = 0; i < fields->count; i++) {
        const struct bb_field *field = BB_ROW(bb_field, *fields, i);

        docs_put(maker, properties, field->name, docs_schema(maker, field, answer));
        if (field->flags & BB_REQUIRED)
            docs_append(maker, required, json_string(field->name));
    }
    docs_put(maker, schema, "properties", properties);
    docs_put_list(maker, schema, "required", required);
}

json_t *docs_schema(struct docs_maker *maker, const struct bb_field *field, bool answer)
{
    json_t *schema = json_object(), *choices = json_array();
    const char *type = types[field->type].name, *format = types[field->type].format;
    bool counts = field->type == BB_TEXT || field->type == BB_LIST;
    int64_t least = counts && !field->min && field->flags & BB_NOT_BLANK ? 1 : field->min;
    bool null = field->flags & (BB_NULLABLE | BB_CLEARS);

    if (type)
        docs_put(maker, schema, "type",
                 null ? json_pack("[s, s]", type, "null") : json_string(type));
    if (field->flags & BB_SECRET && !answer)
        format = "password";
    else if (field->type == BB_TIME && !answer) /* other forms are accepted, too */
        format = NULL;
    else if (field->type == BB_INT && !field->min && !field->max)
        format = "int64";
    docs_put_text(maker, schema, "format", format);
    if (field->type == BB_EMAIL)
        docs_put(maker, schema, "maxLength", json_integer(254));
    if (types[field->type].least && (least || field->max)) {
        if ((least || !counts) && least > INT64_MIN)
            docs_put(maker, schema, types[field->type].least, json_integer(least));
        if (field->max && field->max >= field->min && field->max < INT64_MAX)
            docs_put(maker, schema, types[field->type].most, json_integer(field->max));
    }
    for (size_t i = 0; field->type == BB_CHOICE && field->choices[i]; i++)
        docs_append(maker, choices, json_string(field->choices[i]));
    if (field->type == BB_CHOICE && null)
        docs_append(maker, choices, json_null());
    docs_put_list(maker, schema, "enum", choices);
    if (field->type == BB_LIST)
        docs_put(maker, schema, "items",
                 field->fields.count
                     ? docs_schema(maker, BB_ROW(bb_field, field->fields, 0), answer)
                     : json_object());
    if (field->type == BB_OBJECT && field->fields.count)
        schema_members(maker, schema, &field->fields, answer);
    docs_put_text(maker, schema, "description", field->help);
    if (field->fallback && *field->fallback)
        docs_put(maker, schema, "default", example_value(field, field->fallback));
    if (field->example && *field->example)
        docs_put(maker, schema, "examples", json_pack("[o]", example_value(field, field->example)));
    return schema;
}

json_t *docs_object(struct docs_maker *maker, const struct bb_table *fields, bool answer)
{
    json_t *schema = json_pack("{s:s}", "type", "object");

    schema_members(maker, schema, fields, answer);
    return schema;
}
