/*
 * Streams: order, heartbeats, topics, and their end by the module, by the client, or by the host: a
 * stop, a reload, a token, or a limit.
 */
#include "core/module/request.h"
#include "http_client.h"
#include "http_routes.h"
#include "http_stage.h"
#include "suite.h"

#define WATCHED "GET /watched HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\n\r\n"

enum { SIZE = 4000, PIECES_MAX = 10000, STOP_MS = 1000 };

static struct client *client;

TEST(a_stream_sends_its_bytes_in_order_and_ends)
{
    struct bb_stream *stream = http_routes_open(client, GET("/stream/news"));

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
    http_routes_expect(&http_routes.closed, 1);
}

TEST(a_stream_that_is_cut_does_not_look_complete)
{
    struct bb_stream *stream = http_routes_open(client, GET("/stream/news"));

    http_routes_send(stream, "one\n");
    client_expect(client, "one\n");
    http_routes_send(stream, "two\n");
    api_stream_cut(stream);
    client_expect_end(client);
    ck_assert(!http_routes_is_whole(client));
    ck_assert_uint_eq(client_times(client, "two"), 0);
    http_routes_expect(&http_routes.closed, 1);
}

TEST_EACH(a_stream_ends_when_its_client_disconnects, 3)
{
    static void (*const ways[])(struct client *) = {client_leave, client_reset, client_shut};

    http_routes_send(http_routes_open(client, GET("/stream/news")), "one\n");
    client_expect(client, "one\n");
    client_expect_stage(client, STAGE_HANDLER);
    ways[_i](client);
    http_stage_expect_connections(0);
    ck_assert_uint_eq(http_routes.closed, 1);
}

/* Before the stream exists, one event reports both the request and the client's disconnection. */
TEST(a_stream_whose_client_disconnected_before_it_began_ends)
{
    client_expect_stage(client, STAGE_HEADER);
    client_say(client, GET("/stream/news"));
    client_leave(client);
    http_stage_expect_connections(0);
    ck_assert_uint_eq(http_routes.closed, http_routes.opened);
}

TEST(a_whole_stream_is_sent_to_a_half_closed_client)
{
    struct bb_stream *stream = http_routes_open(client, GET("/whole/news"));

    client_shut(client);
    client_ask(client_new(), GET("/named/a"), "\"a\"");
    ck_assert_int_eq(http_routes_send(stream, "one\n"), 0);
    client_expect(client, "one\n");
    api_stream_end(stream);
    client_expect_end(client);
    ck_assert(http_routes_is_whole(client));
}

TEST(a_silent_stream_sends_heartbeats)
{
    http_routes.heartbeat_ms = 1;
    struct bb_stream *stream = http_routes_open(client, GET("/stream/news"));

    http_stage_look_at_streams();
    client_expect(client, HEARTBEAT);
    http_routes_send(stream, "one\n");
    client_expect(client, "one\n");
    http_routes.heartbeat_ms = HTTP_STAGE_SECONDS * 1000;
    struct client *other = client_new();

    http_routes_send(http_routes_open(other, GET("/stream/news")), "one\n");
    client_forget(client);
    http_stage_look_at_streams();
    client_expect(client, HEARTBEAT);
    client_expect(other, "one\n");
    ck_assert_uint_eq(client_times(other, HEARTBEAT), 0);
}

TEST(a_head_request_does_not_keep_a_stream_open)
{
    client_say(client, "HEAD /stream/news HTTP/1.1\r\nHost: h\r\n\r\n");
    client_expect(client, "text/event-stream");
    client_expect_end(client);
    http_routes_expect(&http_routes.closed, 1);
    ck_assert_uint_eq(client_times(client, "\r\n\r\n0"), 0);
}

/* ---- ends by the host ------------------------------------------------------------------------ */

TEST(a_stop_ends_streams_and_refuses_new_ones)
{
    struct client *whole = client_new(), *late = client_new();

    http_routes_open(client, GET("/stream/news"));
    http_routes_send(http_routes_open(whole, GET("/whole/news")), "one\n");
    client_expect(whole, "one\n");
    client_expect_stage(late, STAGE_HEADER);
    streams_stop(&http_stage_loop);
    client_expect(client, GOODBYE);
    client_expect_end(client);
    client_expect_end(whole);
    ck_assert(http_routes_is_whole(client) && !http_routes_is_whole(whole));
    client_ask(late, GET("/stream/news"), "\"statusCode\":503");
    ck_assert_uint_eq(http_routes.opened, 2);
}

