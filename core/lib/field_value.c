#include "core/lib/field_value.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/text.h"
#include "core/lib/unicode.h"

#define DIGITS "0123456789"
#define WHOLE_MAX 9007199254740992.0 /* 2^53: doubles are exact up to here */

enum {
    DECIMAL_MAX = 400
}; /* maximum number of characters of a number in a string: more than
    * any double needs */

static bool bounded(const struct bb_field *field)
{
    return field->min || field->max;
}

/* A table may contain only the lower bound; the upper one is 0 then. */
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

/* Writes "must be one of: a, b". */
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

/* Describes the required type when a string, or any other value, does not have it. */
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
        [BB_TIME] = "must be an ISO 8601 date and time, such as 2026-04-01T12:00:00Z",
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

static bool choice_known(const struct bb_field *field, const char *text)
{
    for (const char *const *choice = field->choices; choice && *choice; choice++) {
        if (!strcmp(*choice, text))
            return true;
    }
    return false;
}

/*
 * Adds a problem if a text does not distinguish people or things reliably; also false if memory ran
 * out.
 */
static bool distinct(const struct bb_field *field, const char *text, struct arena *arena,
                     const struct place *place, struct problems *problems)
{
    bool full;
    const char *problem = unicode_problem(text, field->flags & BB_NFKC, arena, &full);

    if (problem)
        place_problem(place, problems, "%s", problem);
    return !problem && !full;
}

/* Trims white space, including Unicode's, and folds the case. */
static const char *email_string(const struct bb_field *field, const char *text, struct arena *arena,
                                const struct place *place, struct problems *problems)
{
    size_t length = strlen(text);

    text_trim(&text, &length);
    if (length > EMAIL_MAX) {
        type_problem(field, place, problems);
        return NULL;
    }
    const char *trimmed = arena_text(arena, text, length);

    if (!trimmed || !distinct(field, trimmed, arena, place, problems))
        return NULL;
    bool invalid;
    const char *normal = email_normal(trimmed, arena, &invalid);

    if (invalid)
        type_problem(field, place, problems);
    return normal;
}

static const char *name_string(const struct bb_field *field, const char *text, struct arena *arena,
                               const struct place *place, struct problems *problems)
{
    if (!text_fits(field, text, place, problems) || !distinct(field, text, arena, place, problems))
        return NULL;
    return unicode_single_spaces(text, arena);
}

/*
 * Returns the time in a form that text_time_parse() and PostgreSQL read (sessions are in UTC), or
 * NULL. Converts "t", "z", a comma before the fraction, an hour with one digit, and a blank before
 * the offset. A blank before an offset without a sign is the + of a query that was not encoded.
 */
static const char *time_string(const char *text, struct arena *arena)
{
    enum { CLOCK = sizeof "2026-04-01T" - 1 };
    size_t length = strlen(text), out = 0;
    char *whole = arena_alloc(arena, length + 2);
    int64_t ms;

    if (!whole)
        return NULL;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];

        if (i == CLOCK && text[i + 1] == ':')
            whole[out++] = '0';
        if (i == CLOCK - 1 && c == 't')
            c = 'T';
        if (i > CLOCK && c == ' ' &&
            (text[i + 1] == '+' || text[i + 1] == '-' || text[i + 1] == 'Z' || text[i + 1] == 'z'))
            continue;
        if (i > CLOCK && c == ' ')
            c = '+';
        if (i > CLOCK && c == 'z')
            c = 'Z';
        if (i > CLOCK && c == ',')
            c = '.';
        whole[out++] = c;
    }
    whole[out] = '\0';
    return text_time_parse(whole, &ms) ? NULL : whole;
}

const char *field_string(const struct bb_field *field, const char *text, struct arena *arena,
                         const struct place *place, struct problems *problems)
{
    bool fits;

    switch (field->type) {
    case BB_TEXT:
        if (field->flags & BB_NAME)
            return name_string(field, text, arena, place, problems);
        return text_fits(field, text, place, problems) ? text : NULL;
    case BB_EMAIL:
        return email_string(field, text, arena, place, problems);
    case BB_UUID:
        if (text_is_uuid(text))
            return unicode_fold(text, arena);
        fits = false;
        break;
    case BB_TIME:
        text = time_string(text, arena);
        fits = text != NULL;
        break;
    default:
        fits = choice_known(field, text);
    }
    if (fits)
        return text;
    type_problem(field, place, problems);
    return NULL;
}

bool field_trims(const struct bb_field *field, const struct problems *problems)
{
    return problems->warnings && !(field->flags & (BB_VERBATIM | BB_SECRET));
}

bool field_empty_is_absent(const struct bb_field *field, const struct problems *problems,
                           const char *text)
{
    if (!problems->warnings || field->flags & (BB_REQUIRED | BB_EMPTY) ||
        (field->type == BB_ANY && !(field->flags & BB_NULLABLE)))
        return false;
    return !*text || (field_trims(field, problems) && text_blank(text));
}

/*
 * Converts a whole number to its digits, and removes blanks around a string, if the row allows it;
 * returns a new reference. The spelling of a number with a fraction or an exponent is not known
 * here.
 */
static json_t *as_string(const struct bb_field *field, json_t *value, struct problems *problems)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value), all = length;

    if (json_is_integer(value) && problems->warnings && !(field->flags & BB_SECRET))
        return json_sprintf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
    if (!text || !field_trims(field, problems))
        return json_incref(value);
    text_trim(&text, &length);
    return length == all ? json_incref(value) : json_stringn(text, length);
}

/*
 * Converts a decimal string to a number; returns other values unchanged, also if memory runs out. A
 * new reference.
 */
static json_t *as_number(json_t *value, const struct problems *problems)
{
    const char *text = problems->warnings ? json_string_value(value) : NULL;
    size_t length = text ? json_string_length(value) : 0;
    char decimal[DECIMAL_MAX + 1];

    if (text)
        text_trim(&text, &length);
    if (!length || length > DECIMAL_MAX)
        return json_incref(value);
    memcpy(decimal, text, length);
    decimal[length] = '\0';
    const char *at = decimal + (*decimal == '-' || *decimal == '+');
    size_t whole = strspn(at, DIGITS), point = at[whole] == '.',
           part = point ? strspn(at + whole + 1, DIGITS) : 0;

    if (!(whole + part) || at[whole + point + part])
        return json_incref(value);
    errno = 0;
    long long integer = strtoll(decimal, NULL, 10);
    json_t *number =
        point || errno ? json_real(strtod(decimal, NULL)) : json_integer((json_int_t)integer);

    return number ? number : json_incref(value);
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
        place_problem(place, problems, "must not contain the character NUL");
        return NULL;
    }
    const char *normal = field_string(field, text, problems->arena, place, problems);

    if (!normal)
        return NULL;
    return normal == text ? json_incref(value) : json_string(normal);
}

/* 5.0 is accepted as 5, because some clients have no whole numbers. */
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
        return true; /* reported when the value is read */
    }
}

static json_t *plain_value(const struct bb_field *field, json_t *value, const struct place *place,
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

json_t *field_value(const struct bb_field *field, json_t *value, const struct place *place,
                    struct problems *problems)
{
    json_t *taken;

    switch (field->type) {
    case BB_INT:
    case BB_NUMBER:
        taken = as_number(value, problems);
        break;
    case BB_BOOL:
    case BB_OBJECT:
    case BB_LIST:
    case BB_ANY:
        taken = json_incref(value);
        break;
    default:
        taken = as_string(field, value, problems);
    }
    json_t *checked = taken ? plain_value(field, taken, place, problems) : NULL;

    json_decref(taken);
    return checked;
}
