#include "schema.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"

/* A rule of a schema, and the value to check with it. */
struct judged {
    const json_t *document, *schema, *value;
    const char *keyword;
    const json_t *rule;
};

typedef const char *check(const struct judged *at);

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

static const char *const types[] = {
    [JSON_OBJECT] = "object",   [JSON_ARRAY] = "array", [JSON_STRING] = "string",
    [JSON_INTEGER] = "integer", [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
    [JSON_FALSE] = "boolean",   [JSON_NULL] = "null",
};

static bool has_type(const json_t *value, const char *type)
{
    double real = json_real_value(value);

    if (json_is_real(value) && !strcmp(type, "integer")) /* includes 1.0 and all huge numbers */
        return real < -9e15 || real > 9e15 || real == (double)(long long)real;
    return !strcmp(types[json_typeof(value)], type) ||
           (json_is_integer(value) && !strcmp(type, "number"));
}

static const char *check_type(const struct judged *at)
{
    const json_t *one;
    size_t i;
    bool fits = json_is_string(at->rule) && has_type(at->value, json_string_value(at->rule));

    json_array_foreach (at->rule, i, one) {
        fits = fits || has_type(at->value, json_string_value(one));
    }
    return fits ? NULL : text(" is %s and not of type %s", shown(at->value), shown(at->rule));
}

static bool is_type(const json_t *name)
{
    size_t i = 0, count = sizeof types / sizeof *types;

    while (json_is_string(name) && i < count && strcmp(types[i], json_string_value(name)) != 0)
        i++;
    return json_is_string(name) && i < count;
}

static const char *flaw_type(const struct judged *at)
{
    const json_t *one;
    size_t i, unknown = json_is_array(at->rule) ? !json_array_size(at->rule) : !is_type(at->rule);

    json_array_foreach (at->rule, i, one) {
        unknown += !is_type(one);
    }
    return unknown ? ": no known type" : NULL;
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

static const struct format {
    const char *name;
    bool (*fits)(const char *value);
} formats[] = {{"date-time", is_time}, {"uuid", is_uuid}, {"email", is_email},
               {"password", is_any},   {"int64", is_any}, /* every integer of jansson fits */
               {"binary", is_any} /* files of requests */};

static const struct format *format_of(const json_t *name)
{
    size_t i = 0, count = sizeof formats / sizeof *formats;

    while (json_is_string(name) && i < count && strcmp(formats[i].name, json_string_value(name)))
        i++;
    return json_is_string(name) && i < count ? &formats[i] : NULL;
}

static const char *flaw_format(const struct judged *at)
{
    return format_of(at->rule) ? NULL : ": no known format";
}

static const char *check_format(const struct judged *at)
{
    const struct format *format = format_of(at->rule);
    const char *value = json_string_value(at->value);

    if (!format)
        return text(": the tests do not know the format %s", shown(at->rule));
    return !value || format->fits(value) ? NULL
                                         : text(" is %s and no %s", shown(at->value), format->name);
}

/* ---- bounds ---- */

static size_t characters(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

/* minimum, maximum, minLength, maxLength, minItems, maxItems. */
static const char *check_bound(const struct judged *at)
{
    const char *what = at->keyword + strlen("min");
    double size, sign = strncmp(at->keyword, "min", 3) ? 1 : -1;

    if (!strcmp(what, "imum") && json_is_number(at->value))
        size = json_number_value(at->value);
    else if (!strcmp(what, "Length") && json_is_string(at->value))
        size = (double)characters(json_string_value(at->value));
    else if (!strcmp(what, "Items") && json_is_array(at->value))
        size = (double)json_array_size(at->value);
    else
        return NULL;
    return sign * size <= sign * json_number_value(at->rule)
               ? NULL
               : text(" is %s, which is %s than %s", shown(at->value), sign > 0 ? "more" : "less",
                      shown(at->rule));
}

static const char *flaw_bound(const struct judged *at)
{
    return json_is_number(at->rule) ? NULL : " is not a number";
}

/* ---- nested values, alternatives ---- */

static const char *check_enum(const struct judged *at)
{
    const json_t *one;
    size_t i;

    json_array_foreach (at->rule, i, one) {
        if (json_equal(one, at->value))
            return NULL;
    }
    return text(" is %s and none of %s", shown(at->value), shown(at->rule));
}

static const char *check_properties(const struct judged *at)
{
    const char *key;
    json_t *member;

    json_object_foreach ((json_t *)(uintptr_t)at->value, key, member) {
        const json_t *schema = json_object_get(at->rule, key);
        const char *problem =
            schema ? schema_problem(at->document, schema, member) : " is not in the reference";

        if (problem)
            return text(".%s%s", key, problem);
    }
    return NULL;
}

static const char *check_required(const struct judged *at)
{
    const json_t *name;
    size_t i;

    json_array_foreach (at->rule, i, name) {
        if (json_is_object(at->value) && !json_object_get(at->value, json_string_value(name)))
            return text(".%s is missing", json_string_value(name));
    }
    return NULL;
}

static const char *check_items(const struct judged *at)
{
    const json_t *item;
    size_t i;

    json_array_foreach (at->value, i, item) {
        const char *problem = schema_problem(at->document, at->rule, item);

        if (problem)
            return text("[%zu]%s", i, problem);
    }
    return NULL;
}

static const char *check_any_of(const struct judged *at)
{
    const char *problem = " fits none of nothing";
    const json_t *one;
    size_t i;

    json_array_foreach (at->rule, i, one) {
        problem = schema_problem(at->document, one, at->value);
        if (!problem)
            return NULL;
    }
    return problem;
}

static const char *check_reference(const struct judged *at)
{
    const json_t *schema = schema_resolved(at->document, at->schema);

    return schema ? schema_problem(at->document, schema, at->value)
                  : text(": %s leads nowhere", shown(at->rule));
}

/* ---- flaws of rules that contain schemas, names and values ---- */

static const char *flaw_schema(const struct judged *at)
{
    return schema_flaw(at->document, at->rule);
}

static const char *flaw_any_of(const struct judged *at)
{
    const char *flaw = json_array_size(at->rule) ? NULL : " lists nothing";
    const json_t *one;
    size_t i;

    json_array_foreach (at->rule, i, one) {
        flaw = flaw ? flaw : schema_flaw(at->document, one);
    }
    return flaw;
}

static const char *flaw_properties(const struct judged *at)
{
    const char *key, *flaw = json_is_object(at->rule) ? NULL : " is not an object";
    json_t *member;

    json_object_foreach ((json_t *)(uintptr_t)at->rule, key, member) {
        flaw = schema_flaw(at->document, member);
        if (flaw)
            return text(".%s%s", key, flaw);
    }
    return flaw;
}

static const char *flaw_required(const struct judged *at)
{
    const json_t *properties = json_object_get(at->schema, "properties"), *name;
    size_t i;

    json_array_foreach (at->rule, i, name) {
        if (!json_object_get(properties, json_is_string(name) ? json_string_value(name) : ""))
            return text("[%zu] is not in properties", i);
    }
    return json_array_size(at->rule) ? NULL : " lists nothing";
}

static const char *flaw_reference(const struct judged *at)
{
    return json_is_string(at->rule) && schema_resolved(at->document, at->schema) ? NULL
                                                                                 : " leads nowhere";
}

static const char *flaw_default(const struct judged *at)
{
    return schema_problem(at->document, at->schema, at->rule);
}

static const char *flaw_examples(const struct judged *at)
{
    const char *problem = json_array_size(at->rule) ? NULL : " lists nothing";
    const json_t *one;
    size_t i;

    json_array_foreach (at->rule, i, one) {
        problem = problem ? problem : schema_problem(at->document, at->schema, one);
    }
    return problem;
}

/* ---- keywords ---- */

static const struct keyword {
    const char *name;
    check *check, *flaw; /* checks of a value, and of the rule itself; NULL: none */
} keywords[] = {
    {"type", check_type, flaw_type},
    {"properties", check_properties, flaw_properties},
    {"required", check_required, flaw_required},
    {"items", check_items, flaw_schema},
    {"format", check_format, flaw_format},
    {"enum", check_enum, NULL},
    {"minimum", check_bound, flaw_bound},
    {"maximum", check_bound, flaw_bound},
    {"minLength", check_bound, flaw_bound},
    {"maxLength", check_bound, flaw_bound},
    {"minItems", check_bound, flaw_bound},
    {"maxItems", check_bound, flaw_bound},
    {"anyOf", check_any_of, flaw_any_of},
    {"$ref", check_reference, flaw_reference},
    {"additionalProperties", NULL, NULL}, /* see the header */
    {"description", NULL, NULL},
    {"contentMediaType", NULL, NULL},
    {"examples", NULL, flaw_examples},
    {"default", NULL, flaw_default},
};

static const struct keyword *keyword_of(const char *name)
{
    size_t i = 0, count = sizeof keywords / sizeof *keywords;

    while (i < count && strcmp(keywords[i].name, name) != 0)
        i++;
    return i < count ? &keywords[i] : NULL;
}

const char *schema_problem(const json_t *document, const json_t *schema, const json_t *value)
{
    const char *key, *problem = NULL;
    json_t *rule;

    json_object_foreach ((json_t *)(uintptr_t)schema, key, rule) {
        const struct keyword *keyword = keyword_of(key);

        if (!keyword)
            problem = text(": the tests do not know the keyword %s", key);
        else if (keyword->check)
            problem = keyword->check(&(struct judged){document, schema, value, key, rule});
        if (problem)
            break;
    }
    return problem;
}

const char *schema_flaw(const json_t *document, const json_t *schema)
{
    const char *key, *flaw = json_is_object(schema) ? NULL : " is not a schema";
    json_t *rule;

    json_object_foreach ((json_t *)(uintptr_t)schema, key, rule) {
        const struct keyword *keyword = keyword_of(key);

        if (!keyword)
            flaw = " is a keyword that the tests do not know";
        else if (keyword->flaw)
            flaw = keyword->flaw(&(struct judged){document, schema, NULL, key, rule});
        if (flaw)
            return text(".%s%s", key, flaw);
    }
    return flaw;
}

const char *schema_flaw_inside(const json_t *document, const json_t *part)
{
    const char *key, *flaw = NULL;
    json_t *member;
    size_t i;

    json_array_foreach (part, i, member) {
        if ((flaw = schema_flaw_inside(document, member)) != NULL)
            return text("[%zu]%s", i, flaw);
    }
    json_object_foreach ((json_t *)(uintptr_t)part, key, member) {
        if (!strncmp(key, "example", 7)) /* `example` and `examples` may have members of any name */
            continue;
        flaw = strcmp(key, "schema") != 0 ? schema_flaw_inside(document, member)
                                          : schema_flaw(document, member);
        if (flaw)
            return text("/%s%s", key, flaw);
    }
    return flaw;
}
