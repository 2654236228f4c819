/* Accounts, tokens and roles, on two hosts with one database. */
#include <string.h>

#include "pair.h"
#include "suites.h"

#define PENDING "Your account is pending approval"
#define SUSPENDED "Your account has been suspended"
#define SOON_MS 1000 /* the time in which every host must see a change */

static void set_up(void)
{
    pair_open("accounts");
}

static struct answer *login(const char *username, const char *password)
{
    return http(one, "POST", "/api/auth/login", NULL,
                json_pack("{ss ss}", "username", username, "password", password));
}

/* Returns whether both hosts respond to /me with this status. */
struct seen {
    const struct person *person;
    long status;
};

static bool seen_by_both(void *arg)
{
    const struct seen *seen = arg;

    return person_me(one, seen->person)->status == seen->status &&
           person_me(two, seen->person)->status == seen->status;
}

static void expect_soon(const struct person *person, long status, const char *message)
{
    struct seen seen = {person, status};

    ck_assert_msg(wait_until(seen_by_both, &seen, SOON_MS), "not both hosts answer %ld in time",
                  status);
    if (status != 200) {
        ck_error(person_me(one, person), status, message);
        ck_error(person_me(two, person), status, message);
    }
}

START_TEST(a_registered_account_waits_for_approval)
{
    struct person *admin = admin_of(one);
    struct person *person = person_register(one, "pending", NULL);

    ck_error(login(person->email, person->password), 403, PENDING);
    ck_error(login(person->email, "another password"), 401, "Unauthorized");
    ck_status(person_change(one, admin, person, "status", "Active"), 200);
    person_login(one, person);
    struct answer *me = ck_status(person_me(two, person), 200);

    ck_assert_str_eq(answer_text(me, "email"), person->email);
    ck_assert_str_eq(answer_text(me, "role"), "OrganizationAdmin");
    ck_assert_int_eq(answer_int(me, "organizationId"), person->organization);
    ck_assert_ptr_null(strstr(me->body, "argon2"));
}

START_TEST(an_unknown_account_and_a_wrong_password_answer_alike)
{
    struct answer *unknown = ck_error(login("nobody@example.com", "some password"), 401, "");
    struct answer *wrong = ck_error(login(ADMIN_EMAIL, "some password"), 401, "");

    ck_assert_str_eq(answer_text(unknown, "message"), "Unauthorized");
    ck_assert_str_eq(answer_text(wrong, "message"), "Unauthorized");
    ck_assert_uint_eq(unknown->length, wrong->length);
}

START_TEST(a_second_account_with_the_same_email_is_refused)
{
    person_register(one, "twice", NULL);
    json_t *again =
        json_pack("{ss ss ss ss ss}", "firstName", "A", "lastName", "B", "email",
                  " TWICE@example.com", "password", "long enough", "orgName", "Another name");
    struct answer *answer = ck_error(http(one, "POST", "/api/user/register", NULL, again), 409, "");

    ck_assert(json_is_false(json_object_get(answer->json, "success")));
}

/* E-mails are folded by Unicode's rules, whatever the database's locale. */
START_TEST(an_email_with_capitals_beyond_ascii_is_folded)
{
    json_t *account =
        json_pack("{ss ss ss ss ss}", "firstName", "A", "lastName", "B", "email",
                  "\xC3\x89lan@Example.com", "password", "long enough", "orgName", "Capitals");
    struct answer *answer = ck_status(http(one, "POST", "/api/user/register", NULL, account), 201);

    ck_assert_str_eq(answer_text(answer, "email"), "\xC3\xA9lan@example.com");
}

START_TEST(registration_says_what_is_wrong)
{
    json_t *bad = json_pack("{ss ss ss ss}", "firstName", "A", "email", "no address", "password",
                            "short", "orgName", "Org");
    struct answer *answer = ck_error(http(one, "POST", "/api/user/register", NULL, bad), 400, "");

    ck_assert_uint_eq(json_array_size(json_object_get(answer->json, "errors")), 3);
}

START_TEST(a_logged_out_token_is_revoked_on_every_host)
{
    struct person *admin = admin_of(one);
    struct person *person = person_make(one, admin, "leaver", NULL);
    struct person other = *person;

    person_login(one, &other);
    ck_status(person_me(two, person), 200);
    struct answer *out = ck_status(http(one, "POST", "/api/auth/logout", person->token, NULL), 200);

    ck_assert_str_eq(out->body, "{\"message\":\"Logout successful\"}");
    ck_error(person_me(one, person), 401, REVOKED);
    expect_soon(person, 401, REVOKED);
    ck_status(person_me(one, &other), 200);
    ck_status(person_me(two, &other), 200);
}

START_TEST(a_suspended_account_is_shut_out_on_every_host)
{
    struct person *admin = admin_of(one);
    struct person *person = person_make(one, admin, "suspended", NULL);

    expect_soon(person, 200, "");
    ck_status(person_change(one, admin, person, "status", "Suspended"), 200);
    ck_error(person_me(one, person), 403, SUSPENDED);
    expect_soon(person, 403, SUSPENDED);
    ck_error(login(person->email, person->password), 403, SUSPENDED);
    ck_status(person_change(two, admin, person, "status", "Active"), 200);
    expect_soon(person, 200, "");
}

