#include "core/lib/field.h"

#include <errno.h>
#include <idn2.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/lib/json.h"
#include "core/lib/text.h"

enum { EMAIL_MAX = 254 /* bytes */ };

/* The place of a value. place_name() converts it to a text such as "reads[3].value". */
struct place {
    const struct place *up; /* the containing place; NULL: the outermost object */
    const char *name;       /* NULL: item `index` of the list `up` */
    size_t index;
};

static json_t *field_value(const struct bb_field *field, json_t *value, const struct place *place,
                           struct problems *problems);
static json_t *fields_object(const struct bb_table *fields, json_t *object,
                             const struct place *place, struct problems *problems);

/* ---- warnings and problems ---- */

int warnings_vadd(json_t **warnings, const char *format, va_list args)
{
    char text[256];
    const json_t *known;
    size_t index;

    vsnprintf(text, sizeof text, format, args);
    json_array_foreach (*warnings, index, known) {
        if (!strcmp(json_string_value(known), text))
            return 0;
    }
    if (index == WARNINGS_MAX)
        return 0;
    if (!*warnings)
        *warnings = json_array();
    return *warnings ? json_array_append_new(*warnings,
                                             json_stringn(text, text_valid(text, strlen(text))))
                     : -1;
}

int warnings_add(json_t **warnings, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int failed = warnings_vadd(warnings, format, args);
    va_end(args);
    return failed;
}

#define EMPTY "is empty, and counts as absent"
#define DIGITS "0123456789"

/* The row for a type has the index of the type in enum bb_type. */
const struct problem_row problem_rows[] = {
    [BB_TEXT] = {"not_a_string", "must be a string"},
    [BB_EMAIL] = {"not_an_email", "must be an e-mail address"},
    [BB_UUID] = {"not_a_uuid", "must be a UUID"},
    [BB_INT] = {"not_a_whole_number", "must be a whole number"},
    [BB_NUMBER] = {"not_a_number", "must be a number"},
    [BB_BOOL] = {"not_a_boolean", "must be true or false"},
    [BB_TIME] = {"not_a_time", "must be an ISO 8601 date and time, such as 2026-04-01T12:00:00Z"},
    [BB_CHOICE] = {"not_one_of", "must be one of: {allowed}"},
    [BB_OBJECT] = {"not_an_object", "must be an object"},
    [BB_LIST] = {"not_a_list", "must be a list"},
    [BB_ANY] = {"not_json", "must be JSON: {reason}"},
#include "core/lib/problems.h"
    {NULL, NULL},
};

/* ---- finding the code of a problem by its text ---- */

/* Returns a new JSON value for a parameter; NULL if the text is invalid, or memory ran out. */
static json_t *problem_value(const char *name, const char *text, size_t length)
{
    char number[24], *after;

    if (!strncmp(name, "allowed", strlen("allowed"))) { /* a list, always at the end of the text */
        json_t *list = json_array();

        for (size_t size; *text; text += size + strspn(text + size, ", ")) {
            const char *comma = strstr(text, ", ");

            size = comma ? (size_t)(comma - text) : strlen(text);
            json_array_append_new(list, json_stringn(text, size));
        }
        return list;
    }
    long long whole = strtoll(text, NULL, 10);
    size_t digits = (size_t)snprintf(number, sizeof number, "%lld", whole);

    if (digits == length && !strncmp(number, text, length))
        return json_integer(whole);
    if (!length || !strncmp(name, "limit", strlen("limit")))
        return NULL;
    double real = strtod(text, &after);

    return after == text + length && isfinite(real) ? json_real(real) : json_stringn(text, length);
}

