/* Field tables for JSON and text: accepted values, normalization, and the wording of problems. */
#include <utf8proc.h>

#include "core/lib/field.h"
#include "core/lib/json.h"
#include "core/lib/text.h"
#include "field_rows.h"
#include "suite.h"

static struct arena *arena;
static struct problems problems;
static json_t *warnings;

static void setup(void)
{
    arena = arena_new();
    problems = (struct problems){.arena = arena};
    warnings = NULL;
}

/* Fields are checked as in requests; without it as in settings. */
static void be_tolerant(void)
{
    problems.warnings = &warnings;
}

static void teardown(void)
{
    json_decref(warnings);
    arena_free(arena);
}

static json_t *parse(const char *text)
{
    struct json_problem wrong;
    json_t *value = json_read(text, strlen(text), JSON_COMMAS_MAX, &wrong);

    ck_assert_msg(value != NULL, "%s: %s", text, wrong.text);
    return value;
}

static void passes_as(const struct bb_table *rows, const char *in, const char *out)
{
    json_t *object = in ? parse(in) : NULL, *checked = fields_check(rows, object, &problems);

    ck_assert_msg(checked != NULL, "%s: %s %s", in, problems.list ? problems.list[0].field : "",
                  problems.list ? problems.list[0].text : "");
    char *text = json_write(checked, NULL);

    ck_assert_str_eq(text, out);
    ck_assert_uint_eq(problems.count, 0);
    free(text);
    json_decref(checked);
    json_decref(object);
}

static void passes(const char *in, const char *out)
{
    passes_as(&table, in, out);
}

static void fails_as(const struct bb_table *rows, const char *in, const char *field,
                     const char *text)
{
    json_t *object = in ? parse(in) : NULL;

    problems.count = 0;
    ck_assert_msg(!fields_check(rows, object, &problems), "%s", in);
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_str_eq(problems.list[0].field, field);
    ck_assert_str_eq(problems.list[0].text, text);
    problems.count = 0;
    json_decref(object);
}

static void fails(const char *in, const char *field, const char *text)
{
    fails_as(&table, in, field, text);
}

TEST_EACH(declared_fields_are_kept_and_others_dropped, 2)
{
    if (_i)
        be_tolerant();
    passes("{}", "{}");
    passes("{\"id\":7,\"userId\":1,\"text\":\"abc\",\"any\":null}",
           "{\"text\":\"abc\",\"any\":null}");
    passes("{\"free\":{\"x\":[1,{}]},\"any\":[1]}", "{\"any\":[1],\"free\":{\"x\":[1,{}]}}");
    passes("{\"yes\":false,\"number\":1.5,\"count\":10}",
           "{\"count\":10,\"number\":1.5,\"yes\":false}");
    passes("{\"gone\":null}", "{}");
    passes("{\"words\":[]}", "{\"words\":[]}");
}

TEST_EACH(field_values_are_normalized, 2)
{
    if (_i)
        be_tolerant();
    passes("{\"email\":\" \\tAnna@Example.ORG\\u00a0\"}", "{\"email\":\"anna@example.org\"}");
    passes("{\"mail\":\"b@c.de\"}", "{\"email\":\"b@c.de\"}");
    passes("{\"mail\":\"b@c.de\",\"email\":\"a@c.de\"}", "{\"email\":\"a@c.de\"}");
    passes("{\"uuid\":\"0190A0B0-0000-7000-8000-00000000000F\"}",
           "{\"uuid\":\"0190a0b0-0000-7000-8000-00000000000f\"}");
    passes("{\"count\":5.0}", "{\"count\":5}");
    passes("{\"reads\":[{\"value\":2,\"starttimestamp\":\"2026-01-01\",\"x\":1}]}",
           "{\"reads\":[{\"value\":2,\"startDate\":\"2026-01-01\"}]}");
}

