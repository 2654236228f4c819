#include "modules/common/example.h"

json_t *example_value(const struct bb_field *field, const char *text)
{
    json_t *value = NULL;

    if (field->flags & BB_NULLABLE && !strcmp(text, "null"))
        return json_null();
    if (field->type == BB_INT || field->type == BB_NUMBER || field->type == BB_BOOL ||
        field->type >= BB_OBJECT)
        value = json_loads(text, JSON_DECODE_ANY, NULL);
    return value ? value : json_string(text);
}

/* Recurses as deep as the fields in a module's tables are nested. */
static json_t *example_field(const struct bb_field *field, bool all)
{
    if (field->example)
        return example_value(field, field->example);
    switch (field->type) {
    case BB_EMAIL:
        return json_string("ada@example.com");
    case BB_UUID:
        return json_string("01a1fdfd-a419-7423-8a51-0d2f3f1c6f11");
    case BB_INT:
    case BB_NUMBER:
        return json_integer(field->min > 0 ? field->min : 1);
    case BB_BOOL:
        return json_true();
    case BB_TIME:
        return json_string("2026-04-01T00:00:00Z");
    case BB_CHOICE:
        return json_string(field->choices[0]);
    case BB_OBJECT:
        return example_of(&field->fields, all);
    case BB_LIST:
        return field->fields.count
                   ? json_pack("[o]", example_field(BB_ROW(bb_field, field->fields, 0), all))
                   : json_array();
    default:
        return json_string(field->flags & BB_SECRET ? "correct horse battery staple" : field->name);
    }
}

json_t *example_of(const struct bb_table *fields, bool all)
{
    if (fields->count && !strcmp(BB_ROW(bb_field, *fields, 0)->name, "."))
        return example_field(BB_ROW(bb_field, *fields, 0), all);
    json_t *object = json_object();
    int failed = 0;

    for (size_t i = 0; i < fields->count; i++) {
        const struct bb_field *field = BB_ROW(bb_field, *fields, i);

        if (all || field->flags & BB_REQUIRED || field->example)
            failed |= json_object_set_new(object, field->name, example_field(field, all));
    }
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}
