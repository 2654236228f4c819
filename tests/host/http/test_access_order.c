/*
 * The order in which a request's token, role, method and body are checked: an anonymous client gets
 * only a 401, a wrong role is refused before the body is read, the type of a body is
 * checked with and without a token, and token and role are checked again after a slow body.
 */
#include "files.h"
#include "stage.h"
#include "wire.h"

#define FIND "/api/chat/conversations/find"
#define JSON "Content-Type: application/json\r\n"
#define STRANGE "x.y.z"

enum { LATE_MS = 700 }; /* authentication is repeated after 500 */

static struct person *user;
static const char *store;

static void set_up(void)
{
    store = harness_path("documents-admission");
    stage_open(&(struct host_spec){.name = "access_order",
                                   .modules = "[auth, chat, device, health, metrics]",
                                   .http = "  metrics_networks: [127.0.0.1]\n",
                                   .more = files_section(store)});
    user = person_make(host, admin, "access_order", NULL);
}

static const char *authorization(const char *token)
{
    return token ? text("Authorization: Bearer %s\r\n", token) : "";
}

static struct wire_answer *send_it(const char *request, const char *token, const char *headers,
                                   const char *body, int status)
{
    return wire_exchange(host,
                         text("%s HTTP/1.1\r\nHost: x\r\n%s%sContent-Length: %zu\r\n\r\n%s",
                              request, authorization(token), headers, strlen(body), body),
                         text("%d", status));
}

/* ---- the order ---- */

static const struct {
    const char *request, *headers;
    size_t length;
    int status; /* with a valid token */
} refused[] = {
    {"PUT " FIND, "", 0, 405},
    {"GET /api/chat/conversations/7/messages", "", 0, 405},
    {"DELETE /api/device", "", 0, 405},
    {"TRACE /api/auth/me", "", 0, 405},
    {"QUERY /api/auth/me", "", 0, 405},
    {"POST " FIND, "Content-Type: text/xml\r\n", 4, 415},
    {"POST " FIND, JSON "Content-Encoding: gzip\r\n", 4, 415},
    {"POST " FIND, JSON, 3000000, 413},
    {"POST " FIND, JSON, 4, 400},
};

TEST_EACH(an_anonymous_request_is_401_before_any_other_check, COUNT(refused))
{
    const char *request = refused[_i].request, *body = text_repeated("0", refused[_i].length);
    const char *const strangers[] = {NULL, STRANGE};

    for (size_t i = 0; i < COUNT(strangers); i++)
        ck_assert_ptr_null(
            wire_header(send_it(request, strangers[i], refused[_i].headers, body, 401), "Allow"));
    send_it(request, user->token, refused[_i].headers, body, refused[_i].status);
}

static const struct {
    const char *request, *allow;
    bool token;
} methods[] = {
    {"PUT " FIND, "POST", true},
    {"GET /api/chat/conversations/7/messages", "POST", true},
    {"POST /api/chat/conversations/7/read", "PATCH", true},
    {"DELETE /api/auth/login", "POST", false},
    {"PUT /api/health", "GET, HEAD", false},
    {"TRACE /api/health", "GET, HEAD", false},
    {"CONNECT /api/health", "GET, HEAD", false},
    {"PUT /metrics", "GET, HEAD", false}, /* open to this address */
};

TEST_EACH(an_unknown_method_is_405_with_the_allowed_methods, COUNT(methods))
{
    struct wire_answer *answer =
        send_it(methods[_i].request, methods[_i].token ? user->token : STRANGE, "", "", 405);

    ck_assert_str_eq(wire_header(answer, "Allow"), methods[_i].allow);
}

TEST(a_wrong_role_is_refused_before_the_body_type_is_checked)
{
    struct person *buyer = person_with_role(host, admin, "admission-buyer", "Buyer");

    send_it("POST /api/device", buyer->token, "Content-Type: text/xml\r\n", "<x/>", 403);
    send_it("GET /api/nothing", NULL, "", "", 404);
    send_it("POST /api/auth/login", NULL, "Content-Type: text/xml\r\n", "<x/>", 415);
    send_it("OPTIONS " FIND, NULL, "", "", 204);
    send_it("OPTIONS /api/nope", NULL, "", "", 404);
    ck_assert_str_eq(wire_header(send_it("OPTIONS /api/auth/login", NULL, "", "", 204), "Allow"),
                     "POST");
}

/* ---- types of bodies ---- */