TEST(problems_of_fields_have_these_messages)
{
    fails("{\"text\":null}", "text", "must be a string");
    fails("{\"text\":\"\\u00e4\\u00e4\\u00e4\\u00e4\\u00e4\\u00e4\"}", "text",
          "must be at most 5 characters");
    fails("{\"entry\":\" \\u3000\\n\"}", "entry", "must not be blank");
    fails("{\"count\":\"5\"}", "count", "must be a whole number");
    fails("{\"count\":1e300}", "count", "must be a whole number");
    fails("{\"count\":true}", "count", "must be a whole number");
    fails("{\"number\":\"5\"}", "number", "must be a number");
    fails("{\"colour\":\"Red\"}", "colour", "must be one of: red, green");
    fails("{\"reads\":[{\"value\":5},{\"value\":0.5}]}", "reads[1].value", "must be at least 1");
    fails("{\"reads\":[{}]}", "reads[0].value", "is required");
    fails("{\"reads\":[5]}", "reads[0]", "must be an object");
    fails("{\"reads\":[{\"value\":1,\"starttimestamp\":\"x\"}]}", "reads[0].starttimestamp",
          "must be an ISO 8601 date and time, such as 2026-04-01T12:00:00Z");
    fails("{\"words\":[\"a\",\"abcd\"]}", "words[1]", "must be at most 3 characters");
}

/* ---- codes of problems ---- */

static bool reached[64];

/* Fails the test unless there is one problem, whose members besides the usual ones are `members`.
 */
static void is_coded(const char *members)
{
    json_t *list = json_array(), *problem;

    ck_assert_uint_eq(problems.count, 1);
    problems_list(&problems, list);
    problem = json_array_get(list, 0);
    problem_set_code(problem, "problem");
    for (size_t i = 1; i < sizeof reached; i++)
        if (!strcmp(problem_rows[i].code, json_string_value(json_object_get(problem, "code"))))
            reached[i] = true;
    json_object_del(problem, "field");
    json_object_del(problem, "problem");
    char *text = json_write(problem, NULL);

    ck_assert_str_eq(text, members);
    free(text);
    json_decref(list);
    problems.count = 0;
}

static void coded(const char *in, const char *members)
{
    json_t *object = parse(in);

    ck_assert_msg(!fields_check(&table, object, &problems), "%s", in);
    json_decref(object);
    is_coded(members);
}

TEST(each_kind_of_problem_has_its_code_and_parameters)
{
    struct query_values values;
    json_t *nul = json_pack("{so}", "text", json_stringn("a\0b", 3));

    coded("{\"text\":true}", "{\"code\":\"not_a_string\"}");
    coded("{\"email\":\"x\"}", "{\"code\":\"not_an_email\"}");
    coded("{\"uuid\":\"x\"}", "{\"code\":\"not_a_uuid\"}");
    coded("{\"count\":1.5}", "{\"code\":\"not_a_whole_number\"}");
    coded("{\"number\":\"x\"}", "{\"code\":\"not_a_number\"}");
    coded("{\"yes\":1}", "{\"code\":\"not_a_boolean\"}");
    coded("{\"when\":\"x\"}", "{\"code\":\"not_a_time\"}");
    coded("{\"colour\":1}",
          "{\"code\":\"not_one_of\",\"params\":{\"allowed\":[\"red\",\"green\"]}}");
    coded("{\"free\":[]}", "{\"code\":\"not_an_object\"}");
    coded("[]", "{\"code\":\"not_an_object\"}");
    coded("{\"reads\":{}}", "{\"code\":\"not_a_list\"}");
    coded("{\"reads\":[{}]}", "{\"code\":\"required\"}");
    coded("{\"entry\":\" \"}", "{\"code\":\"blank\"}");
    coded("{\"text\":\"a\"}", "{\"code\":\"too_short\",\"params\":{\"limit\":2}}");
    coded("{\"text\":\"abcdef\"}", "{\"code\":\"too_long\",\"params\":{\"limit\":5}}");
    coded("{\"words\":[\"\"]}", "{\"code\":\"too_short\",\"params\":{\"limit\":1}}");
    coded("{\"reads\":[]}", "{\"code\":\"too_few\",\"params\":{\"limit\":1}}");
    coded("{\"reads\":[1,1,1,1,1]}", "{\"code\":\"too_many\",\"params\":{\"limit\":4}}");
    coded("{\"count\":0}", "{\"code\":\"too_small\",\"params\":{\"limit\":1}}");
    coded("{\"count\":11}", "{\"code\":\"too_large\",\"params\":{\"limit\":10}}");
    coded("{\"name\":\"a\\u0007\"}", "{\"code\":\"control_characters\"}");
    coded("{\"name\":\"a\\u200b\"}", "{\"code\":\"invisible_characters\"}");
    coded("{\"name\":\"a\\ue000\"}", "{\"code\":\"private_characters\"}");
    coded("{\"name\":\"a\\u0378\"}", "{\"code\":\"unassigned_characters\"}");
    coded("{\"name\":\"e\\u0301\"}", "{\"code\":\"not_nfc\"}");
    coded("{\"account\":\"\\uff41@b.cd\"}", "{\"code\":\"not_nfkc\"}");
    ck_assert_ptr_null(fields_check(&table, nul, &problems));
    json_decref(nul);
    is_coded("{\"code\":\"nul_character\"}");
    ck_assert_ptr_null(field_check_text(field_find(&table, "text"), "a\xFF", arena, &problems));
    is_coded("{\"code\":\"not_utf8\"}");
    ck_assert_ptr_null(field_check_text(field_find(&table, "free"), "{", arena, &problems));
    is_coded("{\"code\":\"not_json\",\"params\":{\"reason\":\"the text ends too early\"}}");
    ck_assert_int_eq(query_check(&table, "text=%zz", arena, &values, &problems), -1);
    is_coded("{\"code\":\"bad_encoding\"}");
    for (size_t i = 1; strcmp(problem_rows[i].code, "unknown_part") != 0;
         i++) /* later rows are for uploads */
        ck_assert_msg(reached[i], "%s", problem_rows[i].code);
}

