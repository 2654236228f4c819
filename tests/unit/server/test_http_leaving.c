/*
 * Clients that leave in every stage of a request: by closing, by a reset, or by ending only their
 * side. After each test, http_stage.h checks that nothing of them is left in the host.
 */
#include <check.h>
#include <string.h>

#include "core/server/http_txn.h"
#include "http_client.h"
#include "http_routes.h"
#include "http_stage.h"
#include "suite.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define PARK "GET /park HTTP/1.1\r\nHost: h\r\n\r\n"
#define LARGE "GET /large HTTP/1.1\r\nHost: h\r\n\r\n"

static struct client *client;

static void set_up(void)
{
    http_stage_set_up();
    http_stage_open(NULL, NULL);
    client = client_new();
}

/* The ways to leave at once. */
static void (*const ways[])(struct client *) = {client_leave, client_reset};
enum { WAYS = COUNT(ways) };

static const char *const parts[] = {
    "",
    "G",
    "GET /park HTTP/1.1\r\nHost: h\r\n\r",
    "POST /park HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n",
    "POST /park HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1234",
    "POST /park HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n12",
    "POST /park HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n",
    "POST /nothing HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1234",
};

/* The host has read the part before the client leaves. */
TEST_EACH(who_leaves_within_a_request_leaves_nothing, COUNT(parts) * WAYS)
{
    client_say(client, parts[_i / WAYS]);
    client_expect_read(client);
    ways[_i % WAYS](client);
    http_stage_expect_connections(0);
    ck_assert_uint_eq(http_stage_loop.requests, 0);
    ck_assert_uint_eq(http_routes.begun, 0);
}

/* The host gets one event for both the part and the end of the connection. */
TEST_EACH(who_leaves_with_its_last_bytes_leaves_nothing, COUNT(parts) * WAYS)
{
    client_expect_stage(client, STAGE_HEADER);
    client_say(client, parts[_i / WAYS]);
    ways[_i % WAYS](client);
    client_ask(client_new(), "GET /named/a HTTP/1.1\r\nHost: h\r\n\r\n", "\"a\"");
    http_stage_expect_connections(1);
    ck_assert_uint_eq(http_routes.begun, 1);
}

TEST_EACH(who_ends_its_side_within_a_request_is_told_so, COUNT(parts) * 2)
{
    const char *part = parts[_i / 2];
    const char *status = !*part ? "" : strstr(part, "nothing") ? "HTTP/1.1 404" : "HTTP/1.1 400";

    client_expect_stage(client, STAGE_HEADER);
    client_say(client, part);
    if (_i % 2)
        client_expect_read(client);
    client_shut(client);
    client_ask(client_new(), "GET /named/a HTTP/1.1\r\nHost: h\r\n\r\n", "\"a\"");
    client_expect_end(client);
    ck_assert(!client->reset);

    ck_assert_msg(!strncmp(client_heard(client), status, 12), "%s", client_heard(client));
    ck_assert_uint_eq(http_routes.begun, 1);
}

/* The handler may already have changed data, so it runs to its end although nobody receives its
 * response. */
TEST_EACH(who_leaves_a_handler_that_waits_does_not_end_it, WAYS)
{
    client_say(client, PARK);
    http_routes_expect_parked(1);
    ways[_i](client);
    struct client *other = client_new();

    client_ask(other, "GET /named/a HTTP/1.1\r\nHost: h\r\n\r\n", "\"a\"");
    ck_assert_uint_eq(http_routes.parked, 1);
    http_routes_go_on();
    http_stage_expect_connections(1);
    ck_assert_uint_eq(http_routes.ended, 1);
    ck_assert_uint_eq(http_routes.failed, 0);
    ck_assert_uint_eq(http_stage_loop.requests, 0);
}

TEST(who_leaves_with_requests_behind_the_one_that_waits_has_none_of_them_served)
{
    client_say(client, PARK PARK);
    http_routes_expect_parked(1);
    client_reset(client);
    http_routes_go_on();
    http_stage_expect_connections(0);
    ck_assert_uint_eq(http_routes.begun, 1);
}

TEST(who_leaves_while_its_token_is_looked_at_is_not_served)
{
    http_routes.token_parks = true;
    client_say(client, "GET /own HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\n\r\n");
    http_routes_expect_parked(1);
    client_reset(client);
    http_routes_go_on();
    http_stage_expect_connections(0);
    ck_assert_uint_eq(http_routes.ended, 1);
}

TEST_EACH(who_ends_its_side_gets_its_answer_and_then_the_end, 2)
{
    client_say(client, PARK);
    if (_i)
        http_routes_expect_parked(1);
    client_shut(client);
    http_routes_expect_parked(1);
    http_routes_go_on();
    client_expect_end(client);
    ck_assert(!client->reset);
    ck_assert_uint_eq(client_times(client, "HTTP/1.1 200"), 1);
    ck_assert_uint_eq(client_times(client, "\"parked\""), 1);
}

/* The client does not read, so the response fills the sockets. */
static void begin_large(void)
{
    client = client_deaf("127.0.0.1");
    client_say(client, LARGE);
    client_expect_stage(client, STAGE_WRITE);
    ck_assert_uint_eq(http_stage_taken(QUOTA_ANSWERS), LARGE_ANSWER);
}

