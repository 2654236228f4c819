/*
 * The functions that take a text, for languages without va_list: a text with signs of a format
 * comes out as it went in. The fake has the host's own code for them.
 */
#include <busbar/fake.h>
#include <string.h>

#include "suites.h"

#define TEXT "100 %s of %n"

static struct bb_fake *fake;

static int refuse(struct bb_request *rq)
{
    bb_log_text(rq, BB_WARN, "logged " TEXT);
    bb_host_log_text(rq->host, BB_INFO, "host " TEXT);
    return bb_fail_text(rq, 418, TEXT);
}

static int fail_without_text(struct bb_request *rq)
{
    return bb_fail_text(rq, 403, NULL);
}

static int invalid(struct bb_request *rq)
{
    return bb_invalid_text(rq, "share", TEXT);
}

static int listed(struct bb_request *rq)
{
    json_t *problem = json_pack("{s:s, s:s}", "field", "share", "problem", "is taken");

    return bb_fail_listed_text(rq, 409, json_pack("[o]", problem), TEXT);
}

static int warn(struct bb_request *rq)
{
    bb_warn_text(rq, TEXT);
    return bb_reply(rq, 200, json_object());
}

static int print(struct bb_request *rq)
{
    bb_print_text(rq, TEXT);
    return 0;
}

static int refuse_to_open(struct bb_host *host, void **state)
{
    (void)state;
    return bb_open_fail_text(host, TEXT);
}

static const struct bb_route routes[] = {
    {.method = "GET", .path = "/fail", .roles = BB_ANYONE, .handler = refuse},
    {.method = "GET", .path = "/forbid", .roles = BB_ANYONE, .handler = fail_without_text},
    {.method = "GET", .path = "/invalid", .roles = BB_ANYONE, .handler = invalid},
    {.method = "GET", .path = "/listed", .roles = BB_ANYONE, .handler = listed},
    {.method = "GET", .path = "/warn", .roles = BB_ANYONE, .handler = warn},
};
static const struct bb_command commands[] = {{.name = "print", .run = print}};
static const struct bb_module texts = {BB_MODULE_HEAD("texts", "1"), .routes = BB_TABLE(routes),
                                       .commands = BB_TABLE(commands)};
static const struct bb_module closed = {BB_MODULE_HEAD("closed", "1"), .open = refuse_to_open};

static void setup(void)
{
    fake = bb_fake_new(&texts);
    ck_assert_int_eq(bb_fake_open(fake), 0);
}

static void teardown(void)
{
    bb_fake_free(fake);
}

START_TEST(errors_have_the_text_as_it_is)
{
    ck_assert_int_eq(bb_fake_call(fake, "GET", "/fail", NULL), 418);
    ck_assert_str_eq(bb_fake_message(fake), TEXT);
    ck_assert_ptr_nonnull(strstr(bb_fake_log(fake), "logged " TEXT));
    ck_assert_ptr_nonnull(strstr(bb_fake_log(fake), "host " TEXT));
    ck_assert_int_eq(bb_fake_call(fake, "GET", "/forbid", NULL), 403);
    ck_assert_int_eq(bb_fake_call(fake, "GET", "/invalid", NULL), 400);
    ck_assert_str_eq(bb_fake_field(fake), "share");
    ck_assert_str_eq(bb_fake_message(fake), TEXT);
    ck_assert_int_eq(bb_fake_call(fake, "GET", "/listed", NULL), 409);
    ck_assert_str_eq(bb_fake_field(fake), "share");
    ck_assert_str_eq(bb_fake_message(fake), TEXT);
}
END_TEST

START_TEST(warnings_and_output_have_it_as_it_is)
{
    ck_assert_int_eq(bb_fake_call(fake, "GET", "/warn", NULL), 200);
    const json_t *warnings = json_object_get(bb_fake_reply(fake), "warnings");

    ck_assert_str_eq(json_string_value(json_array_get(warnings, 0)), TEXT);
    ck_assert_int_eq(bb_fake_command(fake, "print", NULL), 0);
    ck_assert_str_eq(bb_fake_printed(fake), TEXT);
}
END_TEST

START_TEST(a_module_says_so_why_it_does_not_open)
{
    struct bb_fake *other = bb_fake_new(&closed);

    ck_assert_int_eq(bb_fake_open(other), -1);
    ck_assert_str_eq(bb_fake_open_problem(other), TEXT);
    bb_fake_free(other);
}
END_TEST

Suite *fake_text_suite(void)
{
    Suite *suite = suite_create("fake_text");
    TCase *tests = tcase_create("all");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, errors_have_the_text_as_it_is);
    tcase_add_test(tests, warnings_and_output_have_it_as_it_is);
    tcase_add_test(tests, a_module_says_so_why_it_does_not_open);
    suite_add_tcase(suite, tests);
    return suite;
}
