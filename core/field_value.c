#include "core/field_value.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/text.h"

#define WHOLE_MAX 9007199254740992.0 /* 2^53: doubles are exact up to here */

static bool bounded(const struct bb_field *field)
{
    return field->min || field->max;
}

/* A table may give the lower bound alone; the upper one is then 0. */
static bool has_max(const struct bb_field *field)
{
    return bounded(field) && field->max >= field->min;
}

static bool too_short(const struct bb_field *field, size_t count)
{
    return field->min > 0 && count < (uint64_t)field->min;
}

static bool too_long(const struct bb_field *field, size_t count)
{
    return has_max(field) && field->max > 0 && count > (uint64_t)field->max;
}

static const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

bool field_int_fits(const struct bb_field *field, int64_t number, const struct place *place,
                    struct problems *problems)
{
    if (bounded(field) && number < field->min) {
        place_problem(place, problems, "must be at least %" PRId64, field->min);
        return false;
    }
    if (has_max(field) && number > field->max) {
        place_problem(place, problems, "must be at most %" PRId64, field->max);
        return false;
    }
    return true;
}

bool field_number_fits(const struct bb_field *field, double number, const struct place *place,
                       struct problems *problems)
{
    if (!isfinite(number)) {
        place_problem(place, problems, "must be a number");
        return false;
    }
    if (bounded(field) && number < (double)field->min) {
        place_problem(place, problems, "must be at least %" PRId64, field->min);
        return false;
    }
    if (has_max(field) && number > (double)field->max) {
        place_problem(place, problems, "must be at most %" PRId64, field->max);
        return false;
    }
    return true;
}

/* "must be one of: a, b" */
static void choice_problem(const struct bb_field *field, const struct place *place,
                           struct problems *problems)
{
    char text[512] = "";
    size_t used = 0;

    for (const char *const *choice = field->choices; choice && *choice; choice++) {
        size_t length = strlen(*choice);

        if (used + length + 3 > sizeof(text))
            break;
        if (used) {
            memcpy(text + used, ", ", 2);
            used += 2;
        }
        memcpy(text + used, *choice, length + 1);
        used += length;
    }
    place_problem(place, problems, "must be one of: %s", text);
}

/* What to say where the type is not met, of a string or of anything else. */
static void type_problem(const struct bb_field *field, const struct place *place,
                         struct problems *problems)
{
    static const char *const texts[] = {
        [BB_TEXT] = "must be a string",
        [BB_EMAIL] = "must be an e-mail address",
        [BB_UUID] = "must be a UUID",
        [BB_INT] = "must be a whole number",
        [BB_NUMBER] = "must be a number",
        [BB_BOOL] = "must be true or false",
        [BB_TIME] = "must be an ISO 8601 date and time",
        [BB_OBJECT] = "must be an object",
        [BB_LIST] = "must be a list",
        [BB_ANY] = "must be a JSON value",
    };

    if (field->type == BB_CHOICE)
        choice_problem(field, place, problems);
    else
        place_problem(place, problems, "%s", texts[field->type]);
}

static bool text_fits(const struct bb_field *field, const char *text, const struct place *place,
                      struct problems *problems)
{
    if (field->flags & BB_NOT_BLANK && text_blank(text)) {
        place_problem(place, problems, "must not be blank");
        return false;
    }
    if (!bounded(field))
        return true;
    size_t count = text_characters(text);

    if (too_short(field, count))
        place_problem(place, problems, "must be at least %" PRId64 " character%s", field->min,
                      plural(field->min));
    else if (too_long(field, count))
        place_problem(place, problems, "must be at most %" PRId64 " character%s", field->max,
                      plural(field->max));
    else
        return true;
    return false;
}

static const char *lower_case(const char *text, size_t length, struct arena *arena)
{
    char *lower = arena_text(arena, text, length);

    for (char *at = lower; at && *at; at++) {
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
    }
    return lower;
}

/* Trimmed of white space, Unicode's too, and in lower case as far as it is ASCII. */
static const char *email_normal(const char *text, struct arena *arena)
{
    size_t length = strlen(text), size, kept = 0;

    while (length && text_space(text_code_point(text, length, &size))) {
        text += size;
        length -= size;
    }
    for (size_t at = 0; at < length; at += size) {
        if (!text_space(text_code_point(text + at, length - at, &size)))
            kept = at + size;
    }
    return lower_case(text, kept, arena);
}