TEST(a_new_generation_ends_all_streams_except_whole_ones)
{
    struct client *whole = client_new(), *late = client_new();

    http_routes_open(client, GET("/stream/news"));
    struct bb_stream *last = http_routes_open(whole, GET("/whole/news"));

    atomic_store(&http_stage_generation.superseded, true);
    requests_tell_superseded(&http_stage_loop, &http_stage_generation);
    client_expect_end(client);
    ck_assert(http_routes_is_whole(client));
    http_routes_send(last, "goes on\n");
    client_expect(whole, "goes on\n");
    client_say(late, GET("/stream/news")); /* the connection still uses the old generation */
    client_expect_end(late);
    requests_cut(&http_stage_loop, &http_stage_generation);
    client_expect_end(whole);
    ck_assert(!http_routes_is_whole(whole));
}

/* ---- token checks ---------------------------------------------------------------------------- */

static bool was_asked(const void *of)
{
    return http_routes.asked == *(const unsigned *)of;
}

static void wait_for_look(unsigned asked)
{
    http_stage_look_at_streams();
    http_stage_until(was_asked, &asked);
}

TEST_EACH(a_stream_continues_while_its_token_is_valid_or_cannot_be_checked, 2)
{
    struct bb_stream *stream = http_routes_open(client, WATCHED);

    wait_for_look(2);
    http_routes.token = 503;
    wait_for_look(3);
    http_routes_send(stream, "one\n");
    client_expect(client, "one\n");
    http_routes.token = _i ? 401 : 0;
    http_routes.account++; /* the token now has different rights */
    wait_for_look(4);
    client_expect_end(client);
    ck_assert(http_routes_is_whole(client));
}

/* The stream is freed while its token check waits. */
TEST(a_token_check_may_outlive_its_stream)
{
    struct client *other = client_new();

    http_routes_open(client, WATCHED);
    http_routes_open(other, WATCHED);
    http_routes.token_parks = true;
    http_stage_look_at_streams();
    http_routes_expect(&http_routes.parked, 1);
    client_reset(client);
    client_reset(other);
    http_stage_expect_connections(0);
    http_routes.token = 401;
    http_routes_go_on();
    http_stage_expect_no_requests();
    ck_assert_uint_eq(http_routes.closed, 2);
}

/* ---- topics ---------------------------------------------------------------------------------- */

TEST(a_stream_receives_the_events_of_its_topic)
{
    struct client *other = client_new(), *elsewhere = client_new();
    struct bb_stream *stream = http_routes_open(client, GET("/stream/news"));

    http_routes_open(other, GET("/stream/news"));
    http_routes_open(elsewhere, GET("/stream/weather"));
    ck_assert_int_eq(
        api_stream_join(&http_stage_generation.authenticator_host->host, stream, "news"), 0);
    ck_assert_uint_eq(http_routes_publish("news", "once\n"), 2);
    ck_assert_uint_eq(http_routes_publish("weather", "rain\n"), 1);
    ck_assert_uint_eq(http_routes_publish("nobody", "none\n"), 0);
    client_expect(client, "once\n");
    client_expect(other, "once\n");
    client_expect(elsewhere, "rain\n");
    ck_assert_uint_eq(client_times(client, "once"), 1);
    ck_assert_uint_eq(client_times(client, "rain") + client_times(elsewhere, "once"), 0);
}

/* The host does not know yet that the client has left. */
TEST_EACH(a_disconnected_client_does_not_block_a_topic, 2)
{
    struct client *other = client_new();

    http_routes_open(client, GET("/stream/news"));
    http_routes_open(other, GET("/stream/news"));
    client_expect_stage(client, STAGE_HANDLER);
    if (_i)
        client_reset(client);
    else
        client_leave(client);
    ck_assert_uint_eq(http_routes_publish("news", "one\n"), 2);
    http_routes_expect(&http_routes.closed, 1);
    client_expect(other, "one\n");
    ck_assert_uint_eq(http_routes_publish("news", "two\n"), 1);
    client_expect(other, "two\n");
    client_leave(other);
    http_routes_expect(&http_routes.closed, 2);
    ck_assert_uint_eq(http_routes_publish("news", "three\n"), 0);
}

