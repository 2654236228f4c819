#include "core/lib/field.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/field_value.h"
#include "core/lib/json_in.h"
#include "core/lib/json_out.h"
#include "core/lib/text.h"

#define EMPTY "is empty, and was taken as absent"

static void add(struct problems *problems, const char *field, const char *text)
{
    struct arena *arena = problems->arena;

    if (problems->count == PROBLEMS_MAX)
        return;
    if (!problems->list)
        problems->list = arena_alloc(arena, PROBLEMS_MAX * sizeof(*problems->list));
    const char *name = field ? arena_text(arena, field, strlen(field)) : NULL;

    if (problems->list && name && text)
        problems->list[problems->count++] = (struct problem){name, text};
}

void problems_add(struct problems *problems, const char *field, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add(problems, field, arena_vformat(problems->arena, format, args));
    va_end(args);
}

void problems_list(const struct problems *problems, json_t *list)
{
    for (size_t i = 0; i < problems->count; i++) {
        json_t *entry = json_object();

        json_object_set_new(entry, "field", json_string(problems->list[i].field));
        json_object_set_new(entry, "problem", json_string(problems->list[i].text));
        json_array_append_new(list, entry);
    }
}

/* The recursion is limited by the nesting of the module's tables. */
static const char *place_name(const struct place *place, struct arena *arena)
{
    const char *up = place->up ? place_name(place->up, arena) : NULL;

    if (place->up && !up)
        return NULL;
    if (!place->name)
        return arena_format(arena, "%s[%zu]", up ? up : "", place->index);
    return up ? arena_format(arena, "%s.%s", up, place->name) : place->name;
}

void place_problem(const struct place *place, struct problems *problems, const char *format, ...)
{
    va_list args;

    if (problems->count == PROBLEMS_MAX)
        return;
    va_start(args, format);
    add(problems, place_name(place, problems->arena), arena_vformat(problems->arena, format, args));
    va_end(args);
}

void place_warn(const struct place *place, struct problems *problems, const char *what)
{
    const char *name = place_name(place, problems->arena);

    if (name)
        warnings_add(problems->warnings, "%s: %s", name, what);
}

const struct bb_field *field_at(const struct bb_table *fields, size_t index, struct bb_field *room)
{
    const char *row = (const char *)fields->rows + index * fields->stride;

    if (fields->stride >= sizeof(*room))
        return (const struct bb_field *)(const void *)row;
    memset(room, 0, sizeof(*room));
    memcpy(room, row, fields->stride);
    return room;
}

const struct bb_field *field_find(const struct bb_table *fields, const char *name,
                                  struct bb_field *room)
{
    const struct bb_field *found = NULL;

    for (size_t i = 0; i < fields->count && !found; i++) {
        const struct bb_field *field = field_at(fields, i, room);

        if (!strcmp(field->name, name) || (field->alias && !strcmp(field->alias, name)))
            found = field;
    }
    return found;
}

/* Whether an empty string is treated as absent. */
static bool is_empty(const struct bb_field *field, const json_t *value,
                     const struct problems *problems)
{
    const char *text = json_string_value(value);

    return text && field_empty_is_absent(field, problems, text) &&
           strlen(text) == json_string_length(value);
}

/* Returns a row's default, which was checked when its module was loaded; a new reference. */
static json_t *fallback_of(const struct bb_field *field)
{
    bool memory;

    if (field->type == BB_INT || field->type == BB_NUMBER || field->type == BB_BOOL ||
        field->type >= BB_OBJECT)
        return json_read_stored(field->fallback, &memory);
    return json_string(field->fallback);
}

/* Handles an absent member: false after a problem, or if memory ran out. */
static bool absent(const struct bb_field *field, const struct place *place, json_t *checked,
                   struct problems *problems)
{
    if (field->flags & BB_REQUIRED) {
        place_problem(place, problems, "is required");
        return false;
    }
    return !field->fallback ||
           !json_object_set_new_nocheck(checked, field->name, fallback_of(field));
}

/* Checks one member and sets it in `checked`. False after a problem, or if memory ran out. */
static bool member(const struct bb_field *field, const json_t *object, const struct place *up,
                   json_t *checked, struct problems *problems)
{
    struct place place = {.up = up, .name = field->name};
    json_t *value = json_object_get(object, field->name);
    bool none = !value || json_is_null(value) || is_empty(field, value, problems);

    if (none && field->alias && json_object_get(object, field->alias)) {
        value = json_object_get(object, field->alias);
        place.name = field->alias;
    }
    if (field->flags & BB_CLEARS && json_is_null(value))
        return !json_object_set_new_nocheck(checked, field->name, json_null());
    if (!value || (json_is_null(value) && field->flags & BB_NULLABLE))
        return absent(field, &place, checked, problems);
    if (is_empty(field, value, problems)) {
        place_warn(&place, problems, EMPTY);
        return absent(field, &place, checked, problems);
    }
    if (field->flags & BB_AS_SENT && field->type != BB_LIST)
        return !json_object_set_nocheck(checked, field->name, value);
    json_t *normal = field_value(field, value, &place, problems);

    return normal && !json_object_set_new_nocheck(checked, field->name, normal);
}

