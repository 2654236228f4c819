/* Topics: which streams receive a published text while others leave or do not read. */
#include <check.h>
#include <string.h>

#include "http_client.h"
#include "http_routes.h"
#include "http_stage.h"
#include "suite.h"

#define STREAM "GET /stream/news HTTP/1.1\r\nHost: h\r\n\r\n"

enum { SIZE = 4000, PIECES_MAX = 10000, STOP_MS = 1000 };

static struct client *client;

static void set_up(void)
{
    http_stage_set_up();
    http_stage_open(NULL, NULL);
    client = client_new();
}

TEST(who_has_joined_a_topic_hears_what_is_published_there)
{
    struct client *other = client_new(), *elsewhere = client_new();
    struct bb_stream *stream = http_routes_open(client, STREAM);

    http_routes_open(other, STREAM);
    http_routes_open(elsewhere, "GET /stream/weather HTTP/1.1\r\nHost: h\r\n\r\n");
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
TEST_EACH(who_has_left_keeps_nobody_from_hearing_what_is_published, 2)
{
    struct client *other = client_new();

    http_routes_open(client, STREAM);
    http_routes_open(other, STREAM);
    client_expect_stage(client, STAGE_HANDLER);
    if (_i)
        client_reset(client);
    else
        client_leave(client);
    ck_assert_uint_eq(http_routes_publish("news", "one\n"), 2);
    http_routes_expect_closed(1);
    client_expect(other, "one\n");
    ck_assert_uint_eq(http_routes_publish("news", "two\n"), 1);
    client_expect(other, "two\n");
    client_leave(other);
    http_routes_expect_closed(2);
    ck_assert_uint_eq(http_routes_publish("news", "three\n"), 0);
}

/* The closing stream is still in the topic, and a message to its loop is in transit. */
TEST(a_module_may_publish_that_a_stream_has_closed)
{
    struct client *other = client_new();

    http_routes.tells_end = true;
    http_routes_open(client, STREAM);
    http_routes_open(other, STREAM);
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
    http_routes_open(deaf, STREAM);
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
        client_ask(other, "GET /named/a HTTP/1.1\r\nHost: h\r\n\r\n", "\"a\"");
        client_ask(other, "GET /named/b HTTP/1.1\r\nHost: h\r\n\r\n", "\"b\"");
    }
    client_leave(other);
}

TEST(who_does_not_read_is_cut_and_nobody_else_is)
{
    http_routes_open(client, STREAM);
    struct client *deaf = open_deaf();

    ck_assert_uint_lt(publish_until_cut(2), PIECES_MAX);
    http_routes_expect_closed(1);
    ck_assert_ptr_null(http_routes.streams[1]);
    ck_assert_uint_eq(http_routes_publish("news", "still\n"), 1);
    client_expect(client, "still\n");
    client_listen(deaf);
    client_expect_end(deaf);
    ck_assert_uint_eq(client_times(deaf, "still"), 0);
    ck_assert(!http_routes_is_whole(deaf));
}

TEST(a_stream_that_is_written_has_the_time_of_an_answer)
{
    http_routes_open(client, STREAM);
    struct client *deaf = open_deaf();

    fill(http_routes.streams[1]);
    ck_assert_int_eq(client_connection(deaf)->stage, STAGE_WRITE);
    http_stage_pass(HTTP_STAGE_WRITE_MS + SIZE);
    http_routes_expect_closed(1);
    http_routes_send(http_routes.streams[0], "still\n");
    client_expect(client, "still\n");
}

TEST(a_stop_does_not_wait_for_who_does_not_read)
{
    http_routes_open(client, STREAM);
    struct client *deaf = open_deaf();

    fill(http_routes.streams[1]);
    streams_stop(&http_stage_loop);
    client_expect_end(client);
    ck_assert_uint_eq(http_routes.closed, 1);
    http_stage_pass(STOP_MS);
    http_routes_expect_closed(2);
    client_listen(deaf);
    client_expect_end(deaf);
    ck_assert(!http_routes_is_whole(deaf));
}

SUITE(http_topics, .before_each = set_up, .after_each = http_stage_tear_down,
      .timeout_s = HTTP_STAGE_SECONDS)
