/* Query strings and form bodies. */
#include "core/lib/field.h"
#include "suite.h"

static struct arena *arena;
static struct problems problems;
static struct query_values values;

static const struct bb_field fields[] = {
    {.name = "limit", .type = BB_INT, .min = 1, .max = 100},
    {.name = "after", .type = BB_TEXT, .alias = "cursor"},
    {.name = "email", .type = BB_EMAIL, .flags = BB_REQUIRED},
};
static const struct bb_table table = BB_TABLE(fields);

static void setup(void)
{
    arena = arena_new();
    problems = (struct problems){.arena = arena};
}

static void teardown(void)
{
    arena_free(arena);
}

TEST(declared_parameters_are_decoded_and_checked)
{
    ck_assert_int_eq(query_check(&table, "x=%zz&limit=05&&curs%6Fr=a+b%26c&email=A%40b.cd&y", arena,
                                 &values, &problems),
                     0);
    ck_assert_str_eq(query_get(&values, "limit"), "5");
    ck_assert_str_eq(query_get(&values, "after"), "a b&c");
    ck_assert_str_eq(query_get(&values, "email"), "a@b.cd");
    ck_assert_ptr_null(query_get(&values, "x"));
    ck_assert_uint_eq(values.count, 3);
}

TEST(an_absent_parameter_has_its_default)
{
    static const struct bb_field rows[] = {
        {.name = "by", .type = BB_TEXT, .fallback = "month"},
        {.name = "limit", .type = BB_INT, .min = 1, .max = 100, .fallback = "50"},
    };
    static const struct bb_table defaults = BB_TABLE(rows);

    ck_assert_int_eq(query_check(&defaults, "by=day", arena, &values, &problems), 0);
    ck_assert_str_eq(query_get(&values, "by"), "day");
    ck_assert_str_eq(query_get(&values, "limit"), "50");
    ck_assert_int_eq(query_check(&defaults, "limit=0", arena, &values, &problems), -1);
    ck_assert_uint_eq(problems.count, 1);
}

TEST(the_name_wins_over_the_alias)
{
    ck_assert_int_eq(
        query_check(&table, "after=1&cursor=2&email=a@b.cd", arena, &values, &problems), 0);
    ck_assert_str_eq(query_get(&values, "after"), "1");
}

TEST(empty_values_are_values)
{
    ck_assert_int_eq(query_check(&table, "after&email=a@b.cd", arena, &values, &problems), 0);
    ck_assert_str_eq(query_get(&values, "after"), "");
}

static void fails(const char *raw, const char *field, const char *text)
{
    problems.count = 0;
    ck_assert_int_eq(query_check(&table, raw, arena, &values, &problems), -1);
    ck_assert_uint_ge(problems.count, 1);
    ck_assert_str_eq(problems.list[0].field, field);
    ck_assert_str_eq(problems.list[0].text, text);
}

TEST(problems_have_the_name_of_the_parameter)
{
    fails("limit=0&email=a@b.cd", "limit", "must be at least 1");
    fails("limit=1e9&email=a@b.cd", "limit", "must be a whole number");
    fails("limit=&email=a@b.cd", "limit", "must be a whole number");
    fails("after=%zz&email=a@b.cd", "after", "is not properly encoded");
    fails("after=%00&email=a@b.cd", "after", "is not properly encoded");
    fails(NULL, "email", "is required");
    fails("", "email", "is required");
}

static json_t *take(const char *raw)
{
    json_t *warnings = NULL;

    problems.warnings = &warnings;
    ck_assert_int_eq(query_check(&table, raw, arena, &values, &problems), 0);
    return warnings;
}

static void warns(const char *raw, const char *text)
{
    json_t *warnings = take(raw);

    ck_assert_uint_eq(json_array_size(warnings), 1);
    ck_assert_str_eq(json_string_value(json_array_get(warnings, 0)), text);
    json_decref(warnings);
}

