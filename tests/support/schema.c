#include "schema.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"

/* A value and the schema to check it with. */
struct judged {
    const json_t *document, *schema, *value;
};

typedef const char *check(const struct judged *at, const json_t *rule);

const json_t *schema_resolved(const json_t *document, const json_t *object)
{
    const char *path = json_string_value(json_object_get(object, "$ref"));
    const json_t *found = document;

    if (!path)
        return object;
    for (const char *at = path + 1; *at == '/'; at += strcspn(at, "/")) {
        at++;
        found = json_object_getn(found, at, strcspn(at, "/"));
    }
    return found;
}

/* Returns the first characters of a value. */
static const char *shown(const json_t *value)
{
    char *whole = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    const char *part = text("%.120s", whole ? whole : "?");

    free(whole);
    return part;
}

/* ---- types and formats ---- */

static bool has_type(const json_t *value, const char *type)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "object",   [JSON_ARRAY] = "array", [JSON_STRING] = "string",
        [JSON_INTEGER] = "integer", [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
        [JSON_FALSE] = "boolean",   [JSON_NULL] = "null",
    };

    double real = json_real_value(value);

    if (json_is_real(value) && !strcmp(type, "integer")) /* includes 1.0 and all huge numbers */
        return real < -9e15 || real > 9e15 || real == (double)(long long)real;
    return !strcmp(names[json_typeof(value)], type) ||
           (json_is_integer(value) && !strcmp(type, "number"));
}

static const char *check_type(const struct judged *at, const json_t *rule)
{
    const json_t *one;
    size_t i;
    bool fits = json_is_string(rule) && has_type(at->value, json_string_value(rule));

    json_array_foreach(rule, i, one)
    {
        fits = fits || has_type(at->value, json_string_value(one));
    }
    return fits ? NULL : text(" is %s and not of type %s", shown(at->value), shown(rule));
}

/* Returns whether a text matches a pattern, in which 0 is a digit and x a hexadecimal digit. */
static const char *past(const char *text, const char *pattern)
{
    static const char digits[] = "0123456789", hex[] = "0123456789abcdefABCDEF";

    for (; *pattern; text++, pattern++) {
        if (*pattern == '0' || *pattern == 'x') {
            if (!*text || !strchr(*pattern == '0' ? digits : hex, *text))
                return NULL;
        } else if (*text != *pattern) {
            return NULL;
        }
    }
    return text;
}

static bool is_time(const char *value)
{
    const char *rest = past(value, "0000-00-00T00:00:00");

    if (rest && *rest == '.')
        rest += 1 + strspn(rest + 1, "0123456789");
    if (!rest)
        return false;
    const char *zone = *rest == '+' || *rest == '-' ? past(rest + 1, "00:00") : NULL;

    return !strcmp(rest, "Z") || (zone && !*zone);
}

static bool is_uuid(const char *value)
{
    const char *rest = past(value, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");

    return rest && !*rest;
}

static bool is_email(const char *value)
{
    const char *at = strrchr(value, '@');

    return at && at > value && at[1] && !strchr(value, ' ');
}

static bool is_any(const char *value)
{
    return value != NULL;
}

static const char *check_format(const struct judged *at, const json_t *rule)
{
    static const struct {
        const char *name;
        bool (*fits)(const char *value);
    } formats[] = {{"date-time", is_time},
                   {"uuid", is_uuid},
                   {"email", is_email},
                   {"password", is_any},
                   {"int64", is_any}}; /* every integer of jansson fits */
    const char *value = json_string_value(at->value);

    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (strcmp(formats[i].name, json_string_value(rule)) != 0)
            continue;
        return !value || formats[i].fits(value)
                   ? NULL
                   : text(" is %s and no %s", shown(at->value), formats[i].name);
    }
    return text(": the tests do not know the format %s", shown(rule));
}

/* ---- bounds ---- */

