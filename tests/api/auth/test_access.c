/*
 * Tokens for programs: getAccess in both forms with the errors of RFC 6749, API clients, threats
 * L09 and J21; and the first request with a token that no host has in memory yet.
 */
#include <stdlib.h>
#include <string.h>

#include "forge.h"
#include "people.h"
#include "suite.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FORM "application/x-www-form-urlencoded"
#define SOON_MS 1000

static struct host *host, *other;
static struct person *admin, *user, *stranger; /* all are ApiUsers except the Admin */

struct client {
    int64_t id;
    const char *name, *secret;
};

static struct client client_make(const struct person *owner)
{
    struct answer *answer =
        ck_status(http(host, "POST", "/api/auth/clients", owner->token, NULL), 201);

    return (struct client){answer_int(answer, "id"), answer_text(answer, "client_id"),
                           answer_text(answer, "client_secret")};
}

static void set_up(void)
{
    const char *database = database_make(the_postgres, "access");

    host = host_start(&(struct host_spec){.name = "access-1", .database = database});
    other = host_start(&(struct host_spec){.name = "access-2", .database = database});
    admin = admin_of(host);
    user = person_make(host, admin, "access", "ApiUser");
    stranger = person_make(host, admin, "stranger", "ApiUser");
}

static void tear_down(void)
{
    host_stop(host);
    host_stop(other);
}

static struct answer *ask(const char *type, const char *body, const char *basic)
{
    const char *headers[] = {basic ? text("Authorization: %s", basic) : NULL, NULL};

    return http_send(host, &(struct call){.method = "POST",
                                          .path = "/api/auth/getAccess",
                                          .type = type,
                                          .body = body,
                                          .headers = headers});
}

static const char *basic_of(const char *name, const char *secret)
{
    const char *pair = text("%s:%s", name, secret);
    char *coded = url64(pair, strlen(pair));
    size_t length = strlen(coded);

    for (char *c = coded; *c; c++)
        *c = *c == '-' ? '+' : *c == '_' ? '/' : *c;
    return text("Basic %s%s", coded, length % 4 == 2 ? "==" : length % 4 == 3 ? "=" : "");
}

static const char *form_of(const char *name, const char *secret)
{
    return text("grant_type=client_credentials&client_id=%s&client_secret=%s", encoded(name),
                encoded(secret));
}

/* Checks the five members of a granted token, and that the token works; returns it. */
static const char *granted(struct answer *answer, int64_t life_s)
{
    ck_status(answer, 200);
    ck_assert_str_eq(answer_text(answer, "accessToken"), answer_text(answer, "access_token"));
    ck_assert_str_eq(answer_text(answer, "token_type"), "Bearer");
    ck_assert_int_eq(answer_int(answer, "expires_in"), life_s);
    ck_assert_str_eq(answer_header(answer, "Cache-Control"), "no-store");
    ck_assert_str_eq(answer_header(answer, "Pragma"), "no-cache");
    const char *token = answer_text(answer, "access_token");

    ck_status(http(other, "GET", "/api/auth/me", token, NULL), 200);
    return token;
}

/* Fails the test unless the error has the OAuth form in addition to the usual keys. */
static void refused(struct answer *answer, long status, const char *error)
{
    ck_error(answer, status, "");
    ck_assert_str_eq(answer_text(answer, "error"), error);
    ck_assert_str_eq(answer_text(answer, "error_description"), answer_text(answer, "message"));
    ck_assert_ptr_null(answer_header(answer, "X-OAuth-Error"));
}

TEST(client_credentials_come_as_form_json_or_basic)
{
    struct client client = client_make(user);
    const char *json = text("{\"grant_type\":\"client_credentials\",\"client_id\":\"%s\","
                            "\"client_secret\":\"%s\"}",
                            client.name, client.secret);
    const char *basic = basic_of(client.name, client.secret);

    granted(ask(FORM, form_of(client.name, client.secret), NULL), 3600);
    granted(ask(FORM "; charset=UTF-8", form_of(client.name, client.secret), NULL), 3600);
    granted(ask(FORM ";charset=ISO-8859-1", form_of(client.name, client.secret), NULL), 3600);
    granted(ask(FORM "; x=y", form_of(client.name, client.secret), NULL), 3600);
    granted(ask(NULL, json, NULL), 3600);
    granted(ask(FORM, "grant_type=client_credentials", basic), 3600);
    granted(ask(FORM, "grant_type=client%5Fcredentials&scope=a+b", basic), 3600);
    granted(ask(NULL, "{\"grant_type\":\"client_credentials\"}", basic), 3600);
    granted(ask(FORM, text("grant_type=client_credentials&client_id=%s", client.name), basic),
            3600);
}