/* Returns whether the text matches the row. Adds the values of the row's {name}s to `params`. */
static bool problem_match(const char *row, const char *text, json_t *params)
{
    for (;;) {
        size_t same = strcspn(row, "{");

        if (strncmp(row, text, same) != 0)
            return false;
        row += same;
        text += same;
        if (!*row)
            return !*text;
        const char *name = row + 1, *after = strchr(row, '}') + 1;
        size_t figure = strspn(text, DIGITS "+-.e"), next = strcspn(after, "{");
        const char *stop = text[figure] == *after ? text + figure : text + strlen(text);

        /* A parameter that is not a number ends before the words that follow it in the row. */
        for (const char *at = text; *stop != *after && *at; at++)
            if (!strncmp(at, after, next))
                stop = at;
        size_t word = *after == ' ' ? 1 + strcspn(after + 1, " ,") : 0;
        json_t *value = problem_value(name, text, (size_t)(stop - text));

        if (!value || json_object_setn_new(params, name, (size_t)(after - name) - 1, value))
            return false;
        bool one = stop == text + 1 && *text == '1' && word > 4 && after[word - 1] == 's';

        if (one && strncmp(stop, after, word - 1) != 0)
            return false;
        row = after + (one ? word : 0);
        text = stop + (one ? word - 1 : 0);
    }
}

void problem_set_code(json_t *object, const char *member)
{
    bool known = json_object_get(object, "code");
    const char *text = known ? NULL : json_string_value(json_object_get(object, member));
    const struct problem_row *row = problem_rows + 1;
    json_t *params = json_object();

    while (text && row->code && !problem_match(row->text, text, params)) {
        json_object_clear(params);
        row++;
    }
    if (text && row->code) {
        json_object_set_new(object, "code", json_string(row->code));
        if (json_object_size(params))
            json_object_set(object, "params", params);
    }
    json_decref(params);
}

void problems_add(struct problems *problems, const char *field, const char *text)
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

void problems_list(const struct problems *problems, json_t *list)
{
    for (size_t i = 0; i < problems->count; i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "field", problems->list[i].field,
                                              "problem", problems->list[i].text));
}

/* Returns "reads[3].value"; NULL: no memory. The nesting of tables limits the recursion. */
static const char *place_name(const struct place *place, struct arena *arena)
{
    const char *up = place->up ? place_name(place->up, arena) : NULL;

    if (place->up && !up)
        return NULL;
    if (!place->name)
        return arena_format(arena, "%s[%zu]", up ? up : "", place->index);
    return up ? arena_format(arena, "%s.%s", up, place->name) : place->name;
}

/* Adds a problem. Always returns NULL (false in a function that returns bool). */
BB_PRINTF(3, 4)
static void *place_problem(const struct place *place, struct problems *problems, const char *format,
                           ...)
{
    va_list args;

    if (problems->count == PROBLEMS_MAX)
        return NULL;
    va_start(args, format);
    problems_add(problems, place_name(place, problems->arena),
                 arena_vformat(problems->arena, format, args));
    va_end(args);
    return NULL;
}

/* Adds the warning "NAME: WHAT" about the value at a place, unless memory runs out. */
static void place_warn(const struct place *place, struct problems *problems, const char *what)
{
    const char *name = place_name(place, problems->arena);

    if (name)
        warnings_add(problems->warnings, "%s: %s", name, what);
}

const struct bb_field *field_find(const struct bb_table *fields, const char *name)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct bb_field *field = field_at(fields, i);

        if (!strcmp(field->name, name) || (field->alias && !strcmp(field->alias, name)))
            return field;
    }
    return NULL;
}

/*
 * ---- e-mail addresses ----
 *
 * Accepts the common form of addresses: no quotes, no comments, no address literals. Domains are
 * converted to A-labels, the form used in DNS, so that bücher.example and xn--bcher-kva.example are
 * equal.
 */

#define LOCAL_MAX 64
#define LABEL_MAX 63
#define ALPHANUMERIC "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" DIGITS