static bool choice_known(const struct bb_field *field, const char *text)
{
    for (const char *const *choice = field->choices; choice && *choice; choice++) {
        if (!strcmp(*choice, text))
            return true;
    }
    return false;
}

static const char *email_string(const struct bb_field *field, const char *text, struct arena *arena,
                                const struct place *place, struct problems *problems)
{
    const char *normal = email_normal(text, arena);

    if (normal && !email_valid(normal)) {
        type_problem(field, place, problems);
        return NULL;
    }
    return normal;
}

const char *field_string(const struct bb_field *field, const char *text, struct arena *arena,
                         const struct place *place, struct problems *problems)
{
    int64_t ms;
    bool fits;

    switch (field->type) {
    case BB_TEXT:
        return text_fits(field, text, place, problems) ? text : NULL;
    case BB_EMAIL:
        return email_string(field, text, arena, place, problems);
    case BB_UUID:
        if (text_is_uuid(text))
            return lower_case(text, strlen(text), arena);
        fits = false;
        break;
    case BB_TIME:
        fits = !text_time_parse(text, &ms);
        break;
    default:
        fits = choice_known(field, text);
    }
    if (fits)
        return text;
    type_problem(field, place, problems);
    return NULL;
}

static json_t *string_value(const struct bb_field *field, json_t *value, const struct place *place,
                            struct problems *problems)
{
    const char *text = json_string_value(value);

    if (!text) {
        type_problem(field, place, problems);
        return NULL;
    }
    if (strlen(text) != json_string_length(value)) {
        place_problem(place, problems, "must not have the character NUL in it");
        return NULL;
    }
    const char *normal = field_string(field, text, problems->arena, place, problems);

    if (!normal)
        return NULL;
    return normal == text ? json_incref(value) : json_string(normal);
}

/* 5.0 is taken for 5: some clients know no whole numbers. */
static json_t *int_value(const struct bb_field *field, json_t *value, const struct place *place,
                         struct problems *problems)
{
    double real = json_is_real(value) ? json_real_value(value) : NAN;
    bool whole = fabs(real) <= WHOLE_MAX && real == trunc(real);

    if (!json_is_integer(value) && !whole) {
        type_problem(field, place, problems);
        return NULL;
    }
    int64_t number = whole ? (int64_t)real : json_integer_value(value);

    if (!field_int_fits(field, number, place, problems))
        return NULL;
    return whole ? json_integer(number) : json_incref(value);
}

static json_t *list_value(const struct bb_field *field, json_t *value, const struct place *place,
                          struct problems *problems)
{
    size_t count = json_array_size(value);

    if (too_short(field, count) || too_long(field, count)) {
        bool few = too_short(field, count);
        int64_t bound = few ? field->min : field->max;

        place_problem(place, problems, "must have at %s %" PRId64 " item%s", few ? "least" : "most",
                      bound, plural(bound));
        return NULL;
    }
    if (!field->fields.count || field->flags & BB_AS_SENT)
        return json_incref(value);
    struct bb_field room;
    const struct bb_field *row = field_at(&field->fields, 0, &room);
    json_t *list = json_array();
    bool failed = !list;

    for (size_t i = 0; i < count; i++) {
        struct place item = {.up = place, .index = i};
        json_t *checked = field_value(row, json_array_get(value, i), &item, problems);

        failed = !checked || json_array_append_new(list, checked) || failed;
    }
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

static bool is_of_type(const struct bb_field *field, const json_t *value)
{
    switch (field->type) {
    case BB_NUMBER:
        return json_is_number(value);
    case BB_BOOL:
        return json_is_boolean(value);
    case BB_OBJECT:
        return json_is_object(value);
    case BB_LIST:
        return json_is_array(value);
    default:
        return true; /* told where the value is read */
    }
}

json_t *field_value(const struct bb_field *field, json_t *value, const struct place *place,
                    struct problems *problems)
{
    if (!is_of_type(field, value)) {
        type_problem(field, place, problems);
        return NULL;
    }
    switch (field->type) {
    case BB_INT:
        return int_value(field, value, place, problems);
    case BB_NUMBER:
        if (!field_number_fits(field, json_number_value(value), place, problems))
            return NULL;
        return json_incref(value);
    case BB_OBJECT:
        if (!field->fields.count)
            return json_incref(value);
        return fields_object(&field->fields, value, place, problems);
    case BB_LIST:
        return list_value(field, value, place, problems);
    case BB_BOOL:
    case BB_ANY:
        return json_incref(value);
    default:
        return string_value(field, value, place, problems);
    }
}
