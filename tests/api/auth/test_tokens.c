/*
 * Tokens, threats J01 to J15 and J22: anything that is not a valid token of this service gets a
 * 401, costs nothing and leaves nothing. Forgeries that need the service's secret are in
 * tests/unit/modules/auth/test_token.c.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "forge.h"
#include "people.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct host *host;
static struct person *person;
static char *header, *payload, *signature; /* of its token; the signature stays encoded */

static void set_up(void)
{
    host = host_start(
        &(struct host_spec){.name = "tokens", .database = database_make(the_postgres, "tokens")});
    person = person_make(host, admin_of(host), "bearer", NULL);
    struct parts parts = token_parts(person->token);

    header = url64_text(parts.header);
    payload = url64_text(parts.payload);
    signature = parts.signature;
}

static void tear_down(void)
{
    host_stop(host);
}

/* Sends GET /api/auth/me with these headers. */
static struct answer *me_with(const char *first, const char *second)
{
    const char *headers[] = {first, second, NULL};

    return http_send(host,
                     &(struct call){.method = "GET", .path = "/api/auth/me", .headers = headers});
}

static struct answer *me(const char *token)
{
    return me_with(text("Authorization: Bearer %s", token), NULL);
}

static void refused(const char *token)
{
    struct answer *answer = me(token);

    ck_assert_msg(answer->status == 401, "%ld for %.300s", answer->status, token);
    ck_error(answer, 401, "Unauthorized");
    ck_assert(!strncmp(answer_header(answer, "WWW-Authenticate"), "Bearer", 6));
    ck_assert_double_lt(answer->seconds, 2);
}

/* Otherwise the refusals below would prove nothing. */
START_TEST(the_token_put_together_again_is_good)
{
    ck_status(me(assembled(header, payload, signature)), 200);
}

/* J01; the access matrix (L03) covers every route. */
START_TEST(without_a_token_there_is_only_401_and_a_challenge)
{
    static const char *const paths[] = {"/api/chat/conversations/user/a@example.com",
                                        "/api/chat/unread-count/a@example.com",
                                        "/api/chat/unread-devices/a@example.com", "/api/auth/me"};

    for (size_t i = 0; i < COUNT(paths); i++) {
        struct answer *answer = ck_error(http(host, "GET", paths[i], NULL, NULL), 401, "");

        ck_assert_str_eq(answer_text(answer, "message"), "Unauthorized");
        ck_assert_str_eq(answer_header(answer, "WWW-Authenticate"), "Bearer");
    }
}

/* J02 */
START_TEST(other_schemes_and_crooked_headers_are_401)
{
    const char *const values[] = {"Basic dXNlcjpwYXNzd29yZA==",
                                  "Bearer",
                                  "Bearer ",
                                  "Bearer a b",
                                  text("Bearer %s x", person->token),
                                  text("Bearer,%s", person->token),
                                  text("Bearer=%s", person->token),
                                  text("Bearer \"%s\"", person->token),
                                  text("Token %s", person->token),
                                  text("BearerX %s", person->token),
                                  person->token};

    for (size_t i = 0; i < COUNT(values); i++)
        ck_error(me_with(text("Authorization: %s", values[i]), NULL), 401, "Unauthorized");
}

/* J03 */
START_TEST(the_scheme_is_written_in_any_case)
{
    ck_status(me_with(text("authorization: bearer %s", person->token), NULL), 200);
    ck_status(me_with(text("AUTHORIZATION: BEARER %s", person->token), NULL), 200);
}

/* J04 */
START_TEST(two_authorization_headers_are_400)
{
    const char *good = text("Authorization: Bearer %s", person->token);

    ck_error(me_with(good, "Authorization: Bearer x"), 400, "");
    ck_error(me_with("Authorization: Bearer x", good), 400, "");
    ck_error(me_with(good, good), 400, "");
}

/* J05 */
START_TEST(algorithm_none_is_401_with_and_without_a_signature)
{
    static const char *const names[] = {"\"none\"", "\"None\"", "\"nOnE\"", "\"\"", "null"};

    for (size_t i = 0; i < COUNT(names); i++) {
        const char *bare = with_member(header, "alg", names[i]);

        refused(assembled(bare, payload, ""));
        refused(assembled(bare, payload, signature));
    }
    refused(assembled(header, payload, ""));
}

