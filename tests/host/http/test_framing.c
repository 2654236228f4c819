/*
 * Requests whose framing a proxy in front of the host could interpret differently, sent as raw
 * bytes: threats H01 to H04, H06, H11, H12; pitfalls 1 to 9 of libmicrohttpd.
 */
#include <string.h>
#include <sys/socket.h>

#include "people.h"
#include "suite.h"
#include "suites.h"
#include "wire.h"

#define GET_HEALTH "GET /api/health HTTP/1.1\r\nHost: x\r\n"
#define POST_LOGIN "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static struct host *host;

static void set_up(void)
{
    host = host_start(
        &(struct host_spec){.name = "framing", .database = database_make(the_postgres, "framing")});
}

static void tear_down(void)
{
    host_stop(host);
}

/* Sends the request and a second one that must not be reached: there must be one error, then the
 * end. */
static void expect_end(const char *request)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, "%s" GET_HEALTH "\r\n", request);
    struct wire_answer *answer = wire_read(wire, 5000);

    ck_assert_msg(answer != NULL, "no answer to %s", request);
    ck_assert_msg(answer->status == 400 || answer->status == 501, "status %d to %s", answer->status,
                  request);
    ck_wire_error(answer, answer->status);
    ck_assert_msg(wire_header(answer, "Connection") != NULL, "no Connection: close to %s", request);
    ck_assert_str_eq(wire_header(answer, "Connection"), "close");
    ck_assert_msg(!wire_read(wire, 5000), "a second answer to %s", request);
    ck_assert_msg(wire->ended, "the connection stays open after %s", request);
    wire_close(wire, false);
}

/* H01; pitfalls 1, 2, 3 */
static const char *const smuggled[] = {
    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "Content-Length: 2\r\ncontent-length: 40\r\n\r\n{}",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: identity\r\n\r\n",
    "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding:\r\n\r\n0\r\n\r\n",
};

TEST_EACH(a_second_reading_of_the_body_length_is_refused_and_ends_the_connection, COUNT(smuggled))
{
    expect_end(text(POST_LOGIN "%s", smuggled[_i]));
}

/* H01; pitfalls 4, 5 */
static const char *const bent_names[] = {
    "Content-Length : 5\r\n\r\n",
    "Transfer-Encoding : chunked\r\n\r\n",
    "Content-Length\t: 5\r\n\r\n",
    "X A: 1\r\n\r\n",
    "X(A): 1\r\n\r\n",
    "Content-Length: 5\r\n 0\r\n\r\nhello",
    "Transfer-Encoding: chunked\r\n ,x\r\n\r\n0\r\n\r\n",
    "X-A: 1\r\n Content-Length: 5\r\n\r\nhello",
    "X-A: 1\r\n\tAuthorization: Bearer x\r\n\r\n",
    "X-A: 1\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Authorization: Bearer a\r\n b\r\n\r\n",
    "Idempotency-Key: a\r\n\tb\r\n\r\n",
};

TEST_EACH(a_header_that_is_bent_or_folded_is_refused_and_ends_the_connection, COUNT(bent_names))
{
    expect_end(text(POST_LOGIN "%s", bent_names[_i]));
}

