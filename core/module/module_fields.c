/* Checks tables of fields, see module_validate.h. */
#include <stdio.h>
#include <string.h>

#include "core/field/field.h"
#include "core/field/settings_struct.h"
#include "core/module/module_validate.h"

#define SETTINGS_STRUCT_MAX 65536

static void complain(struct setting_problems *problems, const char *place, const char *name,
                     const char *reason)
{
    setting_problem(problems, "module %s: field \"%s\" %s", place, name, reason);
}

/*
 * A default that its own field refuses would cause an error at the first start without the setting.
 */
static void check_fallback(const struct bb_field *field, const char *place,
                           struct setting_problems *problems)
{
    struct arena *arena = field->fallback ? arena_new() : NULL;
    struct problems found = {.arena = arena};

    if (!arena)
        return;
    if (!field_check_text(field, field->fallback, arena, &found))
        setting_problem(problems, "module %s: the default of field \"%s\" %s", place, field->name,
                        found.count ? found.list[0].text : "finds no memory");
    arena_free(arena);
}

static void check_field(const struct bb_field *field, const char *place,
                        struct setting_problems *problems)
{
    if (field->type < BB_TEXT || field->type > BB_ANY) {
        complain(problems, place, field->name, "has an unknown type");
        return;
    }
    if ((field->type == BB_CHOICE) != (field->choices != NULL))
        complain(problems, place, field->name, "must have choices just if it is a BB_CHOICE");
    if (field->max && field->min > field->max)
        complain(problems, place, field->name, "has a lower bound above the upper one");
    if (field->fields.count && field->type != BB_OBJECT && field->type != BB_LIST)
        complain(problems, place, field->name, "has fields of its own but is no object or list");
    if (field->fields.count > 1 && field->type == BB_LIST)
        complain(problems, place, field->name, "is a list and may have one row of fields only");
    if (field->type != BB_CHOICE || field->choices)
        check_fallback(field, place, problems);
    fields_sane(&field->fields, place, problems);
}

static bool named(const struct bb_field *field, const char *name)
{
    return name && (!strcmp(field->name, name) || (field->alias && !strcmp(field->alias, name)));
}

/* Whether an earlier field has its name or alias. */
static bool repeats(const struct bb_field *rows, const struct bb_field *field)
{
    for (const struct bb_field *at = rows; at < field; at++)
        if (named(at, field->name) || named(at, field->alias))
            return true;
    return false;
}

/*
 * Checks the binding of a row. A bound row requires a `settings_size`, and a member within that
 * size.
 */
static void check_bind(const struct bb_table *fields, size_t row, const size_t *settings_size,
                       const char *place, struct setting_problems *problems)
{
    const struct bb_field *field = &MODULE_ROWS(bb_field, *fields)[row];
    const char *fault = settings_size      ? settings_struct_fault(fields, row, *settings_size)
                        : field->bind.size ? "is bound, but it is no setting"
                                           : NULL;

    if (fault)
        complain(problems, place, field->name, fault);
}

static void check_fields(const struct bb_table *fields, const size_t *settings_size,
                         const char *place, struct setting_problems *problems)
{
    const struct bb_field *rows = MODULE_ROWS(bb_field, *fields);

    for (size_t i = 0; i < fields->count; i++) {
        if (!rows[i].name || !*rows[i].name) {
            setting_problem(problems, "module %s: a field has no name", place);
            return;
        }
        check_field(&rows[i], place, problems);
        check_bind(fields, i, settings_size, place, problems);
        if (repeats(rows, &rows[i]))
            complain(problems, place, rows[i].name, "is there twice");
    }
}

void fields_sane(const struct bb_table *fields, const char *place,
                 struct setting_problems *problems)
{
    check_fields(fields, NULL, place, problems);
}

void settings_sane(const struct bb_module *descriptor, struct setting_problems *problems)
{
    char place[256];

    snprintf(place, sizeof place, "%s: settings", descriptor->name);
    if (descriptor->settings_size > SETTINGS_STRUCT_MAX)
        setting_problem(problems, "module %s: `settings_size` is more than %d bytes", place,
                        SETTINGS_STRUCT_MAX);
    check_fields(&descriptor->settings, &descriptor->settings_size, place, problems);
}
