/* Binds a section of the tree to its table of fields. */
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

static void json_undo(void *json)
{
    json_decref(json);
}

BB_PRINTF(4, 5)
static void complain(struct binder *binder, const struct node *node, const char *name,
                     const char *format, ...)
{
    const struct node *place = node ? node : binder->section->node;
    va_list args;

    va_start(args, format);
    settings_complain_at(binder->settings, binder->problems, place ? place->line : 0,
                         binder->section->name, name, format, args);
    va_end(args);
}

/*
 * Passes on problems found by the field checks, with the place before and the unit of time after
 * them.
 */
static void relay(struct binder *binder, const struct node *node, const struct bb_field *field,
                  const struct problems *found)
{
    const char *unit = setting_unit(field);

    for (size_t i = 0; i < found->count; i++)
        complain(binder, node, found->list[i].field, "%s%s%s", found->list[i].text,
                 unit ? ", in " : "", unit ? unit : "");
    if (!found->count)
        complain(binder, node, field->name, "out of memory");
}

/* Keeps a list or object until the arena is freed; takes `json`. */
static void keep_json(struct binder *binder, struct setting_value *value, json_t *json)
{
    if (arena_defer(binder->settings->arena, json_undo, json)) {
        json_decref(json);
        complain(binder, NULL, value->field->name, "out of memory");
        return;
    }
    value->json = json;
}

/* Binds a scalar from the file or from the table's default. */
static void bind_text(struct binder *binder, struct setting_value *value, const struct node *node,
                      const char *text)
{
    struct arena *arena = binder->settings->arena;
    struct problems found = {.arena = arena};

    const char *plain = setting_time(value->field, text, arena);

    value->text = plain ? field_check_text(value->field, plain, arena, &found) : NULL;
    if (!value->text) {
        relay(binder, node, value->field, &found);
        return;
    }
    if (value->field->type == BB_BOOL)
        value->integer = !strcmp(value->text, "true");
    if (value->field->type == BB_INT)
        value->integer = strtoll(value->text, NULL, 10);
    if (value->field->type == BB_INT || value->field->type == BB_NUMBER)
        value->number = strtod(value->text, NULL);
}

/* Binds a list or object of the file, which is checked like a member of a body. */
static void bind_tree(struct binder *binder, struct setting_value *value, const struct node *node)
{
    const struct bb_field *field = value->field;
    struct problems found = {.arena = binder->settings->arena};
    struct bb_table table = {field, 1, sizeof *field};
    const char *section = binder->section->name;
    const char *where =
        arena_format(binder->settings->arena, "%s%s%s", section, *section ? "." : "", field->name);
    json_t *json = where ? node_json(binder->settings, node, field, where, binder->problems) : NULL;
    json_t *object = json ? json_pack("{s:o}", field->name, json) : NULL;

    if (!json)
        return;
    json_t *checked = object ? fields_check(&table, object, &found) : NULL;
    json_t *result = json_object_get(checked, field->name);

    if (result)
        keep_json(binder, value, json_incref(result));
    else
        relay(binder, node, field, &found);
    json_decref(checked);
    json_decref(object);
}

/* The default of a list or object is written as JSON in the table. */
static void bind_fallback(struct binder *binder, struct setting_value *value)
{
    const struct bb_field *field = value->field;

    bind_text(binder, value, NULL, field->fallback);
    if (!value->text || field->type < BB_OBJECT)
        return;
    json_t *json = json_loads(value->text, JSON_DECODE_ANY, NULL);

    if (json)
        keep_json(binder, value, json);
    else
        complain(binder, NULL, field->name, "out of memory");
}

static const char *scalar_text(const struct bb_field *field, const struct node *node)
{
    static const char *const yes[] = {"yes", "on"}, *const no[] = {"no", "off"};

    if (field->type != BB_BOOL)
        return node->text;
    for (size_t i = 0; i < 2; i++) {
        if (!strcmp(node->text, yes[i]))
            return "true";
        if (!strcmp(node->text, no[i]))
            return "false";
    }
    return node->text;
}

