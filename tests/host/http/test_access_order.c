/*
 * The order of the checks of a request: an anonymous client learns nothing except that (401), the
 * check of a body's type with and without a token, and authentication being repeated after a slow
 * body.
 */
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "suite.h"
#include "suites.h"
#include "wire.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define FIND "/api/chat/conversations/find"
#define ANONYMOUS NULL
#define STRANGE "x.y.z"

enum { LATE_MS = 700 }; /* authentication is repeated after 500 */

static struct host *host;
static struct person *admin, *user;
static const char *store;

static void set_up(void)
{
    const char *database = database_make(the_postgres, "access_order");

    store = harness_path("documents-admission");
    host = host_start(&(struct host_spec){.name = "access_order",
                                          .database = database,
                                          .modules = "[auth, chat, device, health, metrics]",
                                          .http = "  metrics_networks: [127.0.0.1]\n",
                                          .more = files_section(store)});
    admin = admin_of(host);
    user = person_make(host, admin, "access_order", NULL);
}

static void tear_down(void)
{
    host_stop(host);
}

static const char *bearer(const char *token)
{
    return token ? text("Authorization: Bearer %s\r\n", token) : "";
}

static struct wire_answer *ask(const char *method, const char *path, const char *token,
                               const char *headers, const char *body)
{
    return wire_ask(host, "%s %s HTTP/1.1\r\nHost: x\r\n%s%sContent-Length: %zu\r\n\r\n%s", method,
                    path, bearer(token), headers, strlen(body), body);
}

/* ---- the order ---- */

static const struct {
    const char *method, *path, *headers;
    size_t length;
    int status; /* with a valid token */
} refused[] = {
    {"PUT", FIND, "", 0, 405},
    {"GET", "/api/chat/conversations/7/messages", "", 0, 405},
    {"DELETE", "/api/device", "", 0, 405},
    {"TRACE", "/api/auth/me", "", 0, 405},
    {"QUERY", "/api/auth/me", "", 0, 405},
    {"POST", FIND, "Content-Type: text/xml\r\n", 4, 415},
    {"POST", FIND, "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", 4, 415},
    {"POST", FIND, "Content-Type: application/json\r\n", 3000000, 413},
    {"POST", FIND, "Content-Type: application/json\r\n", 4, 400},
};

TEST_EACH(a_stranger_learns_nothing_before_the_token, COUNT(refused))
{
    const char *body = text("%0*d", (int)refused[_i].length, 0);
    const char *const strangers[] = {ANONYMOUS, STRANGE};

    if (!refused[_i].length)
        body = "";
    for (size_t i = 0; i < COUNT(strangers); i++) {
        struct wire_answer *answer = ck_wire_error(
            ask(refused[_i].method, refused[_i].path, strangers[i], refused[_i].headers, body),
            401);

        ck_assert_ptr_null(wire_header(answer, "Allow"));
    }
    ck_wire_error(ask(refused[_i].method, refused[_i].path, user->token, refused[_i].headers, body),
                  refused[_i].status);
}

TEST(a_method_that_a_path_has_not_is_told_with_the_others)
{
    struct wire_answer *answer = ck_wire_error(ask("PUT", FIND, user->token, "", ""), 405);

    ck_assert_str_eq(wire_header(answer, "Allow"), "POST");
    answer = ck_wire_error(ask("PUT", "/api/auth/login", ANONYMOUS, "", ""), 405);
    ck_assert_str_eq(wire_header(answer, "Allow"), "POST");
    ck_wire_error(ask("PUT", "/api/health", STRANGE, "", ""), 405);
    ck_wire_error(ask("PUT", "/metrics", ANONYMOUS, "", ""), 405); /* open to this address */
}

TEST(a_wrong_role_is_told_before_the_body)
{
    struct person *buyer = person_with_role(host, admin, "admission-buyer", "Buyer");

    ck_wire_error(ask("POST", "/api/device", buyer->token, "Content-Type: text/xml\r\n", "<x/>"),
                  403);
}

TEST(what_everybody_may_know_needs_no_token)
{
    ck_wire_error(ask("GET", "/api/nothing", ANONYMOUS, "", ""), 404);
    ck_wire_error(ask("POST", "/api/auth/login", ANONYMOUS, "Content-Type: text/xml\r\n", "<x/>"),
                  415);
    ck_assert_int_eq(ask("OPTIONS", FIND, ANONYMOUS, "", "")->status, 204);
}

/* ---- types of bodies ---- */

static const struct {
    const char *headers;
    int status, anonymous; /* for {} with a token; for a login without one */
} types[] = {
    {"Content-Type: application/json; charset=utf8\r\n", 200, 400},
    {"Content-Type: application/json; charset=\"utf-8\"\r\n", 200, 400},
    {"Content-Type: application/json;charset='utf-8'\r\n", 200, 415},
    {"Content-Type: application/json; charset=utf-16\r\n", 200, 415},
    {"Content-Type: application/json; charset=utf-8; odata=verbose\r\n", 200, 415},
    {"Content-Type: application/vnd.api+json\r\n", 200, 415},
    {"Content-Type: application/merge-patch+JSON; charset=utf-8\r\n", 200, 415},
    {"Content-Type: text/plain\r\n", 200, 415},
    {"Content-Type: text/plain;charset=UTF-8\r\n", 200, 415},
    {"Content-Type:\r\n", 200, 415},
    {"", 200, 415},
    {"Content-Type: application/json\r\nContent-Encoding: identity\r\n", 200, 400},
    {"Content-Type: application/json\r\nContent-Encoding: Identity \r\n", 200, 400},
    {"Content-Type: application/json\r\nContent-Encoding: gzip\r\n", 415, 415},
    {"Content-Type: application/+json\r\n", 415, 415},
    {"Content-Type: image/svg+json\r\n", 415, 415},
    {"Content-Type: text/plainly\r\n", 415, 415},
};

