/* Queries and form bodies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/query.h"
#include "suites.h"

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

START_TEST(declared_parameters_are_decoded_and_checked)
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
END_TEST

START_TEST(the_name_wins_over_the_alias)
{
    ck_assert_int_eq(
        query_check(&table, "after=1&cursor=2&email=a@b.cd", arena, &values, &problems), 0);
    ck_assert_str_eq(query_get(&values, "after"), "1");
}
END_TEST

START_TEST(empty_values_are_values)
{
    ck_assert_int_eq(query_check(&table, "after&email=a@b.cd", arena, &values, &problems), 0);
    ck_assert_str_eq(query_get(&values, "after"), "");
}
END_TEST

static void fails(const char *raw, const char *field, const char *text)
{
    problems.count = 0;
    ck_assert_int_eq(query_check(&table, raw, arena, &values, &problems), -1);
    ck_assert_uint_ge(problems.count, 1);
    ck_assert_str_eq(problems.list[0].field, field);
    ck_assert_str_eq(problems.list[0].text, text);
}

START_TEST(problems_name_the_parameter)
{
    fails("limit=0&email=a@b.cd", "limit", "must be at least 1");
    fails("limit=1e9&email=a@b.cd", "limit", "must be a whole number");
    fails("limit=&email=a@b.cd", "limit", "must be a whole number");
    fails("limit=1&limit=2&email=a@b.cd", "limit", "must be given once");
    fails("after=%zz&email=a@b.cd", "after", "is not properly encoded");
    fails("after=%00&email=a@b.cd", "after", "is not properly encoded");
    fails(NULL, "email", "is required");
    fails("", "email", "is required");
}
END_TEST

START_TEST(forms_become_objects)
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
END_TEST

START_TEST(bad_forms_are_refused)
{
    static const char *const bad[] = {"a=1&a=2", "a=%", "%zz=1", "a=\xFF", "a=%00", "a=1&%61=2"};
    struct json_problem problem;
    char *many = malloc(20000), *at = many;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(!form_read(bad[i], strlen(bad[i]), &problem), "%s", bad[i]);
    ck_assert_int_eq(problem.column, 5);
    ck_assert_str_eq(problem.text, "a name is there twice");
    for (int i = 0; i < 1001; i++)
        at += sprintf(at, "k%d=v&", i);
    ck_assert_ptr_null(form_read(many, (size_t)(at - many), &problem));
    ck_assert_str_eq(problem.text, "too many fields");
    free(many);
}
END_TEST

Suite *query_suite(void)
{
    Suite *suite = suite_create("query");
    TCase *all = tcase_create("all");

    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, declared_parameters_are_decoded_and_checked);
    tcase_add_test(all, the_name_wins_over_the_alias);
    tcase_add_test(all, empty_values_are_values);
    tcase_add_test(all, problems_name_the_parameter);
    tcase_add_test(all, forms_become_objects);
    tcase_add_test(all, bad_forms_are_refused);
    suite_add_tcase(suite, all);
    return suite;
}
