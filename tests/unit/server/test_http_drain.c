/*
 * A stop, and the end of a reload: requests in progress are answered, and no new ones begin.
 * Streams are in test_http_stream_ends.c and test_http_topics.c.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/module/request.h"
#include "http_client.h"
#include "http_routes.h"
#include "http_stage.h"
#include "suite.h"

#define GET_A "GET /named/a HTTP/1.1\r\nHost: h\r\n\r\n"
#define PARK "GET /park HTTP/1.1\r\nHost: h\r\n\r\n"

enum { DRAIN_MS = 1000 };

static struct client *client;

static void set_up(void)
{
    http_stage_set_up();
    http_stage_open(NULL, NULL);
    client = client_new();
}

static bool drain(void)
{
    return http_drain(http_stage_loop.http);
}

static bool is_drained(const void *of)
{
    (void)of;
    return drain();
}

TEST(a_host_without_connections_is_drained_at_once)
{
    client_ask(client, GET_A, "\"a\"");
    client_leave(client);
    http_stage_expect_connections(0);
    ck_assert(drain());
}

TEST(an_idle_connection_has_a_moment_for_a_request_that_is_on_its_way)
{
    struct client *silent = client_new();

    client_ask(client, GET_A, "\"a\"");
    client_expect_stage(client, STAGE_IDLE);
    client_expect_stage(silent, STAGE_HEADER);
    ck_assert(!drain());
    http_stage_pass(0); /* the next sweep shortens their time limits */
    client_ask(client, GET_A, "\"a\"");
    ck_assert_uint_eq(client_times(client, "Connection: close"), 1);
    client_expect_end(client);
    ck_assert(!silent->ended);
    http_stage_pass(DRAIN_MS);
    http_stage_until(is_drained, NULL);
    client_expect_end(silent);
    ck_assert_uint_eq(silent->in_length, 0);
}

TEST(a_request_that_is_being_sent_or_waits_is_answered_and_ends_its_connection)
{
    struct client *sends = client_new();

    client_say(client, PARK PARK);
    client_say(sends, "POST /pass HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab");
    http_routes_expect_parked(1);
    client_expect_stage(sends, STAGE_BODY);
    ck_assert(!drain());
    http_stage_pass(DRAIN_MS);
    client_say(sends, "cd");
    client_expect(sends, "\"passed\"");
    client_expect_end(sends);
    ck_assert(!drain());
    http_routes_go_on();
    client_expect(client, "\"parked\"");
    client_expect_end(client);
    http_stage_until(is_drained, NULL);
    ck_assert_uint_eq(client_times(client, "Connection: close"), 1);
    ck_assert_uint_eq(http_routes.begun, 2); /* not the second one on its connection */
}

TEST(a_large_answer_is_written_to_its_end)
{
    struct client *deaf = client_deaf("127.0.0.1");

    client_say(deaf, "GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
    client_expect_stage(deaf, STAGE_WRITE);
    ck_assert(!drain());
    http_stage_pass(DRAIN_MS);
    ck_assert(!drain());
    client_listen(deaf);
    client_expect_stage(deaf, STAGE_IDLE); /* its headers were sent before the stop */
    http_stage_pass(0);
    http_stage_pass(DRAIN_MS);
    http_stage_until(is_drained, NULL);
    client_expect_end(deaf);
    ck_assert_uint_gt(deaf->in_length, LARGE_ANSWER);
}

/* The kernel has accepted the connection, but the host has not; the client cannot know that. */
TEST(who_was_connected_is_served_and_who_comes_later_is_refused)
{
    struct sockaddr_in host = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)http_stage_port())};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    client_say(client, GET_A);
    ck_assert_uint_eq(http_stage_loop.http->connection_count, 0);
    (void)drain(); /* it may already be drained */
    inet_pton(AF_INET, "127.0.0.1", &host.sin_addr);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&host, sizeof host), -1);
    ck_assert_int_eq(errno, ECONNREFUSED);
    close(fd);
    client_expect(client, "\"a\"");
    client_expect_end(client);
    http_stage_until(is_drained, NULL);
}

/* The same happens when reload.drain expires. */
TEST(a_cut_ends_a_handler_that_waits_and_a_body_that_does_not_come)
{
    struct client *other = client_new();

    client_say(client, PARK);
    client_say(other, "POST /park HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1234");
    http_routes_expect_parked(1);
    client_expect_stage(other, STAGE_BODY);
    requests_cut(&http_stage_loop, &http_stage_generation);
    client_expect(client, "\"statusCode\":503");
    client_expect_end(other);
    ck_assert_uint_eq(other->in_length, 0);
    ck_assert_uint_eq(http_routes.failed, 1);
    http_stage_expect_no_requests();
}

SUITE(http_drain, .before_each = set_up, .after_each = http_stage_tear_down,
      .timeout_s = HTTP_STAGE_SECONDS)