/* Pitfall 7 */
static const char *const bad_heads[] = {
    "GET /api/health HTTP/1.1\r\n\r\n",
    "GET http://x/api/health HTTP/1.1\r\nHost:\r\n\r\n",
    "GET /api/health HTTP/1.1\r\nHost: :80\r\n\r\n",
    "GET /api/health HTTP/1.1\r\nHost:\r\nHost: b\r\n\r\n",
    "GET /api/health HTTP/1.1\r\nHost:\r\n x\r\n\r\n",
    "GET /api/health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "GET /api/health HTTP/1.1\r\n X: 1\r\nHost: x\r\n\r\n",
    "GET /api/health HTTP/1.1\r\nHost: x\r\n y\r\n\r\n",
    "GET http://user@evil.example/api/health HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET ftp://evil.example/api/health HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET //evil.example/api/health HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET api/health HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET * HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /api/health HTTP/1.1\r\nHost: x/y\r\n\r\n",
    "GET /api/health HTTP/1.1\r\nHost: user@x\r\n\r\n",
    "GET /api/health HTTP/1.1\r\nHost: x, y\r\n\r\n",
    "GET /api/health HTTP/1.1\r\nHost: x:99999\r\n\r\n",
    "GET /api/health HTTP/1.1\nHost: x\n\n",
    "GET /api/health HTTP/1.1\r\nHost: x\n\r\n",
    "GET /api/health HTTP/1.1\r\nHost: x\r\nX: a\rb: c\r\n\r\n",
    "GET /api/health HTTP/1.1\rHost: x\r\r",
    "GET /api/health HTTP/1.1\r\nHost: x\r\nAuthorization: B a\r\nAuthorization: B b\r\n\r\n",
    "GET /api/health HTTP/1.1\r\nHost: x\r\nX-A: a\001b\r\n\r\n",
    "GET /api/health HTTP/1.1\r\nHost: x\r\nX-A: \x1b[31m\r\n\r\n",
    "CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "BREW /api/health HTTP/1.1\r\nHost: x\r\n\r\n",
    "get /api/health HTTP/1.1\r\nHost: x\r\n\r\n",
};

TEST_EACH(a_bad_head_of_a_request_is_refused, COUNT(bad_heads))
{
    struct wire_answer *answer = wire_ask(host, "%s", bad_heads[_i]);

    ck_assert_msg(answer->status == 400 || answer->status == 501, "status %d to %s", answer->status,
                  bad_heads[_i]);
    ck_wire_error(answer, answer->status);
}

TEST(a_request_that_names_no_host_is_answered)
{
    ck_assert_int_eq(wire_ask(host, "GET /api/health HTTP/1.1\r\nHost:\r\n\r\n")->status, 200);
    ck_assert_int_eq(wire_ask(host, "OPTIONS * HTTP/1.1\r\nHost: \r\n\r\n")->status,
                     wire_ask(host, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")->status);
}

/* Pitfalls 8 and 9 */
static const struct {
    const char *request;
    int status;
} malformed[] = {
    {POST_LOGIN "Content-Length: abc\r\n\r\n", 400},
    {POST_LOGIN "Content-Length: -1\r\n\r\n", 400},
    {POST_LOGIN "Content-Length: +5\r\n\r\nhello", 400},
    {POST_LOGIN "Content-Length: 5,5\r\n\r\nhello", 400},
    {POST_LOGIN "Content-Length: 0x5\r\n\r\nhello", 400},
    {POST_LOGIN "Content-Length: 5 5\r\n\r\nhello", 400},
    {POST_LOGIN "Content-Length:\r\n\r\n", 400},
    {POST_LOGIN "Content-Length: 99999999999999999999\r\n\r\n", 413},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n", 400},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}\r\n0\r\n\r\n", 413},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n", 400},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\n0\r\n\r\n", 400},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n2\r\n{}}\r\n0\r\n\r\n", 400},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n2 \r\n{}\r\n0\r\n\r\n", 400},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n2;\r\n{}\r\n0\r\n\r\n", 400},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n2;a=\"b\r\n{}\r\n0\r\n\r\n", 400},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n2;a=b c\r\n{}\r\n0\r\n\r\n", 400},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n", 400},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n: x\r\n\r\n", 400},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nA: 1\r\n b\r\n\r\n", 400},
    {"GET /api/health HTTP/2.0\r\nHost: x\r\n\r\n", 505},
    {GET_HEALTH ":\r\n" GET_HEALTH "\r\n", 400},
    {GET_HEALTH ": a\r\n" GET_HEALTH "\r\n", 400},
    {"GET /api/health HTTP/1.1\r\n:\r\nHost: x\r\n\r\n", 400},
    {"GET /api/health\r\n\r\n", 400},
};

