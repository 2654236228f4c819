#include "core/lib/query.h"

#include <stdio.h>
#include <string.h>

#include "core/lib/text.h"

#define FORM_PAIRS_MAX 1000
#define MORE "..." /* ends a list of names that is too long */

/* A raw name and value; without '=' the value is empty. */
struct pair {
    const char *name, *value;
    size_t name_length, value_length;
};

/* Removes the next non-empty pair from *at; false at the end. */
static bool query_next_pair(const char **at, const char *end, struct pair *pair)
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

/* The values given for a field, by its name and by its alias. */
struct slot {
    struct pair by_name, by_alias; /* value NULL: not given */
};

/* Returns whether a list "a, b" contains this name of `length` bytes. */
static bool query_is_listed(const char *list, const char *name, size_t length)
{
    while (list) {
        if (!strncmp(list, name, length) && (!list[length] || list[length] == ','))
            return true;
        list = strchr(list, ' ');
        if (list)
            list++;
    }
    return false;
}

/* Percent-encodes as much of a name as fits; sets *left to the number of bytes that did not fit. */
static size_t query_encode(const char *name, size_t *left, char *out, size_t room)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789-._~";
    size_t used = 0;

    for (; *left && used + sizeof "%00" < room; name++, --*left) {
        const char *format = strchr(plain, *name) ? "%c" : "%%%02X";

        used += (size_t)snprintf(out + used, room - used, format, (unsigned char)*name);
    }
    return used;
}

/* Adds a name to the ignored ones, if there is room. */
static void query_ignore(struct query_values *values, const char *name, size_t length,
                         struct arena *arena)
{
    char encoded[QUERY_IGNORED_MAX];

    if (!values->ignored)
        values->ignored = length ? arena_alloc(arena, QUERY_IGNORED_MAX) : NULL;
    if (!length || !values->ignored)
        return;
    size_t size = query_encode(name, &length, encoded, sizeof encoded),
           used = strlen(values->ignored);
    bool full = used >= strlen(MORE) && !strcmp(values->ignored + used - strlen(MORE), MORE);

    if (full || query_is_listed(values->ignored, encoded, size))
        return;
    bool fits = !length && used + size + strlen(", , " MORE) < QUERY_IGNORED_MAX;

    snprintf(values->ignored + used, QUERY_IGNORED_MAX - used, "%s%s", used ? ", " : "",
             fits ? encoded : MORE);
}

/* Assigns a pair to its field, if there is one. */
static void query_sort_in(const struct bb_table *fields, struct slot *slots,
                          const struct pair *pair, struct query_values *values,
                          struct problems *problems)
{
    struct arena *arena = problems->arena;
    char *name;
    size_t length;

    if (text_percent(pair->name, pair->name_length, true, arena, &name, &length)) {
        query_ignore(values, pair->name, pair->name_length, arena);
        return;
    }
    for (size_t i = 0; i < fields->count; i++) {
        const struct bb_field *field = field_at(fields, i);

        struct pair *place = !strcmp(field->name, name) ? &slots[i].by_name : NULL;

        if (field->alias && !strcmp(field->alias, name))
            place = &slots[i].by_alias;
        if (!place)
            continue;
        if (place->value && problems->warnings)
            warnings_add(problems->warnings, "%s: is given twice; the last value was used", name);
        *place = *pair;
        return;
    }
    query_ignore(values, name, length, arena);
}

/* Decodes and checks the value of a field. Returns false after a problem, or if memory ran out. */
static bool query_take(const struct bb_field *field, const struct slot *slot, struct arena *arena,
                       struct query_values *values, struct problems *problems)
{
    const struct pair *pair = slot->by_name.value ? &slot->by_name : &slot->by_alias;
    char *text = NULL;

    if (pair->value && text_percent(pair->value, pair->value_length, true, arena, &text, NULL)) {
        problems_add(problems, field->name, "is not properly encoded");
        return false;
    }
    size_t wrong = problems->count;
    const char *value = field_check_text(field, text, arena, problems);

    if (!value && problems->count == wrong && !arena_starved(arena))
        value = field->fallback;
    if (!value)
        return problems->count == wrong && !(field->flags & BB_REQUIRED) && !arena_starved(arena);
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
    while (query_next_pair(&at, end, &pair))
        query_sort_in(fields, slots, &pair, values, problems);
    for (size_t i = 0; i < fields->count; i++) {
        if (!query_take(field_at(fields, i), &slots[i], arena, values, problems))
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

json_t *form_read(const char *bytes, size_t length, struct json_problem *problem)
{
    struct arena *arena = arena_new();
    json_t *object = arena ? json_object() : NULL;
    const char *reason = object ? NULL : "out of memory";
    const char *at = bytes;
    struct pair pair = {.name = bytes};

    while (!reason && query_next_pair(&at, bytes + length, &pair)) {
        char *name, *value;

        if (text_percent(pair.name, pair.name_length, true, arena, &name, NULL) ||
            text_percent(pair.value, pair.value_length, true, arena, &value, NULL))
            reason = "not properly encoded";
        else if (json_object_get(object, name))
            reason = "a name is given twice";
        else if (json_object_size(object) == FORM_PAIRS_MAX)
            reason = "too many fields";
        else if (json_object_set_new(object, name, json_string(value)))
            reason = "out of memory";
    }
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
