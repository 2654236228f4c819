/*
 * Tokens: anything that is not a valid token of this service gets a 401, costs nothing and leaves
 * nothing. Forgeries that need the service's secret are in tests/unit/modules/auth/test_token.c.
 */
#include <poll.h>

#include "exchange.h"
#include "forge.h"

static struct host *host;
static struct person *person;
static char *header, *payload, *signature; /* of the person's token; the signature stays encoded */

static void set_up(void)
{
    host = host_start(&(struct host_spec){.name = "tokens"});
    person = person_make(host, admin_of(host), "bearer", NULL);
    struct parts parts = token_parts(person->token);

    header = url64_text(parts.header);
    payload = url64_text(parts.payload);
    signature = parts.signature;
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
}

/* Otherwise the refusals below would prove nothing. */
TEST(a_reassembled_token_is_accepted)
{
    ck_status(me(assembled(header, payload, signature)), 200);
}

/* The suite matrix covers every route. */
TEST(a_request_without_a_token_is_401_with_www_authenticate)
{
    struct answer *answer = ask(NULL, 401, NULL, "GET /api/auth/me");

    ck_assert_str_eq(answer_text(answer, "message"), "Unauthorized");
    ck_assert_str_eq(answer_header(answer, "WWW-Authenticate"), "Bearer");
}

TEST(other_schemes_and_malformed_authorization_headers_are_401)
{
    EACH_TEXT (value, "Basic dXNlcjpwYXNzd29yZA==", "Bearer", "Bearer ", "Bearer a b",
               text("Bearer %s x", person->token), text("Bearer,%s", person->token),
               text("Bearer=%s", person->token), text("Bearer \"%s\"", person->token),
               text("Token %s", person->token), text("BearerX %s", person->token), person->token)
        ck_error(me_with(text("Authorization: %s", value), NULL), 401, "Unauthorized");
}

TEST(the_bearer_scheme_is_accepted_in_any_case)
{
    ck_status(me_with(text("authorization: bearer %s", person->token), NULL), 200);
    ck_status(me_with(text("AUTHORIZATION: BEARER %s", person->token), NULL), 200);
}

TEST(two_authorization_headers_are_400)
{
    const char *good = text("Authorization: Bearer %s", person->token);

    ck_error(me_with(good, "Authorization: Bearer x"), 400, "");
    ck_error(me_with("Authorization: Bearer x", good), 400, "");
    ck_error(me_with(good, good), 400, "");
}

/* The unit test token has more of them, also with the right secret. */
TEST(a_token_with_a_changed_header_or_payload_is_401)
{
    refused(forged(with_member(header, "alg", "\"none\""), payload, "SHA256", "secret"));
    refused(assembled(with_member(header, "alg", "\"none\""), payload, ""));
    refused(assembled(header, with_member(payload, "role", "\"Admin\""), signature));
    refused(assembled(header, text("%s ", payload), signature));
}

static const char *with_kid(const char *kid)
{
    return forged(with_member(header, "kid", text("\"%s\"", kid)), payload, "SHA256", "");
}

TEST(a_token_with_an_unknown_kid_is_401)
{
    PGconn *db = database_connect(the_postgres, "tokens");
    int64_t keys = sql_number(db, "SELECT count(*) FROM auth_key");

    EACH_TEXT (kid, "\"../../../../../../dev/null\"", "\"' OR '1'='1\"",
               "\"'; DROP TABLE auth_key; --\"", "\"x' UNION SELECT ''::bytea --\"", "\"\"", "null",
               "7", "[\"a\"]", "\"\\u0000\"")
        refused(forged(with_member(header, "kid", kid), payload, "SHA256", ""));
    refused(with_kid(text_repeated("k", 3000)));
    struct answer *answer = me(with_kid(text_repeated("k", 10240)));

    ck_assert_msg(answer->status == 401 || answer->status == 431, "%ld for 10 kB", answer->status);
    sql_is(db, keys, "SELECT count(*) FROM auth_key");
    PQfinish(db);
    ck_status(me(person->token), 200);
}

TEST(keys_in_the_token_header_are_neither_used_nor_fetched)
{
    int port, fd = port_listen(&port);
    const char *url = text("\"http://127.0.0.1:%d/keys.json\"", port);
    struct pollfd waiting = {.fd = fd, .events = POLLIN};

    EACH_TEXT (member, "jku", "x5u") {
        refused(forged(with_member(header, member, url), payload, "SHA256", "secret"));
        refused(assembled(with_member(header, member, url), payload, signature));
    }
    ck_assert_msg(poll(&waiting, 1, 0) == 0, "the host fetched a key from outside");
}

TEST(a_host_with_other_secrets_keys_refuses_tokens_and_logins)
{
    struct host *wrong =
        host_prepare(&(struct host_spec){.name = "tokens-wrong", .database = "tokens"});
    char *conf = file_text(wrong->conf);

    memset(strstr(conf, "keys: [\"") + strlen("keys: [\""), '0', 64);
    file_write(wrong->conf, conf);
    ck_assert(host_run(wrong));
    ask_on(wrong, person, 401, "Unauthorized", "GET /api/auth/me");
    ask_on(wrong, NULL, 503, "Cannot decrypt the signing key with secrets.keys",
           "POST /api/auth/login {'username':'%s','password':'%s'}", person->email,
           person->password);
    host_logs(wrong, 0, "cannot be opened with secrets.keys");
}

TEST(a_token_in_the_query_or_a_cookie_is_401_and_not_logged)
{
    const char *query = text("/api/auth/me?access_token=%s", person->token);
    const char *cookie = text("Cookie: access_token=%s; token=%s", person->token, person->token);

    ask(NULL, 401, "Unauthorized", "GET %s", query);
    ck_error(me_with(cookie, NULL), 401, "Unauthorized");
    ck_error(me_with(text("X-Access-Token: %s", person->token), NULL), 401, "Unauthorized");
    ask(NULL, 401, NULL, "GET /api/auth/me?after=log");
    host_logs(host, 0, "/api/auth/me");
    const char *log = file_text(host->log);

    ck_assert_ptr_null(strstr(log, person->token));
    ck_assert_ptr_null(strstr(log, signature));
}

SUITE(tokens, .timeout_s = 60, .before_all = set_up)