/* Fails the test unless the text gets these members. */
static void named(const char *text, const char *members)
{
    json_t *problem = json_pack("{ss}", "problem", text), *expected = json_loads(members, 0, NULL);

    problem_set_code(problem, "problem");
    json_object_del(problem, "problem");
    ck_assert_msg(json_equal(problem, expected), "%s", text);
    json_decref(expected);
    json_decref(problem);
}

TEST(a_problem_has_a_code_if_all_its_words_are_those_of_a_row)
{
    named("is required", "{\"code\":\"required\"}");
    named("must be at least -5", "{\"code\":\"too_small\",\"params\":{\"limit\":-5}}");
    named("must be at most 1 character", "{\"code\":\"too_long\",\"params\":{\"limit\":1}}");
    named("must be one of: a, b",
          "{\"code\":\"not_one_of\",\"params\":{\"allowed\":[\"a\",\"b\"]}}");
    named("must be between -90 and 90",
          "{\"code\":\"not_between\",\"params\":{\"min\":-90,\"max\":90}}");
    named("must be at most 1 day after from",
          "{\"code\":\"too_late\",\"params\":{\"limit\":1,\"field\":\"from\"}}");
    named("Several devices have this name: a, b",
          "{\"code\":\"several_devices\",\"params\":{\"name\":\"name\",\"devices\":\"a, b\"}}");
    named("65 Wh is more than the plausible ceiling of 2.5 Wh: capacity 10 kW, 1 hour, yield 20 "
          "kWh/kW a year",
          "{\"code\":\"over_ceiling\",\"params\":{\"value\":65,\"ceiling\":2.5,\"capacity\":10,"
          "\"hours\":1,\"yield\":20}}");
    named("1 is ignored: you act in organization 1",
          "{\"code\":\"organization_ignored\",\"params\":{\"asked\":1,\"organization\":1}}");
    named("must not be before the device's commissioning on 2026-04-01",
          "{\"code\":\"before_commissioning\",\"params\":{\"date\":\"2026-04-01\"}}");
    EACH_TEXT (other, "", "is required: something else", "must be at most 1 characters",
               "must be at most 2 character", "must be at most ", "must be at most 5 miles",
               "must be at most 5x", "must be at most 05", "must be at most 99999999999999999999",
               "must be at most 1 days after from", "must be between -90", "Is required")
        named(other, "{}");
}

TEST(a_problem_keeps_the_code_of_its_module)
{
    json_t *problem =
        json_pack("{ss ss ss}", "field", "a", "problem", "is required", "code", "own");

    problem_set_code(problem, "problem");
    ck_assert_str_eq(json_string_value(json_object_get(problem, "code")), "own");
    ck_assert_uint_eq(json_object_size(problem), 3);
    json_decref(problem);
    problem_set_code(json_null(), "problem");
    problem_set_code(NULL, "problem");
}

