/*
 * The schema validator of the integration tests (tests/support/schema.h): each known keyword
 * accepts a value and refuses another one; an unknown keyword is always a problem.
 */
#include <jansson.h>

#include "suite.h"
#include "support/process.h"
#include "support/schema.h"

static const char document_text[] =
    "{\"components\": {\"schemas\": {\"Small\": {\"type\": \"integer\", \"maximum\": 9}}}}";

static json_t *parse(const char *text)
{
    json_error_t why;
    json_t *json = json_loads(text, JSON_DECODE_ANY, &why);

    ck_assert_msg(json != NULL, "%s: %s", text, why.text);
    return json;
}

/* Returns the problem of a value, or NULL; all as JSON. */
static const char *problem_of(const char *schema, const char *value)
{
    json_t *document = parse(document_text), *parsed = parse(schema), *judged = parse(value);
    const char *problem = schema_problem(document, parsed, judged);

    json_decref(document);
    json_decref(parsed);
    json_decref(judged);
    return problem;
}

static const char *flaw_of(const char *schema)
{
    json_t *document = parse(document_text), *parsed = parse(schema);
    const char *flaw = schema_flaw(document, parsed);

    json_decref(document);
    json_decref(parsed);
    return flaw;
}

static const struct {
    const char *schema, *good, *bad;
} rules[] = {
    {"{\"type\": \"object\"}", "{}", "[]"},
    {"{\"type\": \"array\"}", "[]", "{}"},
    {"{\"type\": \"string\"}", "\"1\"", "1"},
    {"{\"type\": \"integer\"}", "1", "1.5"},
    {"{\"type\": \"integer\"}", "2.0", "\"2\""},
    {"{\"type\": \"number\"}", "1.5", "\"1.5\""},
    {"{\"type\": \"number\"}", "1", "null"},
    {"{\"type\": \"boolean\"}", "false", "0"},
    {"{\"type\": \"boolean\"}", "true", "\"true\""},
    {"{\"type\": \"null\"}", "null", "false"},
    {"{\"type\": [\"string\", \"null\"]}", "null", "0"},
    {"{\"properties\": {\"a\": {\"type\": \"integer\"}}}", "{\"a\": 1}", "{\"a\": \"1\"}"},
    {"{\"properties\": {\"a\": {}}}", "{}", "{\"b\": 1}"},
    {"{\"properties\": {\"a\": {}}, \"additionalProperties\": true}", "{\"a\": 1}", "{\"b\": 1}"},
    {"{\"required\": [\"a\"]}", "{\"a\": null}", "{\"b\": 1}"},
    {"{\"items\": {\"type\": \"integer\"}}", "[1, 2]", "[1, \"2\"]"},
    {"{\"enum\": [\"a\", null]}", "null", "\"b\""},
    {"{\"minimum\": 3}", "3", "2"},
    {"{\"minimum\": 0}", "0.0", "-0.5"},
    {"{\"maximum\": 3}", "3", "4"},
    {"{\"minLength\": 2}", "\"ab\"", "\"\xC3\xA4\""},
    {"{\"maxLength\": 2}", "\"\xC3\xA4\xC3\xB6\"", "\"abc\""},
    {"{\"minItems\": 1}", "[0]", "[]"},
    {"{\"maxItems\": 1}", "[0]", "[0, 1]"},
    {"{\"anyOf\": [{\"type\": \"null\"}, {\"type\": \"integer\"}]}", "7", "\"7\""},
    {"{\"$ref\": \"#/components/schemas/Small\"}", "9", "10"},
    {"{\"format\": \"date-time\"}", "\"2026-04-01T12:00:00.000Z\"", "\"2026-04-01 12:00:00Z\""},
    {"{\"format\": \"date-time\"}", "\"2026-04-01T12:00:00+02:00\"", "\"2026-04-01T12:00:00\""},
    {"{\"format\": \"uuid\"}", "\"0195f3a0-1111-7222-8333-444455556666\"",
     "\"0195f3a0-1111-7222-8333-44445555666\""},
    {"{\"format\": \"email\"}", "\"a@example.com\"", "\"a.example.com\""},
};

TEST(each_schema_keyword_accepts_and_refuses_values)
{
    for (size_t i = 0; i < COUNT(rules); i++) {
        const char *problem = problem_of(rules[i].schema, rules[i].good);

        ck_assert_msg(!problem, "%s by %s%s", rules[i].good, rules[i].schema, problem);
        ck_assert_msg(problem_of(rules[i].schema, rules[i].bad) != NULL, "%s is taken by %s",
                      rules[i].bad, rules[i].schema);
        ck_assert_msg(!flaw_of(rules[i].schema) || strstr(rules[i].schema, "\"required\""),
                      "%s has a flaw", rules[i].schema);
    }
    EACH_TEXT (silent, "{\"description\": \"words\"}", "{\"examples\": [1]}", "{\"default\": 1}",
               "{\"format\": \"password\"}", "{\"format\": \"int64\"}")
        ck_assert_ptr_null(problem_of(silent, "7"));
}

TEST(unknown_schema_keywords_are_problems)
{
    static const char *const unknown[] = {
        "{\"pattern\": \"^a\"}",
        "{\"oneOf\": [{}]}",
        "{\"exclusiveMinimum\": 1}",
        "{\"type\": \"text\"}",
        "{\"format\": \"uri\"}",
        "{\"$ref\": \"#/components/schemas/Absent\"}",
        "{\"items\": {\"uniqueItems\": true}}",
        "{\"properties\": {\"a\": {\"const\": 1}}}",
    };

    for (size_t i = 0; i < COUNT(unknown); i++) {
        const char *value = i == 6 ? "[\"a\"]" : i == 7 ? "{\"a\": 1}" : "\"a\"";

        ck_assert_msg(problem_of(unknown[i], value) != NULL, "%s takes %s", unknown[i], value);
        ck_assert_msg(flaw_of(unknown[i]) != NULL, "%s has no flaw", unknown[i]);
    }
}

SUITE(schema)