static void bind_node(struct binder *binder, struct setting_value *value, const struct node *node)
{
    const struct bb_field *field = value->field;

    if (field->type >= BB_OBJECT)
        bind_tree(binder, value, node);
    else if (node->kind == NODE_SCALAR)
        bind_text(binder, value, node, scalar_text(field, node));
    else
        complain(binder, node, field->name, "must be one value, not %s", node_kind_text(node));
}

static const struct node *find_node(struct binder *binder, const struct bb_field *field)
{
    const struct node *map =
        *binder->section->name ? binder->section->node : binder->settings->root;
    const struct node *node = node_child(map, field->name);

    return node || !field->alias ? node : node_child(map, field->alias);
}

static void bind_field(struct binder *binder, struct setting_value *value)
{
    const struct bb_field *field = value->field;
    const struct node *node = find_node(binder, field);

    if (node && node_broken(node)) {
        binder->unread = true;
        return;
    }
    if (node && node_null(node) && !(field->flags & BB_NULLABLE) && field->type != BB_ANY) {
        complain(binder, node, field->name, "has no value (write \"\" for an empty text)");
        return;
    }
    if (node && !(node_null(node) && field->flags & BB_NULLABLE))
        bind_node(binder, value, node);
    else if (field->fallback)
        bind_fallback(binder, value);
    else if (field->flags & BB_REQUIRED)
        complain(binder, NULL, field->name, "is required");
}

/* Reports keys of the section that are in no row of the table. */
static void report_unknown(struct binder *binder, const struct bb_table *fields)
{
    const struct node *map = binder->section->node;
    struct bb_field room;

    for (const struct node *child = map ? map->first : NULL; child; child = child->next)
        if (!field_find(fields, child->key, &room))
            complain(binder, child, child->key, "is not a setting");
}

static struct setting_section *section_new(struct settings *settings, const char *name,
                                           size_t count)
{
    struct setting_section *section = arena_alloc(settings->arena, sizeof *section);

    if (!section)
        return NULL;
    section->values = arena_alloc(settings->arena, (count + 1) * sizeof *section->values);
    if (!section->values)
        return NULL;
    section->name = name;
    section->count = count;
    section->next = settings->sections;
    settings->sections = section;
    return section;
}

/* Copies the rows, so that later code need not handle a smaller stride. */
static int take_rows(struct settings *settings, struct setting_section *section,
                     const struct bb_table *fields)
{
    struct bb_field *rows = arena_alloc(settings->arena, (fields->count + 1) * sizeof *rows);

    if (!rows)
        return -1;
    for (size_t i = 0; i < fields->count; i++) {
        struct bb_field room;

        rows[i] = *field_at(fields, i, &room);
        section->values[i].field = &rows[i];
    }
    return 0;
}

const struct setting_section *settings_bind(struct settings *settings, const char *name,
                                            const struct bb_table *fields,
                                            struct setting_problems *problems)
{
    struct setting_section *section = section_new(settings, name, fields->count);
    struct binder binder = {.settings = settings, .section = section, .problems = problems};
    size_t before = problems->count;

    if (!section || take_rows(settings, section, fields)) {
        setting_problem(problems, "%s: %s: out of memory", settings->path, name);
        return NULL;
    }
    section->node = *name ? node_child(settings->root, name) : NULL;
    if (section->node && section->node->kind != NODE_MAP && !node_null(section->node)) {
        setting_problem(problems, "%s:%u: %s: must be a mapping of settings, not %s",
                        settings->path, section->node->line, name, node_kind_text(section->node));
        return NULL;
    }
    for (size_t i = 0; i < section->count; i++)
        bind_field(&binder, &section->values[i]);
    report_unknown(&binder, fields);
    return problems->count == before && !binder.unread ? section : NULL;
}

void settings_claim(struct settings *settings, const char *section)
{
    (void)section_new(settings, section, 0); /* if memory runs out, another line about the
                                              * section is reported */
}