/* Returns whether a local part consists of words separated by single dots (RFC 5322, 3.2.3). */
static bool field_local_valid(const char *text, size_t length)
{
    int32_t before = '.';
    size_t size;

    if (!length || length > LOCAL_MAX)
        return false;
    for (; length; text += size, length -= size) {
        int32_t c = text_code_point(text, length, &size);

        if (c == '.' && before == '.')
            return false;
        bool foreign = c > 0x9F && !text_space(c);

        if (!foreign &&
            (c <= 0 || c > 0x7E || !strchr(ALPHANUMERIC ".!#$%&'*+/=?^_`{|}~-", (int)c)))
            return false;
        before = c;
    }
    return before != '.';
}

static bool field_email_is_valid(const char *text)
{
    const char *at = strchr(text, '@');

    if (!at || strlen(text) > EMAIL_MAX || !field_local_valid(text, (size_t)(at - text)))
        return false;
    for (const char *label = at + 1;;) {
        size_t length = strcspn(label, ".");

        if (!length || length > LABEL_MAX || label[0] == '-' || label[length - 1] == '-' ||
            strspn(label, ALPHANUMERIC "-") != length)
            return false;
        if (!label[length])
            return true; /* one label is enough, for mail in networks without a domain */
        label += length + 1;
    }
}

/* ---- single values ---- */

#define WHOLE_MAX 9007199254740992.0 /* 2^53: doubles are exact up to here */

enum { DECIMAL_MAX = 400 }; /* maximum length of a number in a string, enough for every double */

/* Returns whether the values of the field are strings in JSON. */
static bool field_is_text(const struct bb_field *field)
{
    return field->type < BB_OBJECT && field->type != BB_INT && field->type != BB_NUMBER &&
           field->type != BB_BOOL;
}

static bool field_bounded(const struct bb_field *field)
{
    return field->min || field->max;
}

/* Returns whether there is an upper bound; without one, `max` is 0, or less than `min`. */
static bool field_has_max(const struct bb_field *field)
{
    return field_bounded(field) && field->max >= field->min;
}

/* Returns true if the value is within the bounds; otherwise adds a problem. */
static bool field_bounds_fit(const struct bb_field *field, bool below, bool above,
                             const struct place *place, struct problems *problems)
{
    if (field_bounded(field) && below)
        return place_problem(place, problems, "must be at least %" PRId64, field->min);
    if (field_has_max(field) && above)
        return place_problem(place, problems, "must be at most %" PRId64, field->max);
    return true;
}

static bool field_number_fits(const struct bb_field *field, double number,
                              const struct place *place, struct problems *problems)
{
    if (isfinite(number))
        return field_bounds_fit(field, number<(double)field->min, number>(double) field->max, place,
                                problems);
    return place_problem(place, problems, "must be a number");
}

/* Adds the problem that a value does not have the type of the field. Always returns NULL. */
static void *field_type_problem(const struct bb_field *field, const struct place *place,
                                struct problems *problems)
{
    const char *const *choice = field->type == BB_CHOICE ? field->choices : NULL;
    const char *text = choice ? "must be one of: " : problem_rows[field->type].text;

    for (; choice && text && *choice; choice++)
        text = arena_format(problems->arena, "%s%s%s", text, choice > field->choices ? ", " : "",
                            *choice);
    return text ? place_problem(place, problems, "%s", text) : NULL;
}

/* Checks the number of characters or items; `must` and `unit` are words of the problem. */
static bool field_count_fits(const struct bb_field *field, size_t count, const char *must,
                             const char *unit, const struct place *place, struct problems *problems)
{
    bool few = field->min > 0 && count < (uint64_t)field->min;
    int64_t bound = few ? field->min : field->max;

    if (!few && (!field_has_max(field) || bound <= 0 || count <= (uint64_t)bound))
        return true;
    return place_problem(place, problems, "%s at %s %" PRId64 " %s%s", must, few ? "least" : "most",
                         bound, unit, bound == 1 ? "" : "s");
}