TEST(a_client_says_by_itself_which_grant_it_wants)
{
    struct client client = client_make(user);
    const char *basic = basic_of(client.name, client.secret);

    granted(ask(NULL,
                text("{\"client_id\":\"%s\",\"client_secret\":\"%s\"}", client.name, client.secret),
                NULL),
            3600);
    granted(ask(NULL,
                text("{\"grantType\":\"client_credentials\",\"clientId\":\"%s\","
                     "\"clientSecret\":\"%s\"}",
                     client.name, client.secret),
                NULL),
            3600);
    granted(ask(FORM, text("clientId=%s&clientSecret=%s", client.name, client.secret), NULL), 3600);
    granted(ask(NULL, "{}", basic), 3600);
    granted(ask(NULL, NULL, basic), 3600);
    refused(ask(NULL, "{\"client_id\":\"a\",\"client_secret\":\"b\"}", NULL), 401,
            "invalid_client");
}

/* As at login, an unknown pair gets a 401 whatever its form. */
TEST(an_empty_username_is_as_wrong_as_any_other)
{
    struct client client = client_make(user);
    const char *form = form_of(client.name, client.secret);

    refused(ask(NULL, "{\"username\":\"\",\"password\":\"\"}", NULL), 401, "invalid_client");
    refused(ask(NULL, "{\"username\":\" \",\"password\":\"x\"}", NULL), 401, "invalid_client");
    refused(ask(NULL, "{\"email\":\"\",\"password\":\"\"}", NULL), 401, "invalid_client");
    refused(ask(FORM, "username=&password=", NULL), 401, "invalid_client");
    refused(ask(NULL, "{\"password\":\"x\"}", NULL), 400, "invalid_request");
    refused(ask(NULL, "{}", NULL), 400, "invalid_request");
    granted(ask(FORM, text("%s&username=&password=", form), NULL), 3600);
}

/* Clients send an existing token with every request. */
TEST(a_bearer_token_beside_is_passed_over)
{
    struct client client = client_make(user);
    const char *form = form_of(client.name, client.secret);
    const char *json =
        text("{\"username\":\"%s\",\"password\":\"%s\"}", user->email, user->password);
    const char *others[] = {text("Bearer %s", user->token), "Bearer", "Bearer gone", "Digest x=1"};

    for (size_t i = 0; i < COUNT(others); i++) {
        granted(ask(FORM, form, others[i]), 3600);
        granted(ask(NULL, json, others[i]), 7 * 86400);
    }
}

TEST(what_is_no_known_pair_is_invalid_client)
{
    refused(ask(NULL, "{\"username\":\"a\",\"password\":\"x\"}", NULL), 401, "invalid_client");
    refused(ask(NULL, text("{\"username\":\"%s\",\"password\":\"\"}", user->email), NULL), 401,
            "invalid_client");
    refused(ask(NULL, text("{\"username\":\"%s\"}", user->email), NULL), 401, "invalid_client");
    refused(ask(FORM, "username=a&password=", NULL), 401, "invalid_client");
}

TEST(an_api_users_password_gives_a_session)
{
    const char *json =
        text("{\"username\":\"%s\",\"password\":\"%s\"}", user->email, user->password);

    const char *token = granted(ask(NULL, json, NULL), 7 * 86400);

    ck_status(http(host, "POST", "/api/auth/clients", token, NULL), 201);
    granted(ask(FORM,
                text("username=%s&password=%s", encoded(user->email), encoded(user->password)),
                NULL),
            7 * 86400);
}

