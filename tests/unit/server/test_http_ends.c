/*
 * Connections that end in every stage of a request: by the client, which closes, resets, or ends
 * only its side; by a time limit; by a stop, or the end of a reload. After each test, http_stage.h
 * checks that nothing of them is left in the host. No test waits for a limit, see
 * http_stage_pass().
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

#include "core/server/http_txn.h"
#include "http_client.h"
#include "http_routes.h"
#include "http_stage.h"
#include "suite.h"

#define CHUNKED POST("/nothing") "Transfer-Encoding: chunked\r\n\r\n"

enum { BYTES_PER_MS = 16, DROPS_MS = 500, SLACK_MS = 9000, DRAIN_MS = 1000 };

static struct client *client;

/* The ways to leave at once. */
static void (*const ways[])(struct client *) = {client_leave, client_reset};
enum { WAYS = COUNT(ways) };

static const char *const parts[] = {
    "",
    "G",
    "GET /park HTTP/1.1\r\nHost: h\r\n\r",
    POST("/park") "Content-Length: 9\r\n\r\n",
    POST("/park") "Content-Length: 9\r\n\r\n1234",
    POST("/park") "Transfer-Encoding: chunked\r\n\r\n4\r\n12",
    POST("/park") "Transfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n",
    POST("/nothing") "Content-Length: 9\r\n\r\n1234",
};

/* The host has read the part before the client leaves. */
TEST_EACH(a_client_that_disconnects_within_a_request_leaves_nothing, COUNT(parts) * WAYS)
{
    client_say(client, parts[_i / WAYS]);
    client_expect_read(client);
    ways[_i % WAYS](client);
    http_stage_expect_connections(0);
    ck_assert_uint_eq(http_stage_loop.requests, 0);
    ck_assert_uint_eq(http_routes.begun, 0);
}

/* The host gets one event for both the part and the end of the connection. */
TEST_EACH(a_client_that_disconnects_with_its_last_bytes_leaves_nothing, COUNT(parts) * WAYS)
{
    client_expect_stage(client, STAGE_HEADER);
    client_say(client, parts[_i / WAYS]);
    ways[_i % WAYS](client);
    client_ask(client_new(), GET("/named/a"), "\"a\"");
    http_stage_expect_connections(1);
    ck_assert_uint_eq(http_routes.begun, 1);
}

TEST_EACH(a_half_close_within_a_request_is_answered_with_400, COUNT(parts) * 2)
{
    const char *part = parts[_i / 2];
    const char *status = !*part ? "" : strstr(part, "nothing") ? "HTTP/1.1 404" : "HTTP/1.1 400";

    client_expect_stage(client, STAGE_HEADER);
    client_say(client, part);
    if (_i % 2)
        client_expect_read(client);
    client_shut(client);
    client_ask(client_new(), GET("/named/a"), "\"a\"");
    client_expect_end(client);
    ck_assert(!client->reset);

    ck_assert_msg(!strncmp(client_heard(client), status, 12), "%s", client_heard(client));
    ck_assert_uint_eq(http_routes.begun, 1);
}

/* The reader passes such a body on in pieces. */
TEST_EACH(a_half_close_within_a_large_body_is_answered_with_400, 2)
{
    client_say(client, POST("/keep") "Content-Type: application/json\r\n");
    client_say(client, _i ? "Transfer-Encoding: chunked\r\n\r\n15f90\r\n"
                          : "Content-Length: 90000\r\n\r\n");
    client_say_many(client, ' ', 89999);
    client_shut(client);
    client_expect_end(client);
    ck_assert(!client->reset);
    ck_assert_msg(!strncmp(client_heard(client), "HTTP/1.1 400", 12), "%s", client_heard(client));
    ck_assert_uint_eq(http_routes.begun, 0);
}

/* The handler may already have changed data, so it runs to its end although nobody receives its
 * response. */
TEST_EACH(a_disconnect_does_not_end_a_waiting_handler, WAYS)
{
    client_say(client, GET("/park"));
    http_routes_expect(&http_routes.parked, 1);
    ways[_i](client);
    struct client *other = client_new();

    client_ask(other, GET("/named/a"), "\"a\"");
    ck_assert_uint_eq(http_routes.parked, 1);
    http_routes_go_on();
    http_stage_expect_connections(1);
    ck_assert_uint_eq(http_routes.ended, 1);
    ck_assert_uint_eq(http_routes.failed, 0);
    ck_assert_uint_eq(http_stage_loop.requests, 0);
}