TEST(an_absent_body_lacks_its_required_fields)
{
    const struct bb_table readings = BB_TABLE(reading);

    fails_as(&readings, NULL, "value", "is required");
}

static const struct bb_field clearable[] = {
    {.name = "end", .type = BB_TIME, .flags = BB_CLEARS, .alias = "until"},
    {.name = "count", .type = BB_INT, .flags = BB_CLEARS | BB_AS_SENT},
    {.name = "name", .type = BB_TEXT},
};

TEST(null_is_kept_if_it_clears_the_field)
{
    const struct bb_table clears = BB_TABLE(clearable);

    EACH_TEXT (same, "{}", "{\"end\":null}", "{\"count\":null}")
        passes_as(&clears, same, same);
    passes_as(&clears, "{\"until\":null}", "{\"end\":null}");
    fails_as(&clears, "{\"name\":null}", "name", "must be a string");
}

static const struct bb_field inner_defaults[] = {
    {.name = "unit",
     .type = BB_CHOICE,
     .choices = (const char *const[]){"Wh", "kWh", NULL},
     .fallback = "kWh"},
};

static const struct bb_field defaults[] = {
    {.name = "text", .type = BB_TEXT, .fallback = "none"},
    {.name = "count", .type = BB_INT, .flags = BB_NULLABLE, .fallback = "3"},
    {.name = "part", .type = BB_NUMBER, .fallback = "0.5"},
    {.name = "on", .type = BB_BOOL, .fallback = "true"},
    {.name = "list", .type = BB_LIST, .fallback = "[1]"},
    {.name = "inner", .type = BB_OBJECT, .fields = BB_TABLE(inner_defaults)},
};

/* In bodies, "" also counts as absent, and so does null if the row says so. */
TEST(absent_fields_have_their_defaults)
{
    static const struct bb_table rows = BB_TABLE(defaults);

    be_tolerant();
    passes_as(&rows, NULL, "{\"text\":\"none\",\"count\":3,\"part\":0.5,\"on\":true,\"list\":[1]}");
    passes_as(&rows,
              "{\"text\":\"\",\"count\":null,\"part\":1,\"on\":false,\"list\":[],\"inner\":{}}",
              "{\"text\":\"none\",\"count\":3,\"part\":1,\"on\":false,\"list\":[],"
              "\"inner\":{\"unit\":\"kWh\"}}");
}

TEST(null_in_a_required_field_counts_as_missing)
{
    const struct bb_field rows[] = {
        {.name = "a", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NULLABLE}};
    const struct bb_table one = BB_TABLE(rows);

    fails_as(&one, "{\"a\":null}", "a", "is required");
}

TEST(at_most_64_problems_are_kept)
{
    const struct bb_field rows[] = {{.name = "a", .type = BB_LIST, .fields = BB_TABLE(word)}};
    const struct bb_table one = BB_TABLE(rows);
    json_t *list = json_array(), *object = json_pack("{so}", "a", list);

    for (int i = 0; i < 100; i++)
        json_array_append_new(list, json_integer(i));
    ck_assert_ptr_null(fields_check(&one, object, &problems));
    ck_assert_uint_eq(problems.count, PROBLEMS_MAX);
    ck_assert_str_eq(problems.list[63].field, "a[63]");
    ck_assert_ptr_null(fields_check(&one, object, &problems));
    json_decref(object);
}

static const struct bb_field *row(const char *name)
{
    return field_find(&table, name);
}

static void text_passes(const char *name, const char *in, const char *out)
{
    const char *got = field_check_text(row(name), in, arena, &problems);

    ck_assert_msg(got && !strcmp(got, out), "%s %s: %s", name, in, got ? got : "refused");
}

static void text_fails(const char *name, const char *in)
{
    problems.count = 0;
    ck_assert_msg(!field_check_text(row(name), in, arena, &problems), "%s %s", name, in);
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_str_eq(problems.list[0].field, name);
    problems.count = 0;
}

