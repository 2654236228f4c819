/* Streams: what is sent and published comes, and how a stream ends, whoever ends it. */
#include <check.h>
#include <string.h>

#include "core/base/text.h"
#include "http_client.h"
#include "http_routes.h"
#include "http_stage.h"
#include "suite.h"
#include "suites.h"

#define STREAM "GET /stream/news HTTP/1.1\r\nHost: h\r\n\r\n"
#define WHOLE "GET /whole/news HTTP/1.1\r\nHost: h\r\n\r\n"
#define WATCHED "GET /watched HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\n\r\n"

enum { SIZE = 4000, PIECES_MAX = 10000, STOP_MS = 1000 };

static struct client *client;

static void set_up(void)
{
    http_stage_set_up();
    http_stage_open(NULL, NULL);
    client = client_new();
}

/* The stream that the request opens. */
static struct bb_stream *open_stream(struct client *by, const char *request)
{
    unsigned opened = http_routes.opened;

    client_say(by, request);
    http_routes_expect_opened(opened + 1);
    return http_routes.streams[opened];
}

/* Behind its last chunk an answer that is whole has one of length 0, or is ended by the host. */
static bool is_whole(const struct client *one)
{
    const char *heard = client_heard(one);
    bool chunked = strstr(heard, "Transfer-Encoding: chunked") != NULL;

    if (!one->ended || one->reset)
        return false;
    return !chunked || !strcmp(heard + strlen(heard) - strlen("\r\n0\r\n\r\n"), "\r\n0\r\n\r\n");
}

START_TEST(what_is_sent_comes_in_order_and_then_the_end)
{
    struct bb_stream *stream = open_stream(client, STREAM);

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
    ck_assert(is_whole(client));
    ck_assert_ptr_nonnull(strstr(client_heard(client), GOODBYE));
    ck_assert_uint_eq(client_times(client, "four"), 0);
    http_routes_expect_closed(1);
}
END_TEST

START_TEST(a_stream_that_is_cut_does_not_look_whole)
{
    struct bb_stream *stream = open_stream(client, STREAM);

    http_routes_send(stream, "one\n");
    client_expect(client, "one\n");
    http_routes_send(stream, "two\n");
    api_stream_cut(stream);
    client_expect_end(client);
    ck_assert(!is_whole(client));
    ck_assert_uint_eq(client_times(client, "two"), 0);
    http_routes_expect_closed(1);
}
END_TEST

START_TEST(a_stream_ends_when_its_client_leaves)
{
    static void (*const ways[])(struct client *) = {client_leave, client_reset, client_shut};

    http_routes_send(open_stream(client, STREAM), "one\n");
    client_expect(client, "one\n");
    client_expect_stage(client, STAGE_HANDLER);
    ways[_i](client);
    http_stage_expect_connections(0);
    ck_assert_uint_eq(http_routes.closed, 1);
}
END_TEST

/* The request and the end of this side come by one event, before the stream is there. */
START_TEST(a_stream_ends_whose_client_has_left_before_it_began)
{
    client_expect_stage(client, STAGE_HEADER);
    client_say(client, STREAM);
    client_leave(client);
    http_stage_expect_connections(0);
    ck_assert_uint_eq(http_routes.closed, http_routes.opened);
}
END_TEST

START_TEST(an_answer_that_is_to_be_whole_goes_to_who_has_only_ended_its_side)
{
    struct bb_stream *stream = open_stream(client, WHOLE);

    client_shut(client);
    client_ask(client_new(), "GET /named/a HTTP/1.1\r\nHost: h\r\n\r\n", "\"a\"");
    ck_assert_int_eq(http_routes_send(stream, "one\n"), 0);
    client_expect(client, "one\n");
    api_stream_end(stream);
    client_expect_end(client);
    ck_assert(is_whole(client));
}
END_TEST

/* Now, not when the host looks next. */
static void look_at_streams(void)
{
    timer_set(&http_stage_loop.timers, &http_stage_loop.streams->timer, clock_mono_ms());
}

START_TEST(a_silent_stream_has_heartbeats)
{
    http_routes.heartbeat_ms = 1;
    struct bb_stream *stream = open_stream(client, STREAM);

    look_at_streams();
    client_expect(client, HEARTBEAT);
    http_routes_send(stream, "one\n");
    client_expect(client, "one\n");
    http_routes.heartbeat_ms = HTTP_STAGE_SECONDS * 1000;
    struct client *other = client_new();

    http_routes_send(open_stream(other, STREAM), "one\n");
    client_forget(client);
    look_at_streams();
    client_expect(client, HEARTBEAT);
    client_expect(other, "one\n");
    ck_assert_uint_eq(client_times(other, HEARTBEAT), 0);
}
END_TEST

