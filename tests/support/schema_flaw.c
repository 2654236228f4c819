#include "schema_flaw.h"

#include <stdbool.h>
#include <string.h>

#include "process.h"
#include "schema.h"

/* A schema and one of its rules. */
struct rule {
    const json_t *document, *schema, *value;
};

typedef const char *check(const struct rule *rule);

static bool is_one_of(const json_t *value, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (json_is_string(value) && !strcmp(names[i], json_string_value(value)))
            return true;
    }
    return false;
}

/* ---- rules by form ---- */

static const char *check_type(const struct rule *rule)
{
    static const char *const types[] = {"object", "array",   "string", "integer",
                                        "number", "boolean", "null"};
    enum { COUNT = sizeof(types) / sizeof(types[0]) };
    const json_t *one;
    size_t i, unknown = !json_is_array(rule->value) && !is_one_of(rule->value, types, COUNT);

    json_array_foreach(rule->value, i, one)
    {
        unknown += !is_one_of(one, types, COUNT);
    }
    return unknown || (json_is_array(rule->value) && !json_array_size(rule->value))
               ? ": no known type"
               : NULL;
}

static const char *check_format(const struct rule *rule)
{
    static const char *const formats[] = {"date-time", "uuid",  "email",
                                          "password",  "int64", "binary" /* files of requests */};

    return is_one_of(rule->value, formats, sizeof(formats) / sizeof(formats[0]))
               ? NULL
               : ": no known format";
}

static const char *check_number(const struct rule *rule)
{
    return json_is_number(rule->value) ? NULL : " is not a number";
}

static const char *check_count(const struct rule *rule)
{
    return json_is_integer(rule->value) && json_integer_value(rule->value) >= 0 ? NULL
                                                                                : " is not a count";
}

static const char *check_text(const struct rule *rule)
{
    return json_string_length(rule->value) ? NULL : " is not a text";
}

static const char *check_choices(const struct rule *rule)
{
    return json_array_size(rule->value) ? NULL : " lists nothing";
}

/* The only permitted rule about other members is that they are allowed. */
static const char *check_others(const struct rule *rule)
{
    return json_is_true(rule->value) ? NULL : " is not true";
}

static const char *check_names(const struct rule *rule)
{
    const json_t *properties = json_object_get(rule->schema, "properties"), *name;
    size_t i;

    if (!json_array_size(rule->value))
        return " lists nothing";
    json_array_foreach(rule->value, i, name)
    {
        if (!json_object_get(properties, json_is_string(name) ? json_string_value(name) : ""))
            return text("[%zu] is not in properties", i);
    }
    return NULL;
}

/* ---- rules that contain schemas and values ---- */

static const char *check_schema(const struct rule *rule)
{
    return schema_flaw(rule->document, rule->value);
}

static const char *check_schemas(const struct rule *rule)
{
    const json_t *one;
    size_t i;

    if (!json_array_size(rule->value))
        return " lists nothing";
    json_array_foreach(rule->value, i, one)
    {
        const char *flaw = schema_flaw(rule->document, one);

        if (flaw)
            return text("[%zu]%s", i, flaw);
    }
    return NULL;
}

static const char *check_members(const struct rule *rule)
{
    const char *key;
    json_t *member;

    if (!json_is_object(rule->value))
        return " is not an object";
    json_object_foreach((json_t *)(uintptr_t)rule->value, key, member)
    {
        const char *flaw = schema_flaw(rule->document, member);

        if (flaw)
            return text(".%s%s", key, flaw);
    }
    return NULL;
}

static const char *check_reference(const struct rule *rule)
{
    return json_is_string(rule->value) && schema_resolved(rule->document, rule->schema)
               ? NULL
               : " leads nowhere";
}

static const char *check_default(const struct rule *rule)
{
    return schema_problem(rule->document, rule->schema, rule->value);
}

static const char *check_examples(const struct rule *rule)
{
    const json_t *one;
    size_t i;

    if (!json_array_size(rule->value))
        return " lists nothing";
    json_array_foreach(rule->value, i, one)
    {
        const char *problem = schema_problem(rule->document, rule->schema, one);

        if (problem)
            return text("[%zu]%s", i, problem);
    }
    return NULL;
}

static const struct {
    const char *keyword;
    check *check;
} keywords[] = {
    {"type", check_type},
    {"properties", check_members},
    {"required", check_names},
    {"items", check_schema},
    {"format", check_format},
    {"enum", check_choices},
    {"minimum", check_number},
    {"maximum", check_number},
    {"minLength", check_count},
    {"maxLength", check_count},
    {"minItems", check_count},
    {"maxItems", check_count},
    {"anyOf", check_schemas},
    {"$ref", check_reference},
    {"additionalProperties", check_others},
    {"description", check_text},
    {"contentMediaType", check_text}, /* of requests; in a response, schema.h reports it */
    {"default", check_default},
    {"examples", check_examples},
};

const char *schema_flaw(const json_t *document, const json_t *schema)
{
    enum { COUNT = sizeof(keywords) / sizeof(keywords[0]) };
    const char *key, *flaw = json_is_object(schema) ? NULL : " is not a schema";
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)schema, key, value)
    {
        size_t i = 0;

        while (i < COUNT && strcmp(keywords[i].keyword, key) != 0)
            i++;
        flaw = i < COUNT ? keywords[i].check(&(struct rule){document, schema, value})
                         : " is a keyword that the tests do not know";
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

    json_array_foreach(part, i, member)
    {
        if ((flaw = schema_flaw_inside(document, member)) != NULL)
            return text("[%zu]%s", i, flaw);
    }
    json_object_foreach((json_t *)(uintptr_t)part, key, member)
    {
        flaw = strcmp(key, "schema") != 0 ? schema_flaw_inside(document, member)
                                          : schema_flaw(document, member);
        if (flaw)
            return text("/%s%s", key, flaw);
    }
    return flaw;
}