TEST(texts_of_parameters_are_checked_by_the_same_rows)
{
    text_passes("count", "7", "7");
    text_passes("count", "007", "7");
    text_passes("least", "9223372036854775807", "9223372036854775807");
    text_passes("number", "-1.5e3", "-1.5e3");
    text_passes("yes", "true", "true");
    text_passes("email", "A@b.cd", "a@b.cd");
    text_passes("uuid", "0190A0B0-0000-7000-8000-00000000000F",
                "0190a0b0-0000-7000-8000-00000000000f");
    text_passes("colour", "green", "green");
    text_passes("text", "\xC3\xA4\xC3\xA4", "\xC3\xA4\xC3\xA4");
    text_passes("reads", "[{\"value\": 1, \"x\": 2}]", "[{\"value\":1}]");
    ck_assert_ptr_null(field_check_text(row("text"), NULL, arena, &problems));
    ck_assert_uint_eq(problems.count, 0);
    ck_assert_ptr_null(field_check_text(&reading[0], NULL, arena, &problems));
    ck_assert_str_eq(problems.list[0].text, "is required");
}

TEST(invalid_texts_of_parameters_are_refused)
{
    EACH_TEXT (bad, "", "-", "+5", " 5", "5 ", "5x", "0x5", "5.0", "1e1", "--5",
               "9223372036854775808", "\xD9\xA5")
        text_fails("least", bad);
    EACH_TEXT (bad, "", "-", "nan", "inf", "1e400", "1e-400", "0x10", ".", "1e", " 1", "1,5")
        text_fails("number", bad);
    text_fails("count", "11");
    text_fails("yes", "1");
    text_fails("text", "a\xFF");
    text_fails("free", "{");
    text_fails("free", "[]");
}

/* ---- values in the forms that clients send ---- */

TEST(numbers_are_accepted_as_decimal_strings)
{
    be_tolerant();
    passes("{\"count\":\"10\"}", "{\"count\":10}");
    passes("{\"count\":\" 007\\u00a0\"}", "{\"count\":7}");
    passes("{\"count\":\"5.0\"}", "{\"count\":5}");
    passes("{\"least\":\"9223372036854775807\"}", "{\"least\":9223372036854775807}");
    passes("{\"number\":\"5.5\"}", "{\"number\":5.5}");
    passes("{\"number\":\"-3\"}", "{\"number\":-3}");
    passes("{\"number\":\"-0.25\"}", "{\"number\":-0.25}");
    passes("{\"reads\":[{\"value\":\"2.5\"}]}", "{\"reads\":[{\"value\":2.5}]}");
    ck_assert_ptr_null(warnings);
}

TEST(other_strings_are_not_accepted_as_numbers)
{
    be_tolerant();
    EACH_TEXT (other, "1e3", "0x10", "+", ".", "+.", "1,5", "1.5.2", "five", "5 kW", "nan", "inf",
               "1 000", "-", "\u0665") {
        char text[64];

        snprintf(text, sizeof(text), "{\"number\":\"%s\"}", other);
        fails(text, "number", "must be a number");
        snprintf(text, sizeof(text), "{\"least\":\"%s\"}", other);
        fails(text, "least", "must be a whole number");
    }
    fails("{\"count\":\"5.5\"}", "count", "must be a whole number");
    fails("{\"count\":\"11\"}", "count", "must be at most 10");
    fails("{\"least\":\"9223372036854775808\"}", "least", "must be a whole number");
    fails("{\"yes\":\"true\"}", "yes", "must be true or false");
}

/* The original spelling of a number with a fraction or an exponent is not known any more. */
TEST(whole_numbers_are_accepted_as_strings)
{
    be_tolerant();
    passes("{\"text\":123}", "{\"text\":\"123\"}");
    passes("{\"entry\":-9223372036854775807}", "{\"entry\":\"-9223372036854775807\"}");
    passes("{\"letter\":42}", "{\"letter\":\"42\"}");
    fails("{\"text\":1}", "text", "must be at least 2 characters");
    fails("{\"text\":12.5}", "text", "must be a string");
    fails("{\"text\":1e3}", "text", "must be a string");
    fails("{\"text\":true}", "text", "must be a string");
    fails("{\"secret\":12345678}", "secret", "must be a string");
    fails("{\"email\":5}", "email", "must be an e-mail address");
}

