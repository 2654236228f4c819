/*
 * The form of responses: one error body for every status, request ids, CORS, HEAD, OPTIONS, the
 * client's address behind proxies; threats H03, H13, H15, W05.
 */
#include <string.h>

#include "people.h"
#include "suite.h"
#include "suites.h"
#include "wire.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define OURS "https://app.example"

static struct host *host;
static struct person *admin, *user, *pending;

static void set_up(void)
{
    host = host_start(&(struct host_spec){.name = "responses",
                                          .database = database_make(the_postgres, "responses"),
                                          .http = "  cors_origins: [\"" OURS "\"]\n"
                                                  "  trusted_proxies: [\"127.0.0.2/32\"]\n"});
    admin = admin_of(host);
    user = person_make(host, admin, "responses", NULL);
    pending = person_register(host, "answers-pending", NULL);
}

static void tear_down(void)
{
    host_stop(host);
}

static struct wire_answer *ask(const char *method, const char *path, const char *token,
                               const char *body)
{
    return wire_ask(host,
                    "%s %s HTTP/1.1\r\nHost: x\r\n%s%s\r\nContent-Type: application/json\r\n"
                    "Content-Length: %zu\r\n\r\n%s",
                    method, path, token ? "Authorization: Bearer " : "X-None: ", token ? token : "",
                    strlen(body), body);
}

/* H15 */
TEST(every_error_has_the_same_body_and_the_same_safe_headers)
{
    const char *login =
        text("{\"username\":\"%s\",\"password\":\"%s\"}", pending->email, pending->password);

    ck_wire_error(ask("POST", "/api/auth/login", NULL, "{"), 400);
    ck_wire_error(ask("POST", "/api/auth/login", NULL, "{}"), 400);
    ck_wire_error(ask("GET", "/api/auth/me", NULL, ""), 401);
    ck_wire_error(ask("POST", "/api/auth/login", NULL, login), 403);
    ck_wire_error(ask("GET", "/api/admin/users", user->token, ""), 403);
    ck_wire_error(ask("GET", "/api/nothing", NULL, ""), 404);
    ck_wire_error(
        ask("GET", "/api/chat/chain/00000000-0000-4000-8000-000000000000", user->token, ""), 404);
    ck_wire_error(ask("PUT", "/api/auth/login", NULL, ""), 405);
    ck_wire_error(ask("POST", "/api/auth/login", NULL, text("{\"a\":\"%03000000d\"}", 0)), 413);
    ck_wire_error(wire_ask(host, "POST /api/auth/login HTTP/1.1\r\nHost: x\r\n"
                                 "Content-Type: text/xml\r\nContent-Length: 2\r\n\r\n{}"),
                  415);
    ck_wire_error(wire_ask(host, "BREW /api/health HTTP/1.1\r\nHost: x\r\n\r\n"), 501);
    struct wire_answer *taken = ask("POST", "/api/user/register", NULL,
                                    text("{\"firstName\":\"A\",\"lastName\":\"B\",\"email\":\"%s\","
                                         "\"password\":\"a long password\",\"orgName\":\"Other\"}",
                                         user->email));

    ck_wire_error(taken, 409);
    ck_assert_ptr_nonnull(strstr(taken->body, "\"success\":false"));
}

TEST(an_error_tells_nothing_of_the_inside)
{
    static const char *const inside[] = {"SQL",    "postgres", "pg_",     "microhttpd",
                                         "/core/", ".c:",      "select ", "auth_"};
    struct wire_answer *answers[] = {
        ask("POST", "/api/auth/login", NULL, "{\"username\":1}"),
        ask("GET", "/api/nothing", NULL, ""),
        ask("GET", "/api/chat/chain/x", user->token, ""),
        ask("GET", "/api/chat/conversations/user/'", user->token, ""),
    };

    for (size_t i = 0; i < COUNT(answers); i++) {
        ck_assert_ptr_null(wire_header(answers[i], "Server"));
        ck_assert_ptr_null(wire_header(answers[i], "X-Powered-By"));
        for (size_t word = 0; word < COUNT(inside); word++)
            ck_assert_msg(!strstr(answers[i]->body, inside[word]), "%s", answers[i]->body);
    }
}

TEST(a_401_says_which_scheme_and_a_wrong_role_is_plainly_forbidden)
{
    struct wire_answer *unknown = ask("GET", "/api/auth/me", NULL, "");
    struct wire_answer *role = ask("GET", "/api/admin/users", user->token, "");

    ck_assert_str_eq(wire_header(unknown, "WWW-Authenticate"), "Bearer");
    ck_assert_ptr_nonnull(strstr(unknown->body, "\"message\":\"Unauthorized\""));
    ck_assert_ptr_nonnull(strstr(role->body, "\"message\":\"Forbidden\""));
}

