/* Streams that the host ends or refuses: because of a stop, a reload, their token, or a limit. */
#include <check.h>

#include "core/module/request.h"
#include "http_client.h"
#include "http_routes.h"
#include "http_stage.h"
#include "suite.h"

#define STREAM "GET /stream/news HTTP/1.1\r\nHost: h\r\n\r\n"
#define WHOLE "GET /whole/news HTTP/1.1\r\nHost: h\r\n\r\n"
#define WATCHED "GET /watched HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\n\r\n"

static struct client *client;

static void set_up(void)
{
    http_stage_set_up();
    http_stage_open(NULL, NULL);
    client = client_new();
}

TEST(a_stop_ends_streams_and_lets_nobody_open_one)
{
    struct client *whole = client_new(), *late = client_new();

    http_routes_open(client, STREAM);
    http_routes_send(http_routes_open(whole, WHOLE), "one\n");
    client_expect(whole, "one\n");
    client_expect_stage(late, STAGE_HEADER);
    streams_stop(&http_stage_loop);
    client_expect(client, GOODBYE);
    client_expect_end(client);
    client_expect_end(whole);
    ck_assert(http_routes_is_whole(client) && !http_routes_is_whole(whole));
    client_ask(late, STREAM, "\"statusCode\":503");
    ck_assert_uint_eq(http_routes.opened, 2);
}

TEST(a_new_generation_ends_streams_but_those_that_are_to_be_whole)
{
    struct client *whole = client_new(), *late = client_new();

    http_routes_open(client, STREAM);
    struct bb_stream *last = http_routes_open(whole, WHOLE);

    atomic_store(&http_stage_generation.superseded, true);
    requests_tell_superseded(&http_stage_loop, &http_stage_generation);
    client_expect_end(client);
    ck_assert(http_routes_is_whole(client));
    http_routes_send(last, "goes on\n");
    client_expect(whole, "goes on\n");
    client_say(late, STREAM); /* its connection still uses the old generation */
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

TEST_EACH(a_stream_goes_on_while_its_token_is_good_or_cannot_be_looked_at, 2)
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
TEST(a_look_at_a_token_outlives_its_stream)
{
    struct client *other = client_new();

    http_routes_open(client, WATCHED);
    http_routes_open(other, WATCHED);
    http_routes.token_parks = true;
    http_stage_look_at_streams();
    http_routes_expect_parked(1);
    client_reset(client);
    client_reset(other);
    http_stage_expect_connections(0);
    http_routes.token = 401;
    http_routes_go_on();
    http_stage_expect_no_requests();
    ck_assert_uint_eq(http_routes.closed, 2);
}

SUITE(http_stream_ends, .before_each = set_up, .after_each = http_stage_tear_down,
      .timeout_s = HTTP_STAGE_SECONDS)

static void set_up_for_one(void)
{
    http_stage_set_up();
    http_stage_open("  max_streams: 1\n", NULL);
    client = client_new();
}

TEST(there_are_no_more_streams_than_the_settings_say)
{
    http_routes_open(client, STREAM);
    struct client *other = client_new();

    client_ask(other, STREAM, "\"statusCode\":503");
    client_leave(client);
    http_routes_expect_closed(1);
    http_routes_open(other, STREAM);
}

SUITE(http_stream_limit, .before_each = set_up_for_one, .after_each = http_stage_tear_down,
      .timeout_s = HTTP_STAGE_SECONDS)
