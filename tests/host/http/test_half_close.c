/*
 * Clients that end their side with the request, or send more after it: they get the whole response,
 * and the connection ends as soon as it is sent. The host looks for unnoticed departures twice a
 * second, so a connection that ends within a quarter of a second was noticed at once.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "suite.h"
#include "suites.h"
#include "talk.h"

enum { TRIES = 12, LARGE = 150000, SOON_MS = 250, LATE_MAX = 2, READ_MAX = 1 << 20 };

static struct host *host;
static struct person *admin;
static char *chain;

struct end {
    size_t length;
    bool whole, reset;
    int64_t ms; /* from the last byte sent to the end */
};

static char *request(const char *method, const char *path, const char *more)
{
    return text("%s %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n%s", method, path,
                admin->token, more);
}

static void say(int fd, const char *bytes)
{
    ck_assert_int_eq(send(fd, bytes, strlen(bytes), MSG_NOSIGNAL), (ssize_t)strlen(bytes));
}

static struct end read_to_end(int fd)
{
    static char bytes[READ_MAX + 1];
    struct end end = {.ms = now_ms()};
    ssize_t got;

    while ((got = recv(fd, bytes + end.length, READ_MAX - end.length, 0)) > 0)
        end.length += (size_t)got;
    bytes[end.length] = '\0';
    end.ms = now_ms() - end.ms;
    end.reset = got < 0;
    end.whole =
        end.length > 5 && (strstr(bytes, "chunked") ? !strcmp(bytes + end.length - 5, "0\r\n\r\n")
                                                    : bytes[end.length - 1] == '}');
    close(fd);
    return end;
}

/* Sends the bytes in one piece, ends the client's side and reads. */
static struct end half_close(const char *bytes)
{
    int fd = raw_open(host);

    say(fd, bytes);
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    return read_to_end(fd);
}

static void expect_soon(const char *bytes)
{
    int late = 0;

    for (int i = 0; i < TRIES; i++) {
        struct end end = half_close(bytes);

        ck_assert_msg(end.whole && !end.reset, "%zu bytes of the answer to %s", end.length, bytes);
        late += end.ms > SOON_MS;
    }
    ck_assert_msg(late <= LATE_MAX, "%d of %d ended late: %s", late, TRIES, bytes);
}

static void start(const char *name)
{
    host = host_start(&(struct host_spec){.name = name,
                                          .database = database_make(the_postgres, name),
                                          .http = "  metrics_networks: [127.0.0.1]\n"});
    admin = admin_of(host);
    struct person *other = person_make(host, admin, "far", NULL);
    char *large = malloc(LARGE + 1);

    ck_assert_ptr_nonnull(large);
    memset(large, 'B', LARGE);
    large[LARGE] = '\0';
    struct talk talk = talk_start(host, admin, admin->email, other->email, NULL);

    ck_status(talk_post(host, admin, &talk, admin->email, large), 201);
    chain = text("/api/chat/chain/%s", talk.head);
    free(large);
}

TEST(a_connection_ends_with_the_answer_when_the_client_has_ended_its_side)
{
    start("half_close");
    expect_soon(request("GET", "/api/health", "\r\n"));
    expect_soon(request("GET", "/api/auth/me", "\r\n"));
    expect_soon(request("GET", "/api/nothing", "\r\n"));
    expect_soon(request("DELETE", "/api/health", "\r\n"));
    expect_soon("GET /api/auth/me HTTP/1.1\r\nHost: h\r\n\r\n");
    expect_soon(request("POST", "/api/auth/login", "Content-Length: 1\r\n\r\n{"));
    host_stop(host);
}

TEST(a_body_that_ends_too_early_is_answered_at_once)
{
    int late = 0;

    start("half_close_body");
    for (int i = 0; i < TRIES; i++) {
        int fd = raw_open(host);

        say(fd, request("POST", "/api/chat/conversations/find",
                        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"));
        say(fd, "{\"a\":");
        ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
        struct end end = read_to_end(fd);

        ck_assert(end.whole);
        late += end.ms > SOON_MS;
    }
    ck_assert_int_le(late, LATE_MAX);
    host_stop(host);
}

TEST(a_large_answer_is_whole_for_who_has_ended_its_side)
{
    start("half_close_large");
    for (int i = 0; i < TRIES; i++) {
        struct end end = half_close(request("GET", chain, "\r\n"));

        ck_assert_msg(end.whole && !end.reset && end.length > LARGE, "%zu bytes", end.length);
    }
    host_stop(host);
}

/*
 * The response ends its connection, so the bytes after the request are never read. The client is
 * slow: it reads only after the host has closed or the response has filled the sockets.
 */
TEST(a_large_answer_is_whole_whatever_was_sent_behind_its_request)
{
    start("half_close_behind");
    const char *behind[] = {"\r\n", request("GET", "/api/auth/me", "\r\n"), "GARBAGE"};

    for (int i = 0; i < TRIES; i++) {
        int fd = raw_open(host);

        say(fd, request("GET", chain, "\r\n"));
        say(fd, behind[i % 3]);
        poll(&(struct pollfd){.fd = fd, .events = POLLRDHUP}, 1, 20);
        struct end end = read_to_end(fd);

        ck_assert_msg(end.whole && end.length > LARGE, "%zu bytes before %s", end.length,
                      behind[i % 3]);
    }
    host_stop(host);
}

SUITE(half_close, .timeout_s = 60)