static size_t characters(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

/* Gets the number that a bound limits: the number itself, a text's length or a list's length.
 * Returns false if the bound does not apply. */
static bool measured(const json_t *value, const char *what, double *size)
{
    if (!strcmp(what, "imum") && json_is_number(value))
        *size = json_number_value(value);
    else if (!strcmp(what, "Length") && json_is_string(value))
        *size = (double)characters(json_string_value(value));
    else if (!strcmp(what, "Items") && json_is_array(value))
        *size = (double)json_array_size(value);
    else
        return false;
    return true;
}

static const char *bounded(const struct judged *at, const json_t *rule, const char *what, int sign)
{
    double size;

    if (!measured(at->value, what, &size) || sign * size <= sign * json_number_value(rule))
        return NULL;
    return text(" is %s, which is %s than %s", shown(at->value), sign > 0 ? "more" : "less",
                shown(rule));
}

static const char *check_minimum(const struct judged *at, const json_t *rule)
{
    return bounded(at, rule, "imum", -1);
}

static const char *check_maximum(const struct judged *at, const json_t *rule)
{
    return bounded(at, rule, "imum", 1);
}

static const char *check_min_length(const struct judged *at, const json_t *rule)
{
    return bounded(at, rule, "Length", -1);
}

static const char *check_max_length(const struct judged *at, const json_t *rule)
{
    return bounded(at, rule, "Length", 1);
}

static const char *check_min_items(const struct judged *at, const json_t *rule)
{
    return bounded(at, rule, "Items", -1);
}

static const char *check_max_items(const struct judged *at, const json_t *rule)
{
    return bounded(at, rule, "Items", 1);
}

/* ---- nested values, alternatives ---- */

static const char *check_enum(const struct judged *at, const json_t *rule)
{
    const json_t *one;
    size_t i;

    json_array_foreach(rule, i, one)
    {
        if (json_equal(one, at->value))
            return NULL;
    }
    return text(" is %s and none of %s", shown(at->value), shown(rule));
}

static const char *check_properties(const struct judged *at, const json_t *rule)
{
    const char *key;
    json_t *member;

    json_object_foreach((json_t *)(uintptr_t)at->value, key, member)
    {
        const json_t *schema = json_object_get(rule, key);
        const char *problem =
            schema ? schema_problem(at->document, schema, member) : " is not in the reference";

        if (problem)
            return text(".%s%s", key, problem);
    }
    return NULL;
}

static const char *check_required(const struct judged *at, const json_t *rule)
{
    const json_t *name;
    size_t i;

    json_array_foreach(rule, i, name)
    {
        if (json_is_object(at->value) && !json_object_get(at->value, json_string_value(name)))
            return text(".%s is missing", json_string_value(name));
    }
    return NULL;
}

static const char *check_items(const struct judged *at, const json_t *rule)
{
    const json_t *item;
    size_t i;

    json_array_foreach(at->value, i, item)
    {
        const char *problem = schema_problem(at->document, rule, item);

        if (problem)
            return text("[%zu]%s", i, problem);
    }
    return NULL;
}

static const char *check_any_of(const struct judged *at, const json_t *rule)
{
    const char *problem = " fits none of nothing";
    const json_t *one;
    size_t i;

    json_array_foreach(rule, i, one)
    {
        problem = schema_problem(at->document, one, at->value);
        if (!problem)
            return NULL;
    }
    return problem;
}

static const char *check_reference(const struct judged *at, const json_t *rule)
{
    const json_t *schema = schema_resolved(at->document, at->schema);

    return schema ? schema_problem(at->document, schema, at->value)
                  : text(": %s leads nowhere", shown(rule));
}

static const char *no_check(const struct judged *at, const json_t *rule)
{
    (void)at;
    (void)rule;
    return NULL;
}

static const struct {
    const char *keyword;
    check *check;
} keywords[] = {
    {"type", check_type},
    {"properties", check_properties},
    {"required", check_required},
    {"items", check_items},
    {"format", check_format},
    {"enum", check_enum},
    {"minimum", check_minimum},
    {"maximum", check_maximum},
    {"minLength", check_min_length},
    {"maxLength", check_max_length},
    {"minItems", check_min_items},
    {"maxItems", check_max_items},
    {"anyOf", check_any_of},
    {"$ref", check_reference},
    {"additionalProperties", no_check}, /* see the header */
    {"description", no_check},
    {"examples", no_check},
    {"default", no_check},
};

const char *schema_problem(const json_t *document, const json_t *schema, const json_t *value)
{
    enum { COUNT = sizeof(keywords) / sizeof(keywords[0]) };
    const struct judged at = {document, schema, value};
    const char *key, *problem = NULL;
    json_t *rule;

    json_object_foreach((json_t *)(uintptr_t)schema, key, rule)
    {
        size_t i = 0;

        while (i < COUNT && strcmp(keywords[i].keyword, key) != 0)
            i++;
        problem = i < COUNT ? keywords[i].check(&at, rule)
                            : text(": the tests do not know the keyword %s", key);
        if (problem)
            break;
    }
    return problem;
}