json_t *fields_object(const struct bb_table *fields, json_t *object, const struct place *place,
                      struct problems *problems)
{
    json_t *checked = json_object();
    bool failed = !checked;

    for (size_t i = 0; i < fields->count; i++) {
        struct bb_field room;

        if (!member(field_at(fields, i, &room), object, place, checked, problems))
            failed = true;
    }
    if (!failed)
        return checked;
    json_decref(checked);
    return NULL;
}

json_t *fields_check(const struct bb_table *fields, json_t *object, struct problems *problems)
{
    if (object && !json_is_object(object)) {
        problems_add(problems, "body", "must be an object");
        return NULL;
    }
    return fields_object(fields, object, NULL, problems);
}

int fields_keep_others(const struct bb_table *fields, json_t *object, json_t *checked)
{
    struct bb_field room;
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        if (!field_find(fields, name, &room) && json_object_set_nocheck(checked, name, value))
            return -1;
    }
    return 0;
}

/* A `limit` beyond the maximum, such as "limit=5000", is reduced to the maximum. */
static int64_t clamped(const struct bb_field *field, int64_t number, const struct place *place,
                       struct problems *problems)
{
    if (!problems->warnings || strcmp(field->name, "limit") != 0 || field->max <= field->min ||
        number <= field->max)
        return number;
    char what[64];

    snprintf(what, sizeof what, "is at most %" PRId64 ", which was taken", field->max);
    place_warn(place, problems, what);
    errno = 0;
    return field->max;
}

static const char *int_text(const struct bb_field *field, const char *text, struct arena *arena,
                            const struct place *place, struct problems *problems)
{
    const char *digits = text + (*text == '-');

    errno = 0;
    int64_t number = strtoll(text, NULL, 10);
    bool whole = *digits && !digits[strspn(digits, "0123456789")];

    if (whole)
        number = clamped(field, number, place, problems);
    if (!whole || errno) {
        place_problem(place, problems, "must be a whole number");
        return NULL;
    }
    if (!field_int_fits(field, number, place, problems))
        return NULL;
    return arena_format(arena, "%" PRId64, number);
}

/* Checks the characters first, because strtod() also accepts hexadecimal, "nan" and white space. */
static const char *number_text(const struct bb_field *field, const char *text,
                               const struct place *place, struct problems *problems)
{
    const char *digits = text + (*text == '-' || *text == '+');
    char *end = NULL;
    double number = NAN;

    if (*digits && strchr("0123456789.", *digits) && !digits[strspn(digits, "0123456789.eE+-")])
        number = strtod(text, &end);
    if (!end || *end) {
        place_problem(place, problems, "must be a number");
        return NULL;
    }
    return field_number_fits(field, number, place, problems) ? text : NULL;
}

static const char *json_text(const struct bb_field *field, const char *text, struct arena *arena,
                             const struct place *place, struct problems *problems)
{
    struct json_problem wrong;
    json_t *value = json_read(text, strlen(text), &wrong);

    if (!value) {
        place_problem(place, problems, "must be JSON: %s", wrong.text);
        return NULL;
    }
    json_t *checked = field_value(field, value, place, problems);
    size_t length;
    char *written = checked ? json_write(checked, &length) : NULL;
    const char *result = written ? arena_text(arena, written, length) : NULL;

    free(written);
    json_decref(checked);
    json_decref(value);
    return result;
}

static const char *trimmed(const char *text, struct arena *arena)
{
    size_t length = strlen(text), all = length;

    text_trim(&text, &length);
    return length == all ? text : arena_text(arena, text, length);
}

const char *field_check_text(const struct bb_field *field, const char *text, struct arena *arena,
                             struct problems *problems)
{
    struct place place = {.name = field->name};

    if (!text) {
        if (field->flags & BB_REQUIRED)
            place_problem(&place, problems, "is required");
        return NULL;
    }
    if (!text_utf8(text, strlen(text))) {
        place_problem(&place, problems, "must be UTF-8");
        return NULL;
    }
    if (field_empty_is_absent(field, problems, text)) {
        place_warn(&place, problems, EMPTY);
        return NULL;
    }
    if (field_trims(field, problems))
        text = trimmed(text, arena);
    if (!text)
        return NULL;
    switch (field->type) {
    case BB_INT:
        return int_text(field, text, arena, &place, problems);
    case BB_NUMBER:
        return number_text(field, text, &place, problems);
    case BB_BOOL:
        if (!strcmp(text, "true") || !strcmp(text, "false"))
            return text;
        place_problem(&place, problems, "must be true or false");
        return NULL;
    case BB_OBJECT:
    case BB_LIST:
    case BB_ANY:
        return json_text(field, text, arena, &place, problems);
    default:
        return field_string(field, text, arena, &place, problems);
    }
}
