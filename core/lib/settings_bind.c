/* Binds a section of the tree to its table of fields. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/field.h"
#include "core/lib/settings_tree.h"

struct binder {
    struct settings *settings;
    struct setting_section *section;
    struct setting_problems *problems;
    bool unread; /* a value that was already reported when the file was read */
};

/* ---- durations with units: "5s", "2m", "1h" or "500ms" ---- */

enum { DIGITS_MAX = 9 }; /* of a number with a unit: few enough for 64 bits in ms */

struct unit {
    unsigned flag;
    int64_t ms;
    const char *suffix, *name;
};

static const struct unit units[] = {
    {BB_MILLISECONDS, 1, "ms", "milliseconds"}, {BB_SECONDS, 1000, "s", "seconds"},
    {BB_MINUTES, 60000, "m", "minutes"},        {BB_HOURS, 3600000, "h", "hours"},
    {BB_DAYS, 86400000, "d", "days"},
};

static const struct unit *unit_of(const struct bb_field *field)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (field->flags & units[i].flag)
            return &units[i];
    return NULL;
}

const char *setting_unit(const struct bb_field *field)
{
    const struct unit *unit = unit_of(field);

    return unit ? unit->name : NULL;
}

/*
 * Converts a number with another unit to a plain number in the setting's own unit, if it is one;
 * otherwise returns the text itself. NULL if memory ran out.
 */
static const char *plain_time(const struct bb_field *field, const char *text, struct arena *arena)
{
    const struct unit *own = unit_of(field), *given = NULL;
    size_t digits = strspn(text, "0123456789");

    for (size_t i = 0; own && digits && digits <= DIGITS_MAX && i < sizeof units / sizeof *units;
         i++)
        if (!strcmp(units[i].suffix, text + digits))
            given = &units[i];
    if (!given)
        return text;
    int64_t ms = strtoll(text, NULL, 10) * given->ms;

    if (ms % own->ms == 0)
        return arena_format(arena, "%" PRId64, ms / own->ms);
    if (field->type == BB_NUMBER)
        return arena_format(arena, "%.9g", (double)ms / (double)own->ms);
    return text;
}

/* ---- values of the tree as JSON ---- */

/* Returns "true" or "false" for a boolean as written in YAML, or else the text itself. */
static const char *plain_bool(const char *text)
{
    static const char *const yes[] = {"yes", "on"}, *const no[] = {"no", "off"};

    for (size_t i = 0; i < 2; i++) {
        if (!strcmp(text, yes[i]))
            return "true";
        if (!strcmp(text, no[i]))
            return "false";
    }
    return text;
}

/* Parses a whole number or one with a fraction; NULL: not a number. */
static json_t *number_json(const char *text)
{
    char *end;

    if (!*text || text[strspn(text, "0123456789.eE+-")])
        return NULL;
    errno = 0;
    int64_t whole = strtoll(text, &end, 10);

    if (!*end && !errno)
        return json_integer(whole);
    double real = strtod(text, &end);

    return !*end && isfinite(real) ? json_real(real) : NULL;
}

/*
 * Converts the text to the type of the field (NULL: by YAML's rules); if that is impossible it
 * stays a string, which is then refused.
 */
static json_t *scalar_json(const struct settings *settings, const yaml_node_t *node,
                           const struct bb_field *field)
{
    bool any = !field || field->type == BB_ANY;
    bool plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    const char *text = node_text(node), *truth = plain_bool(text);
    json_t *json = NULL;

    if ((any || field->flags & BB_NULLABLE) && node_null(node))
        return json_null();
    if ((any ? plain : field->type == BB_BOOL) &&
        (!strcmp(truth, "true") || !strcmp(truth, "false")))
        return json_boolean(*truth == 't');
    if (!any)
        text = plain_time(field, text, settings->arena);
    if (text && (any ? plain : field->type == BB_INT || field->type == BB_NUMBER))
        json = number_json(text);
    return text && !json ? json_string(text) : json;
}

/*
 * Converts the value to JSON with the type of `field` if possible; other values are left for
 * fields_check(). Unknown members of declared objects are problems. The caller owns the result;
 * NULL with a problem added, or if memory ran out.
 */
