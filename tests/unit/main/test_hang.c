/* The response of a host whose event loops are blocked: it is JSON, whatever the reason says. */
#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "core/main/hang.h"
#include "suite.h"

enum { WAIT_MS = 20000 };

static const char request[] = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

static const struct {
    const char *reason, *message;
} reasons[] = {
    {"An event loop is blocked in module chat", "An event loop is blocked in module chat"},
    {"in \"a\" of C:\\b", "in \"a\" of C:\\b"},
    {"a\nb\x01\x7f", "a?b??"},
    {"\xc3\xa4\xff \xe2\x82", "\xc3\xa4? ??"},
};

/* Returns the response that a client receives, in static memory. */
static const char *answer_to_client(const char *reason)
{
    static char got[4096];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    struct listeners listeners = {.fds = {socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)},
                                  .count = 1};
    int client = socket(AF_INET, SOCK_STREAM, 0);
    size_t used = 0;
    ssize_t more = 1;

    ck_assert_int_eq(bind(listeners.fds[0], (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(listeners.fds[0], 1), 0);
    ck_assert_int_eq(getsockname(listeners.fds[0], (struct sockaddr *)&address, &size), 0);
    ck_assert_int_eq(connect(client, (struct sockaddr *)&address, size), 0);
    ck_assert_int_gt(send(client, request, sizeof request - 1, 0), 0);
    hang_answer(&listeners, WAIT_MS, reason);
    while (more > 0 && used < sizeof got - 1) {
        more = recv(client, got + used, sizeof got - 1 - used, 0);
        used += more > 0 ? (size_t)more : 0;
    }
    got[used] = '\0';
    close(client);
    close(listeners.fds[0]);
    return got;
}

static const char *body_of(const char *answer)
{
    int head = 0;
    size_t length;

    sscanf(answer,
           "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nX-Request-Id: "
           "%*[0-9a-f-]\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: %zu%n",
           &length, &head);
    ck_assert_msg(head > 0 && !strncmp(answer + head, "\r\n\r\n", 4), "%s", answer);
    ck_assert_uint_eq(strlen(answer + head + 4), length);
    return answer + head + 4;
}

TEST_EACH(a_reason_of_any_bytes_is_written_as_json, sizeof reasons / sizeof *reasons)
{
    json_t *json = json_loads(body_of(answer_to_client(reasons[_i].reason)), 0, NULL);

    ck_assert_ptr_nonnull(json);
    ck_assert_str_eq(json_string_value(json_object_get(json, "message")), reasons[_i].message);
    json_decref(json);
}

/* The reason is cut, and the body is still JSON. */
TEST(a_long_reason_is_cut)
{
    char reason[2000] = "a";

    memset(reason + 1, '"', sizeof reason - 2);
    json_t *json = json_loads(body_of(answer_to_client(reason)), 0, NULL);

    ck_assert_uint_eq(json_string_length(json_object_get(json, "message")), 254);
    json_decref(json);
}

SUITE(hang, .timeout_s = 60)
