/*
 * Time limits for a head, a body, an idle connection and a response. The tests do not wait for
 * them, see http_stage_pass().
 */
#include <check.h>
#include <string.h>

#include "http_client.h"
#include "http_routes.h"
#include "http_stage.h"
#include "suite.h"

#define GET_A "GET /named/a HTTP/1.1\r\nHost: h\r\n\r\n"
#define PARK "GET /park HTTP/1.1\r\nHost: h\r\n\r\n"
#define CHUNKED "POST /nothing HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"

enum { BYTES_PER_MS = 16, DROPS_MS = 500, SLACK_MS = 2000 };

static struct client *client;

/* Checks that the connection is open just before the limit, then passes the limit. */
static void pass(int64_t limit_ms)
{
    http_stage_pass(limit_ms - SLACK_MS);
    client_ask(client_new(), GET_A, "\"a\"");
    ck_assert(client_connection(client) && !client->ended);
    ck_assert_uint_eq(client->in_length, 0);
    http_stage_pass(SLACK_MS);
}

static void begin(void)
{
    http_stage_open(NULL, NULL);
    client = client_new();
}

static void ends_with(const char *status)
{
    client_expect_end(client);
    ck_assert(!client->reset);
    ck_assert_msg(!strncmp(client_heard(client), status, strlen(status)), "%s",
                  client_heard(client));
    ck_assert_uint_eq(client_times(client, "HTTP/1.1"), *status ? 1 : 0);
}

TEST(a_head_has_its_time)
{
    begin();
    client_say(client, "GET /named/a HTTP/1.1\r\nHost");
    client_expect_read(client);
    pass(HTTP_STAGE_HEADER_MS);
    ends_with("HTTP/1.1 408");
}

TEST(who_says_nothing_hears_nothing)
{
    begin();
    client_expect_stage(client, STAGE_HEADER);
    pass(HTTP_STAGE_HEADER_MS);
    ends_with("");
}

TEST(a_connection_may_be_idle_for_its_time)
{
    begin();
    client_ask(client, GET_A, "\"a\"");
    client_expect_stage(client, STAGE_IDLE);
    client_forget(client);
    pass(HTTP_STAGE_IDLE_MS + HTTP_STAGE_HEADER_MS);
    ends_with("");
}

/* The first byte of the next head ends the idle time. */
TEST(the_next_head_has_its_time_from_its_first_byte)
{
    begin();
    client_ask(client, GET_A, "\"a\"");
    client_expect_stage(client, STAGE_IDLE);
    client_say(client, "GET");
    client_expect_stage(client, STAGE_HEADER);
    client_forget(client);
    pass(HTTP_STAGE_HEADER_MS);
    ends_with("HTTP/1.1 408");
}

TEST_EACH(a_body_has_its_time, 4)
{
    static const char *const framings[] = {
        "Content-Length: 9\r\n\r\n1234", "Transfer-Encoding: chunked\r\n\r\n4\r\n12",
        "Transfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n", "Transfer-Encoding: chunked\r\n\r\n4"};

    begin();
    client_say(client, "POST /pass HTTP/1.1\r\nHost: h\r\n");
    client_say(client, framings[_i]);
    client_expect_stage(client, STAGE_BODY);
    client_expect_read(client);
    pass(HTTP_STAGE_BODY_MS);
    ends_with("HTTP/1.1 408");
    ck_assert_uint_eq(http_routes.begun, 1); /* by the other client in pass() */
}

/* The response is decided before the body comes and does not change. */
TEST(a_body_that_nobody_wants_has_the_same_time)
{
    begin();
    client_say(client, "POST /nothing HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1234");
    client_expect_stage(client, STAGE_BODY);
    client_expect_read(client);
    pass(HTTP_STAGE_BODY_MS);
    ends_with("HTTP/1.1 404");
}

TEST(chunks_that_nobody_wants_are_waited_for_no_longer_than_a_moment)
{
    begin();
    client_say(client, CHUNKED "4\r\nwxyz\r\n");
    client_expect_stage(client, STAGE_BODY);
    client_expect_read(client);
    ck_assert_uint_eq(client->in_length, 0);
    http_stage_pass(DROPS_MS);
    ends_with("HTTP/1.1 404");
}

/* A handler is limited by the request's own deadline. */
TEST(a_handler_has_more_time_than_a_connection)
{
    begin();
    client_say(client, PARK);
    http_routes_expect_parked(1);
    pass((int64_t)HTTP_STAGE_IDLE_MS * 10);
    client_ask(client_new(), GET_A, "\"a\"");
    http_routes_go_on();
    client_expect(client, "\"parked\"");
}

TEST(an_answer_has_its_time_by_its_size)
{
    http_stage_open(NULL, NULL);
    client = http_routes_begin_large("127.0.0.1");
    pass(HTTP_STAGE_WRITE_MS + LARGE_ANSWER / BYTES_PER_MS);
    http_stage_expect_connections(1);
    ck_assert_uint_eq(http_stage_taken(QUOTA_ANSWERS), 0);
    client_listen(client);
    client_expect_end(client);
    ck_assert_uint_lt(client->in_length, LARGE_ANSWER);
}

SUITE(http_times, .before_each = http_stage_set_up, .after_each = http_stage_tear_down,
      .timeout_s = HTTP_STAGE_SECONDS)