TEST(pipelined_requests_are_not_served_after_a_disconnect)
{
    client_say(client, GET("/park") GET("/park"));
    http_routes_expect(&http_routes.parked, 1);
    client_reset(client);
    http_routes_go_on();
    http_stage_expect_connections(0);
    ck_assert_uint_eq(http_routes.begun, 1);
}

TEST(a_client_that_disconnects_during_the_token_check_is_not_served)
{
    http_routes.token_parks = true;
    client_say(client, "GET /own HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\n\r\n");
    http_routes_expect(&http_routes.parked, 1);
    client_reset(client);
    http_routes_go_on();
    http_stage_expect_connections(0);
    ck_assert_uint_eq(http_routes.ended, 1);
}

TEST_EACH(a_half_close_after_a_request_gets_the_response_and_the_end, 2)
{
    client_say(client, GET("/park"));
    if (_i)
        http_routes_expect(&http_routes.parked, 1);
    client_shut(client);
    http_routes_expect(&http_routes.parked, 1);
    http_routes_go_on();
    client_expect_end(client);
    ck_assert(!client->reset);
    ck_assert_uint_eq(client_times(client, "HTTP/1.1 200"), 1);
    ck_assert_uint_eq(client_times(client, "\"parked\""), 1);
}

TEST_EACH(a_client_that_disconnects_in_a_large_response_leaves_nothing, WAYS)
{
    client = http_routes_begin_large("127.0.0.1");
    ck_assert_uint_eq(http_stage_taken(QUOTA_ANSWERS), LARGE_ANSWER);
    ways[_i](client);
    http_stage_expect_connections(1);
    ck_assert_uint_eq(http_stage_taken(QUOTA_ANSWERS), 0);
}