TEST(the_last_of_repeated_parameters_counts)
{
    warns("limit=1&limit=2&email=a@b.cd", "limit: is given twice; the last value was used");
    ck_assert_str_eq(query_get(&values, "limit"), "2");
    warns("limit=x&email=a@b.cd&limit=3", "limit: is given twice; the last value was used");
    ck_assert_str_eq(query_get(&values, "limit"), "3");
    warns("limit=5&email=x&email=a@b.cd", "email: is given twice; the last value was used");
}

TEST(a_limit_is_clamped_and_an_empty_value_counts_as_absent)
{
    warns("limit=5000&email=a@b.cd", "limit: exceeds the maximum 100, which was used");
    ck_assert_str_eq(query_get(&values, "limit"), "100");
    warns("limit=&email=+a@b.cd+", "limit: is empty, and counts as absent");
    ck_assert_ptr_null(query_get(&values, "limit"));
    ck_assert_str_eq(query_get(&values, "email"), "a@b.cd");
}

static void ignores(const char *raw, const char *names)
{
    ck_assert_ptr_null(take(raw));
    if (!names)
        ck_assert_ptr_null(values.ignored);
    else
        ck_assert_str_eq(values.ignored, names);
}

TEST(unknown_parameters_are_reported_encoded)
{
    char *many = malloc(9000), *at = many;

    ignores("email=a@b.cd&curs%6Fr=1", NULL);
    ignores("email=a@b.cd&status=x&Limit=5&&=7&y", "status, Limit, y");
    ignores("email=a@b.cd&a%2C%20b=1&c+d&%C3%A4", "a%2C%20b, c%20d, %C3%A4");
    ignores("email=a@b.cd&%0d%0aX=1&%zz=2", "%250d%250aX, %25zz");
    ignores("email=a@b.cd&x=1&x=2", "x");
    at += sprintf(at, "email=a@b.cd");
    for (int i = 0; i < 800; i++)
        at += sprintf(at, "&k%07d", i);
    ck_assert_ptr_null(take(many));
    ck_assert_uint_eq(strlen(values.ignored), 1013);
    ck_assert_str_eq(values.ignored + strlen(values.ignored) - 5, ", ...");
    at = many + sprintf(many, "email=a@b.cd&");
    memset(at, '"', 2000);
    at[2000] = '\0';
    ck_assert_ptr_null(take(many));
    ck_assert_str_eq(values.ignored, "...");
    free(many);
}

TEST(forms_become_objects)
{
    static const char text[] = "grant_type=client_credentials&client_id=a%20b+c&empty=&&none";
    struct json_problem problem;
    json_t *form = form_read(text, strlen(text), &problem);
    json_t *expected = json_pack("{s:s,s:s,s:s,s:s}", "grant_type", "client_credentials",
                                 "client_id", "a b c", "empty", "", "none", "");

    ck_assert(json_equal(form, expected));
    json_decref(form);
    json_decref(expected);
    form = form_read(text, 0, &problem);
    ck_assert_uint_eq(json_object_size(form), 0);
    ck_assert(json_is_object(form));
    json_decref(form);
}

TEST(bad_forms_are_refused)
{
    struct json_problem problem;
    char *many = malloc(20000), *at = many;

    EACH_TEXT (bad, "a=1&a=2", "a=%", "%zz=1", "a=\xFF", "a=%00", "a=1&%61=2")
        ck_assert_msg(!form_read(bad, strlen(bad), &problem), "%s", bad);
    ck_assert_int_eq(problem.column, 5);
    ck_assert_str_eq(problem.text, "a name is given twice");
    for (int i = 0; i < 1000; i++)
        at += sprintf(at, "k%d=v&", i);
    json_t *form = form_read(many, (size_t)(at - many), &problem);

    ck_assert_uint_eq(json_object_size(form), 1000);
    json_decref(form);
    strcpy(at, "k=v");
    ck_assert_ptr_null(form_read(many, (size_t)(at + 3 - many), &problem));
    ck_assert_str_eq(problem.text, "too many fields");
    free(many);
}

SUITE(query, .before_each = setup, .after_each = teardown)
