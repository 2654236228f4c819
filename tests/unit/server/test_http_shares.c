/*
 * Limits per client address: connections and memory. Which connection is closed to make room, and
 * which request is refused.
 */
#include "http_client.h"
#include "http_routes.h"
#include "http_stage.h"
#include "suite.h"

#define BUDGET "  max_bodies: 1048576\n  max_answers: 1048576\n"

enum { MANY = 40 };

/* ---- places ---------------------------------------------------------------------------------- */

static void open_places(unsigned all, unsigned each)
{
    http_stage_open(NULL, all, each);
}

/* Opens this many connections from an address; each is idle after one request. */
static void fill(const char *address, struct client **some, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        some[i] = client_from(address);
        client_ask(some[i], GET("/named/a"), "\"a\"");
        client_expect_stage(some[i], STAGE_IDLE);
    }
}

/* The connection was closed without a response. */
static void is_refused(struct client *one)
{
    client_expect_end(one);
    ck_assert_uint_eq(one->in_length, 0);
}

TEST(connections_per_address_are_limited)
{
    struct client *some[3];

    open_places(MANY, 3);
    fill(CLIENT_STRANGER, some, 3);
    is_refused(client_from(CLIENT_STRANGER));
    ck_assert_uint_eq(http_stage_loop.http->rejected, 1);
    ck_assert_uint_eq(quota_refused(QUOTA_CONNECTIONS, true), 1);
    client_ask(client_from("127.0.0.3"), GET("/named/a"), "\"a\"");
    client_leave(some[1]);
    http_stage_expect_connections(3);
    client_ask(client_from(CLIENT_STRANGER), GET("/named/a"), "\"a\"");
    client_ask(some[0], GET("/named/a"), "\"a\"");
}

/* A local connection is always accepted, so idle local connections do not prevent health checks. */
TEST(a_new_local_connection_replaces_the_oldest_idle_one)
{
    struct client *some[3];

    open_places(MANY, 3);
    fill("127.0.0.1", some, 3);
    client_say(some[1], GET("/park"));
    http_routes_expect(&http_routes.parked, 1);
    client_connection(some[0])->limit_ms -= 1000; /* the older of the idle connections */
    client_ask(client_new(), GET("/named/a"), "\"a\"");
    client_expect_end(some[0]);
    http_routes_go_on();
    client_expect(some[1], "\"parked\"");
    ck_assert(!some[2]->ended);
    ck_assert_uint_eq(http_stage_loop.http->rejected, 0);
}

TEST(a_new_connection_replaces_one_of_the_address_with_most)
{
    struct client *most[5], *few[3];

    open_places(8, 8);
    fill(CLIENT_STRANGER, most, 5);
    fill("127.0.0.3", few, 3);
    client_say(most[0], GET("/park"));
    http_routes_expect(&http_routes.parked, 1);
    client_connection(most[3])->limit_ms -= 1000; /* the oldest of the idle connections */
    client_ask(client_from("127.0.0.4"), GET("/named/a"), "\"a\"");
    client_expect_end(most[3]);
    http_stage_expect_connections(8);
    ck_assert_uint_eq(http_stage_loop.http->rejected, 0);
    for (unsigned i = 0; i < 3; i++)
        ck_assert(!few[i]->ended);
    ck_assert(!most[0]->ended && !most[1]->ended && !most[2]->ended && !most[4]->ended);
}

TEST(connections_with_requests_are_not_replaced)
{
    struct client *some[4];

    open_places(4, 4);
    fill(CLIENT_STRANGER, some, 4);
    for (unsigned i = 0; i < 4; i++)
        client_say(some[i], GET("/park"));
    http_routes_expect(&http_routes.parked, 4);
    is_refused(client_from("127.0.0.3"));
    ck_assert_uint_eq(http_stage_loop.http->rejected, 1);
    ck_assert_uint_eq(quota_refused(QUOTA_CONNECTIONS, false), 1);
    client_ask(client_new(), GET("/named/a"), "\"a\""); /* uses one of the reserved places */
    http_routes_go_on();
    for (unsigned i = 0; i < 4; i++)
        client_expect(some[i], "\"parked\"");
}

/* Requests sent before the refusal are not served. */
TEST(requests_on_refused_connections_are_not_served)
{
    struct client *some[2];

    open_places(MANY, 2);
    fill(CLIENT_STRANGER, some, 2);
    struct client *late = client_from(CLIENT_STRANGER);

    client_say(late, GET("/park"));
    client_expect_end(late);
    ck_assert_uint_eq(http_routes.begun, 2);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void begin_kept(struct client *one, size_t bytes)
{
    char head[160];

    snprintf(head, sizeof head,
             POST("/keep") "Content-Type: application/json\r\n"
                           "Content-Length: %d\r\n\r\n",
             KEPT_BODY);
    client_say(one, head);
    client_say_many(one, ' ', bytes);
}

TEST(large_bodies_share_a_memory_limit)
{
    struct client *first, *second, *third;

    http_stage_open(BUDGET "  client_percent: 60\n", 0, 0);
    first = client_from(CLIENT_STRANGER);
    begin_kept(first, 600000);
    client_expect_read(first);
    ck_assert_uint_eq(http_stage_taken(QUOTA_BODIES), 600000);
    second = client_from(CLIENT_STRANGER); /* this address has used up its share */
    begin_kept(second, KEPT_BODY);
    client_expect(second, "\"statusCode\":429");
    third = client_from("127.0.0.3"); /* this address has a share, but too little memory is left */
    begin_kept(third, KEPT_BODY);
    client_expect(third, "\"statusCode\":503");
    ck_assert_uint_eq(http_stage_taken(QUOTA_BODIES), 600000);
    client_reset(first);
    http_stage_expect_connections(2);
    ck_assert_uint_eq(http_stage_taken(QUOTA_BODIES), 0);
    client_ask(second, GET("/named/a"), "\"a\"");
    ck_assert_uint_eq(http_routes.begun, 1);
}

TEST(large_responses_share_a_memory_limit)
{
    http_stage_open(BUDGET, 0, 0);
    /* A response may exceed the limit if it is the only one. */
    struct client *client = http_routes_begin_large(CLIENT_STRANGER);
    struct client *same = client_from(CLIENT_STRANGER), *other = client_from("127.0.0.3");

    client_ask(other, GET("/large"), "\"statusCode\":503");
    client_ask(same, GET("/large"), "\"statusCode\":429");
    client_ask(same, POST("/pass") "Content-Length: 1\r\n\r\nx",
               "\"statusCode\":429"); /* a request that changes data is refused before it starts */
    client_ask(same, GET("/named/a"), "\"a\"");
    client_ask(other, POST("/pass") "Content-Length: 1\r\n\r\nx", "\"passed\"");
    client_reset(client);
    http_stage_expect_connections(2);
    ck_assert_uint_eq(http_stage_taken(QUOTA_ANSWERS), 0);
    client_ask(same, POST("/pass") "Content-Length: 1\r\n\r\nx", "\"passed\"");
}

SUITE(http_shares, .before_each = http_stage_set_up, .after_each = http_stage_tear_down,
      .timeout_s = HTTP_STAGE_SECONDS)
