/*
 * Requests whose framing a proxy in front of the host could interpret differently, and heads and
 * bodies at their limits, sent as raw bytes.
 * This suite has one request of each kind; the unit tests head and reader have all.
 */
#include "people.h"
#include "wire.h"

#define GET_HEALTH "GET /api/health HTTP/1.1\r\nHost: x\r\n"
#define POST_LOGIN "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
#define CHUNKED POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n"
#define GET(target) "GET " target " HTTP/1.1\r\nHost: x\r\n\r\n"

enum { PIPELINED = 1000, BODY_MAX = 32768 };

static struct host *host;

static void set_up(void)
{
    host = host_start(&(struct host_spec){.name = "framing"});
}

static const struct {
    const char *sent, *answers; /* see wire_exchange() */
} exchanges[] = {
    /* The length of a body that can be read in two ways */
    {POST_LOGIN "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 end"},
    {POST_LOGIN "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501 end"},
    {POST_LOGIN "Content-Length : 5\r\n\r\nhello", "400 end"},
    {POST_LOGIN "X-A: 1\r\n Content-Length: 5\r\n\r\nhello", "400 end"},
    {POST_LOGIN "Content-Length: 4294967296\r\n\r\n", "413 end"},
    /* Refused before ten gigabytes are sent */
    {POST_LOGIN "Expect: 100-continue\r\nContent-Length: 10737418240\r\n\r\n", "413 end"},
    /* chunks, extensions and trailers */
    {CHUNKED "ffffffffffffffffff\r\n{}\r\n0\r\n\r\n", "413 end"},
    {CHUNKED "2 \r\n{}\r\n0\r\n\r\n", "400 end"},
    {CHUNKED "2\r\n{}\r\n0\r\nA: 1\r\n b\r\n\r\n", "400 end"},
    {CHUNKED "2 ; a ;\tb = \"\\\"x; y\"\r\n{}\r\n0;c\r\n\r\n", "400 200"},
    {CHUNKED "1;a=\"b\"\r\n{\r\n1\r\n}\r\n0\r\nX-T: 1\r\n\r\n", "400 200"},
    {CHUNKED "00000000002\r\n{}\r\n0\r\n\r\n", "400 200"},
    /* heads */
    {"GET /api/health HTTP/2.0\r\nHost: x\r\n\r\n", "505 end"},
    {"GET /api/health HTTP/1.1\nHost: x\n\n", "400 end"},
    {"BREW /api/health HTTP/1.1\r\nHost: x\r\n\r\n", "501 end"},
    {"GET /api/health HTTP/1.1\r\nHost:\r\n\r\n", "200 200"},
    {GET_HEALTH "Expect: 100-continue\r\n\r\n", "200 200"},
    {GET_HEALTH "Connection: close\r\n\r\n", "200 end"},
    /* targets, also in the form that a client sends to a proxy */
    {GET("/api/health%00x"), "400 end"},
    {GET("//evil.example/api/health"), "400 200"},
    {GET("http://user@evil.example/api/health"), "400 end"},
    {GET("/api/%2e%2e/health"), "400 200"},
    {GET("/api/health%2f"), "404 200"},
    {GET("/api/health%252f"), "404 200"},
    {GET("/api/chat/unread-count/..%2f..%2fhealth"), "401 200"},
    {GET("/api/auth/me/"), "401 200"},
    {GET("https://[::1]/api/health/?a=b"), "200 200"},
    {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "204 200"},
    {"DELETE /api/health/ HTTP/1.1\r\nHost: x\r\n\r\n", "405 200"},
    /* Refusals of every kind, with and without a body, and the requests that follow */
    {GET("/api/nope") "POST /api/nope HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
                      "POST /api/chat/conversations/find HTTP/1.1\r\nHost: x\r\n"
                      "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
                      "PUT /api/health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "3\r\nabc\r\n0\r\n\r\n"
                      "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: text/xml\r\n"
                      "Content-Length: 4\r\n\r\n<x/>"
                      "GET /api/auth/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n",
     "404 404 401 405 415 401 200"},
};

/* A second request follows each; after "end" it must not get a response. */
TEST_EACH(requests_with_unusual_framing_get_these_statuses, COUNT(exchanges))
{
    struct wire_answer *last = wire_exchange(host, text("%s" GET_HEALTH "\r\n", exchanges[_i].sent),
                                             exchanges[_i].answers);

    ck_assert_ptr_null(strstr(last->headers, "libmicrohttpd"));
}

/* ---- limits ---- */