TEST_EACH(what_is_malformed_ends_the_connection_and_reaches_nothing, COUNT(malformed))
{
    struct wire *wire = wire_open(host);

    wire_say(wire, "%s" GET_HEALTH "\r\n", malformed[_i].request);
    struct wire_answer *answer = ck_wire_error(wire_read(wire, 5000), malformed[_i].status);

    ck_assert_str_eq(wire_header(answer, "Connection"), "close");
    ck_assert(wire_closes(wire, 5000));
    ck_assert_msg(!strstr(answer->headers, "libmicrohttpd") && !strstr(answer->body, "/api/"), "%s",
                  answer->body);
    wire_close(wire, false);
}

TEST(extensions_and_trailers_of_chunks_do_not_lose_the_next_request)
{
    static const char *const bodies[] = {
        "2;a=b\r\n{}\r\n0\r\n\r\n", "2 ; a ;\tb = \"\\\"x; y\"\r\n{}\r\n0;c\r\n\r\n",
        "1\r\n{\r\n1\r\n}\r\n0\r\nX-T: 1\r\n\r\n", "00000000002\r\n{}\r\n0\r\n\r\n"};
    struct wire *wire = wire_open(host);

    for (size_t i = 0; i < COUNT(bodies); i++) {
        wire_say(wire, POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n%s" GET_HEALTH "\r\n",
                 bodies[i]);
        ck_wire_error(wire_read(wire, 5000), 400);
        struct wire_answer *next = wire_read(wire, 5000);

        ck_assert_ptr_nonnull(next);
        ck_assert_int_eq(next->status, 200);
    }
    wire_close(wire, false);
}

/* H02; pitfall 6: a path is decoded once, after routing. */
static const struct {
    const char *path;
    int status;
} paths[] = {
    {"/api/health%00x", 400},
    {"/api/health%00", 400},
    {"/api//health", 400},
    {"/api/./health", 400},
    {"/api/chat/../health", 400},
    {"/api/%2e%2e/health", 400},
    {"/api/%2E/health", 400},
    {"/api/health%2f", 404},
    {"/api%2fhealth", 404},
    {"/api/health;x", 404},
    {"/api/health//", 400},
    {"/api/nope/", 404},
    {"/api/auth/me/", 401},
    {"/api/Health", 404},
    {"/api/healt%68", 404},
    {"/api/health%zz", 400},
    {"/api/health%2", 400},
    {"/api/health%", 400},
    {"/api/health%0a", 400},
    {"/api/health%1b", 400},
    {"/api/health\\x", 400},
    {"/api/health\xc3\xa9", 400},
    {"/api/health\x7f", 400},
    {"/api/health\x01", 400},
    {"/api/health%252f", 404},
    {"/", 404},
    {"/api/health?x=%00", 400},
    {"/api/health?x=\xff", 400},
    {"/api/health#x", 400},
    {"/api/chat/unread-count/a%2fb@x.example", 401},
    {"/api/chat/unread-count/..%2f..%2fhealth", 401},
};