START_TEST(a_new_role_counts_at_once)
{
    struct person *admin = admin_of(one);
    struct person *person = person_make(one, admin, "promoted", NULL);

    struct answer *refused =
        ck_error(http(one, "GET", "/api/admin/users", person->token, NULL), 403, "Forbidden");

    ck_assert_str_eq(answer_text(refused, "message"), "Forbidden");
    ck_status(person_change(one, admin, person, "role", "Admin"), 200);
    ck_status(http(one, "GET", "/api/admin/users", person->token, NULL), 200);
    ck_status(person_change(one, admin, person, "role", "Buyer"), 200);
    ck_error(http(one, "GET", "/api/admin/users", person->token, NULL), 403, "Forbidden");
}

START_TEST(rotation_revokes_every_token)
{
    struct person *admin = admin_of(one);
    struct person *person = person_make(one, admin, "rotated", NULL);

    expect_soon(person, 200, "");
    ck_status(http(one, "POST", "/api/admin/rotate-secret", admin->token, NULL), 200);
    expect_soon(person, 401, REVOKED);
    person_login(two, person);
    expect_soon(person, 200, "");
    ck_assert_int_eq(host_command(one, NULL, (const char *const[]){"rotate-secret", NULL}), 0);
    expect_soon(person, 401, REVOKED);
}

START_TEST(a_new_password_ends_the_other_sessions)
{
    struct person *admin = admin_of(one);
    struct person *person = person_make(one, admin, "changer", NULL);
    struct person other = *person;

    person_login(one, &other);
    ck_status(http(one, "PUT", "/api/user/password", person->token,
                   json_pack("{ss ss}", "current", person->password, "new", "quite another one")),
              200);
    ck_status(person_me(one, person), 200);
    expect_soon(&other, 401, REVOKED);
    ck_error(login(person->email, person->password), 401, "Unauthorized");
    ck_status(login(person->email, "quite another one"), 200);
}

START_TEST(an_api_user_gets_access_both_ways)
{
    struct person *admin = admin_of(one);
    struct person *user = person_make(one, admin, "apiuser", "ApiUser");
    struct answer *access =
        http(one, "POST", "/api/auth/getAccess", NULL,
             json_pack("{ss ss}", "username", user->email, "password", user->password));
    struct answer *client = http(one, "POST", "/api/auth/clients", user->token, NULL);

    ck_assert_str_eq(answer_text(ck_status(access, 200), "token_type"), "Bearer");
    ck_status(client, 201);
    struct call grant = {.method = "POST",
                         .path = "/api/auth/getAccess",
                         .type = "application/x-www-form-urlencoded",
                         .body = text("grant_type=client_credentials&client_id=%s&client_secret=%s",
                                      encoded(answer_text(client, "client_id")),
                                      encoded(answer_text(client, "client_secret")))};
    struct answer *granted = ck_status(http_send(two, &grant), 200);
    struct person program = {.token = text("%s", answer_text(granted, "access_token"))};

    ck_assert_str_eq(answer_text(granted, "accessToken"), program.token);
    ck_status(person_me(one, &program), 200);
    const char *path = text("/api/auth/clients/%jd", (intmax_t)answer_int(client, "id"));

    ck_status(http(one, "DELETE", path, user->token, NULL), 200);
    expect_soon(&program, 401, REVOKED);
    ck_error(http_send(two, &grant), 401, "");
}

START_TEST(what_is_no_token_of_ours_is_unauthorized)
{
    static const char *const tokens[] = {"", "x", "a.b.c", "eyJhbGciOiJub25lIn0.e30."};

    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++)
        ck_error(person_me(one, &(struct person){.token = text("%s", tokens[i])}), 401,
                 "Unauthorized");
    struct answer *without = ck_error(person_me(one, &(struct person){0}), 401, "Unauthorized");

    ck_assert_str_eq(answer_header(without, "WWW-Authenticate"), "Bearer");
}

Suite *accounts_suite(void)
{
    Suite *suite = suite_create("accounts");
    TCase *tests = tcase_create("accounts");

    tcase_set_timeout(tests, 60);
    tcase_add_unchecked_fixture(tests, set_up, pair_close);
    tcase_add_test(tests, a_registered_account_waits_for_approval);
    tcase_add_test(tests, an_unknown_account_and_a_wrong_password_answer_alike);
    tcase_add_test(tests, a_second_account_with_the_same_email_is_refused);
    tcase_add_test(tests, an_email_with_capitals_beyond_ascii_is_folded);
    tcase_add_test(tests, registration_says_what_is_wrong);
    tcase_add_test(tests, a_logged_out_token_is_revoked_on_every_host);
    tcase_add_test(tests, a_suspended_account_is_shut_out_on_every_host);
    tcase_add_test(tests, a_new_role_counts_at_once);
    tcase_add_test(tests, rotation_revokes_every_token);
    tcase_add_test(tests, a_new_password_ends_the_other_sessions);
    tcase_add_test(tests, an_api_user_gets_access_both_ways);
    tcase_add_test(tests, what_is_no_token_of_ours_is_unauthorized);
    suite_add_tcase(suite, tests);
    return suite;
}
