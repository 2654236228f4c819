/* Prints the settings in force as YAML, so that an operator can read and compare them. */
#include <stdlib.h>
#include <string.h>

#include "core/lib/field.h"
#include "core/lib/settings_tree.h"

#define HIDDEN "(hidden)"

/* Replaces a secret value, unless it is empty. */
static json_t *hidden(json_t *value)
{
    bool empty = json_is_string(value) && !json_string_length(value);

    return empty || json_is_null(value) ? json_incref(value) : json_string(HIDDEN);
}

static json_t *shown(json_t *value, const struct bb_field *field);

static json_t *shown_list(json_t *list, const struct bb_field *field)
{
    struct bb_field room, item = {.flags = field->flags & BB_SECRET};
    json_t *copy = json_array();

    if (field->type == BB_LIST && field->fields.count)
        item = *field_at(&field->fields, 0, &room);
    item.flags |= field->flags & BB_SECRET;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_array_append_new(copy, shown(json_array_get(list, i), &item))) {
            json_decref(copy);
            return NULL;
        }
    return copy;
}

static json_t *shown_object(json_t *object, const struct bb_field *field)
{
    json_t *copy = json_object(), *value;
    const char *key;

    json_object_foreach(object, key, value)
    {
        struct bb_field room, member = {.flags = 0};
        const struct bb_field *known =
            field->type == BB_OBJECT ? field_find(&field->fields, key, &room) : NULL;

        if (known)
            member = *known;
        member.flags |= field->flags & BB_SECRET;
        if (json_object_set_new(copy, key, shown(value, &member))) {
            json_decref(copy);
            return NULL;
        }
    }
    return copy;
}

/* Returns a copy without secrets; NULL if memory ran out. */
static json_t *shown(json_t *value, const struct bb_field *field)
{
    if (json_is_array(value))
        return shown_list(value, field);
    if (json_is_object(value))
        return shown_object(value, field);
    return field->flags & BB_SECRET ? hidden(value) : json_incref(value);
}

static json_t *json_of(const struct setting_value *value)
{
    if (value->field->type >= BB_OBJECT)
        return value->json ? json_incref(value->json) : NULL;
    return value->text ? json_string(value->text) : NULL;
}

/*
 * Numbers and booleans are printed without quotes; secrets are printed as text, regardless of type.
 */
static bool is_bare(const struct bb_field *field)
{
    return !(field->flags & BB_SECRET) &&
           (field->type == BB_INT || field->type == BB_NUMBER || field->type == BB_BOOL);
}

/* JSON is valid YAML, except that ${ would be expanded again. -1: out of memory. */
static int print_json(const struct setting_value *value, json_t *json, FILE *out)
{
    bool bare = is_bare(value->field);
    char *text = bare ? NULL : json_dumps(json, JSON_ENCODE_ANY);

    if (!bare && !text)
        return -1;
    for (const char *at = bare ? value->text : text; *at; at++) {
        if (at[0] == '$' && at[1] == '{')
            fputc('$', out);
        fputc(*at, out);
    }
    free(text);
    return 0;
}

static bool in_file(const struct settings *settings, const struct setting_section *section,
                    const struct bb_field *field)
{
    const struct node *map = *section->name ? section->node : settings->root;

    return node_child(map, field->name) || (field->alias && node_child(map, field->alias));
}

static int print_value(const struct settings *settings, const struct setting_section *section,
                       const struct setting_value *value, FILE *out)
{
    const char *unit = setting_unit(value->field), *indent = *section->name ? "  " : "";
    bool given = in_file(settings, section, value->field);
    bool set = value->field->type >= BB_OBJECT ? value->json != NULL : value->text != NULL;
    json_t *json = json_of(value), *safe = json ? shown(json, value->field) : NULL;
    int failed = set && !safe ? -1 : 0;

    json_decref(json);
    if (!failed)
        fprintf(out, "%s%s%s:%s", indent, set ? "" : "# ", value->field->name, set ? " " : "");
    if (set && !failed)
        failed = print_json(value, safe, out);
    json_decref(safe);
    if (failed)
        return -1;
    if (unit || !given)
        fprintf(out, "  # %s%s%s", unit ? unit : "", unit && !given ? ", " : "",
                given ? ""
                : set ? "default"
                      : "not set");
    fputc('\n', out);
    return 0;
}

static int print_section(const struct settings *settings, const struct setting_section *section,
                         FILE *out)
{
    int failed = 0;

    if (*section->name)
        fprintf(out, "%s:%s\n", section->name, section->count ? "" : " {}");
    for (size_t i = 0; i < section->count && !failed; i++)
        failed = print_value(settings, section, &section->values[i], out);
    return failed;
}

/* The section that was bound last is first in the list. */
static int print_sections(const struct settings *settings, const struct setting_section *section,
                          FILE *out)
{
    if (!section)
        return 0;
    return print_sections(settings, section->next, out) ? -1
                                                        : print_section(settings, section, out);
}

int settings_print(const struct settings *settings, FILE *out)
{
    fprintf(out, "# %s\n", settings->path);
    return print_sections(settings, settings->sections, out);
}
