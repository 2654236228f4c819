/*
 * Connections that no real client makes: mutated requests, cut into pieces, abandoned in the middle
 * and pipelined, against a host with sanitizers and, if BUSBAR_PLAIN is set, against the plain
 * build with an allocator that overwrites freed memory. The host must keep running, its responses
 * must be valid HTTP, and no connection may stay open. `./test fuzz connections` sets
 * BUSBAR_TEST_SECONDS, the duration; without it there are TRIES connections. BUSBAR_TEST_SEED is
 * the seed.
 */
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>

#include "client.h"
#include "wire.h"

#define HEAD "Host: x\r\nContent-Type: application/json\r\n"
#define LAST "GET /api/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

enum { ROOM = 48 * 1024, TRIES = 1000, CLOSE_MS = 8000, LOOK_EVERY = 200 };

static const char *const requests[] = {
    "GET /api/health?a=b&c HTTP/1.1\r\nHost: x\r\nCookie: a=b; c=d\r\n\r\n",
    "POST /api/auth/login HTTP/1.1\r\n" HEAD "Content-Length: 15\r\n\r\n{\"username\":\"a\"}",
    "POST /api/auth/login HTTP/1.1\r\n" HEAD
    "Transfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\n{\"a\":\r\n2\r\n1}\r\n0\r\nT: x\r\n\r\n",
    "PUT http://x:80/api/user/password/ HTTP/1.1\r\n" HEAD
    "Authorization: Bearer a.b.c\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    "OPTIONS * HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "HEAD /api/chat/stream HTTP/1.1\r\nHost: [::1]:80\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n",
};

// clang-format off
static const char *const pieces[] = {
    "\r\n", "\r\n\r\n", "\n", "\r", ":", " ", "\t", "&", "=", "; a=b", "a&", "%00", "%", "?", "/",
    "#", "a: b\r\n", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Host: y\r\n",
    " HTTP/1.1", "0\r\n\r\n", "ffffffffffffffff", "-1", "\x80", "\x7f", ";a=b", "\"", "\\",
    "100-continue", "http://", "Connection: close\r\n", "Expect: 100-continue\r\n", ",",
    "Cookie: a=b\r\n"};
// clang-format on

struct sent {
    char bytes[ROOM];
    size_t length;
};

static unsigned seed;

static size_t below(size_t most)
{
    return most ? (size_t)rand_r(&seed) % most : 0;
}

static void insert(struct sent *sent, size_t at, const char *bytes, size_t length)
{
    if (sent->length + length > ROOM)
        return;
    memmove(sent->bytes + at + length, sent->bytes + at, sent->length - at);
    memcpy(sent->bytes + at, bytes, length);
    sent->length += length;
}

/* Inserts a piece many times, so that sizes reach the limits of buffers. */
static void repeat(struct sent *sent, size_t at)
{
    const char *piece = pieces[below(COUNT(pieces))];

    for (size_t i = below(3) ? below(20) : below(4000); i; i--)
        insert(sent, at, piece, strlen(piece));
}

static void mutate(struct sent *sent)
{
    size_t at = below(sent->length),
           length = below(sent->length - at < 40 ? sent->length - at : 40);
    char copy[40];

    switch (below(6)) {
    case 0:
        sent->bytes[at] = (char)below(256);
        break;
    case 1:
        memmove(sent->bytes + at, sent->bytes + at + length, sent->length - at - length);
        sent->length -= length;
        break;
    case 2:
        memcpy(copy, sent->bytes + at, length);
        insert(sent, below(sent->length), copy, length);
        break;
    case 3:
        insert(sent, at, "\0", 1);
        break;
    default:
        repeat(sent, at);
    }
}

static void make(struct sent *sent)
{
    sent->length = 0;
    for (size_t i = 1 + below(3); i; i--) {
        const char *request = requests[below(COUNT(requests))];

        insert(sent, sent->length, request, strlen(request));
    }
    for (size_t i = below(5); i; i--)
        mutate(sent);
    insert(sent, sent->length, LAST, sizeof LAST - 1);
}

/* Sends up to eight pieces; stops when the host accepts no more. */
static void send_pieces(int fd, const struct sent *sent)
{
    size_t at = 0, cuts = below(8);

    while (at < sent->length) {
        size_t length = cuts ? 1 + below(sent->length - at) : sent->length - at;
        ssize_t took = send(fd, sent->bytes + at, length, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (took <= 0)
            return;
        at += (size_t)took;
        cuts -= cuts > 0;
        if (!below(4))
            sched_yield();
    }
}

/* Reads to the end and checks the responses. */
static void judge(int fd, const struct sent *sent, unsigned of)
{
    static char said[ROOM];
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    size_t length = 0;
    ssize_t got = 1;

    while (got > 0 && length + 1 < ROOM) {
        ck_assert_msg(poll(&readable, 1, CLOSE_MS * PATIENCE) == 1,
                      "seed %u: open after %zu bytes: %.200s", of, sent->length, sent->bytes);
        got = recv(fd, said + length, ROOM - 1 - length, 0);
        length += got > 0 ? (size_t)got : 0;
    }
    said[length] = '\0';
    ck_assert_msg(!length || !strncmp(said, "HTTP/1.1 ", 9), "seed %u: %.300s", of, said);
    ck_assert_msg(!strstr(said, "<html"), "seed %u: %.300s", of, said);
}

static void try_one(const struct host *host)
{
    static struct sent sent;
    unsigned of = seed;
    int fd = raw_open(host);

    make(&sent);
    send_pieces(fd, &sent);
    if (below(8)) {
        shutdown(fd, SHUT_WR);
        judge(fd, &sent, of);
    }
    close(fd);
}

static int seconds(void)
{
    const char *given = getenv("BUSBAR_TEST_SECONDS");

    return given ? atoi(given) : 0;
}

static void run(struct host *host)
{
    const char *given = getenv("BUSBAR_TEST_SEED");
    int64_t end = now_ms() + seconds() * 1000LL;
    unsigned long count = 0;

    seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
    unsigned first = seed;

    do {
        try_one(host);
        if (++count % LOOK_EVERY == 0)
            ck_assert_msg(host_alive(host), "the host has ended; first seed %u", first);
    } while (seconds() ? now_ms() < end : count < TRIES);
    fprintf(stderr, "connections: %lu from seed %u on\n", count, first);
    ck_assert(host_alive(host));
    ck_assert(wire_is_served(host));
    host_stop(host);
}

/* The second host is built without sanitizers, and fills freed memory. */
TEST_EACH(a_host_survives_random_and_abandoned_requests, getenv("BUSBAR_PLAIN") ? 2 : 1)
{
    static const char *const junk[] = {"MALLOC_CONF=junk:true", NULL};
    const char *name = text("connections%d", _i);

    run(host_start(&(struct host_spec){.name = name,
                                       .http = "  header_timeout: 2\n  body_timeout: 2\n",
                                       .log = "  access: false\n",
                                       .environment = _i ? junk : NULL,
                                       .plain = _i == 1}));
}

SUITE(connections, .timeout_s = seconds() + 90)
