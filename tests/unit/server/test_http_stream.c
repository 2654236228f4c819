/* Streams: events come in order, heartbeats, and the end, by the module or by the client. */
#include <check.h>
#include <string.h>

#include "http_client.h"
#include "http_routes.h"
#include "http_stage.h"
#include "suite.h"

#define STREAM "GET /stream/news HTTP/1.1\r\nHost: h\r\n\r\n"
#define WHOLE "GET /whole/news HTTP/1.1\r\nHost: h\r\n\r\n"

static struct client *client;

static void set_up(void)
{
    http_stage_set_up();
    http_stage_open(NULL, NULL);
    client = client_new();
}

TEST(what_is_sent_comes_in_order_and_then_the_end)
{
    struct bb_stream *stream = http_routes_open(client, STREAM);

    http_routes_send(stream, "one\n");
    http_routes_send(stream, "two\n");
    client_expect(client, "two\n");
    ck_assert_uint_eq(client_times(client, "Content-Type: text/event-stream"), 1);
    ck_assert_ptr_nonnull(strstr(client_heard(client), "one\ntwo\n"));
    ck_assert_int_eq(http_routes_send(stream, ""), 0);
    http_routes_send(stream, "three\n");
    client_expect(client, "three\n");
    api_stream_end(stream);
    ck_assert_int_eq(http_routes_send(stream, "four\n"), -1);
    client_expect_end(client);
    ck_assert(http_routes_is_whole(client));
    ck_assert_ptr_nonnull(strstr(client_heard(client), GOODBYE));
    ck_assert_uint_eq(client_times(client, "four"), 0);
    http_routes_expect_closed(1);
}

TEST(a_stream_that_is_cut_does_not_look_whole)
{
    struct bb_stream *stream = http_routes_open(client, STREAM);

    http_routes_send(stream, "one\n");
    client_expect(client, "one\n");
    http_routes_send(stream, "two\n");
    api_stream_cut(stream);
    client_expect_end(client);
    ck_assert(!http_routes_is_whole(client));
    ck_assert_uint_eq(client_times(client, "two"), 0);
    http_routes_expect_closed(1);
}

TEST_EACH(a_stream_ends_when_its_client_leaves, 3)
{
    static void (*const ways[])(struct client *) = {client_leave, client_reset, client_shut};

    http_routes_send(http_routes_open(client, STREAM), "one\n");
    client_expect(client, "one\n");
    client_expect_stage(client, STAGE_HANDLER);
    ways[_i](client);
    http_stage_expect_connections(0);
    ck_assert_uint_eq(http_routes.closed, 1);
}

/* One event reports both the request and the end of the client's side, before the stream exists. */
TEST(a_stream_ends_whose_client_has_left_before_it_began)
{
    client_expect_stage(client, STAGE_HEADER);
    client_say(client, STREAM);
    client_leave(client);
    http_stage_expect_connections(0);
    ck_assert_uint_eq(http_routes.closed, http_routes.opened);
}

TEST(an_answer_that_is_to_be_whole_goes_to_who_has_only_ended_its_side)
{
    struct bb_stream *stream = http_routes_open(client, WHOLE);

    client_shut(client);
    client_ask(client_new(), "GET /named/a HTTP/1.1\r\nHost: h\r\n\r\n", "\"a\"");
    ck_assert_int_eq(http_routes_send(stream, "one\n"), 0);
    client_expect(client, "one\n");
    api_stream_end(stream);
    client_expect_end(client);
    ck_assert(http_routes_is_whole(client));
}

TEST(a_silent_stream_has_heartbeats)
{
    http_routes.heartbeat_ms = 1;
    struct bb_stream *stream = http_routes_open(client, STREAM);

    http_stage_look_at_streams();
    client_expect(client, HEARTBEAT);
    http_routes_send(stream, "one\n");
    client_expect(client, "one\n");
    http_routes.heartbeat_ms = HTTP_STAGE_SECONDS * 1000;
    struct client *other = client_new();

    http_routes_send(http_routes_open(other, STREAM), "one\n");
    client_forget(client);
    http_stage_look_at_streams();
    client_expect(client, HEARTBEAT);
    client_expect(other, "one\n");
    ck_assert_uint_eq(client_times(other, HEARTBEAT), 0);
}

TEST(the_headers_of_a_stream_open_none_that_stays)
{
    client_say(client, "HEAD /stream/news HTTP/1.1\r\nHost: h\r\n\r\n");
    client_expect(client, "text/event-stream");
    client_expect_end(client);
    http_routes_expect_closed(1);
    ck_assert_uint_eq(client_times(client, "\r\n\r\n0"), 0);
}

SUITE(http_stream, .before_each = set_up, .after_each = http_stage_tear_down,
      .timeout_s = HTTP_STAGE_SECONDS)