TEST(only_api_users_get_access)
{
    static const char *const roles[] = {"User", "Buyer", "DeviceOwner", "OrganizationAdmin"};

    for (size_t i = 0; i < COUNT(roles); i++) {
        struct person *person =
            person_with_role(host, admin, text("no-access-%s", roles[i]), roles[i]);

        refused(
            ask(NULL,
                text("{\"username\":\"%s\",\"password\":\"%s\"}", person->email, person->password),
                NULL),
            403, "unauthorized_client");
    }
    refused(
        ask(NULL, "{\"username\":\"" ADMIN_EMAIL "\",\"password\":\"" ADMIN_PASSWORD "\"}", NULL),
        403, "unauthorized_client");
}

/* L09 among them */
TEST(wrong_clients_are_invalid_client)
{
    struct client own = client_make(user), foreign = client_make(stranger);
    char *shorter = text("%s", own.secret);

    shorter[strlen(shorter) - 1] = '\0';
    refused(ask(FORM, form_of(foreign.name, own.secret), NULL), 401, "invalid_client");
    refused(ask(FORM, form_of(own.name, foreign.secret), NULL), 401, "invalid_client");
    refused(ask(FORM, form_of(own.name, shorter), NULL), 401, "invalid_client");
    refused(ask(FORM, form_of(own.name, text("%s0", own.secret)), NULL), 401, "invalid_client");
    refused(ask(FORM, form_of("nobody", own.secret), NULL), 401, "invalid_client");
    refused(ask(FORM, form_of("' OR '1'='1", own.secret), NULL), 401, "invalid_client");
    struct answer *answer =
        ask(FORM, "grant_type=client_credentials", basic_of(own.name, foreign.secret));

    refused(answer, 401, "invalid_client");
    ck_assert(!strncmp(answer_header(answer, "WWW-Authenticate"), "Basic", 5));
    refused(ask(FORM, "grant_type=client_credentials", "Basic !!!!"), 401, "invalid_client");
    refused(ask(FORM, "grant_type=client_credentials", "Basic YWJj"), 401, "invalid_client");
    refused(ask(NULL, text("{\"username\":\"%s\",\"password\":\"a guess\"}", user->email), NULL),
            401, "invalid_client");
}

TEST(malformed_requests_are_invalid_request)
{
    struct client client = client_make(user);
    const char *basic = basic_of(client.name, client.secret);
    static const char *const json[] = {
        "{}",
        "{",
        "[]",
        "{\"password\":\"x\"}",
        "{\"username\":{\"$gt\":\"\"},\"password\":\"x\"}",
        "{\"grant_type\":[]}",
        "{\"grant_type\":\"client_credentials\"}",
        "{\"grant_type\":\"client_credentials\",\"client_id\":\"a\"}",
        "{\"grant_type\":\"client_credentials\",\"client_id\":[],\"client_secret\":\"x\"}",
        "{\"client_id\":\"a\"}",
        "{\"grant_type\":\"client_credentials\",\"grant_type\":\"client_credentials\"}"};

    for (size_t i = 0; i < COUNT(json); i++)
        refused(ask(NULL, json[i], NULL), 400, "invalid_request");
    refused(ask(FORM, "grant_type=client_credentials&grant_type=client_credentials", NULL), 400,
            "invalid_request");
    refused(ask(FORM, "grant_type=%ZZ", NULL), 400, "invalid_request");
    refused(ask(FORM, form_of(client.name, client.secret), basic), 400, "invalid_request");
    refused(ask(FORM, "grant_type=client_credentials&client_id=another", basic), 400,
            "invalid_request");
    refused(ask(NULL, NULL, NULL), 400, "invalid_request");
}

/* Tests bytes that are not UTF-8 in each way to send credentials. */
TEST(credentials_that_are_no_text_are_refused_as_others_are)
{
    const char *grant = "grant_type=client_credentials";

    refused(ask(FORM, grant, basic_of("\xFF\xFE", "x")), 401, "invalid_client");
    refused(ask(FORM, grant, basic_of("aa", "\xFF\xFE")), 401, "invalid_client");
    refused(ask(FORM, "client_id=%FF&client_secret=%FE", NULL), 400, "invalid_request");
    refused(ask(FORM "; charset=ISO-8859-1", "username=J\xFCrgen%40x.example&password=x", NULL),
            400, "invalid_request");
}