#define BRAILLE_BLANK 0x2800 /* invisible, though Unicode does not call it ignorable */

/* Returns why the code point is refused; NULL: it is allowed. */
static const char *field_code_problem(int32_t code)
{
    if (code >= ' ' && code < 0x7f) /* fast path */
        return NULL;
    const utf8proc_property_t *property = utf8proc_get_property(code);

    if (property->ignorable || code == BRAILLE_BLANK)
        return "must not have invisible characters or marks of direction";
    switch (property->category) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return "must not have control characters";
    case UTF8PROC_CATEGORY_CO:
        return "must not have characters for private use";
    case UTF8PROC_CATEGORY_CN:
        return "must not have characters that Unicode has not assigned";
    default:
        return NULL;
    }
}

/*
 * Checks a text that people must be able to distinguish from other texts. It must not contain
 * control characters, invisible characters, characters that change the text direction, private-use
 * or unassigned characters, and it must be in NFC. With BB_NFKC it must also be in NFKC, which
 * excludes full-width letters, ligatures and the like. Returns false after adding a problem, or if
 * memory ran out.
 */
static bool field_distinct(const struct bb_field *field, const char *text, struct arena *arena,
                           const struct place *place, struct problems *problems)
{
    static const int options[] = {0, UTF8PROC_COMPAT};
    const char *problem = NULL;
    size_t left = strlen(text), size;
    unsigned forms = field->flags & BB_NFKC ? 2 : 1;

    for (const char *at = text; left && !problem; at += size, left -= size)
        problem = field_code_problem(text_code_point(at, left, &size));
    for (unsigned i = 0; !problem && i < forms && !unicode_is_ascii(text); i++) {
        const char *form = unicode_composed(text, options[i], arena);

        if (!form)
            return false;
        if (strcmp(form, text) != 0)
            problem = i ? "must be in Unicode's form NFKC" : "must be in Unicode's form NFC";
    }
    if (problem)
        place_problem(place, problems, "%s", problem);
    return !problem;
}

/*
 * Returns an e-mail address as it is stored and compared: trimmed, the local part case-folded, the
 * domain in A-labels of lower case. NULL after adding a problem, or if memory ran out.
 */
static const char *field_email_string(const struct bb_field *field, const char *text,
                                      struct arena *arena, const struct place *place,
                                      struct problems *problems)
{
    size_t length = strlen(text);

    text_trim(&text, &length);
    if (length > EMAIL_MAX)
        return field_type_problem(field, place, problems);
    const char *trimmed = arena_text(arena, text, length);

    if (!trimmed || !field_distinct(field, trimmed, arena, place, problems))
        return NULL;
    const char *at = strchr(trimmed, '@'), *normal = NULL;
    char *domain = NULL;
    bool invalid = !at;

    if (at && unicode_is_ascii(at)) {
        normal = unicode_fold(trimmed, arena);
    } else if (at) {
        const char *name = arena_text(arena, trimmed, (size_t)(at - trimmed));
        const char *folded = name ? unicode_fold(name, arena) : NULL;
        int status = idn2_to_ascii_8z(at + 1, &domain, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL);

        invalid = status != IDN2_OK && status != IDN2_MALLOC;
        if (folded && status == IDN2_OK)
            normal = arena_format(arena, "%s@%s", folded, domain);
        idn2_free(domain);
    }
    if (!invalid && (!normal || field_email_is_valid(normal)))
        return normal;
    return field_type_problem(field, place, problems);
}

/*
 * Returns the time in a form that text_time_parse() and PostgreSQL read; NULL if it is invalid.
 * Converts "t", "z", a comma before the fraction, an hour with one digit, and a blank before the
 * offset. A blank before an offset without a sign is a + that was not encoded in a query.
 */
static const char *field_time_string(const char *text, struct arena *arena)
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