static json_t *node_json(struct binder *binder, const yaml_node_t *node,
                         const struct bb_field *field, const char *where)
{
    struct settings *settings = binder->settings;
    bool typed = field && field->fields.count &&
                 field->type == (node->type == YAML_SEQUENCE_NODE ? BB_LIST : BB_OBJECT);
    json_t *json = node->type == YAML_SEQUENCE_NODE ? json_array() : json_object();
    bool failed = !json;
    if (node->type == YAML_SCALAR_NODE) {
        json_decref(json);
        return scalar_json(settings, node, field);
    }
    for (const int *at = node->data.sequence.items.start;
         json && node->type == YAML_SEQUENCE_NODE && at < node->data.sequence.items.top; at++) {
        const struct bb_field *item = typed ? field_at(&field->fields, 0) : NULL;
        json_t *value = node_json(binder, settings_node(settings, *at), item, where);

        failed = !value || json_array_append_new(json, value) || failed;
    }
    for (const yaml_node_pair_t *at = node->data.mapping.pairs.start;
         json && node->type == YAML_MAPPING_NODE && at < node->data.mapping.pairs.top; at++) {
        const yaml_node_t *key = settings_node(settings, at->key);
        const char *path = arena_format(settings->arena, "%s.%s", where, node_text(key));
        const struct bb_field *member = typed ? field_find(&field->fields, node_text(key)) : NULL;

        if (typed && !member) {
            setting_problem(binder->problems, "%s:%u: %s: is not a setting", settings->path,
                            (unsigned)key->start_mark.line + 1, path ? path : where);
            failed = true;
            continue;
        }
        json_t *value =
            path ? node_json(binder, settings_node(settings, at->value), member, path) : NULL;

        failed = !value || json_object_set_new(json, node_text(key), value) || failed;
    }
    if (!failed)
        return json;
    json_decref(json);
    return NULL;
}

/* ---- values ---- */

#define COMPLAIN(binder, which, ...)                                                               \
    settings_complain((binder)->settings, (binder)->problems, (binder)->section->name, which,      \
                      __VA_ARGS__)

/* Passes on problems found by the field checks, with the unit of time after them. */
static void relay(struct binder *binder, const struct bb_field *field, const struct problems *found)
{
    const char *unit = setting_unit(field);

    for (size_t i = 0; i < found->count; i++)
        COMPLAIN(binder, found->list[i].field, "%s%s%s", found->list[i].text, unit ? ", in " : "",
                 unit ? unit : "");
    if (!found->count)
        COMPLAIN(binder, field->name, "out of memory");
}

static void json_undo(void *json)
{
    json_decref(json);
}

/* Keeps a list or object until the arena is freed; takes `json`. */
static void keep_json(struct binder *binder, struct setting_value *value, json_t *json)
{
    if (json && !arena_defer(binder->settings->arena, json_undo, json)) {
        value->json = json;
        return;
    }
    json_decref(json);
    COMPLAIN(binder, value->field->name, "out of memory");
}

/* Binds a scalar from the file, or the table's default, which is JSON for a list or object. */
static void bind_text(struct binder *binder, struct setting_value *value, const char *text)
{
    const struct bb_field *field = value->field;
    struct arena *arena = binder->settings->arena;
    struct problems found = {.arena = arena};
    const char *plain = plain_time(field, field->type == BB_BOOL ? plain_bool(text) : text, arena);

    value->text = plain ? field_check_text(field, plain, arena, &found) : NULL;
    if (!value->text)
        relay(binder, field, &found);
    else if (field->type >= BB_OBJECT)
        keep_json(binder, value, json_loads(value->text, JSON_DECODE_ANY, NULL));
    else if (field->type == BB_BOOL)
        value->integer = !strcmp(value->text, "true");
    else if (field->type == BB_INT)
        value->integer = strtoll(value->text, NULL, 10);
    if (value->text && (field->type == BB_INT || field->type == BB_NUMBER))
        value->number = strtod(value->text, NULL);
}

/* Binds a list or object of the file, which is checked like a member of a body. */
static void bind_tree(struct binder *binder, struct setting_value *value, const yaml_node_t *node)
{
    const struct bb_field *field = value->field;
    struct problems found = {.arena = binder->settings->arena};
    struct bb_table table = {field, 1, sizeof *field};
    const char *section = binder->section->name;
    const char *where =
        arena_format(binder->settings->arena, "%s%s%s", section, *section ? "." : "", field->name);
    size_t before = binder->problems->count;
    json_t *json = where ? node_json(binder, node, field, where) : NULL;
    json_t *object = json ? json_pack("{s:o}", field->name, json) : NULL;
    json_t *checked = object ? fields_check(&table, object, &found) : NULL;
    json_t *result = json_object_get(checked, field->name);

    if (result)
        keep_json(binder, value, json_incref(result));
    else if (json || binder->problems->count == before)
        relay(binder, field, &found);
    json_decref(checked);
    json_decref(object);
}

static bool is_unread(const struct settings *settings, const yaml_node_t *node)
{
    bool unread = node->type == YAML_SCALAR_NODE && !node_text(node);

    for (const int *at = node->data.sequence.items.start;
         node->type == YAML_SEQUENCE_NODE && at < node->data.sequence.items.top; at++)
        unread = unread || is_unread(settings, settings_node(settings, *at));
    for (const yaml_node_pair_t *at = node->data.mapping.pairs.start;
         node->type == YAML_MAPPING_NODE && at < node->data.mapping.pairs.top; at++)
        unread = unread || is_unread(settings, settings_node(settings, at->value));
    return unread;
}

