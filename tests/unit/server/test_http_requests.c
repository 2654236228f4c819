/*
 * Requests that do not arrive whole: byte by byte, several at once, or with a body that is not
 * wanted. The unit tests head and reader have malformed ones, the suite framing their responses.
 */
#include "http_client.h"
#include "http_routes.h"
#include "http_stage.h"
#include "suite.h"

#define JSON "Content-Type: application/json\r\n"

static struct client *client;

/* The connection still works, and there are no other responses. */
static void is_served(void)
{
    client_ask(client, GET("/named/next"), "{\"name\":\"next\"}");
    ck_assert_uint_eq(client_times(client, "HTTP/1.1 "), 1);
    ck_assert(!client->ended);
}

/* Fails the test unless this is the last response; later requests are ignored. */
static void ends_with(const char *status)
{
    client_expect(client, status);
    client_expect(client, "Connection: close");
    client_expect_end(client);
    ck_assert_uint_eq(client_times(client, "HTTP/1.1 "), 1);
    ck_assert(!client->reset);
}

static bool comes_before(const char *one, const char *other)
{
    const char *first = strstr(client_heard(client), one);

    return first && strstr(client_heard(client), other) > first;
}

TEST(a_request_may_arrive_byte_by_byte)
{
    client_spell(client, POST("/echo") JSON
                 "Transfer-Encoding: chunked\r\n\r\n"
                 "9;x=\"y\"\r\n{\"text\":\"\r\n7\r\nspelt\"}\r\n0\r\nX-Trailer: t\r\n\r\n");
    client_expect(client, "\"spelt\"");
    is_served();
}

TEST(requests_in_one_segment_are_answered_in_order)
{
    client_say(client, GET("/named/one") GET("/park") GET("/named/two") GET("/named/three"));
    http_routes_expect(&http_routes.parked, 1);
    client_expect(client, "one");
    ck_assert_uint_eq(http_routes.begun, 2);
    http_routes_go_on();
    client_expect(client, "three");
    ck_assert(comes_before("one", "parked") && comes_before("parked", "two"));
    ck_assert(comes_before("two", "three"));
    is_served();
}

/* The second request is still incomplete when the first one is answered. */
TEST(a_request_split_across_segments_is_answered_when_complete)
{
    client_say(client, "GET /named/one HTTP/1.1\r\nHost: h\r\n\r\nGET /named/two HT");
    client_expect(client, "one");
    client_expect_read(client);
    client_ask(client, "TP/1.1\r\nHost: h\r\n\r\n", "{\"name\":\"two\"}");
    ck_assert_uint_eq(client_times(client, "HTTP/1.1 "), 1);
}

TEST(a_request_that_arrives_while_a_handler_waits_is_answered_next)
{
    client_say(client, POST("/park") "Content-Length: 3\r\n\r\nabc");
    http_routes_expect(&http_routes.parked, 1);
    client_say(client, GET("/named/two"));
    http_routes_go_on();
    client_expect(client, "two");
    ck_assert(comes_before("parked", "two"));
}

TEST(a_response_to_head_has_no_body)
{
    client_say(client, "HEAD /named/one HTTP/1.1\r\nHost: h\r\n\r\n"
                       "HEAD /nothing HTTP/1.1\r\nHost: h\r\n\r\n" GET("/named/two"));
    client_expect(client, "{\"name\":\"two\"}");
    ck_assert_uint_eq(client_times(client, "HTTP/1.1 200"), 2);
    ck_assert_uint_eq(client_times(client, "HTTP/1.1 404"), 1);
    ck_assert_uint_eq(client_times(client, "Content-Length: 14\r\n"), 2);
    ck_assert_uint_eq(client_times(client, "{"), 1);
}

TEST(expect_100_continue_is_answered_only_if_the_body_is_wanted)
{
    client_ask(client, POST("/echo") JSON "Expect: 100-continue\r\nContent-Length: 14\r\n\r\n",
               "HTTP/1.1 100 Continue\r\n\r\n");
    client_ask(client, "{\"text\":\"yes\"}", "\"yes\"");
    client_forget(client);
    client_say(client, POST("/nothing") JSON "Expect: 100-continue\r\nContent-Length: 14\r\n\r\n");
    ends_with("HTTP/1.1 404");
}

/* The response is sent only after the body, because the client could not stop sending it. */
TEST(an_unwanted_body_is_discarded_and_the_connection_kept)
{
    client_say(client, POST("/nothing") "Content-Length: 60000\r\n\r\n");
    client_expect_stage(client, STAGE_BODY);
    client_say_many(client, 'x', 59999);
    client_expect_read(client);
    ck_assert_uint_eq(client_times(client, "HTTP"), 0);
    client_ask(client, "x", "\"statusCode\":404");
    is_served();
}

TEST_EACH(a_body_too_large_by_its_length_or_its_chunks_is_413, 2)
{
    client_say(client, POST("/echo") JSON "Content-Length: 4097\r\n\r\n");
    client_say_many(client, ' ', HTTP_STAGE_MAX_BODY + 1);
    client_expect(client, "\"statusCode\":413");
    client_forget(client);
    client_say(client, _i ? POST("/pass") "Transfer-Encoding: chunked\r\n\r\n"
                          : POST("/echo") JSON "Transfer-Encoding: chunked\r\n\r\n");
    client_say(client, "1000\r\n");
    client_say_many(client, ' ', HTTP_STAGE_MAX_BODY);
    client_say(client, "\r\n1\r\n \r\n0\r\n\r\n");
    client_expect(client, "\"statusCode\":413");
    ck_assert_uint_eq(http_routes.begun, 0);
    is_served();
}

TEST_EACH(the_connection_header_decides_if_the_connection_is_kept, 2)
{
    client_ask(client, "GET /named/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "\"a\"");
    ck_assert_uint_eq(client_times(client, "Keep-Alive: timeout=60"), 1);
    is_served();
    client_forget(client);
    client_say(client, _i ? "GET /named/b HTTP/1.0\r\n\r\n"
                          : "GET /named/b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    client_say(client, GET("/named/after"));
    ends_with("HTTP/1.1 200");
    ck_assert_uint_eq(http_routes.begun, 3);
}

TEST(a_body_waits_for_the_token_check)
{
    http_routes.token_parks = true;
    client_say(client,
               POST("/own") "Authorization: Bearer t\r\n" JSON
                            "Content-Length: 13\r\n\r\n{\"text\":\"my\"}" GET("/named/two"));
    http_routes_expect(&http_routes.parked, 1);
    ck_assert_uint_eq(http_routes.begun, 0);
    http_routes_go_on();
    client_expect(client, "two");
    ck_assert_ptr_nonnull(strstr(client_heard(client), "\"my\""));
    ck_assert_uint_eq(http_routes.asked, 1);
}

TEST_EACH(the_body_of_a_request_refused_by_its_token_is_discarded, 2)
{
    http_routes.token = 401;
    http_routes.token_parks = _i;
    client_say(client, POST("/own") "Authorization: Bearer t\r\n" JSON
                                    "Content-Length: 13\r\n\r\n{\"text\":");
    if (_i) {
        http_routes_expect(&http_routes.parked, 1);
        http_routes_go_on();
        http_routes_expect(&http_routes.ended, 1);
    }
    client_expect_read(client);
    client_ask(client, "\"my\"}", "\"statusCode\":401");
    ck_assert_uint_eq(http_routes.begun, 0);
    is_served();
}

CLIENT_SUITE(http_requests, NULL)