/* J06: the MAC uses the named algorithm, with a common secret. */
START_TEST(another_algorithm_is_401)
{
    static const char *const named[][2] = {{"\"HS384\"", "SHA384"}, {"\"HS512\"", "SHA512"},
                                           {"\"RS256\"", "SHA256"}, {"\"ES256\"", "SHA256"},
                                           {"\"hs256\"", "SHA256"}, {"256", "SHA256"}};

    for (size_t i = 0; i < COUNT(named); i++) {
        const char *other = with_member(header, "alg", named[i][0]);

        refused(forged(other, payload, named[i][1], "secret"));
        refused(assembled(other, payload, signature));
    }
}

/* J07 */
START_TEST(a_strange_kid_is_401)
{
    char *longest = kept(malloc(10241));
    const char *const kids[] = {"\"../../../../../../dev/null\"",
                                "\"' OR '1'='1\"",
                                "\"'; DROP TABLE auth_key; --\"",
                                "\"x' UNION SELECT ''::bytea --\"",
                                "\"\"",
                                "null",
                                "7",
                                "[\"a\"]",
                                "\"\\u0000\""};
    PGconn *db = database_connect(the_postgres, "tokens");
    int64_t keys = sql_number(db, "SELECT count(*) FROM auth_key");

    memset(longest, 'k', 10240);
    longest[10240] = '\0';
    for (size_t i = 0; i < COUNT(kids); i++)
        refused(forged(with_member(header, "kid", kids[i]), payload, "SHA256", ""));
    struct answer *answer =
        me(forged(with_member(header, "kid", text("\"%s\"", longest)), payload, "SHA256", ""));

    ck_assert_msg(answer->status == 401 || answer->status == 431, "%ld for 10 kB", answer->status);
    longest[3000] = '\0';
    refused(forged(with_member(header, "kid", text("\"%s\"", longest)), payload, "SHA256", ""));
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM auth_key"), keys);
    PQfinish(db);
    ck_status(me(person->token), 200);
}

/* Returns a listening socket; *port is its port. */
static int listener(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* J08, J09 */
START_TEST(keys_named_in_the_header_are_neither_used_nor_fetched)
{
    int port, fd = listener(&port);
    const char *url = text("\"http://127.0.0.1:%d/keys.json\"", port);
    const char *const members[][2] = {{"jku", url},
                                      {"x5u", url},
                                      {"jwk", "{\"kty\":\"oct\",\"k\":\"c2VjcmV0\"}"},
                                      {"crit", "[\"x\"]"},
                                      {"b64", "false"}};
    struct pollfd waiting = {.fd = fd, .events = POLLIN};

    for (size_t i = 0; i < COUNT(members); i++) {
        refused(
            forged(with_member(header, members[i][0], members[i][1]), payload, "SHA256", "secret"));
        refused(assembled(with_member(header, members[i][0], members[i][1]), payload, signature));
    }
    ck_assert_msg(poll(&waiting, 1, 0) == 0, "the host fetched a key from outside");
    close(fd);
}

/* J10, J11, J12, J14, as far as possible without the secret */
START_TEST(a_changed_payload_is_401)
{
    static const char *const changes[][2] = {
        {"role", "\"Admin\""},  {"sub", "\"1\""},           {"exp", "99999999999"},
        {"exp", "1"},           {"exp", "\"99999999999\""}, {"exp", "-1"},
        {"nbf", "99999999999"}, {"iat", "99999999999"},     {"kind", "\"client\""}};

    for (size_t i = 0; i < COUNT(changes); i++)
        refused(assembled(header, with_member(payload, changes[i][0], changes[i][1]), signature));
    refused(assembled(header, text("{\"sub\":\"1\",%s", payload + 1), signature));
    refused(assembled(header, text("%s ", payload), signature));
}

/* J10 */
START_TEST(a_signature_has_one_spelling)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=";
    const char *token = person->token;
    size_t length = strlen(token);
    char *other = text("%s", token);

    for (const char *c = letters; *c; c++) {
        other[length - 1] = *c;
        if (*c != token[length - 1])
            refused(other);
    }
    for (size_t cut = 1; cut <= strlen(signature); cut += 6)
        refused(text("%.*s", (int)(length - cut), token));
    refused(text("%s=", token));
    refused(text("%s%%3D", token));
    refused(text("%sA", token));
    other = text("%s", token);
    other[0] = '+';
    refused(other);
}