TEST_EACH(a_path_leads_to_its_own_route_or_to_none, COUNT(paths))
{
    ck_wire_error(wire_ask(host, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", paths[_i].path),
                  paths[_i].status);
}

/* Pitfall 6 */
TEST(a_raw_nul_is_refused)
{
    static const char in_path[] = "GET /api/chat/unread-count/x\0/../../health HTTP/1.1\r\n"
                                  "Host: x\r\n\r\n";
    static const char in_value[] = GET_HEALTH "X-A: a\0b\r\n\r\n";
    struct wire *wire = wire_open(host);

    wire_send(wire, in_path, sizeof in_path - 1);
    ck_wire_error(wire_read(wire, 5000), 400);
    ck_assert(wire_closes(wire, 5000));
    wire_close(wire, false);
    wire = wire_open(host);
    wire_send(wire, in_value, sizeof in_value - 1);
    ck_wire_error(wire_read(wire, 5000), 400);
    ck_assert(wire_closes(wire, 5000));
    wire_close(wire, false);
}

/* H03 */
static const struct {
    const char *method, *path, *allow;
} methods[] = {
    {"PUT", "/api/health", "GET, HEAD"},
    {"DELETE", "/api/auth/login", "POST"},
    {"TRACE", "/api/health", "GET, HEAD"},
    {"CONNECT", "/api/health", "GET, HEAD"},
    {"GET", "/api/chat/conversations/7/messages", "POST"},
    {"POST", "/api/chat/conversations/7/read", "PATCH"},
    {"HEAD", "/api/auth/login", "POST"},
};

TEST_EACH(another_method_answers_405_with_the_right_ones, COUNT(methods))
{
    struct wire *wire = wire_open(host);
    bool head = !strcmp(methods[_i].method, "HEAD");

    wire_say(wire, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
             methods[_i].method, methods[_i].path, admin_of(host)->token);
    struct wire_answer *answer = head ? wire_read_head(wire, 5000) : wire_read(wire, 5000);

    ck_assert_ptr_nonnull(answer);
    ck_assert_int_eq(answer->status, 405);
    if (!head)
        ck_wire_error(answer, 405);
    ck_assert_str_eq(wire_header(answer, "Allow"), methods[_i].allow);
    wire_close(wire, false);
}

static bool is_logged(void *words)
{
    return strstr(file_text(host->log), words) != NULL;
}

/* H04 */
TEST(a_head_that_is_too_large_is_refused)
{
    char *many = text("%s", "");
    char *a = text("%033000d", 0);

    for (int i = 0; i < 256; i++)
        many = text("%sa%d: b\r\n", many, i);
    struct wire_answer *answer = ck_wire_error(wire_ask(host, GET_HEALTH "A: %s\r\n\r\n", a), 431);
    const char *id = wire_header(answer, "X-Request-Id");

    ck_assert(wait_until(is_logged, (void *)(uintptr_t)text("request=%s ", id), 5000));
    ck_wire_error(wire_ask(host, GET_HEALTH "%s\r\n", many), 431);
    ck_wire_error(wire_ask(host, "GET /api/%016400d HTTP/1.1\r\nHost: x\r\n\r\n", 0), 414);
    ck_wire_error(wire_ask(host, "GET /api/%016000d HTTP/1.1\r\nHost: x\r\n\r\n", 0), 404);
    ck_assert_int_eq(wire_ask(host, GET_HEALTH "Authorization: Bearer %016000d\r\n\r\n", 0)->status,
                     200);
}

/* H06, H11, H12 */
static const char *const ignored[] = {
    "X-HTTP-Method-Override: DELETE",
    "X-Original-URL: /api/admin/users",
    "X-Rewrite-URL: /api/admin/users",
    "X-Forwarded-Host: evil.example",
    "X-Forwarded-For: 10.9.8.7",
    "Forwarded: for=10.9.8.7;host=evil.example",
    "Range: bytes=0-3",
    "Range: bytes=9999999999999999999-",
    "Accept: */*;q=x",
    "Accept: text/nothing",
    "If-Match: junk, \"",
    "If-None-Match: *",
    "If-Modified-Since: never",
    "Upgrade: h2c",
    "Connection: Upgrade, HTTP2-Settings",
    "Accept-Encoding: gzip, br",
};

TEST_EACH(headers_that_mean_nothing_here_are_ignored, COUNT(ignored))
{
    struct wire_answer *answer = wire_ask(host, GET_HEALTH "%s\r\n\r\n", ignored[_i]);

    ck_assert_int_eq(answer->status, 200);
    ck_assert_str_eq(answer->body, "{\"status\":\"ok\"}");
    ck_assert_ptr_null(strstr(answer->headers, "evil"));
}

TEST(a_strange_host_is_not_reflected)
{
    static const char *const at[] = {"/api/auth/login", "/swagger", "/api/nope"};

    for (size_t i = 0; i < COUNT(at); i++) {
        struct wire_answer *answer =
            wire_ask(host, "GET %s HTTP/1.1\r\nHost: evil.example\r\n\r\n", at[i]);

        ck_assert_ptr_null(strstr(answer->headers, "evil"));
        ck_assert_ptr_null(strstr(answer->body, "evil"));
    }
}

TEST(blanks_behind_a_value_are_none_of_it)
{
    const struct person *admin = admin_of(host);
    struct wire *wire = wire_open(host);

    wire_say(wire, "GET /api/auth/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s \t \r\n\r\n",
             admin->token);
    struct wire_answer *answer = wire_read(wire, 5000);

    ck_assert_ptr_nonnull(answer);
    ck_assert_int_eq(answer->status, 200);
    wire_close(wire, false);
}

/* Requests of a client that is configured to use a proxy, and requests that proxies and browsers
 * send first. */
TEST(an_absolute_target_a_slash_at_the_end_and_an_asterisk_are_taken)
{
    static const char *const same[] = {
        "GET http://x/api/health HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET HTTP://x.example:8080/api/health?a=b HTTP/1.1\r\nHost: y\r\n\r\n",
        "GET https://[::1]/api/health/ HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
        "GET /api/health/ HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /api/health/?a=b HTTP/1.1\r\nHost: x\r\n\r\n"};

    for (size_t i = 0; i < COUNT(same); i++) {
        struct wire_answer *answer = wire_ask(host, "%s", same[i]);

        ck_assert_int_eq(answer->status, 200);
        ck_assert_str_eq(answer->body, "{\"status\":\"ok\"}");
    }
    struct wire_answer *answer = wire_ask(host, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n");

    ck_assert_int_eq(answer->status, 204);
    ck_assert_ptr_nonnull(wire_header(answer, "Allow"));
    ck_wire_error(wire_ask(host, "GET http://x HTTP/1.1\r\nHost: x\r\n\r\n"), 404);
    ck_wire_error(wire_ask(host, "DELETE /api/health/ HTTP/1.1\r\nHost: x\r\n\r\n"), 405);
}

/* Bodies that do not end while the client waits for the response, and bodies that end too early. */
static const struct {
    const char *request;
    size_t more; /* bytes after it, in chunks */
    bool ends;
    int status;
} unfinished[] = {
    {"POST /api/nope HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 3000, false, 404},
    {"PATCH /api/health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 0, false, 405},
    {"POST /api/auth/logout HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 3000, false,
     401},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n", 3 * 1024 * 1024, false, 413},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n", 3000, true, 400},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n", 0, true, 400},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n1000\r\n{", 0, true, 400},
    {POST_LOGIN "Content-Length: 100\r\n\r\n{", 0, true, 400},
    {POST_LOGIN "Content-Length: 100\r\n\r\n", 0, true, 400},
    {POST_LOGIN "Content-Length: 30000\r\n\r\n{", 0, true, 400},
};

TEST_EACH(a_body_that_does_not_end_is_answered, COUNT(unfinished))
{
    struct wire *wire = wire_open(host);
    bool taken = wire_say(wire, "%s", unfinished[_i].request);

    for (size_t sent = 0; taken && sent < unfinished[_i].more; sent += 1500)
        taken = wire_say(wire, "5DC\r\n%*s\r\n", 1500, "");
    if (unfinished[_i].ends)
        ck_assert_int_eq(shutdown(wire->fd, SHUT_WR), 0);
    struct wire_answer *answer = ck_wire_error(wire_read(wire, 5000), unfinished[_i].status);

    ck_assert_str_eq(wire_header(answer, "Connection"), "close");
    ck_assert(wire_closes(wire, 5000));
    ck_assert(wire_is_served(host));
    wire_close(wire, false);
}

SUITE(framing, .timeout_s = 30, .before_all = set_up, .after_all = tear_down)