/* The closing stream is still in the topic, and a message to its loop is in transit. */
TEST(a_module_may_publish_from_the_close_callback_of_a_stream)
{
    struct client *other = client_new();

    http_routes.tells_end = true;
    http_routes_open(client, GET("/stream/news"));
    http_routes_open(other, GET("/stream/news"));
    client_expect_stage(client, STAGE_HANDLER);
    client_reset(client);
    client_expect(other, "closed\n");
    ck_assert_uint_eq(http_routes.closed, 1);
    ck_assert_uint_eq(http_routes_publish("news", "one\n"), 1);
    client_expect(other, "one\n");
}

/* ---- clients that do not read ---------------------------------------------------------------- */

static char piece[SIZE + 1];

/* Opens a stream whose client does not read; its text fills the sockets and then its queue. */
static struct client *open_deaf(void)
{
    struct client *deaf = client_deaf(CLIENT_STRANGER);

    memset(piece, 'p', SIZE);
    http_routes_open(deaf, GET("/stream/news"));
    return deaf;
}

static bool has_taken_all(const void *of)
{
    struct bb_stream *const *stream = of;

    return !*stream || !api_stream_waiting(*stream);
}

/* Publishes until the queue is full, at most PIECES_MAX times; returns the count. */
static unsigned publish_until_cut(unsigned streams)
{
    unsigned count = 0;

    while (http_routes_publish("news", piece) == streams && count++ < PIECES_MAX)
        http_stage_until(has_taken_all, &http_routes.streams[0]);
    return count;
}

/* Publishes until the client's sockets are full; the requests in between make the loop iterate. */
static void fill(struct bb_stream *stream)
{
    struct client *other = client_new();

    while (!api_stream_waiting(stream)) {
        ck_assert_uint_eq(http_routes_publish("news", piece), 2);
        http_stage_until(has_taken_all, &http_routes.streams[0]);
        client_ask(other, GET("/named/a"), "\"a\"");
        client_ask(other, GET("/named/b"), "\"b\"");
    }
    client_leave(other);
}

TEST(only_a_client_that_does_not_read_is_disconnected)
{
    http_routes_open(client, GET("/stream/news"));
    struct client *deaf = open_deaf();

    ck_assert_uint_lt(publish_until_cut(2), PIECES_MAX);
    http_routes_expect(&http_routes.closed, 1);
    ck_assert_ptr_null(http_routes.streams[1]);
    ck_assert_uint_eq(http_routes_publish("news", "still\n"), 1);
    client_expect(client, "still\n");
    client_listen(deaf);
    client_expect_end(deaf);
    ck_assert_uint_eq(client_times(deaf, "still"), 0);
    ck_assert(!http_routes_is_whole(deaf));
}

TEST(the_write_timeout_applies_to_streams)
{
    http_routes_open(client, GET("/stream/news"));
    struct client *deaf = open_deaf();

    fill(http_routes.streams[1]);
    ck_assert_int_eq(client_connection(deaf)->stage, STAGE_WRITE);
    http_stage_pass(HTTP_STAGE_WRITE_MS + SIZE);
    http_routes_expect(&http_routes.closed, 1);
    http_routes_send(http_routes.streams[0], "still\n");
    client_expect(client, "still\n");
}

TEST(a_stop_does_not_wait_for_clients_that_do_not_read)
{
    http_routes_open(client, GET("/stream/news"));
    struct client *deaf = open_deaf();

    fill(http_routes.streams[1]);
    streams_stop(&http_stage_loop);
    client_expect_end(client);
    ck_assert_uint_eq(http_routes.closed, 1);
    http_stage_pass(STOP_MS);
    http_routes_expect(&http_routes.closed, 2);
    client_listen(deaf);
    client_expect_end(deaf);
    ck_assert(!http_routes_is_whole(deaf));
}

CLIENT_SUITE(http_streams, NULL)

TEST(max_streams_limits_streams)
{
    http_routes_open(client, GET("/stream/news"));
    struct client *other = client_new();

    client_ask(other, GET("/stream/news"), "\"statusCode\":503");
    client_leave(client);
    http_routes_expect(&http_routes.closed, 1);
    http_routes_open(other, GET("/stream/news"));
}

CLIENT_SUITE(http_stream_limit, "  max_streams: 1\n")