static const struct {
    const char *headers;
    int status, anonymous; /* statuses of {} with a token, and of a login without one */
} types[] = {
    {JSON, 200, 400},
    {"Content-Type: APPLICATION/JSON\r\n", 200, 400},
    {"Content-Type: application/json; charset=utf8\r\n", 200, 400},
    {"Content-Type: application/json ; charset=utf-8\r\n", 200, 400},
    {"Content-Type: application/json; charset=\"utf-8\"\r\n", 200, 400},
    {"Content-Type: application/json;charset='utf-8'\r\n", 200, 415},
    {"Content-Type: application/json; charset=utf-16\r\n", 200, 415},
    {"Content-Type: application/json; charset=iso-8859-1\r\n", 200, 415},
    {"Content-Type: application/json; charset=utf-8; odata=verbose\r\n", 200, 415},
    {"Content-Type: application/vnd.api+json\r\n", 200, 415},
    {"Content-Type: application/merge-patch+JSON; charset=utf-8\r\n", 200, 415},
    {"Content-Type: text/plain\r\n", 200, 415},
    {"Content-Type: text/plain;charset=UTF-8\r\n", 200, 415},
    {"Content-Type:\r\n", 200, 415},
    {"", 200, 415},
    {JSON "Content-Encoding: identity\r\n", 200, 400},
    {JSON "Content-Encoding: Identity \r\n", 200, 400},
    {JSON "Content-Encoding: gzip\r\n", 415, 415},
    {JSON "Content-Encoding: br\r\n", 415, 415},
    {"Content-Type: application/jsonp\r\n", 415, 415},
    {"Content-Type: application/+json\r\n", 415, 415},
    {"Content-Type: image/svg+json\r\n", 415, 415},
    {"Content-Type: text/json\r\n", 415, 415},
    {"Content-Type: text/plainly\r\n", 415, 415},
    {"Content-Type: multipart/form-data; boundary=x\r\n", 415, 415},
    {"Content-Type: application/x-www-form-urlencoded\r\n", 415, 415},
};

TEST_EACH(a_body_type_is_checked_less_strictly_with_a_token, COUNT(types))
{
    send_it("POST " FIND, user->token, types[_i].headers, "{}", types[_i].status);
    send_it("POST /api/auth/login", user->token, types[_i].headers, "{}", types[_i].anonymous);
}

TEST(a_body_of_another_type_is_read_as_json)
{
    ck_assert_ptr_nonnull(
        strstr(send_it("POST " FIND, user->token, "", "{", 400)->body, "Malformed JSON in line "));
    struct wire_answer *made =
        send_it("POST /api/device", user->token, "Content-Type: text/plain\r\n",
                "{\"externalId\":\"Plain\"}", 201);

    ck_assert_ptr_nonnull(strstr(made->body, "\"externalId\":\"Plain\""));
}

/* A chunked body may turn out to be empty. */
TEST(the_type_of_an_empty_body_is_not_checked)
{
    const char *head = text("POST " FIND " HTTP/1.1\r\nHost: x\r\n%sContent-Type: text/xml\r\n"
                            "Transfer-Encoding: chunked\r\n\r\n",
                            authorization(user->token));

    wire_exchange(host, text("%s0\r\n\r\n", head), "200");
    wire_exchange(host, text("%s4\r\n<x/>\r\n0\r\n\r\n", head), "415");
}

/* ---- slow bodies ---- */

/* Sends a POST except for the last byte of its body. */
static struct wire *begin(const struct person *who, const char *type, const char *body,
                          size_t length)
{
    struct wire *wire = wire_open(host);

    wire_say(wire,
             "POST " DEVICE " HTTP/1.1\r\nHost: x\r\n%sContent-Type: %s\r\n"
             "Content-Length: %zu\r\n\r\n",
             authorization(who->token), type, length);
    ck_assert(wire_send(wire, body, length - 1));
    return wire;
}

/* Sends the last byte after the time. */
static struct wire_answer *finish(struct wire *wire, const char *last)
{
    int64_t since = now_ms();

    WAIT_UNTIL(now_ms() - since > LATE_MS, 5000);
    wire_say(wire, "%s", last);
    return wire_read(wire, 10000);
}

static void log_out(struct person *person)
{
    ck_status(http(host, "POST", "/api/auth/logout", person->token, NULL), 200);
}

static void take_role(struct person *person)
{
    ck_status(person_change(host, admin, person, "role", "Buyer"), 200);
}

static void suspend(struct person *person)
{
    ck_status(person_change(host, admin, person, "status", "Suspended"), 200);
}

static const struct {
    void (*change)(struct person *person);
    int status;
} changes[] = {{log_out, 401}, {take_role, 403}, {suspend, 403}};

TEST_EACH(token_and_role_are_checked_again_after_a_slow_body, COUNT(changes) * 2)
{
    struct person *gone = person_make(host, admin, text("admission%d", _i), NULL);
    const char *json = "{\"externalId\":\"Late\"}";
    struct upload_body upload = files_named("Late");

    upload_file(&upload, "SF_02C", "x", upload_noise(5, MIB), MIB);
    upload_close(&upload);
    struct wire *wire = _i % 2 ? begin(gone, UPLOAD_TYPE, upload.bytes, upload.length)
                               : begin(gone, "application/json", json, strlen(json));

    free(upload.bytes);
    changes[_i / 2].change(gone);
    ck_wire_error(finish(wire, _i % 2 ? "\n" : "}"), changes[_i / 2].status);
    sql_is(db, 0, "SELECT count(*) FROM device WHERE external_id = 'Late'");
    ck_assert(store_settles(store));
    ck_assert_int_eq(files_now(store), 0);
}

TEST(a_slow_body_is_accepted_if_the_rights_are_unchanged)
{
    const char *body = "{\"externalId\":\"In time\"}";

    ck_assert_int_eq(finish(begin(user, "application/json", body, strlen(body)), "}")->status, 201);
}

STAGE_SUITE(access_order, set_up, 60)