/* The host finds these errors before it calls the handler. */
TEST(what_the_host_refuses_has_the_form_of_oauth_too)
{
    char *large = kept(malloc(70000));

    memset(large, 'a', 69999);
    large[69999] = '\0';
    refused(ask(FORM, large, NULL), 413, "invalid_request");
    refused(ask("text/plain", "grant_type=client_credentials", NULL), 415, "invalid_request");
    refused(ask("application/xml", "<a/>", NULL), 415, "invalid_request");
}

TEST(other_grants_are_unsupported)
{
    static const char *const grants[] = {"password", "authorization_code", "refresh_token",
                                         "CLIENT_CREDENTIALS"};

    for (size_t i = 0; i < COUNT(grants); i++)
        refused(ask(FORM, text("grant_type=%s&client_id=a&client_secret=b", grants[i]), NULL), 400,
                "unsupported_grant_type");
    refused(ask(FORM, "grant_type=password&username=a&password=b", NULL), 400,
            "unsupported_grant_type");
}

/* ---- clients ---- */

TEST(a_clients_secret_is_shown_once_and_never_stored)
{
    struct answer *made = ck_status(
        http(host, "POST", "/api/auth/clients", user->token, json_pack("{ss}", "name", "metering")),
        201);
    const char *secret = answer_text(made, "client_secret");
    struct answer *list = ck_status(http(host, "GET", "/api/auth/clients", user->token, NULL), 200);
    PGconn *db = database_connect(the_postgres, "access");

    ck_assert_str_eq(answer_header(made, "Cache-Control"), "no-store");
    ck_assert_uint_ge(strlen(secret), 32);
    ck_assert_str_eq(answer_text(made, "name"), "metering");
    ck_assert_ptr_nonnull(strstr(list->body, answer_text(made, "client_id")));
    ck_assert_ptr_null(strstr(list->body, secret));
    ck_assert_ptr_null(strstr(list->body, "client_secret"));
    ck_assert_str_eq(sql_text(db,
                              "SELECT count(*) FROM auth_client WHERE strpos(encode(secret, "
                              "'escape'), $1) > 0 OR strpos(encode(secret, 'hex'), $1) > 0",
                              1, (const char *const[]){secret}),
                     "0");
    PQfinish(db);
}

struct revoked {
    const char *token;
};

static bool is_revoked(void *arg)
{
    const struct revoked *revoked = arg;

    return http(other, "GET", "/api/auth/me", revoked->token, NULL)->status == 401;
}

TEST(a_client_belongs_to_its_user_and_its_end_ends_its_tokens)
{
    struct client client = client_make(user), second = client_make(user);
    const char *path = text("/api/auth/clients/%jd", (intmax_t)client.id);
    const char *token = granted(ask(FORM, form_of(client.name, client.secret), NULL), 3600);
    const char *kept_one = granted(ask(FORM, form_of(second.name, second.secret), NULL), 3600);
    struct revoked revoked = {token};

    ck_error(http(host, "DELETE", path, stranger->token, NULL), 404, "");
    ck_assert_ptr_null(
        strstr(ck_status(http(host, "GET", "/api/auth/clients", stranger->token, NULL), 200)->body,
               client.name));
    ck_status(http(other, "GET", "/api/auth/me", token, NULL), 200);
    ck_assert_str_eq(ck_status(http(host, "DELETE", path, user->token, NULL), 200)->body,
                     "{\"success\":true}");
    ck_error(http(host, "GET", "/api/auth/me", token, NULL), 401, REVOKED);
    ck_assert(wait_until(is_revoked, &revoked, SOON_MS));
    ck_error(http(other, "GET", "/api/auth/me", token, NULL), 401, REVOKED);
    refused(ask(FORM, form_of(client.name, client.secret), NULL), 401, "invalid_client");
    ck_error(http(host, "DELETE", path, user->token, NULL), 404, "");
    ck_status(http(host, "GET", "/api/auth/me", kept_one, NULL), 200);
    ck_status(http(host, "GET", "/api/auth/me", user->token, NULL), 200);
}