TEST(a_sane_request_id_is_taken_and_echoed)
{
    static const char *const sane[] = {"a", "550e8400-e29b-41d4-a716-446655440000", "A.b_c-9"};

    for (size_t i = 0; i < COUNT(sane); i++) {
        struct wire_answer *answer = wire_ask(
            host, "GET /api/nope HTTP/1.1\r\nHost: x\r\nX-Request-Id: %s\r\n\r\n", sane[i]);

        ck_wire_error(answer, 404);
        ck_assert_str_eq(wire_header(answer, "X-Request-Id"), sane[i]);
    }
}

TEST(a_request_id_that_is_not_sane_is_replaced)
{
    const char *strange[] = {"",
                             "a b",
                             "<script>",
                             "a\"b",
                             "a;b",
                             "a=b",
                             text("%065d", 0),
                             "\xc3\xa9",
                             "${jndi:ldap://x}"};

    for (size_t i = 0; i < COUNT(strange); i++) {
        struct wire_answer *answer = wire_ask(
            host, "GET /api/nope HTTP/1.1\r\nHost: x\r\nX-Request-Id: %s\r\n\r\n", strange[i]);

        ck_wire_error(answer, 404);
        ck_assert_str_ne(wire_header(answer, "X-Request-Id"), strange[i]);
        ck_assert_uint_eq(strlen(wire_header(answer, "X-Request-Id")), 36);
    }
}

/* W05 */
TEST(only_the_configured_origin_is_answered)
{
    static const char *const others[] = {"https://evil.example",
                                         "null",
                                         "*",
                                         "https://app.example.evil",
                                         "http://app.example",
                                         "https://xapp.example",
                                         "https://app.example:444",
                                         "HTTPS://APP.EXAMPLE",
                                         "https://app.example/"};
    struct wire_answer *ours =
        wire_ask(host, "GET /api/health HTTP/1.1\r\nHost: x\r\nOrigin: " OURS "\r\n\r\n");

    ck_assert_str_eq(wire_header(ours, "Access-Control-Allow-Origin"), OURS);
    ck_assert_str_eq(wire_header(ours, "Vary"), "Origin");
    ck_assert_ptr_null(wire_header(ours, "Access-Control-Allow-Credentials"));
    for (size_t i = 0; i < COUNT(others); i++) {
        struct wire_answer *answer =
            wire_ask(host, "GET /api/health HTTP/1.1\r\nHost: x\r\nOrigin: %s\r\n\r\n", others[i]);

        ck_assert_int_eq(answer->status, 200);
        ck_assert_str_eq(wire_header(answer, "Vary"), "Origin");
        ck_assert_msg(!strstr(answer->headers, "Access-Control"), "%s", answer->headers);
    }
    struct wire_answer *none = wire_ask(host, "GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n");

    ck_assert_str_eq(wire_header(none, "Vary"), "Origin"); /* a cache may return it to an origin */
}

TEST(an_error_can_be_read_by_the_configured_origin)
{
    struct wire_answer *answer =
        wire_ask(host, "GET /api/auth/me HTTP/1.1\r\nHost: x\r\nOrigin: " OURS "\r\n\r\n");

    ck_wire_error(answer, 401);
    ck_assert_str_eq(wire_header(answer, "Access-Control-Allow-Origin"), OURS);
}

static struct wire_answer *preflight(const char *origin)
{
    return wire_ask(host,
                    "OPTIONS /api/chat/conversations/5/read HTTP/1.1\r\nHost: x\r\nOrigin: %s\r\n"
                    "Access-Control-Request-Method: PATCH\r\n"
                    "Access-Control-Request-Headers: authorization\r\n\r\n",
                    origin);
}

TEST(a_preflight_is_answered_to_the_configured_origin_only)
{
    struct wire_answer *ours = preflight(OURS), *evil = preflight("https://evil.example");

    ck_assert_int_eq(ours->status, 204);
    ck_assert_str_eq(wire_header(ours, "Access-Control-Allow-Methods"), "PATCH");
    ck_assert_ptr_nonnull(
        strstr(wire_header(ours, "Access-Control-Allow-Headers"), "Authorization"));
    ck_assert_ptr_null(strstr(evil->headers, "Access-Control"));
}