TEST_EACH(a_token_vouches_for_a_body_of_another_type, COUNT(types))
{
    struct wire_answer *answer = ask("POST", FIND, user->token, types[_i].headers, "{}");

    ck_assert_msg(answer && answer->status == types[_i].status, "%s: %d", types[_i].headers,
                  answer ? answer->status : 0);
    answer = ask("POST", "/api/auth/login", user->token, types[_i].headers, "{}");
    ck_assert_msg(answer && answer->status == types[_i].anonymous, "login, %s: %d",
                  types[_i].headers, answer ? answer->status : 0);
}

TEST(such_a_body_is_read_as_json)
{
    ck_assert_ptr_nonnull(strstr(ck_wire_error(ask("POST", FIND, user->token, "", "{"), 400)->body,
                                 "Malformed JSON in line "));
    struct wire_answer *made = ask("POST", "/api/device", user->token,
                                   "Content-Type: text/plain\r\n", "{\"externalId\":\"Plain\"}");

    ck_assert_int_eq(made->status, 201);
    ck_assert_ptr_nonnull(strstr(made->body, "\"externalId\":\"Plain\""));
}

/* A chunked body may turn out to be empty. */
TEST(an_empty_body_has_no_type)
{
    struct wire_answer *answer = wire_ask(host,
                                          "POST " FIND " HTTP/1.1\r\nHost: x\r\n%s"
                                          "Content-Type: text/xml\r\n"
                                          "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                                          bearer(user->token));

    ck_assert_int_eq(answer->status, 200);
    ck_wire_error(wire_ask(host,
                           "POST " FIND " HTTP/1.1\r\nHost: x\r\n%sContent-Type: text/xml\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n4\r\n<x/>\r\n0\r\n\r\n",
                           bearer(user->token)),
                  415);
}

/* ---- slow bodies ---- */

static bool is_late(void *since)
{
    return now_ms() - *(int64_t *)since > LATE_MS;
}

static void wait_late(int64_t since)
{
    ck_assert(wait_until(is_late, &since, 5000));
}

/* Sends a POST except for the last byte of its body. */
static struct wire *begin(const struct person *who, const char *path, const char *type,
                          const char *body, size_t length)
{
    struct wire *wire = wire_open(host);

    wire_say(wire,
             "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
             path, bearer(who->token), type, length);
    ck_assert(wire_send(wire, body, length - 1));
    return wire;
}

static struct wire_answer *finish(struct wire *wire, const char *last)
{
    wire_say(wire, "%s", last);
    return wire_read(wire, 10000);
}

static const char *device_of(const char *external_id)
{
    return text("{\"externalId\":\"%s\"}", external_id);
}

static void expect_no_device(const char *external_id)
{
    ck_error(http(host, "GET", text("/api/device/%s", external_id), admin->token, NULL), 404, "");
}

TEST(a_logout_holds_for_a_body_that_still_comes)
{
    struct person *gone = person_make(host, admin, "admission-logout", NULL);
    const char *body = device_of("Logout");
    struct wire *wire = begin(gone, DEVICE, "application/json", body, strlen(body));
    int64_t since = now_ms();

    ck_status(http(host, "POST", "/api/auth/logout", gone->token, NULL), 200);
    wait_late(since);
    ck_assert_ptr_nonnull(strstr(ck_wire_error(finish(wire, "}"), 401)->body, REVOKED));
    expect_no_device("Logout");
}

TEST(a_role_that_was_taken_holds_for_a_body_that_still_comes)
{
    struct person *changed = person_make(host, admin, "admission-role", NULL);
    const char *body = device_of("Role");
    struct wire *wire = begin(changed, DEVICE, "application/json", body, strlen(body));
    int64_t since = now_ms();

    ck_status(person_change(host, admin, changed, "role", "Buyer"), 200);
    wait_late(since);
    ck_wire_error(finish(wire, "}"), 403);
    expect_no_device("Role");
}

TEST(a_suspension_holds_for_an_upload_that_still_comes)
{
    struct person *gone = person_make(host, admin, "admission-suspended", NULL);
    struct upload_body body = files_named("Suspended");

    upload_file(&body, "SF_02C", "x", upload_noise(5, MIB), MIB);
    upload_close(&body);
    struct wire *wire = begin(gone, DEVICE, UPLOAD_TYPE, body.bytes, body.length);
    int64_t since = now_ms();

    ck_status(person_change(host, admin, gone, "status", "Suspended"), 200);
    wait_late(since);
    free(body.bytes);
    ck_wire_error(finish(wire, "\n"), 403);
    expect_no_device("Suspended");
    ck_assert(store_settles(store));
    ck_assert_int_eq(files_now(store), 0);
}

TEST(who_stays_may_take_his_time)
{
    const char *body = device_of("Late");
    struct wire *wire = begin(user, DEVICE, "application/json", body, strlen(body));

    wait_late(now_ms());
    ck_assert_int_eq(finish(wire, "}")->status, 201);
}

SUITE(access_order, .timeout_s = 60, .before_all = set_up, .after_all = tear_down)
