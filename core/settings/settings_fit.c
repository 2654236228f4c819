/*
 * Finds settings with BB_RESTART that differ from the live settings, which a reload cannot change.
 */
#include <string.h>

#include "core/settings/settings_tree.h"

static bool same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static const struct setting_value *find(const struct setting_section *section, const char *name)
{
    for (size_t i = 0; section && i < section->count; i++)
        if (!strcmp(section->values[i].field->name, name))
            return &section->values[i];
    return NULL;
}

static bool same(const struct setting_value *a, const struct setting_value *b)
{
    if (a->field->type >= BB_OBJECT)
        return json_equal(a->json, b->json) || a->json == b->json;
    return same_text(a->text, b->text);
}

void settings_fit(const struct settings *settings, const struct settings *live,
                  struct setting_problems *problems)
{
    for (const struct setting_section *at = settings->sections; at; at = at->next) {
        const struct setting_section *before = settings_section(live, at->name);

        for (size_t i = 0; i < at->count; i++) {
            const struct setting_value *value = &at->values[i];
            const struct setting_value *old = find(before, value->field->name);

            if (old && value->field->flags & BB_RESTART && !same(value, old))
                settings_complain(
                    settings, problems, at->name, value->field->name,
                    "cannot be changed by a reload: restart the host, or set it back");
        }
    }
}