/* Normalizes a string. Returns `text`, a text in `arena`, or NULL (problem added, or no memory). */
static const char *field_string(const struct bb_field *field, const char *text, struct arena *arena,
                                const struct place *place, struct problems *problems)
{
    switch (field->type) {
    case BB_TEXT:
        if (field->flags & BB_NOT_BLANK && text_blank(text))
            return place_problem(place, problems, "must not be blank");
        if (field_bounded(field) && !field_count_fits(field, text_characters(text), "must be",
                                                      "character", place, problems))
            return NULL;
        if (!(field->flags & BB_NAME))
            return text;
        return field_distinct(field, text, arena, place, problems)
                   ? unicode_single_spaces(text, arena)
                   : NULL;
    case BB_EMAIL:
        return field_email_string(field, text, arena, place, problems);
    case BB_UUID:
        if (bb_is_uuid(text))
            return unicode_fold(text, arena);
        break;
    case BB_TIME:
        text = field_time_string(text, arena);
        if (text)
            return text;
        break;
    default:
        for (const char *const *choice = field->choices; choice && *choice; choice++)
            if (!strcmp(*choice, text))
                return text;
    }
    return field_type_problem(field, place, problems);
}

/* Returns whether blanks at both ends of a value of this field may be removed. */
static bool field_trims(const struct bb_field *field, const struct problems *problems)
{
    return problems->warnings && !(field->flags & (BB_VERBATIM | BB_SECRET));
}

/* Returns whether an empty text is treated as absent. */
static bool field_empty_is_absent(const struct bb_field *field, const struct problems *problems,
                                  const char *text)
{
    if (!problems->warnings || field->flags & (BB_REQUIRED | BB_EMPTY) ||
        (field->type == BB_ANY && !(field->flags & BB_NULLABLE)))
        return false;
    return !*text || (field_trims(field, problems) && text_blank(text));
}

/*
 * Converts a whole number to its digits, and removes blanks around a string, if the field allows
 * this. Returns a new reference. Does not convert a fraction: the client's digits (1.50) are lost.
 */
static json_t *field_as_string(const struct bb_field *field, json_t *value,
                               struct problems *problems)
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
 * Converts a decimal string to a number, but only in requests, which are read tolerantly. Returns a
 * new reference: to the number, or to `value` if it is not converted or memory runs out.
 */
static json_t *field_as_number(json_t *value, const struct problems *problems)
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