TEST(blanks_around_values_are_removed)
{
    be_tolerant();
    passes("{\"text\":\"\\u3000 ab\\n\"}", "{\"text\":\"ab\"}");
    passes("{\"text\":\"a b\"}", "{\"text\":\"a b\"}");
    passes("{\"colour\":\" red \"}", "{\"colour\":\"red\"}");
    passes("{\"when\":\"2026-01-01 \"}", "{\"when\":\"2026-01-01\"}");
    passes("{\"when\":\"2026-01-13t00:00:00z\"}", "{\"when\":\"2026-01-13T00:00:00Z\"}");
    passes("{\"when\":\"2026-01-13T00:00:00,000Z\"}", "{\"when\":\"2026-01-13T00:00:00.000Z\"}");
    passes("{\"when\":\"2026-01-13 0:00:00 +0000\"}", "{\"when\":\"2026-01-13 00:00:00+0000\"}");
    passes("{\"when\":\"2026-01-13 0:00 Z\"}", "{\"when\":\"2026-01-13 00:00Z\"}");
    passes("{\"number\":\"+5\"}", "{\"number\":5}");
    passes("{\"number\":\".5\"}", "{\"number\":0.5}");
    passes("{\"number\":\"5.\"}", "{\"number\":5}");
    passes("{\"words\":[\" abc\"]}", "{\"words\":[\"abc\"]}");
    passes("{\"letter\":\" a \",\"secret\":\" b \"}", "{\"secret\":\" b \",\"letter\":\" a \"}");
    passes("{\"free\":{\"x\":\" y \"},\"any\":\" z \"}",
           "{\"any\":\" z \",\"free\":{\"x\":\" y \"}}");
    ck_assert_ptr_null(warnings);
}

static void warned(size_t index, const char *text)
{
    const char *got = json_string_value(json_array_get(warnings, index));

    ck_assert_msg(got && !strcmp(got, text), "%zu: %s", index, got ? got : "no such warning");
}

TEST(an_empty_optional_field_counts_as_absent_with_a_warning)
{
    be_tolerant();
    passes("{\"text\":\"\",\"count\":\" \",\"free\":\"\",\"words\":\"\",\"secret\":\"\"}", "{}");
    ck_assert_uint_eq(json_array_size(warnings), 5);
    warned(0, "text: is empty, and counts as absent");
    passes("{\"reads\":[{\"value\":2,\"starttimestamp\":\"\"}]}", "{\"reads\":[{\"value\":2}]}");
    warned(5, "reads[0].starttimestamp: is empty, and counts as absent");
    passes("{\"email\":\"\",\"mail\":\"a@b.cd\"}", "{\"email\":\"a@b.cd\"}");
    passes("{\"anything\":\"\"}", "{}");
    passes("{\"any\":\"\",\"letter\":\" \"}", "{\"any\":\"\",\"letter\":\" \"}");
    passes("{\"letter\":\"\"}", "{}");
    fails("{\"reads\":[{\"value\":\"\"}]}", "reads[0].value", "must be a number");
}

TEST(an_alias_with_another_value_is_ignored_with_a_warning)
{
    be_tolerant();
    passes("{\"mail\":\"a@b.cd\",\"email\":\"a@b.cd\"}", "{\"email\":\"a@b.cd\"}");
    passes("{\"mail\":\"\",\"email\":\"a@b.cd\"}", "{\"email\":\"a@b.cd\"}");
    ck_assert_ptr_null(warnings);
    passes("{\"mail\":\"x\",\"email\":\"a@b.cd\"}", "{\"email\":\"a@b.cd\"}");
    passes("{\"reads\":[{\"value\":5,\"startDate\":\"2026-04-01\",\"starttimestamp\":7}]}",
           "{\"reads\":[{\"value\":5,\"startDate\":\"2026-04-01\"}]}");
    warned(0, "mail: is ignored, because email was sent, too");
    warned(1, "reads[0].starttimestamp: is ignored, because startDate was sent, too");
}

TEST(warnings_are_not_repeated_and_limited_in_number)
{
    be_tolerant();
    for (int i = 0; i < 3; i++)
        passes("{\"text\":\"\"}", "{}");
    ck_assert_uint_eq(json_array_size(warnings), 1);
    for (int i = 0; i < 2 * WARNINGS_MAX; i++)
        warnings_add(&warnings, "number %d", i);
    ck_assert_uint_eq(json_array_size(warnings), WARNINGS_MAX);
}

