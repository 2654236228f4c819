/* Prints the settings in force as YAML, so that an operator can read and compare them. */
#include <stdlib.h>
#include <string.h>

#include "core/lib/field.h"
#include "core/lib/settings_tree.h"

/* Returns the value without secrets, a new reference; NULL if memory ran out. */
static json_t *shown(json_t *value, const struct bb_field *field)
{
    struct bb_field row = {.flags = field->flags & BB_SECRET};
    json_t *copy = NULL, *part;
    const char *key;
    size_t i;
    int failed = 0;

    if (json_is_array(value)) {
        copy = json_array();
        if (field->type == BB_LIST && field->fields.count)
            row = *field_at(&field->fields, 0);
        row.flags |= field->flags & BB_SECRET;
        json_array_foreach(value, i, part) failed |= json_array_append_new(copy, shown(part, &row));
    } else if (json_is_object(value)) {
        copy = json_object();
        json_object_foreach(value, key, part)
        {
            const struct bb_field *known =
                field->type == BB_OBJECT ? field_find(&field->fields, key) : NULL;
            struct bb_field member = known ? *known : (struct bb_field){.flags = 0};

            member.flags |= field->flags & BB_SECRET;
            failed |= json_object_set_new(copy, key, shown(part, &member));
        }
    } else if (field->flags & BB_SECRET && !json_is_null(value) &&
               !(json_is_string(value) && !json_string_length(value))) {
        copy = json_string("(hidden)");
    } else {
        return json_incref(value);
    }
    if (!failed)
        return copy;
    json_decref(copy);
    return NULL;
}

/*
 * Returns the value as JSON without secrets, which the caller frees. Numbers and booleans are
 * printed as they are; secrets are printed as text, regardless of type. NULL if memory ran out.
 */
static char *value_text(const struct setting_value *value)
{
    const struct bb_field *field = value->field;

    if (!(field->flags & BB_SECRET) &&
        (field->type == BB_INT || field->type == BB_NUMBER || field->type == BB_BOOL))
        return strdup(value->text);
    json_t *json = field->type >= BB_OBJECT ? json_incref(value->json) : json_string(value->text);
    json_t *safe = json ? shown(json, field) : NULL;
    char *text = safe ? json_dumps(safe, JSON_ENCODE_ANY) : NULL;

    json_decref(safe);
    json_decref(json);
    return text;
}

static int print_value(const struct settings *settings, const struct setting_section *section,
                       const struct setting_value *value, FILE *out)
{
    const struct bb_field *field = value->field;
    const yaml_node_t *map = *section->name ? section->node : settings->root;
    const char *unit = setting_unit(field), *indent = *section->name ? "  " : "";
    bool given = settings_member(settings, map, field->name).node ||
                 (field->alias && settings_member(settings, map, field->alias).node);
    bool set = field->type >= BB_OBJECT ? value->json != NULL : value->text != NULL;
    char *text = set ? value_text(value) : NULL;

    if (set && !text)
        return -1;
    fprintf(out, "%s%s%s:%s", indent, set ? "" : "# ", field->name, set ? " " : "");
    for (const char *at = text; at && *at; at++) {
        if (at[0] == '$' && at[1] == '{') /* JSON is valid YAML, except that ${ would be expanded */
            fputc('$', out);
        fputc(*at, out);
    }
    free(text);
    if (unit || !given)
        fprintf(out, "  # %s%s%s", unit ? unit : "", unit && !given ? ", " : "",
                given ? ""
                : set ? "default"
                      : "not set");
    fputc('\n', out);
    return 0;
}

/* The section that was bound last is first in the list. */
static int print_sections(const struct settings *settings, const struct setting_section *section,
                          FILE *out)
{
    if (!section)
        return 0;
    if (print_sections(settings, section->next, out))
        return -1;
    if (*section->name)
        fprintf(out, "%s:%s\n", section->name, section->count ? "" : " {}");
    for (size_t i = 0; i < section->count; i++)
        if (print_value(settings, section, &section->values[i], out))
            return -1;
    return 0;
}

int settings_print(const struct settings *settings, FILE *out)
{
    fprintf(out, "# %s\n", settings->path);
    return print_sections(settings, settings->sections, out);
}