static json_t *field_list_value(const struct bb_field *field, json_t *value,
                                const struct place *place, struct problems *problems)
{
    size_t count = json_array_size(value);

    if (!field_count_fits(field, count, "must have", "item", place, problems))
        return NULL;
    if (!field->fields.count || field->flags & BB_AS_SENT)
        return json_incref(value);
    const struct bb_field *row = field_at(&field->fields, 0);
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

static json_t *field_text_value(const struct bb_field *field, json_t *value,
                                const struct place *place, struct problems *problems)
{
    const char *text = json_string_value(value);

    if (!text)
        return field_type_problem(field, place, problems);
    if (strlen(text) != json_string_length(value))
        return place_problem(place, problems, "must not contain the character NUL");
    const char *normal = field_string(field, text, problems->arena, place, problems);

    if (!normal)
        return NULL;
    return normal == text ? json_incref(value) : json_string(normal);
}

/* Accepts 5.0 as 5, because some clients have no integer type. */
static json_t *field_int_value(const struct bb_field *field, json_t *value,
                               const struct place *place, struct problems *problems)
{
    double real = json_is_real(value) ? json_real_value(value) : NAN;
    bool whole = fabs(real) <= WHOLE_MAX && real == trunc(real);

    if (!json_is_integer(value) && !whole)
        return field_type_problem(field, place, problems);
    int64_t number = whole ? (int64_t)real : json_integer_value(value);

    if (!field_bounds_fit(field, (number < field->min), (number > field->max), place, problems))
        return NULL;
    return whole ? json_integer(number) : json_incref(value);
}

static json_t *field_plain_value(const struct bb_field *field, json_t *value,
                                 const struct place *place, struct problems *problems)
{
    bool fits = field->type == BB_NUMBER   ? json_is_number(value)
                : field->type == BB_OBJECT ? json_is_object(value)
                : field->type == BB_LIST   ? json_is_array(value)
                                           : field->type != BB_BOOL || json_is_boolean(value);

    if (!fits)
        return field_type_problem(field, place, problems);
    if (field_is_text(field))
        return field_text_value(field, value, place, problems);
    if (field->type == BB_INT)
        return field_int_value(field, value, place, problems);
    if (field->type == BB_LIST)
        return field_list_value(field, value, place, problems);
    if (field->type == BB_OBJECT && field->fields.count)
        return fields_object(&field->fields, value, place, problems);
    if (field->type == BB_NUMBER &&
        !field_number_fits(field, json_number_value(value), place, problems))
        return NULL;
    return json_incref(value);
}

/* Returns a new reference to the normalized value; NULL after a problem, or if memory ran out. */
static json_t *field_value(const struct bb_field *field, json_t *value, const struct place *place,
                           struct problems *problems)
{
    json_t *taken = field_is_text(field) ? field_as_string(field, value, problems)
                    : field->type == BB_INT || field->type == BB_NUMBER
                        ? field_as_number(value, problems)
                        : json_incref(value);
    json_t *checked = taken ? field_plain_value(field, taken, place, problems) : NULL;

    json_decref(taken);
    return checked;
}

/* ---- objects ---- */

/* Returns whether an empty string is treated as absent. */
static bool field_is_empty(const struct bb_field *field, const json_t *value,
                           const struct problems *problems)
{
    const char *text = json_string_value(value);

    return text && field_empty_is_absent(field, problems, text) &&
           strlen(text) == json_string_length(value);
}

/* Sets an absent member to its default. Returns false if it is required or memory ran out. */
static bool field_absent(const struct bb_field *field, const struct place *place, json_t *checked,
                         struct problems *problems)
{
    if (field->flags & BB_REQUIRED)
        return place_problem(place, problems, "is required");
    return !field->fallback ||
           !json_object_set_new_nocheck(checked, field->name, field_json(field, field->fallback));
}

/* Checks a member and sets it in `checked`. Returns false after a problem, or if memory ran out. */
static bool field_member(const struct bb_field *field, const json_t *object, const struct place *up,
                         json_t *checked, struct problems *problems)
{
    struct place place = {.up = up, .name = field->name};
    json_t *value = json_object_get(object, field->name);
    bool none = !value || json_is_null(value) || field_is_empty(field, value, problems);
    json_t *other = field->alias ? json_object_get(object, field->alias) : NULL;

    if (none && other) {
        value = other;
        place.name = field->alias;
    } else if (other && problems->warnings && !json_is_null(other) && !json_equal(value, other) &&
               !field_is_empty(field, other, problems)) {
        struct place ignored = {.up = up, .name = field->alias};
        const char *what =
            arena_format(problems->arena, "is ignored, because %s was sent, too", field->name);

        if (what)
            place_warn(&ignored, problems, what);
    }
    if (field->flags & BB_CLEARS && json_is_null(value))
        return !json_object_set_new_nocheck(checked, field->name, json_null());
    if (!value || (json_is_null(value) && field->flags & BB_NULLABLE))
        return field_absent(field, &place, checked, problems);
    if (field_is_empty(field, value, problems)) {
        place_warn(&place, problems, EMPTY);
        return field_absent(field, &place, checked, problems);
    }
    if (field->flags & BB_AS_SENT && field->type != BB_LIST)
        return !json_object_set_nocheck(checked, field->name, value);
    json_t *normal = field_value(field, value, &place, problems);

    return normal && !json_object_set_new_nocheck(checked, field->name, normal);
}

/* Like fields_check() for the object at this place (NULL: the outermost object). */
static json_t *fields_object(const struct bb_table *fields, json_t *object,
                             const struct place *place, struct problems *problems)
{
    json_t *checked = json_object();
    bool failed = !checked;

    for (size_t i = 0; i < fields->count; i++) {
        if (!field_member(field_at(fields, i), object, place, checked, problems))
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

/* ---- values given as text ---- */

/*
 * Checks the characters first, because strtod() also accepts hexadecimal, "nan" and white space.
 * PostgreSQL refuses a number that is so small that it becomes 0.
 */
static bool field_is_number(const char *text, double *number)
{
    const char *digits = text + (*text == '-' || *text == '+');
    char *end = NULL;

    errno = 0;
    if (*digits && strchr(DIGITS ".", *digits) && !digits[strspn(digits, DIGITS ".eE+-")])
        *number = strtod(text, &end);
    return end && !*end && (!errno || *number != 0);
}

static bool field_is_whole(const char *text, int64_t *number)
{
    const char *digits = text + (*text == '-');

    errno = 0;
    *number = strtoll(text, NULL, 10);
    return *digits && !digits[strspn(digits, DIGITS)];
}

json_t *field_json(const struct bb_field *field, const char *text)
{
    bool memory;
    int64_t whole;
    double real;

    switch (field->type) {
    case BB_INT:
        return field_is_whole(text, &whole) && !errno ? json_integer(whole) : NULL;
    case BB_NUMBER:
        if (field_is_whole(text, &whole) && !errno)
            return json_integer(whole);
        return field_is_number(text, &real) ? json_real(real) : NULL;
    default:
        return field_is_text(field) ? json_string(text) : json_read_stored(text, &memory);
    }
}

static const char *field_int_text(const struct bb_field *field, const char *text,
                                  struct arena *arena, const struct place *place,
                                  struct problems *problems)
{
    int64_t number;
    bool whole = field_is_whole(text, &number);
    char what[64];

    /* Reduces a `limit` beyond the maximum, such as "limit=5000", to the maximum. */
    if (whole && problems->warnings && !strcmp(field->name, "limit") && field->max > field->min &&
        number > field->max) {
        snprintf(what, sizeof what, "exceeds the maximum %" PRId64 ", which was used", field->max);
        place_warn(place, problems, what);
        errno = 0;
        number = field->max;
    }
    if (!whole || errno)
        return field_type_problem(field, place, problems);
    if (!field_bounds_fit(field, (number < field->min), (number > field->max), place, problems))
        return NULL;
    return arena_format(arena, "%" PRId64, number);
}

static const char *field_json_text(const struct bb_field *field, const char *text,
                                   struct arena *arena, const struct place *place,
                                   struct problems *problems)
{
    struct json_problem wrong;
    json_t *value = json_read(text, strlen(text), JSON_COMMAS_MAX, &wrong);

    if (!value)
        return place_problem(place, problems, "must be JSON: %s", wrong.text);
    json_t *checked = field_value(field, value, place, problems);
    size_t length;
    char *written = checked ? json_write(checked, &length) : NULL;
    const char *result = written ? arena_text(arena, written, length) : NULL;

    free(written);
    json_decref(checked);
    json_decref(value);
    return result;
}

const char *field_check_text(const struct bb_field *field, const char *text, struct arena *arena,
                             struct problems *problems)
{
    struct place place = {.name = field->name};
    double real = 0;

    if (!text)
        return field->flags & BB_REQUIRED ? place_problem(&place, problems, "is required") : NULL;
    size_t all = strlen(text), length = all;

    if (!text_utf8(text, length))
        return place_problem(&place, problems, "must be UTF-8");
    if (field_empty_is_absent(field, problems, text)) {
        place_warn(&place, problems, EMPTY);
        return NULL;
    }
    if (field_trims(field, problems))
        text_trim(&text, &length);
    if (length != all)
        text = arena_text(arena, text, length);
    if (!text)
        return NULL;
    if (field_is_text(field))
        return field_string(field, text, arena, &place, problems);
    if (field->type == BB_INT)
        return field_int_text(field, text, arena, &place, problems);
    if (field->type >= BB_OBJECT)
        return field_json_text(field, text, arena, &place, problems);
    bool number = field->type == BB_NUMBER;

    if (number ? !field_is_number(text, &real) : strcmp(text, "true") && strcmp(text, "false"))
        return field_type_problem(field, &place, problems);
    return !number || field_number_fits(field, real, &place, problems) ? text : NULL;
}

#define FORM_PAIRS_MAX 1000
#define MORE "..." /* ends a list of names that is too long */

/* A name and a value as the client sent them; without '=' the value is empty. */
struct pair {
    const char *name, *value;
    size_t name_length, value_length;
};

/* Sets *pair to the next non-empty pair, and moves *at past it. Returns false at the end. */
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

/* The values that a query has for a field, under its name and under its alias. */
struct slot {
    struct pair by_name, by_alias; /* `value` is NULL if the query lacks the name */
};

/* Adds the name, percent-encoded, to values->ignored (", a, b, "); if that is full, adds MORE. */
static void query_ignore(struct query_values *values, const char *name, size_t length,
                         struct arena *arena)
{
    char entry[QUERY_IGNORED_MAX] = ", ";
    size_t size = strlen(entry);

    if (!length || (!values->ignored && !(values->ignored = arena_alloc(arena, sizeof entry))))
        return;
    if (!*values->ignored)
        memcpy(values->ignored, entry, size);
    for (; length && size + sizeof "%00, " < sizeof entry; name++, length--)
        size += (size_t)snprintf(entry + size, sizeof entry - size,
                                 strchr(ALPHANUMERIC "-._~", *name) ? "%c" : "%%%02X",
                                 (unsigned char)*name);
    memcpy(entry + size, ", ", sizeof ", ");
    if (strstr(values->ignored, ", " MORE ", ") || strstr(values->ignored, entry))
        return;
    bool fits = !length && strlen(values->ignored) + size + strlen(MORE ", ") < sizeof entry;

    strcat(values->ignored, fits ? entry + strlen(", ") : MORE ", ");
}

/* Decodes and checks the value of a field. Returns false after a problem, or if memory ran out. */
static bool query_take(const struct bb_field *field, const struct slot *slot, struct arena *arena,
                       struct query_values *values, struct problems *problems)
{
    const struct pair *pair = slot->by_name.value ? &slot->by_name : &slot->by_alias;
    const char *text =
        pair->value ? text_percent(pair->value, pair->value_length, true, arena) : NULL;

    if (pair->value && !text) {
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
    /* Assigns each pair to its field, if there is one. */
    while (query_next_pair(&at, end, &pair)) {
        const char *name = text_percent(pair.name, pair.name_length, true, arena);
        const struct bb_field *field = name ? field_find(fields, name) : NULL;

        if (!field) {
            query_ignore(values, name ? name : pair.name, name ? strlen(name) : pair.name_length,
                         arena);
            continue;
        }
        struct slot *slot = &slots[field - field_at(fields, 0)];
        struct pair *place = strcmp(field->name, name) != 0 ? &slot->by_alias : &slot->by_name;

        if (place->value && problems->warnings)
            warnings_add(problems->warnings, "%s: is given twice; the last value was used", name);
        *place = pair;
    }
    if (values->ignored) { /* removes the separators at both ends */
        values->ignored[strlen(values->ignored) - strlen(", ")] = '\0';
        values->ignored += strlen(", ");
    }
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
        const char *name = text_percent(pair.name, pair.name_length, true, arena);
        const char *value = text_percent(pair.value, pair.value_length, true, arena);

        if (!name || !value)
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