TEST(texts_of_parameters_are_accepted_with_blanks_and_variants)
{
    be_tolerant();
    text_passes("count", " 7 ", "7");
    text_passes("number", " -1.5e3", "-1.5e3");
    text_passes("yes", "true ", "true");
    text_passes("letter", " x ", " x ");
    ck_assert_ptr_null(warnings);
    ck_assert_ptr_null(field_check_text(row("count"), "", arena, &problems));
    ck_assert_ptr_null(field_check_text(row("text"), "  ", arena, &problems));
    ck_assert_uint_eq(problems.count, 0);
    warned(0, "count: is empty, and counts as absent");
    warned(1, "text: is empty, and counts as absent");
}

TEST(a_limit_above_its_maximum_is_clamped)
{
    be_tolerant();
    text_passes("limit", "10", "10");
    ck_assert_ptr_null(warnings);
    text_passes("limit", "11", "10");
    text_passes("limit", "99999999999999999999", "10");
    ck_assert_uint_eq(json_array_size(warnings), 1);
    warned(0, "limit: exceeds the maximum 10, which was used");
    text_fails("limit", "0");
    text_fails("limit", "-99999999999999999999");
    text_fails("limit", "1e9");
    text_fails("limit", "11x");
    text_fails("count", "11");
}

TEST(emails_are_validated)
{
    char longest[400];

    EACH_TEXT (good, "a@b.cd", "first.last+tag@sub.example.org", "o'neil@x-y.de",
               "\xC3\xA4@xn--nda.de", "1@2.3", "alice@localhost", "a@b")
        text_passes("email", good, good);
    EACH_TEXT (bad, "", ".a@b.cd", "a.@b.cd", "a..b@b.cd", ".@b.cd", "a\u2800@b.cd", "a\uE000@b.cd",
               "a\uF8FF@b.cd", "a\U000F0000@b.cd", "a@\u00FC..cd", "a@-\u00FC.cd", "a@\u00FC_b.cd",
               "@", "a@", "@b.cd", "a b@c.de", "a@b..c", "a@.b.c", "a@b.c.", "a@-b.c", "a@b-.c",
               "a@b@c.de", "a@b.c\nx", "<a@b.cd>", "a@[1.2.3.4]", "\"a\"@b.cd", "a@b.c,d@e.fg",
               "a@b\xE2\x80\xAE.cd", "a\x7F@b.cd", "a\xC2\xAD@b.cd", "a\xE2\x81\xA0@b.cd",
               "a@b\xEF\xBB\xBF.cd", "a\xCD\x8F@b.cd", "a\xEF\xB8\x8F@b.cd",
               "a\xF3\xA0\x80\xA1@b.cd", "a\xE3\x85\xA4@b.cd", "e\xCC\x81@b.cd",
               "a\xE2\x84\xAA@b.cd", "a\xCD\xB8@b.cd")
        text_fails("email", bad);
    snprintf(longest, sizeof(longest), "%.64s@b.cd",
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    text_passes("email", longest, longest);
    snprintf(longest, sizeof(longest), "%.65s@b.cd",
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    text_fails("email", longest);
    strcpy(longest, "a@");
    for (int i = 0; i < 125; i++)
        strcat(longest, "b.");
    strcat(longest, "cd"); /* 254 bytes */
    text_passes("email", longest, longest);
    text_fails("email", strcat(longest, "e"));
}

TEST(emails_of_accounts_may_not_have_compatibility_characters)
{
    EACH_TEXT (alike, "\uFF41@b.cd", "\uFB01@b.cd", "a\u00B2@b.cd", "a@b\uFF0Ecd", "a@\u2460.cd",
               "\u017Fa@b.cd") {
        ck_assert_ptr_nonnull(field_check_text(row("email"), alike, arena, &problems));
        text_fails("account", alike);
    }
    text_fails("account", "e\u0301@b.cd");
    text_passes("account", " A\u00C4@Stra\u00DFe.\u65E5\u672C ",
                "a\u00E4@xn--strae-oqa.xn--wgv71a");
}

TEST(an_empty_text_is_a_value_if_the_row_permits_it)
{
    be_tolerant();
    passes("{\"tried\":\"\",\"gone\":\"\"}", "{\"tried\":\"\"}");
    ck_assert_uint_eq(json_array_size(warnings), 1);
    text_passes("tried", "", "");
}

TEST(emails_are_lowercased_and_their_domains_in_punycode)
{
    text_passes("email", " A\xC3\x84@B.\xC3\x96 ", "a\xC3\xA4@b.xn--nda");
    text_passes("email", "a@B\u00DCCHER.Example", "a@xn--bcher-kva.example");
    text_passes("email", "a@b\u00FCcher\u3002example", "a@xn--bcher-kva.example");
    text_passes("email", "a@XN--BCHER-KVA.example", "a@xn--bcher-kva.example");
    text_passes("email", "a@\u4F8B\u3048.\u30C6\u30B9\u30C8", "a@xn--r8jz45g.xn--zckzah");
    text_passes("email", "a@\u03C0\u03B1\u03C1\u03AC\u03B4\u03B5\u03B9\u03B3\u03BC\u03B1.example",
                "a@xn--hxajbheg2az3al.example");
    text_passes("email", "a@3\u5E74b\u7D44\u91D1\u516B\u5148\u751F",
                "a@xn--3b-ww4c5e180e575a65lsy2b");
    text_passes("email", "a@m\u00FCnchen-ost.de", "a@xn--mnchen-ost-9db.de");
    text_passes("email", "a@a.\u00FC.b", "a@a.xn--tda.b");
    text_passes("email", "\xC4\xB0@b.cd", "i\xCC\x87@b.cd");
    text_passes("email",
                "stra\xC3\x9F"
                "e@b.cd",
                "strasse@b.cd");
    text_passes("email", "\xCE\xA3\xCF\x82@b.cd", "\xCF\x83\xCF\x83@b.cd");
}

TEST(names_with_invisible_or_unnormalized_characters_are_refused)
{
    text_passes("name", "Caf\xC3\xA9 \xC3\x9F", "Caf\xC3\xA9 \xC3\x9F");
    text_passes("name", "\xD8\xA7\xD9\x84 \xE6\x97\xA5", "\xD8\xA7\xD9\x84 \xE6\x97\xA5");
    text_passes("name",
                "a\xC2\xA0 \xE3\x80\x80"
                "b",
                "a b");
    EACH_TEXT (bad, "Cafe\xCC\x81", "a\xE2\x80\x8B", "a\xE2\x80\xAE", "a\nb",
               "a\xE2\x80\xA8"
               "b",
               "a\xC2\x85"
               "b",
               "a\xCD\xB8", "\xE2\x84\xAB",
               "a\xC2\xAD"
               "b",
               "123456789")
        text_fails("name", bad);
    text_passes("entry", "Cafe\xCC\x81\n", "Cafe\xCC\x81\n");
}

/* Folding a text twice must change nothing more. Letters without case are skipped. */
TEST(case_folding_twice_changes_nothing_more)
{
    struct arena *own = arena_new();

    for (int32_t code = 1; code < 0x110000; code++) {
        utf8proc_category_t category = utf8proc_category(code);
        unsigned char text[5] = "";

        if (code % 1000 == 0) {
            arena_free(own);
            own = arena_new();
        }
        if (category == UTF8PROC_CATEGORY_CN || category == UTF8PROC_CATEGORY_CS ||
            category == UTF8PROC_CATEGORY_CO || category == UTF8PROC_CATEGORY_LO)
            continue;
        text[utf8proc_encode_char(code, text)] = '\0';
        const char *once = unicode_fold((char *)text, own);

        ck_assert_msg(!strcmp(unicode_fold(once, own), once), "U+%04X", (unsigned)code);
    }
    arena_free(own);
}

static long allowed;

static void *scarce(size_t size)
{
    return allowed-- > 0 ? malloc(size) : NULL;
}

TEST(a_failed_allocation_returns_null_and_leaks_nothing)
{
    json_t *object = parse("{\"email\":\"A@b.cd\",\"reads\":[{\"value\":2}],\"count\":5.0}");
    json_t *checked = NULL;
    int rounds = 0;

    json_set_alloc_funcs(scarce, free);
    for (; !checked && rounds < 1000; rounds++) {
        allowed = rounds;
        checked = fields_check(&table, object, &problems);
    }
    json_set_alloc_funcs(malloc, free);
    ck_assert_int_gt(rounds, 5);
    ck_assert_uint_eq(problems.count, 0);
    json_decref(checked);
    json_decref(object);
}

SUITE(field, .before_each = setup, .after_each = teardown)