TEST(options_tells_the_methods_of_a_path_that_is_there)
{
    struct wire_answer *there =
        wire_ask(host, "OPTIONS /api/auth/login HTTP/1.1\r\nHost: x\r\n\r\n");

    ck_assert_int_eq(there->status, 204);
    ck_assert_str_eq(wire_header(there, "Allow"), "POST");
    ck_wire_error(wire_ask(host, "OPTIONS /api/nope HTTP/1.1\r\nHost: x\r\n\r\n"), 404);
}

TEST(head_has_the_headers_of_get_and_no_body)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, "HEAD /api/health HTTP/1.1\r\nHost: x\r\n\r\n"
                   "HEAD /api/nope HTTP/1.1\r\nHost: x\r\n\r\n"
                   "GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n");
    struct wire_answer *found = wire_read_head(wire, 5000);
    struct wire_answer *missing = wire_read_head(wire, 5000);
    struct wire_answer *get = wire_read(wire, 5000);

    ck_assert(found && missing && get);
    ck_assert_int_eq(found->status, 200);
    ck_assert_str_eq(wire_header(found, "Content-Length"), wire_header(get, "Content-Length"));
    ck_assert_str_eq(wire_header(found, "Content-Type"), wire_header(get, "Content-Type"));
    ck_assert_int_eq(missing->status, 404);
    ck_assert_int_eq(get->status, 200);
    wire_close(wire, false);
}

/* H13 */
static const struct {
    const char *query;
    int status;
} queries[] = {
    {"limit=1", 200},         {"limit=1000", 200},
    {"limit=1001", 200},      {"limit=1e9", 400},
    {"limit=0", 400},         {"limit=-1", 400},
    {"limit=", 200},          {"limit=1.5", 400},
    {"limit=0x1", 400},       {"limit=%20", 200},
    {"limit=1%201", 400},     {"limit=9223372036854775808", 200},
    {"limit=1&limit=2", 200}, {"limit=2&limit=0", 400},
    {"after=%00", 400},       {"after=junk", 400},
    {"page=-1", 200},         {"%6Cimit=0", 400},
    {"limit=%D9%A3", 400},    {"&&&", 200},
    {"limit=+1", 200},        {"limit=%2B1", 400},
};

TEST_EACH(a_query_is_checked, COUNT(queries))
{
    struct wire_answer *answer =
        ask("GET", text("/api/chat/conversations/user/%s?%s", user->email, queries[_i].query),
            user->token, "");

    ck_assert_msg(answer->status == queries[_i].status, "%s: status %d: %s", queries[_i].query,
                  answer->status, answer->body);
    if (answer->status >= 400)
        ck_wire_error(answer, queries[_i].status);
}

/* H06: X-Forwarded-For counts only if it comes from a trusted proxy. */
static const struct {
    const char *from, *forwarded, *client;
} forwards[] = {
    {"127.0.0.1", "198.51.100.7", "127.0.0.1"},
    {"127.0.0.2", "198.51.100.7", "198.51.100.7"},
    {"127.0.0.2", "203.0.113.9, 198.51.100.7", "198.51.100.7"},
    {"127.0.0.2", "203.0.113.9, 198.51.100.8, 127.0.0.2", "198.51.100.8"},
    {"127.0.0.2", "2001:db8::1", "2001:db8::1"},
    {"127.0.0.2", "1.2.3.4 level=error", "127.0.0.2"},
    {"127.0.0.3", "198.51.100.9", "127.0.0.3"},
};

static bool logged(void *arg)
{
    return strstr(file_text(host->log), arg) != NULL;
}

TEST_EACH(an_address_is_taken_from_trusted_proxies_only, COUNT(forwards))
{
    struct wire *wire = wire_open_from(host, forwards[_i].from, 0);

    wire_say(wire,
             "GET /api/health HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: %s\r\n"
             "X-Request-Id: forward-%d\r\n\r\n",
             forwards[_i].forwarded, _i);
    ck_assert_ptr_nonnull(wire_read(wire, 5000));
    wire_close(wire, false);
    char *id = text("request=forward-%d ", _i);

    ck_assert(wait_until(logged, id, 5000));
    const char *line = strstr(file_text(host->log), id);

    line = text("%.*s", (int)strcspn(line, "\n"), line);
    ck_assert_msg(strstr(line, text(" client=%s", forwards[_i].client)) ||
                      strstr(line, text(" client=\"%s\"", forwards[_i].client)),
                  "%s", line);
}

SUITE(responses, .timeout_s = 30, .before_all = set_up, .after_all = tear_down)