static void bind_field(struct binder *binder, struct setting_value *value)
{
    const struct bb_field *field = value->field;
    const yaml_node_t *map =
        *binder->section->name ? binder->section->node : binder->settings->root;
    const yaml_node_t *node = settings_member(binder->settings, map, field->name).node;

    if (!node && field->alias)
        node = settings_member(binder->settings, map, field->alias).node;
    if (node && is_unread(binder->settings, node)) {
        binder->unread = true;
        return;
    }
    if (node && node_null(node) && field->flags & BB_NULLABLE)
        node = NULL;
    if (node && node_null(node) && field->type != BB_ANY)
        COMPLAIN(binder, field->name, "has no value (write \"\" for an empty text)");
    else if (node && field->type >= BB_OBJECT)
        bind_tree(binder, value, node);
    else if (node && node->type != YAML_SCALAR_NODE)
        COMPLAIN(binder, field->name, "must be one value, not %s", node_kind(node));
    else if (node || field->fallback)
        bind_text(binder, value, node ? node_text(node) : field->fallback);
    else if (field->flags & BB_REQUIRED)
        COMPLAIN(binder, field->name, "is required");
}

/* NULL if memory ran out. The rows must live as long as the settings. */
static struct setting_section *section_new(struct settings *settings, const char *name,
                                           const struct bb_table *fields)
{
    struct setting_section *section = arena_alloc(settings->arena, sizeof *section);

    if (section)
        section->values =
            arena_alloc(settings->arena, (fields->count + 1) * sizeof *section->values);
    if (!section || !section->values)
        return NULL;
    for (size_t i = 0; i < fields->count; i++)
        section->values[i].field = field_at(fields, i);
    section->name = name;
    section->count = fields->count;
    section->next = settings->sections;
    settings->sections = section;
    return section;
}

const struct setting_section *settings_bind(struct settings *settings, const char *name,
                                            const struct bb_table *fields,
                                            struct setting_problems *problems)
{
    struct setting_section *section = section_new(settings, name, fields);
    struct binder binder = {.settings = settings, .section = section, .problems = problems};
    size_t before = problems->count;
    if (!section) {
        setting_problem(problems, "%s: %s: out of memory", settings->path, name);
        return NULL;
    }
    const yaml_node_t *node = *name ? settings_member(settings, settings->root, name).node : NULL;

    section->node = node;
    if (node && is_unread(settings, node) && node->type == YAML_SCALAR_NODE)
        return NULL;
    if (node && node->type != YAML_MAPPING_NODE && !node_null(node)) {
        settings_complain(settings, problems, name, NULL, "must be a mapping of settings, not %s",
                          node_kind(node));
        return NULL;
    }
    for (size_t i = 0; i < section->count; i++)
        bind_field(&binder, &section->values[i]);
    for (const yaml_node_pair_t *at = node ? node->data.mapping.pairs.start : NULL;
         node && node->type == YAML_MAPPING_NODE && at < node->data.mapping.pairs.top; at++) {
        const char *key = node_text(settings_node(settings, at->key));

        if (!field_find(fields, key))
            COMPLAIN(&binder, key, "is not a setting");
    }
    return problems->count == before && !binder.unread ? section : NULL;
}

void settings_claim(struct settings *settings, const char *section)
{
    static const struct bb_table none = {.count = 0};

    (void)section_new(settings, section, &none); /* if memory runs out, another line about the
                                                  * section is reported */
}

/* ---- structs of settings ---- */

/* Returns the size and alignment of the C type for a setting of this type. */
static size_t size_of(enum bb_type type, size_t *align)
{
    switch (type) {
    case BB_INT:
        *align = alignof(int64_t);
        return sizeof(int64_t);
    case BB_NUMBER:
        *align = alignof(double);
        return sizeof(double);
    case BB_BOOL:
        *align = alignof(bool);
        return sizeof(bool);
    default: /* texts; json_t * */
        *align = alignof(void *);
        return sizeof(void *);
    }
}

const char *settings_bind_fault(const struct bb_table *settings, size_t row, size_t size)
{
    const struct bb_field *field = field_at(settings, row);
    const struct bb_bind *bind = &field->bind;
    size_t align, wanted = size_of(field->type, &align);

    if (!bind->size)
        return NULL;
    if (bind->size != wanted)
        return "is bound to a member that is not of its type's size";
    if (bind->offset % align)
        return "is bound to a place that its type cannot have";
    if (bind->offset > size || size - bind->offset < wanted)
        return "is bound to a place outside of `settings_size`";
    for (size_t i = 0; i < row; i++) {
        const struct bb_bind *other = &field_at(settings, i)->bind;

        if (other->size && other->offset < (size_t)bind->offset + bind->size &&
            bind->offset < (size_t)other->offset + other->size)
            return "is bound to a member that another setting is bound to";
    }
    return NULL;
}

void section_store(const struct setting_section *section, void *members)
{
    for (size_t i = 0; i < section->count; i++) {
        const struct setting_value *value = &section->values[i];
        void *member = (char *)members + value->field->bind.offset;

        if (!value->field->bind.size)
            continue;
        if (value->field->type == BB_INT)
            *(int64_t *)member = value->integer;
        else if (value->field->type == BB_NUMBER)
            *(double *)member = value->number;
        else if (value->field->type == BB_BOOL)
            *(bool *)member = value->integer != 0;
        else if (value->field->type >= BB_OBJECT)
            *(json_t **)member = value->json;
        else
            *(const char **)member = value->text;
    }
}