/* J21 */
TEST(a_clients_token_makes_no_clients)
{
    struct client client = client_make(user);
    const char *token = granted(ask(FORM, form_of(client.name, client.secret), NULL), 3600);
    const char *path = text("/api/auth/clients/%jd", (intmax_t)client.id);

    ck_error(http(host, "POST", "/api/auth/clients", token, NULL), 403, "Forbidden");
    ck_error(http(host, "DELETE", path, token, NULL), 403, "Forbidden");
    ck_error(http(host, "PUT", "/api/user/password", token,
                  json_pack("{ss ss}", "current", user->password, "new", "something new")),
             403, "Forbidden");
    ck_status(http(host, "GET", "/api/auth/clients", token, NULL), 200);
    ck_status(http(host, "POST", "/api/auth/logout", token, NULL), 200);
    ck_error(http(host, "GET", "/api/auth/me", token, NULL), 401, REVOKED);
    ck_status(http(host, "GET", "/api/auth/me", user->token, NULL), 200);
}

/* A client's tokens stop working when its user loses the rights. */
TEST(a_client_of_a_suspended_user_gets_nothing)
{
    struct person *person = person_make(host, admin, "suspended-owner", "ApiUser");
    struct client client = client_make(person);
    const char *token = granted(ask(FORM, form_of(client.name, client.secret), NULL), 3600);

    ck_status(person_change(host, admin, person, "status", "Suspended"), 200);
    ck_error(http(host, "GET", "/api/auth/me", token, NULL), 403,
             "Your account has been suspended");
    refused(ask(FORM, form_of(client.name, client.secret), NULL), 403, "unauthorized_client");
    ck_status(person_change(host, admin, person, "status", "Active"), 200);
    ck_status(person_change(host, admin, person, "role", "User"), 200);
    refused(ask(FORM, form_of(client.name, client.secret), NULL), 403, "unauthorized_client");
}

/* ---- a token that no host has in memory yet ---- */

/* The host looks up the token in the database between the headers and the body. */
TEST(the_first_request_of_a_token_may_have_a_body)
{
    static const char *const chunked[] = {"Transfer-Encoding: chunked", NULL};
    static const char *const expecting[] = {"Expect: 100-continue", NULL};
    static const char *const *const ways[] = {NULL, chunked, expecting};
    static const size_t sizes[] = {2, 5000, 300000};
    CURL *connection = client_open();

    for (size_t i = 0; i < COUNT(ways) * COUNT(sizes); i++) {
        size_t size = sizes[i / COUNT(ways)];
        char *entry = kept(malloc(size + 1));

        memset(entry, 'e', size);
        entry[size] = '\0';
        const char *body = text("{\"participant1\":\"%s\",\"participant2\":\"b@example.com\","
                                "\"username\":\"%s\",\"chatEntry\":\"%s\"}",
                                user->email, user->email, entry);
        struct call call = {.method = "POST",
                            .path = "/api/chat/conversations/start",
                            .token = person_login(host, user),
                            .body = body,
                            .headers = ways[i % COUNT(ways)],
                            .connection = i % 2 ? connection : NULL};

        ck_status(http_send(host, &call), 201);
        ck_status(http_send(other, &call), 201);
    }
    curl_easy_cleanup(connection);
}

/* A request is refused while its body is being sent. The connection then continues at the next
 * request or is closed, and never confuses the two. */
TEST(a_refused_request_with_a_body_leaves_the_connection_in_step)
{
    static const char *const chunked[] = {"Transfer-Encoding: chunked", NULL};
    CURL *connection = client_open();
    char *body = kept(malloc(200001));

    memset(body, ' ', 200000);
    body[200000] = '\0';
    for (int i = 0; i < 6; i++) {
        struct call call = {.method = "POST",
                            .path = "/api/chat/conversations/start",
                            .token = i % 3 == 0 ? "no.token.atall" : NULL,
                            .body = body,
                            .headers = i % 2 ? chunked : NULL,
                            .connection = connection};
        struct call next = {.method = "GET",
                            .path = "/api/auth/me",
                            .token = user->token,
                            .connection = connection};

        ck_error(http_send(host, &call), 401, "Unauthorized");
        ck_status(http_send(host, &next), 200);
    }
    curl_easy_cleanup(connection);
}

SUITE(access, .timeout_s = 60, .before_all = set_up, .after_all = tear_down)
