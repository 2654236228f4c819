/* Fields as JSON Schema. */
#include "docs.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    [BB_TEXT] = "string",   [BB_EMAIL] = "string", [BB_UUID] = "string", [BB_INT] = "integer",
    [BB_NUMBER] = "number", [BB_BOOL] = "boolean", [BB_TIME] = "string", [BB_CHOICE] = "string",
    [BB_OBJECT] = "object", [BB_LIST] = "array",   [BB_ANY] = NULL,
};

static bool is_bounded(const struct bb_field *field)
{
    return field->min || field->max;
}

static void put_type(struct docs_maker *maker, json_t *schema, const struct bb_field *field)
{
    const char *name = names[field->type];

    if (!name)
        return;
    if (field->flags & (BB_NULLABLE | BB_CLEARS))
        docs_put(maker, schema, "type", json_pack("[s, s]", name, "null"));
    else
        docs_put(maker, schema, "type", json_string(name));
}

static void put_format(struct docs_maker *maker, json_t *schema, const struct bb_field *field,
                       bool answer)
{
    if (field->type == BB_EMAIL)
        docs_put(maker, schema, "format", json_string("email"));
    else if (field->type == BB_UUID)
        docs_put(maker, schema, "format", json_string("uuid"));
    else if (field->type == BB_TIME && answer)
        docs_put(maker, schema, "format", json_string("date-time"));
    else if (field->type == BB_INT && !is_bounded(field))
        docs_put(maker, schema, "format", json_string("int64"));
    if (field->flags & BB_SECRET && !answer)
        docs_put(maker, schema, "format", json_string("password"));
}

static void put_bounds(struct docs_maker *maker, json_t *schema, const struct bb_field *field)
{
    static const char *const keys[][2] = {
        [BB_TEXT] = {"minLength", "maxLength"},
        [BB_INT] = {"minimum", "maximum"},
        [BB_NUMBER] = {"minimum", "maximum"},
        [BB_LIST] = {"minItems", "maxItems"},
        [BB_ANY] = {NULL, NULL},
    };
    const char *const *key = keys[field->type];
    bool counts = field->type == BB_TEXT || field->type == BB_LIST;
    int64_t least = field->min;

    if (field->type == BB_EMAIL)
        docs_put(maker, schema, "maxLength", json_integer(254));
    if (counts && !least && field->flags & BB_NOT_BLANK)
        least = 1;
    if (!key[0] || (!is_bounded(field) && !least))
        return;
    if ((least || !counts) && least > INT64_MIN)
        docs_put(maker, schema, key[0], json_integer(least));
    if (field->max && field->max >= field->min && field->max < INT64_MAX)
        docs_put(maker, schema, key[1], json_integer(field->max));
}

static void put_choices(struct docs_maker *maker, json_t *schema, const struct bb_field *field)
{
    json_t *list = json_array();

    for (size_t i = 0; field->choices && field->choices[i]; i++)
        docs_append(maker, list, json_string(field->choices[i]));
    if (field->flags & (BB_NULLABLE | BB_CLEARS))
        docs_append(maker, list, json_null());
    docs_put(maker, schema, "enum", list);
}

/* An example or default is a text in the table, and a value of the field's type in the document. */
static json_t *value_of(const struct bb_field *field, const char *text)
{
    json_t *value = NULL;

    if (field->type == BB_INT || field->type == BB_NUMBER || field->type == BB_BOOL ||
        field->type >= BB_OBJECT)
        value = json_loads(text, JSON_DECODE_ANY, NULL);
    return value ? value : json_string(text);
}

static void put_inside(struct docs_maker *maker, json_t *schema, const struct bb_field *field,
                       bool answer)
{
    if (field->type == BB_LIST)
        docs_put(maker, schema, "items",
                 field->fields.count
                     ? docs_schema(maker, DOCS_ROW(bb_field, field->fields, 0), answer)
                     : json_object());
    if (field->type != BB_OBJECT || !field->fields.count)
        return;
    json_t *object = docs_object(maker, &field->fields, false, answer);

    docs_put(maker, schema, "properties", json_incref(json_object_get(object, "properties")));
    if (json_object_get(object, "required"))
        docs_put(maker, schema, "required", json_incref(json_object_get(object, "required")));
    json_decref(object);
}

json_t *docs_schema(struct docs_maker *maker, const struct bb_field *field, bool answer)
{
    json_t *schema = json_object();

    put_type(maker, schema, field);
    put_format(maker, schema, field, answer);
    put_bounds(maker, schema, field);
    if (field->type == BB_CHOICE)
        put_choices(maker, schema, field);
    put_inside(maker, schema, field, answer);
    docs_put_text(maker, schema, "description", field->help);
    if (field->fallback && *field->fallback)
        docs_put(maker, schema, "default", value_of(field, field->fallback));
    if (field->example && *field->example)
        docs_put(maker, schema, "examples", json_pack("[o]", value_of(field, field->example)));
    if (!schema)
        maker->failed = true;
    return schema;
}

json_t *docs_object(struct docs_maker *maker, const struct bb_table *fields, bool others,
                    bool answer)
{
    json_t *schema = json_pack("{s:s}", "type", "object"), *properties = json_object();
    json_t *required = json_array();

    for (size_t i = 0; i < fields->count; i++) {
        const struct bb_field *field = DOCS_ROW(bb_field, *fields, i);

        docs_put(maker, properties, field->name, docs_schema(maker, field, answer));
        if (field->flags & BB_REQUIRED)
            docs_append(maker, required, json_string(field->name));
    }
    docs_put(maker, schema, "properties", properties);
    if (json_array_size(required))
        docs_put(maker, schema, "required", required);
    else
        json_decref(required);
    if (others)
        docs_put(maker, schema, "additionalProperties", json_true());
    return schema;
}