TEST(a_half_closed_client_gets_a_complete_large_response)
{
    client = http_routes_begin_large("127.0.0.1");
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
TEST(bytes_after_the_last_request_do_not_cut_the_response)
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

TEST(a_handler_at_its_deadline_is_answered_with_503)
{
    client_ask(client, GET("/brief"), "\"statusCode\":503");
    ck_assert_uint_eq(http_routes.failed, 1);
    client_ask(client, GET("/named/a"), "\"a\"");
}

/* A thread still uses the memory of the request, so the handler cannot end. */
TEST_EACH(a_handler_that_cannot_end_at_its_deadline_does_not_delay_the_503, 2)
{
    client_ask(client, "GET /late HTTP/1.1\r\nHost: h\r\nX-Request-Id: mine\r\n\r\n",
               "\"statusCode\":503");
    ck_assert_uint_eq(client_times(client, "\"requestId\":\"mine\""), 1);
    ck_assert_uint_eq(http_routes.failed, 1);
    ck_assert_uint_eq(http_routes.parked, 1);
    client_ask(client, GET("/named/a"), "\"a\"");
    if (_i) {
        client_reset(client);
        http_stage_expect_connections(0);
    }
    ck_assert_uint_eq(http_stage_loop.requests, 1);
    http_routes_go_on();
    http_stage_expect_no_requests();
}

/* The handler ends before libmicrohttpd has taken the answer. */
TEST(a_handler_may_end_directly_after_the_503)
{
    http_routes.late_ends = true;
    client_ask(client, GET("/late"), "\"statusCode\":503");
    ck_assert_uint_eq(http_routes.ended, 1);
    http_stage_expect_no_requests();
    client_ask(client, GET("/named/a"), "\"a\"");
}

/* The connection ends before libmicrohttpd has taken the answer. */
TEST(a_client_that_disconnects_before_the_deadline_leaves_nothing)
{
    client_say(client, GET("/late"));
    client_expect_stage(client, STAGE_HANDLER);
    client_reset(client);
    http_routes_expect(&http_routes.parked, 1);
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
TEST(a_connection_that_cannot_be_allocated_closes_its_descriptor)
{
    const struct http *http = http_stage_loop.http;
    size_t mapped = 0;

    client_ask(client, GET("/named/a"), "\"a\"");
    lacking = sizeof(struct connection);
    struct client *refused = client_new();

    client_expect_end(refused);
    ck_assert_uint_eq(lacking, 0);
    for (size_t fd = 0; fd < http->room; fd++)
        mapped += http->by_fd[fd] != NULL;
    ck_assert_uint_eq(mapped, 1);
    client_ask(client, GET("/named/a"), "\"a\"");
}

/* ---- time limits ----------------------------------------------------------------------------- */

/* Checks that the connection is open just before the limit, then passes the limit. */
static void pass(int64_t limit_ms)
{
    http_stage_pass(limit_ms - SLACK_MS);
    client_ask(client_new(), GET("/named/a"), "\"a\"");
    ck_assert(client_connection(client) && !client->ended);
    ck_assert_uint_eq(client->in_length, 0);
    http_stage_pass(SLACK_MS);
}

static void ends_with(const char *status)
{
    client_expect_end(client);
    ck_assert(!client->reset);
    ck_assert_msg(!strncmp(client_heard(client), status, strlen(status)), "%s",
                  client_heard(client));
    ck_assert_uint_eq(client_times(client, "HTTP/1.1"), *status ? 1 : 0);
}

TEST(header_timeout_ends_an_incomplete_head)
{
    client_say(client, "GET /named/a HTTP/1.1\r\nHost");
    client_expect_read(client);
    pass(HTTP_STAGE_HEADER_MS);
    ends_with("HTTP/1.1 408");
}

TEST(a_silent_connection_is_closed_without_a_response)
{
    client_expect_stage(client, STAGE_HEADER);
    pass(HTTP_STAGE_HEADER_MS);
    ends_with("");
}

TEST(idle_timeout_closes_an_idle_connection)
{
    client_ask(client, GET("/named/a"), "\"a\"");
    client_expect_stage(client, STAGE_IDLE);
    client_forget(client);
    pass(HTTP_STAGE_IDLE_MS);
    ends_with("");
}

/* The first byte of the next head ends the idle time. */
TEST(header_timeout_of_the_next_head_begins_with_its_first_byte)
{
    client_ask(client, GET("/named/a"), "\"a\"");
    client_expect_stage(client, STAGE_IDLE);
    client_say(client, "GET");
    client_expect_stage(client, STAGE_HEADER);
    client_forget(client);
    pass(HTTP_STAGE_HEADER_MS);
    ends_with("HTTP/1.1 408");
}

TEST_EACH(body_timeout_ends_an_incomplete_body, 4)
{
    static const char *const framings[] = {
        "Content-Length: 9\r\n\r\n1234", "Transfer-Encoding: chunked\r\n\r\n4\r\n12",
        "Transfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n", "Transfer-Encoding: chunked\r\n\r\n4"};

    client_say(client, POST("/pass"));
    client_say(client, framings[_i]);
    client_expect_stage(client, STAGE_BODY);
    client_expect_read(client);
    pass(HTTP_STAGE_BODY_MS);
    ends_with("HTTP/1.1 408");
    ck_assert_uint_eq(http_routes.begun, 1); /* the request of the other client in pass() */
}

/* The response is decided before the body comes and does not change. */
TEST(body_timeout_also_ends_a_discarded_body)
{
    client_say(client, POST("/nothing") "Content-Length: 9\r\n\r\n1234");
    client_expect_stage(client, STAGE_BODY);
    client_expect_read(client);
    pass(HTTP_STAGE_BODY_MS);
    ends_with("HTTP/1.1 404");
}

TEST(discarded_chunks_are_awaited_only_briefly)
{
    client_say(client, CHUNKED "4\r\nwxyz\r\n");
    client_expect_stage(client, STAGE_BODY);
    client_expect_read(client);
    ck_assert_uint_eq(client->in_length, 0);
    http_stage_pass(DROPS_MS);
    ends_with("HTTP/1.1 404");
}

/* A handler is limited by the request's own deadline. */
TEST(connection_timeouts_do_not_end_a_handler)
{
    client_say(client, GET("/park"));
    http_routes_expect(&http_routes.parked, 1);
    pass((int64_t)HTTP_STAGE_IDLE_MS * 10);
    client_ask(client_new(), GET("/named/a"), "\"a\"");
    http_routes_go_on();
    client_expect(client, "\"parked\"");
}

TEST(the_write_timeout_grows_with_the_size_of_the_response)
{
    client = http_routes_begin_large("127.0.0.1");
    pass(HTTP_STAGE_WRITE_MS + LARGE_ANSWER / BYTES_PER_MS);
    http_stage_expect_connections(1);
    ck_assert_uint_eq(http_stage_taken(QUOTA_ANSWERS), 0);
    client_listen(client);
    client_expect_end(client);
    ck_assert_uint_lt(client->in_length, LARGE_ANSWER);
}

/* ---- a stop ---------------------------------------------------------------------------------- */

static bool drain(void)
{
    return http_drain(http_stage_loop.http);
}

static bool is_drained(const void *of)
{
    (void)of;
    return drain();
}

TEST(draining_ends_at_once_without_connections)
{
    client_ask(client, GET("/named/a"), "\"a\"");
    client_leave(client);
    http_stage_expect_connections(0);
    ck_assert(drain());
}

TEST(draining_gives_an_idle_connection_a_moment_for_a_request)
{
    struct client *silent = client_new();

    client_ask(client, GET("/named/a"), "\"a\"");
    client_expect_stage(client, STAGE_IDLE);
    client_expect_stage(silent, STAGE_HEADER);
    ck_assert(!drain());
    http_stage_pass(0); /* the next sweep shortens their time limits */
    client_ask(client, GET("/named/a"), "\"a\"");
    ck_assert_uint_eq(client_times(client, "Connection: close"), 1);
    client_expect_end(client);
    ck_assert(!silent->ended);
    http_stage_pass(DRAIN_MS);
    http_stage_until(is_drained, NULL);
    client_expect_end(silent);
    ck_assert_uint_eq(silent->in_length, 0);
}

TEST(draining_answers_requests_in_progress_and_closes_their_connections)
{
    struct client *sends = client_new();

    client_say(client, GET("/park") GET("/park"));
    client_say(sends, POST("/pass") "Content-Length: 4\r\n\r\nab");
    http_routes_expect(&http_routes.parked, 1);
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
    ck_assert_uint_eq(http_routes.begun, 2); /* and not the second request */
}

TEST(draining_completes_a_large_response)
{
    struct client *deaf = http_routes_begin_large("127.0.0.1");

    ck_assert(!drain());
    http_stage_pass(DRAIN_MS);
    ck_assert(!drain());
    client_listen(deaf);
    client_expect_stage(deaf, STAGE_IDLE); /* the headers were sent before the stop */
    http_stage_pass(0);
    http_stage_pass(DRAIN_MS);
    http_stage_until(is_drained, NULL);
    client_expect_end(deaf);
    ck_assert_uint_gt(deaf->in_length, LARGE_ANSWER);
}

/* The kernel has accepted the connection, but the host has not; the client cannot know that. */
TEST(draining_serves_connected_clients_and_refuses_later_ones)
{
    struct sockaddr_in host = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)http_stage_port())};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    client_say(client, GET("/named/a"));
    ck_assert_uint_eq(http_stage_loop.http->connection_count, 0);
    (void)drain(); /* the host may already have drained */
    inet_pton(AF_INET, "127.0.0.1", &host.sin_addr);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&host, sizeof host), -1);
    ck_assert_int_eq(errno, ECONNREFUSED);
    close(fd);
    client_expect(client, "\"a\"");
    client_expect_end(client);
    http_stage_until(is_drained, NULL);
}

/* The same happens when reload.drain expires. */
TEST(a_cut_ends_waiting_handlers_and_incomplete_bodies)
{
    struct client *other = client_new();

    client_say(client, GET("/park"));
    client_say(other, POST("/park") "Content-Length: 9\r\n\r\n1234");
    http_routes_expect(&http_routes.parked, 1);
    client_expect_stage(other, STAGE_BODY);
    requests_cut(&http_stage_loop, &http_stage_generation);
    client_expect(client, "\"statusCode\":503");
    client_expect_end(other);
    ck_assert_uint_eq(other->in_length, 0);
    ck_assert_uint_eq(http_routes.failed, 1);
    http_stage_expect_no_requests();
}

CLIENT_SUITE(http_ends, NULL)
