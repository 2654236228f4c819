/*
 * Tokens: anything that is not a valid token of this service gets a 401, costs nothing and leaves
 * nothing. Forgeries that need the service's secret are in tests/unit/modules/auth/test_token.c.
 */
#include <poll.h>
#include <sys/socket.h>

#include <arpa/inet.h>

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

/*
 * As far as possible without the secret: members of the header and of the payload, with the old
 * signature, with none, and with a MAC of a common secret.
 */
TEST(a_token_with_a_changed_header_or_payload_is_401)
{
    static const struct {
        bool in_header;
        const char *name, *value, *digest;
    } changes[] = {
        {true, "alg", "\"none\"", "SHA256"},
        {true, "alg", "\"nOnE\"", "SHA256"},
        {true, "alg", "\"\"", "SHA256"},
        {true, "alg", "null", "SHA256"},
        {true, "alg", "\"HS384\"", "SHA384"},
        {true, "alg", "\"HS512\"", "SHA512"},
        {true, "alg", "\"RS256\"", "SHA256"},
        {true, "alg", "\"ES256\"", "SHA256"},
        {true, "alg", "\"hs256\"", "SHA256"},
        {true, "alg", "256", "SHA256"},
        {true, "jwk", "{\"kty\":\"oct\",\"k\":\"c2VjcmV0\"}", "SHA256"},
        {true, "crit", "[\"x\"]", "SHA256"},
        {true, "b64", "false", "SHA256"},
        {false, "role", "\"Admin\"", "SHA256"},
        {false, "sub", "\"1\"", "SHA256"},
        {false, "exp", "99999999999", "SHA256"},
        {false, "exp", "-1", "SHA256"},
        {false, "nbf", "99999999999", "SHA256"},
        {false, "iat", "99999999999", "SHA256"},
        {false, "kind", "\"client\"", "SHA256"},
    };

    for (size_t i = 0; i < COUNT(changes); i++) {
        const char *name = changes[i].name, *value = changes[i].value;
        const char *first = changes[i].in_header ? with_member(header, name, value) : header;
        const char *second = changes[i].in_header ? payload : with_member(payload, name, value);

        refused(assembled(first, second, signature));
        refused(assembled(first, second, ""));
        refused(forged(first, second, changes[i].digest, "secret"));
    }
    refused(assembled(header, payload, ""));
    refused(assembled(header, text("{\"sub\":\"1\",%s", payload + 1), signature));
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
    static const char *const members[] = {"jku", "x5u"};
    struct pollfd waiting = {.fd = fd, .events = POLLIN};

    for (size_t i = 0; i < COUNT(members); i++) {
        refused(forged(with_member(header, members[i], url), payload, "SHA256", "secret"));
        refused(assembled(with_member(header, members[i], url), payload, signature));
    }
    ck_assert_msg(poll(&waiting, 1, 0) == 0, "the host fetched a key from outside");
}

TEST(tokens_signed_with_common_or_random_secrets_are_401)
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
