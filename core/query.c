#include "core/query.h"

#include <stdio.h>
#include <string.h>

#include "core/text.h"

#define FORM_PAIRS_MAX 1000

/* One raw pair; where there is no '=', the value is empty. */
struct pair {
    const char *name, *value;
    size_t name_length, value_length;
};

/* Cuts the next pair that is not empty off *at; false at the end. */
static bool next_pair(const char **at, const char *end, struct pair *pair)
{
    while (*at < end && **at == '&')
        ++*at;
    if (*at == end)
        return false;
    const char *and = memchr(*at, '&', (size_t)(end - *at));
    const char *stop = and? and : end;
    const char *equals = memchr(*at, '=', (size_t)(stop - *at));
    const char *name_end = equals ? equals : stop;

    pair->name = *at;
    pair->name_length = (size_t)(name_end - *at);
    pair->value = equals ? equals + 1 : stop;
    pair->value_length = (size_t)(stop - pair->value);
    *at = stop;
    return true;
}

/* What was given for a field: by its name, and by its alias. */
struct slot {
    struct pair by_name, by_alias; /* value NULL: not given */
};

static bool keep(struct pair *place, const struct pair *pair, const char *name,
                 struct problems *problems)
{
    if (place->value) {
        problems_add(problems, name, "must be given once");
        return false;
    }
    *place = *pair;
    return true;
}

/* Puts a pair where it belongs, if a field is called so. False: given twice. */
static bool sort_in(const struct bb_table *fields, struct slot *slots, const struct pair *pair,
                    struct arena *arena, struct problems *problems)
{
    char *name;

    if (text_percent(pair->name, pair->name_length, true, arena, &name, NULL))
        return true;
    for (size_t i = 0; i < fields->count; i++) {
        struct bb_field room;
        const struct bb_field *field = field_at(fields, i, &room);

        if (!strcmp(field->name, name))
            return keep(&slots[i].by_name, pair, name, problems);
        if (field->alias && !strcmp(field->alias, name))
            return keep(&slots[i].by_alias, pair, name, problems);
    }
    return true;
}

/* Decodes and checks what was given for one field. False after a problem or without memory. */
static bool take(const struct bb_field *field, const struct slot *slot, struct arena *arena,
                 struct query_values *values, struct problems *problems)
{
    const struct pair *pair = slot->by_name.value ? &slot->by_name : &slot->by_alias;
    char *text = NULL;

    if (pair->value && text_percent(pair->value, pair->value_length, true, arena, &text, NULL)) {
        problems_add(problems, field->name, "is not properly encoded");
        return false;
    }
    const char *value = field_check_text(field, text, arena, problems);

    if (!value)
        return !text && !(field->flags & BB_REQUIRED);
    values->list[values->count++] = (struct query_value){field->name, value};
    return true;
}

int query_check(const struct bb_table *fields, const char *raw, struct arena *arena,
                struct query_values *values, struct problems *problems)
{
    struct slot *slots = arena_alloc(arena, fields->count * sizeof(*slots));
    const char *at = raw ? raw : "", *end = at + strlen(at);
    struct pair pair;
    bool good = true;

    *values =
        (struct query_values){.list = arena_alloc(arena, fields->count * sizeof(*values->list))};
    if (!slots || !values->list)
        return -1;
    while (next_pair(&at, end, &pair)) {
        if (!sort_in(fields, slots, &pair, arena, problems))
            good = false;
    }
    for (size_t i = 0; i < fields->count; i++) {
        struct bb_field room;

        if (!take(field_at(fields, i, &room), &slots[i], arena, values, problems))
            good = false;
    }
    return good ? 0 : -1;
}

const char *query_get(const struct query_values *values, const char *name)
{
    for (size_t i = 0; i < values->count; i++) {
        if (!strcmp(values->list[i].name, name))
            return values->list[i].value;
    }
    return NULL;
}

/* Adds a pair to the object; the reason why not, or NULL. */
static const char *form_add(json_t *object, const struct pair *pair, struct arena *arena)
{
    char *name, *value;

    if (text_percent(pair->name, pair->name_length, true, arena, &name, NULL) ||
        text_percent(pair->value, pair->value_length, true, arena, &value, NULL))
        return "not properly encoded";
    if (json_object_get(object, name))
        return "a name is there twice";
    if (json_object_size(object) == FORM_PAIRS_MAX)
        return "too many fields";
    return json_object_set_new(object, name, json_string(value)) ? "out of memory" : NULL;
}

json_t *form_read(const char *bytes, size_t length, struct json_problem *problem)
{
    struct arena *arena = arena_new();
    json_t *object = arena ? json_object() : NULL;
    const char *reason = object ? NULL : "out of memory";
    const char *at = bytes;
    struct pair pair = {.name = bytes};

    while (!reason && next_pair(&at, bytes + length, &pair))
        reason = form_add(object, &pair, arena);
    bool memory = !object || arena_starved(arena);

    arena_free(arena);
    if (!reason)
        return object;
    json_decref(object);
    *problem =
        (struct json_problem){.line = 1, .column = (int)(pair.name - bytes) + 1, .memory = memory};
    snprintf(problem->text, sizeof(problem->text), "%s", reason);
    return NULL;
}
