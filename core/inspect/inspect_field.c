/* Fields as JSON, see inspect.h. */
#include "core/inspect/inspect.h"
#include "core/module/module_load.h"

static const char *type_name(enum bb_type type)
{
    static const char *const names[] = {
        [BB_TEXT] = "text",     [BB_EMAIL] = "email",  [BB_UUID] = "uuid", [BB_INT] = "integer",
        [BB_NUMBER] = "number", [BB_BOOL] = "boolean", [BB_TIME] = "time", [BB_CHOICE] = "choice",
        [BB_OBJECT] = "object", [BB_LIST] = "list",    [BB_ANY] = "any",
    };

    return type >= BB_TEXT && type <= BB_ANY ? names[type] : "unknown";
}

/* Only what is set: most fields have few flags. */
static int add_flags(json_t *object, unsigned flags)
{
    static const struct {
        unsigned flag;
        const char *name;
    } rows[] = {
        {BB_REQUIRED, "required"}, {BB_NULLABLE, "nullable"}, {BB_NOT_BLANK, "notBlank"},
        {BB_SECRET, "secret"},     {BB_RESTART, "restart"},   {BB_CLEARS, "clears"},
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (flags & rows[i].flag)
            failed |= json_object_set_new(object, rows[i].name, json_true());
    return failed;
}

static int add_bounds(json_t *object, const struct bb_field *field)
{
    int failed = 0;

    if (!field->min && !field->max)
        return 0;
    failed |= json_object_set_new(object, "min", json_integer(field->min));
    if (field->max >= field->min)
        failed |= json_object_set_new(object, "max", json_integer(field->max));
    return failed;
}

static int add_text(json_t *object, const char *name, const char *text)
{
    return text ? json_object_set_new(object, name, json_string(text)) : 0;
}

static int add_choices(json_t *object, const char *const *choices)
{
    json_t *list = choices ? json_array() : NULL;
    int failed = 0;

    if (!choices)
        return 0;
    for (; *choices; choices++)
        failed |= json_array_append_new(list, json_string(*choices));
    return json_object_set_new(object, "choices", list) | failed;
}

static int fill(json_t *object, const struct bb_field *field)
{
    int failed = json_object_set_new(object, "name", json_string(field->name ? field->name : ""));

    failed |= json_object_set_new(object, "type", json_string(type_name(field->type)));
    failed |= add_flags(object, field->flags) | add_bounds(object, field);
    failed |= add_choices(object, field->choices);
    if (field->fields.count)
        failed |= json_object_set_new(object, "fields", inspect_fields(&field->fields));
    failed |= add_text(object, "alias", field->alias) | add_text(object, "help", field->help);
    failed |= add_text(object, "default", field->fallback);
    return failed | add_text(object, "example", field->example);
}

json_t *inspect_fields(const struct bb_table *fields)
{
    json_t *list = json_array();
    int failed = !list;

    for (size_t i = 0; i < fields->count; i++) {
        json_t *object = json_object();

        failed |= fill(object, &MODULE_ROWS(bb_field, *fields)[i]);
        failed |= json_array_append_new(list, object);
    }
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}