TEST_EACH(who_leaves_a_large_answer_leaves_nothing, WAYS)
{
    begin_large();
    ways[_i](client);
    http_stage_expect_connections(1);
    ck_assert_uint_eq(http_stage_taken(QUOTA_ANSWERS), 0);
}

TEST(who_ends_its_side_gets_the_whole_of_a_large_answer)
{
    begin_large();
    client_shut(client);
    client_listen(client);
    client_expect_end(client);
    ck_assert(!client->reset);
    const char *body = strstr(client_heard(client), "\r\n\r\n");

    ck_assert_ptr_nonnull(body);
    ck_assert_uint_eq(strlen(body + 4), LARGE_ANSWER);
}

/* The host must read the bytes after the request, because the kernel would reset the connection if
 * they were left unread. */
TEST(who_sends_on_behind_its_last_request_gets_the_whole_answer)
{
    client = client_deaf("127.0.0.1");
    client_say(client, "GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    client_expect_stage(client, STAGE_WRITE);
    client_say_many(client, 'x', 100000);
    client_listen(client);
    client_expect_end(client);
    ck_assert(!client->reset);
    ck_assert_uint_eq(strlen(strstr(client_heard(client), "\r\n\r\n") + 4), LARGE_ANSWER);
}

TEST(who_comes_too_late_with_its_answer_has_it_from_the_host)
{
    client_ask(client, "GET /brief HTTP/1.1\r\nHost: h\r\n\r\n", "\"statusCode\":503");
    ck_assert_uint_eq(http_routes.failed, 1);
    client_ask(client, "GET /named/a HTTP/1.1\r\nHost: h\r\n\r\n", "\"a\"");
}

/* A thread still uses the memory of the request, so the handler cannot end. */
TEST_EACH(a_handler_that_cannot_end_in_time_does_not_keep_its_client, 2)
{
    client_ask(client, "GET /late HTTP/1.1\r\nHost: h\r\nX-Request-Id: mine\r\n\r\n",
               "\"statusCode\":503");
    ck_assert_uint_eq(client_times(client, "\"requestId\":\"mine\""), 1);
    ck_assert_uint_eq(http_routes.failed, 1);
    ck_assert_uint_eq(http_routes.parked, 1);
    client_ask(client, "GET /named/a HTTP/1.1\r\nHost: h\r\n\r\n", "\"a\"");
    if (_i) {
        client_reset(client);
        http_stage_expect_connections(0);
    }
    ck_assert_uint_eq(http_stage_loop.requests, 1);
    http_routes_go_on();
    http_stage_expect_no_requests();
}

/* The handler ends before libmicrohttpd has taken the answer. */
TEST(a_handler_may_end_as_soon_as_its_client_is_answered)
{
    http_routes.late_ends = true;
    client_ask(client, "GET /late HTTP/1.1\r\nHost: h\r\n\r\n", "\"statusCode\":503");
    ck_assert_uint_eq(http_routes.ended, 1);
    http_stage_expect_no_requests();
    client_ask(client, "GET /named/a HTTP/1.1\r\nHost: h\r\n\r\n", "\"a\"");
}

/* The connection ends before libmicrohttpd has taken the answer. */
TEST(who_left_before_its_time_was_over_leaves_nothing)
{
    client_say(client, "GET /late HTTP/1.1\r\nHost: h\r\n\r\n");
    client_expect_stage(client, STAGE_HANDLER);
    client_reset(client);
    http_routes_expect_parked(1);
    http_routes_go_on();
    http_stage_expect_connections(0);
    http_stage_expect_no_requests();
}

/* The host's calloc() fails once for a block of this size; 0: it does not fail. */
static size_t lacking;

/* The linker's option --wrap requires these names. */
void *real_calloc(size_t count, size_t size) __asm__("__real_calloc");
void *wrapped_calloc(size_t count, size_t size) __asm__("__wrap_calloc");

void *wrapped_calloc(size_t count, size_t size)
{
    if (!lacking || count * size != lacking)
        return real_calloc(count, size);
    lacking = 0;
    return NULL;
}

/* Another connection or file may soon get the same descriptor. */
TEST(a_connection_without_memory_leaves_its_descriptor)
{
    const struct http *http = http_stage_loop.http;
    size_t mapped = 0;

    client_ask(client, "GET /named/a HTTP/1.1\r\nHost: h\r\n\r\n", "\"a\"");
    lacking = sizeof(struct connection);
    struct client *refused = client_new();

    client_expect_end(refused);
    ck_assert_uint_eq(lacking, 0);
    for (size_t fd = 0; fd < http->room; fd++)
        mapped += http->by_fd[fd] != NULL;
    ck_assert_uint_eq(mapped, 1);
    client_ask(client, "GET /named/a HTTP/1.1\r\nHost: h\r\n\r\n", "\"a\"");
}

SUITE(http_leaving, .before_each = set_up, .after_each = http_stage_tear_down,
      .timeout_s = HTTP_STAGE_SECONDS)
