/* The installed fake host, by the module chat as it is shipped: its file, no host, no database. */
#include <busbar/fake.h>
#include <dlfcn.h>
#include <signal.h>
#include <string.h>

#include "suites.h"

#define PATH "/api/chat/conversations/7/messages"
#define BODY "{\"username\": \"ada@solar.example\", \"chatEntry\": \"hello\"}"

static struct bb_fake *fake;
static void *file;
static int64_t organisation_of_others;

/* Every e-mail is an account of one organisation. */
static int organisation_of(void *state, struct bb_request *rq, const char *email,
                           int64_t *organisation)
{
    (void)rq;
    (void)email;
    *organisation = *(int64_t *)state;
    return 1;
}

static const struct bb_accounts accounts = {.size = sizeof accounts,
                                            .organisation_of = organisation_of};

static void setup(void)
{
    file = dlopen(TEST_CHAT, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(file != NULL, "%s", dlerror());
    fake = bb_fake_new(dlsym(file, BB_MODULE_SYMBOL));
    bb_fake_give(fake, "accounts", &accounts, &organisation_of_others);
    ck_assert_int_eq(bb_fake_open(fake), 0);
}

static void teardown(void)
{
    bb_fake_free(fake);
    dlclose(file);
}

static void conversation(const char *organisation)
{
    bb_fake_rows(fake, "SELECT organisation, participant1", 1, 6, organisation, "ada@solar.example",
                 "bo@wind.example", "Rooftop 7", "f", "f");
}

static void caller(unsigned role, const char *email, int64_t organisation)
{
    static struct bb_principal who;
    static int64_t own;

    own = organisation;
    who = (struct bb_principal){.size = sizeof who,
                                .account = 5,
                                .email = email,
                                .role = role,
                                .organisation = own,
                                .organisations = &own,
                                .organisation_count = 1};
    bb_fake_principal(fake, &who);
}

START_TEST(a_post_is_one_unit_with_its_event)
{
    conversation("3");
    ck_assert_int_eq(bb_fake_call(fake, "POST", PATH, BODY), 201);
    ck_assert_str_eq(json_string_value(json_object_get(bb_fake_reply(fake), "chatEntry")), "hello");
    ck_assert_ptr_nonnull(strstr(bb_fake_statement(fake, 1), "INSERT INTO chat_entry"));
    ck_assert_str_eq(bb_fake_parameter(fake, 1, 0), "7");
    ck_assert_str_eq(bb_fake_parameter(fake, 1, 2), "ada@solar.example");
    ck_assert_str_eq(bb_fake_event(fake, 0), "message.new");
    ck_assert_str_eq(
        json_string_value(json_object_get(bb_fake_payload(fake, 0), "deviceProjectName")),
        "Rooftop 7");
    const struct bb_audience *audience = bb_fake_audience(fake, 0);

    ck_assert_int_eq(audience->organisation, 3);
    ck_assert_str_eq(audience->emails[0], "ada@solar.example");
    ck_assert_str_eq(audience->emails[1], "bo@wind.example");
    ck_assert_ptr_null(audience->emails[2]);
    ck_assert_ptr_null(bb_fake_event(fake, 1));
    ck_assert_ptr_null(bb_fake_audience(fake, 1));
}
END_TEST

/* As the host refuses it. */
START_TEST(a_statement_of_the_hosts_ends_the_test)
{
    static const struct bb_sql sql = {"COMMIT", 0};
    struct bb_request rq = {.size = sizeof rq, .api = bb_fake_host(fake)->api};

    bb_query(&rq, &sql, BB_NO_ARGS);
}
END_TEST

START_TEST(a_commit_of_no_unit_ends_the_test)
{
    struct bb_request rq = {.size = sizeof rq, .api = bb_fake_host(fake)->api};

    bb_commit(&rq, NULL, 204, NULL);
}
END_TEST

START_TEST(a_refused_unit_raises_nothing)
{
    conversation("3");
    bb_fake_refuses(fake, "INSERT INTO chat_entry", "BB404", NULL);
    ck_assert_int_eq(bb_fake_call(fake, "POST", PATH, BODY), 404);
    ck_assert_ptr_null(bb_fake_event(fake, 0));
}
END_TEST

START_TEST(without_a_database_it_is_503)
{
    bb_fake_refuses(fake, "FROM chat_conversation", "", NULL);
    ck_assert_int_eq(bb_fake_call(fake, "POST", PATH, BODY), 503);
}
END_TEST

START_TEST(what_one_may_not_see_is_unknown)
{
    conversation("3");
    caller(BB_ROLE_ORGANIZATION_ADMIN, "eve@other.example", 4);
    ck_assert_int_eq(bb_fake_call(fake, "POST", PATH, BODY), 404);
    ck_assert_str_eq(bb_fake_message(fake), "Conversation not found");
}
END_TEST

START_TEST(nobody_speaks_for_accounts_registered_elsewhere)
{
    organisation_of_others = 4;
    conversation("3");
    caller(BB_ROLE_ORGANIZATION_ADMIN, "boss@solar.example", 3);
    ck_assert_int_eq(bb_fake_call(fake, "POST", PATH, BODY), 403);
    organisation_of_others = 3;
    ck_assert_int_eq(bb_fake_call(fake, "POST", PATH, BODY), 201);
}
END_TEST

START_TEST(facts_of_a_conversation_are_asked_for_once)
{
    conversation("3");
    ck_assert_int_eq(bb_fake_call(fake, "POST", PATH, BODY), 201);
    ck_assert_int_eq(bb_fake_call(fake, "POST", PATH, BODY), 201);
    ck_assert_ptr_nonnull(strstr(bb_fake_statement(fake, 0), "INSERT INTO chat_entry"));
    ck_assert_ptr_null(bb_fake_statement(fake, 1));
}
END_TEST

START_TEST(queries_are_taken_from_the_path)
{
    bb_fake_rows(fake, "SELECT greatest(sum(messages)", 1, 2, "12", "0");
    ck_assert_int_eq(bb_fake_call(fake, "GET", "/api/chat/unread-count/ada@solar.example", NULL),
                     200);
    ck_assert_str_eq(bb_fake_parameter(fake, 0, 3), "ada@solar.example");
    ck_assert_int_eq(json_integer_value(json_object_get(bb_fake_reply(fake), "count")), 12);
}
END_TEST

/* Without it being called, which would have asked the database. */
START_TEST(a_request_that_does_not_fit_the_tables_is_refused)
{
    caller(BB_ROLE_USER, "ada@solar.example", 1);
    ck_assert_int_eq(bb_fake_call(fake, "POST", PATH, "{\"username\": \"ada@solar.example\"}"),
                     400);
    ck_assert_str_eq(bb_fake_field(fake), "chatEntry");
    ck_assert_int_eq(bb_fake_call(fake, "POST", "/api/chat/conversations/x/messages", BODY), 400);
    ck_assert_str_eq(bb_fake_field(fake), "id");
    ck_assert_int_eq(bb_fake_call(fake, "POST", PATH, "[]"), 400);
    ck_assert_str_eq(bb_fake_field(fake), "body");
    ck_assert_ptr_null(bb_fake_statement(fake, 0));
}
END_TEST

START_TEST(a_request_is_taken_as_the_host_takes_it)
{
    caller(BB_ROLE_USER, "ada@solar.example", 1);
    conversation("1");
    ck_assert_int_eq(bb_fake_call(fake, "POST", PATH "?limits=1",
                                  "{\"username\": \" Ada@Solar.Example \", \"chatEntry\": 42}"),
                     201);
    ck_assert_str_eq(bb_fake_replied(fake, "X-Ignored-Parameters"), "limits");
}
END_TEST

/* A module may call whatever the contract has. */
START_TEST(no_function_of_the_contract_is_missing)
{
    const struct bb_api *api = bb_fake_host(fake)->api;
    void *const *functions =
        (void *const *)((const char *)api + offsetof(struct bb_api, host_alloc));
    size_t count = (api->size - offsetof(struct bb_api, host_alloc)) / sizeof(*functions);

    ck_assert_int_eq((int)api->minor, BB_ABI_MINOR);
    ck_assert_int_eq((int)api->size, (int)sizeof(*api));
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(functions[i] != NULL, "the one with the index %zu", i);
}
END_TEST

Suite *fake_suite(void)
{
    Suite *suite = suite_create("fake");
    TCase *tests = tcase_create("all");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_post_is_one_unit_with_its_event);
    tcase_add_test_raise_signal(tests, a_statement_of_the_hosts_ends_the_test, SIGABRT);
    tcase_add_test_raise_signal(tests, a_commit_of_no_unit_ends_the_test, SIGABRT);
    tcase_add_test(tests, a_refused_unit_raises_nothing);
    tcase_add_test(tests, without_a_database_it_is_503);
    tcase_add_test(tests, what_one_may_not_see_is_unknown);
    tcase_add_test(tests, nobody_speaks_for_accounts_registered_elsewhere);
    tcase_add_test(tests, facts_of_a_conversation_are_asked_for_once);
    tcase_add_test(tests, queries_are_taken_from_the_path);
    tcase_add_test(tests, a_request_that_does_not_fit_the_tables_is_refused);
    tcase_add_test(tests, a_request_is_taken_as_the_host_takes_it);
    tcase_add_test(tests, no_function_of_the_contract_is_missing);
    suite_add_tcase(suite, tests);
    return suite;
}