START_TEST(who_has_joined_a_topic_hears_what_is_published_there)
{
    struct client *other = client_new(), *elsewhere = client_new();
    struct bb_stream *stream = open_stream(client, STREAM);

    open_stream(other, STREAM);
    open_stream(elsewhere, "GET /stream/weather HTTP/1.1\r\nHost: h\r\n\r\n");
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
END_TEST

/* The host does not know yet that the client has left. */
START_TEST(who_has_left_keeps_nobody_from_hearing_what_is_published)
{
    struct client *other = client_new();

    open_stream(client, STREAM);
    open_stream(other, STREAM);
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
END_TEST

/* The one that closes is still in the topic, and a message to its loop is on the way. */
START_TEST(a_module_may_publish_that_a_stream_has_closed)
{
    struct client *other = client_new();

    http_routes.tells_end = true;
    open_stream(client, STREAM);
    open_stream(other, STREAM);
    client_expect_stage(client, STAGE_HANDLER);
    client_reset(client);
    client_expect(other, "closed\n");
    ck_assert_uint_eq(http_routes.closed, 1);
    ck_assert_uint_eq(http_routes_publish("news", "one\n"), 1);
    client_expect(other, "one\n");
}
END_TEST

static char piece[SIZE + 1];

/* What it does not read fills the sockets, then its queue. */
static struct client *open_deaf(void)
{
    struct client *deaf = client_deaf(CLIENT_STRANGER);

    memset(piece, 'p', SIZE);
    open_stream(deaf, STREAM);
    return deaf;
}

static bool has_taken_all(const void *of)
{
    struct bb_stream *const *stream = of;

    return !*stream || !api_stream_waiting(*stream);
}

/* Until the queue is full, or no more than so often. */
static unsigned publish_until_cut(unsigned streams)
{
    unsigned count = 0;

    while (http_routes_publish("news", piece) == streams && count++ < PIECES_MAX)
        http_stage_until(has_taken_all, &http_routes.streams[0]);
    return count;
}

/* Until its client's sockets take no more; the requests between are for turns of the loop. */
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

START_TEST(who_does_not_read_is_cut_and_nobody_else_is)
{
    open_stream(client, STREAM);
    struct client *deaf = open_deaf();

    ck_assert_uint_lt(publish_until_cut(2), PIECES_MAX);
    http_routes_expect_closed(1);
    ck_assert_ptr_null(http_routes.streams[1]);
    ck_assert_uint_eq(http_routes_publish("news", "still\n"), 1);
    client_expect(client, "still\n");
    client_listen(deaf);
    client_expect_end(deaf);
    ck_assert_uint_eq(client_times(deaf, "still"), 0);
    ck_assert(!is_whole(deaf));
}
END_TEST

START_TEST(a_stream_that_is_written_has_the_time_of_an_answer)
{
    open_stream(client, STREAM);
    struct client *deaf = open_deaf();

    fill(http_routes.streams[1]);
    ck_assert_int_eq(client_connection(deaf)->stage, STAGE_WRITE);
    http_stage_pass(HTTP_STAGE_WRITE_MS + SIZE);
    http_routes_expect_closed(1);
    http_routes_send(http_routes.streams[0], "still\n");
    client_expect(client, "still\n");
}
END_TEST

START_TEST(a_stop_ends_streams_and_lets_nobody_open_one)
{
    struct client *whole = client_new(), *late = client_new();

    open_stream(client, STREAM);
    http_routes_send(open_stream(whole, WHOLE), "one\n");
    client_expect(whole, "one\n");
    client_expect_stage(late, STAGE_HEADER);
    streams_stop(&http_stage_loop);
    client_expect(client, GOODBYE);
    client_expect_end(client);
    client_expect_end(whole);
    ck_assert(is_whole(client) && !is_whole(whole));
    client_ask(late, STREAM, "\"statusCode\":503");
    ck_assert_uint_eq(http_routes.opened, 2);
}
END_TEST

START_TEST(a_stop_does_not_wait_for_who_does_not_read)
{
    open_stream(client, STREAM);
    struct client *deaf = open_deaf();

    fill(http_routes.streams[1]);
    streams_stop(&http_stage_loop);
    client_expect_end(client);
    ck_assert_uint_eq(http_routes.closed, 1);
    http_stage_pass(STOP_MS);
    http_routes_expect_closed(2);
    client_listen(deaf);
    client_expect_end(deaf);
    ck_assert(!is_whole(deaf));
}
END_TEST

START_TEST(a_new_generation_ends_streams_but_those_that_are_to_be_whole)
{
    struct client *whole = client_new(), *late = client_new();

    open_stream(client, STREAM);
    struct bb_stream *last = open_stream(whole, WHOLE);

    atomic_store(&http_stage_generation.superseded, true);
    requests_tell_superseded(&http_stage_loop, &http_stage_generation);
    client_expect_end(client);
    ck_assert(is_whole(client));
    http_routes_send(last, "goes on\n");
    client_expect(whole, "goes on\n");
    client_say(late, STREAM); /* it is still one of the old generation */
    client_expect_end(late);
    requests_cut(&http_stage_loop, &http_stage_generation);
    client_expect_end(whole);
    ck_assert(!is_whole(whole));
}
END_TEST

START_TEST(there_are_no_more_streams_than_the_settings_say)
{
    clients_leave();
    http_stage_tear_down();
    http_stage_set_up();
    http_stage_open("  max_streams: 1\n", NULL);
    client = client_new();
    open_stream(client, STREAM);
    struct client *other = client_new();

    client_ask(other, STREAM, "\"statusCode\":503");
    client_leave(client);
    http_routes_expect_closed(1);
    open_stream(other, STREAM);
}
END_TEST

START_TEST(the_headers_of_a_stream_open_none_that_stays)
{
    client_say(client, "HEAD /stream/news HTTP/1.1\r\nHost: h\r\n\r\n");
    client_expect(client, "text/event-stream");
    client_expect_end(client);
    http_routes_expect_closed(1);
    ck_assert_uint_eq(client_times(client, "\r\n\r\n0"), 0);
}
END_TEST

/* ---- looks at the token ---------------------------------------------------------------------- */

static bool was_asked(const void *of)
{
    return http_routes.asked == *(const unsigned *)of;
}

static void wait_for_look(unsigned asked)
{
    look_at_streams();
    http_stage_until(was_asked, &asked);
}

START_TEST(a_stream_goes_on_while_its_token_is_good_or_cannot_be_looked_at)
{
    struct bb_stream *stream = open_stream(client, WATCHED);

    wait_for_look(2);
    http_routes.token = 503;
    wait_for_look(3);
    http_routes_send(stream, "one\n");
    client_expect(client, "one\n");
    http_routes.token = _i ? 401 : 0;
    http_routes.account++; /* then the token stands for other rights */
    wait_for_look(4);
    client_expect_end(client);
    ck_assert(is_whole(client));
}
END_TEST

/* The stream is freed while the look at it waits. */
START_TEST(a_look_at_a_token_outlives_its_stream)
{
    struct client *other = client_new();

    open_stream(client, WATCHED);
    open_stream(other, WATCHED);
    http_routes.token_parks = true;
    look_at_streams();
    http_routes_expect_parked(1);
    client_reset(client);
    client_reset(other);
    http_stage_expect_connections(0);
    http_routes.token = 401;
    http_routes_go_on();
    http_stage_expect_no_requests();
    ck_assert_uint_eq(http_routes.closed, 2);
}
END_TEST

Suite *http_stream_suite(void)
{
    const TTest *const tests[] = {
        what_is_sent_comes_in_order_and_then_the_end,
        a_stream_that_is_cut_does_not_look_whole,
        a_stream_ends_whose_client_has_left_before_it_began,
        an_answer_that_is_to_be_whole_goes_to_who_has_only_ended_its_side,
        a_silent_stream_has_heartbeats,
        who_has_joined_a_topic_hears_what_is_published_there,
        a_module_may_publish_that_a_stream_has_closed,
        who_does_not_read_is_cut_and_nobody_else_is,
        a_stream_that_is_written_has_the_time_of_an_answer,
        a_stop_ends_streams_and_lets_nobody_open_one,
        a_stop_does_not_wait_for_who_does_not_read,
        a_new_generation_ends_streams_but_those_that_are_to_be_whole,
        there_are_no_more_streams_than_the_settings_say,
        the_headers_of_a_stream_open_none_that_stays,
        a_look_at_a_token_outlives_its_stream,
    };
    TCase *cases;
    Suite *suite = suite_of("http_stream", TESTS(tests), &cases);

    tcase_add_loop_test(cases, a_stream_ends_when_its_client_leaves, 0, 3);
    tcase_add_loop_test(cases, who_has_left_keeps_nobody_from_hearing_what_is_published, 0, 2);
    tcase_add_loop_test(cases, a_stream_goes_on_while_its_token_is_good_or_cannot_be_looked_at, 0,
                        2);
    tcase_add_checked_fixture(cases, set_up, http_stage_tear_down);
    tcase_set_timeout(cases, HTTP_STAGE_SECONDS);
    return suite;
}