/* J13 */
START_TEST(segments_are_three_and_of_reasonable_length)
{
    struct parts parts = token_parts(person->token);
    char *long_one = kept(malloc(65537));

    refused(text("%s.%s", parts.header, parts.payload));
    refused(text("%s.%s", person->token, parts.signature));
    refused(text("%s.", person->token));
    refused(text(".%s.%s", parts.payload, signature));
    refused(text("%s..%s", parts.header, signature));
    refused("..");
    refused(".");
    memset(long_one, 'a', 65536);
    long_one[65536] = '\0';
    struct answer *answer = me(long_one);

    ck_assert_msg(answer->status == 401 || answer->status == 431, "%ld for 64 kB", answer->status);
    long_one[4096] = '\0';
    refused(long_one);
    ck_assert(host_alive(host));
}

/* J15, and the second half of J17 */
START_TEST(common_secrets_and_random_ones_do_not_sign_for_us)
{
    static const char *const words[] = {"secret",  "password", "changeme", "jwt",     "key",
                                        "test",    "admin",    "busbar",   "123456",  "qwerty",
                                        "default", "private",  "token",    "hs256",   "supersecret",
                                        "",        "letmein",  "dev",      "example", "root"};
    static const char *const forms[] = {"%s", "%s1", "%s123", "your-256-bit-%s", "%s-key"};
    int tried = 0;

    for (size_t i = 0; i < COUNT(words); i++) {
        for (size_t j = 0; j < COUNT(forms); j++, tried++) {
            const char *form = forms[j], *at = strstr(form, "%s");
            const char *word = text("%.*s%s%s", (int)(at - form), form, words[i], at + 2);

            ck_assert_int_eq(me(forged(header, payload, "SHA256", word))->status, 401);
        }
    }
    ck_assert_int_eq(tried, 100);
    refused(forged(header, payload, "SHA256", "\x93\x11q\xc4v0\x88\x1f\x21\x7a\xb2\x90"));
}

/* J22 */
START_TEST(a_token_in_the_query_or_a_cookie_is_401_and_not_logged)
{
    const char *query = text("/api/auth/me?access_token=%s", person->token);
    const char *cookie = text("Cookie: access_token=%s; token=%s", person->token, person->token);

    ck_error(http(host, "GET", query, NULL, NULL), 401, "Unauthorized");
    ck_error(me_with(cookie, NULL), 401, "Unauthorized");
    ck_error(me_with(text("X-Access-Token: %s", person->token), NULL), 401, "Unauthorized");
    ck_status(http(host, "GET", "/api/auth/me?after=log", NULL, NULL), 401);
    const char *log = file_text(host->log);

    ck_assert_ptr_nonnull(strstr(log, "/api/auth/me"));
    ck_assert_ptr_null(strstr(log, person->token));
    ck_assert_ptr_null(strstr(log, signature));
}

Suite *tokens_suite(void)
{
    Suite *suite = suite_create("tokens");
    TCase *tests = tcase_create("tokens");

    tcase_set_timeout(tests, 60);
    tcase_add_unchecked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, the_token_put_together_again_is_good);
    tcase_add_test(tests, without_a_token_there_is_only_401_and_a_challenge);
    tcase_add_test(tests, other_schemes_and_crooked_headers_are_401);
    tcase_add_test(tests, the_scheme_is_written_in_any_case);
    tcase_add_test(tests, two_authorization_headers_are_400);
    tcase_add_test(tests, algorithm_none_is_401_with_and_without_a_signature);
    tcase_add_test(tests, another_algorithm_is_401);
    tcase_add_test(tests, a_strange_kid_is_401);
    tcase_add_test(tests, keys_named_in_the_header_are_neither_used_nor_fetched);
    tcase_add_test(tests, a_changed_payload_is_401);
    tcase_add_test(tests, a_signature_has_one_spelling);
    tcase_add_test(tests, segments_are_three_and_of_reasonable_length);
    tcase_add_test(tests, common_secrets_and_random_ones_do_not_sign_for_us);
    tcase_add_test(tests, a_token_in_the_query_or_a_cookie_is_401_and_not_logged);
    suite_add_tcase(suite, tests);
    return suite;
}