/* Much more than the kernel buffers is still being sent when the response is given. */
TEST(a_refused_head_is_answered_and_logged_whatever_follows)
{
    for (int i = 0; i < 8; i++) {
        struct wire_answer *answer = wire_exchange(
            host, text(GET_HEALTH "X: %s\r\n\r\n", text_repeated("a", 1000000)), "431 end");

        host_logs(host, 0, text("request=%s ", wire_header(answer, "X-Request-Id")));
    }
}

/* Lengths close to the sizes of the buffers of libmicrohttpd and the reader. */
TEST(a_request_after_a_body_of_any_length_is_served)
{
    static const size_t lengths[] = {1,    3990, 4000, 4001, 4090,  4095,     4096,
                                     4097, 8191, 8192, 8193, 16384, BODY_MAX, BODY_MAX + 1};

    for (size_t i = 0; i < COUNT(lengths); i++) {
        const char *body = text("{%*s", (int)lengths[i] - 1, "");

        wire_exchange(host,
                      text(POST_LOGIN "Content-Length: %zu\r\n\r\n%s" GET_HEALTH "\r\n" CHUNKED
                                      "%zx\r\n%s\r\n0\r\n\r\n" GET_HEALTH "\r\n",
                           lengths[i], body, lengths[i], body),
                      lengths[i] <= BODY_MAX ? "400 200 400 200" : "413 200 413 200");
    }
}

TEST(endless_chunk_extensions_and_trailers_are_refused)
{
    EACH_TEXT (part, "2;a=", "1\r\n{\r\n1;b=", "2\r\n{}\r\n0\r\nA: ", "")
        wire_exchange(host, text(CHUNKED "%s%s", part, text_repeated("0", 20000)), "400 end");
    /* each is small enough, but all together exceed the limit */
    wire_exchange(host, text(CHUNKED "%s", text_repeated(text("1;a=%0900d\r\n0\r\n", 0), 40)),
                  "400 end");
}

TEST(a_thousand_pipelined_requests_are_answered_in_order)
{
    struct wire *wire = wire_open(host);

    for (int i = 0; i < PIPELINED; i++)
        wire_say(wire, GET_HEALTH "X-Request-Id: number-%d\r\n\r\n", i);
    for (int i = 0; i < PIPELINED; i++) {
        struct wire_answer *answer = wire_read(wire, 10000);

        ck_assert_msg(answer && answer->status == 200, "no answer to number %d", i);
        ck_assert_str_eq(wire_header(answer, "X-Request-Id"), text("number-%d", i));
    }
}

/* The part of the target that a response repeats must fit into a head of libmicrohttpd. */
TEST(a_list_with_a_long_query_gets_a_response)
{
    const struct person *admin = admin_of(host);

    for (int length = 100; length < 15000; length += 700)
        wire_exchange(host,
                      text("GET /api/admin/users?limit=1&x=%0*d HTTP/1.1\r\nHost: x\r\n"
                           "Authorization: Bearer %s\r\n\r\n",
                           length, 0, admin->token),
                      "200");
}

/* ---- headers ---- */

TEST(unsupported_headers_are_ignored)
{
    EACH_TEXT (ignored, "X-HTTP-Method-Override: DELETE", "X-Original-URL: /api/admin/users",
               "X-Rewrite-URL: /api/admin/users", "X-Forwarded-Host: evil.example",
               "Forwarded: for=10.9.8.7;host=evil.example", "Range: bytes=0-3",
               "Range: bytes=9999999999999999999-", "Accept: */*;q=x", "Accept: text/nothing",
               "If-Match: junk, \"", "If-None-Match: *", "If-Modified-Since: never", "Upgrade: h2c",
               "Connection: Upgrade, HTTP2-Settings", "Accept-Encoding: gzip, br") {
        struct wire_answer *answer =
            wire_exchange(host, text(GET_HEALTH "%s\r\n\r\n", ignored), "200");

        ck_assert_str_eq(answer->body, "{\"status\":\"ok\"}");
        ck_assert_ptr_null(strstr(answer->headers, "evil"));
        ck_assert_str_eq(wire_header(answer, "Keep-Alive"), "timeout=75");
    }
}

TEST(an_unknown_host_header_is_not_reflected)
{
    static const char *const at[] = {"/api/auth/login", "/swagger", "/api/nope"};

    for (size_t i = 0; i < COUNT(at); i++) {
        struct wire_answer *answer =
            wire_ask(host, "GET %s HTTP/1.1\r\nHost: evil.example\r\n\r\n", at[i]);

        ck_assert(!strstr(answer->headers, "evil") && !strstr(answer->body, "evil"));
    }
}

SUITE(framing, .timeout_s = 30, .before_all = set_up)
