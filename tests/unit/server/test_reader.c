/* The bytes that libmicrohttpd gets, in whatever pieces the client's bytes arrive. */
#include "core/server/reader.h"

#include <errno.h>
#include <sys/socket.h>

#include "suite.h"
#include "unit/support/fixture.h"

#define HOST "Host: h\r\n"
#define POST "POST /a HTTP/1.1\r\n" HOST

enum { PIECE = 64 * 1024, LARGE = 4 * PIECE, ROOM = 8 * PIECE };

static struct reader reader;
static int ends[2]; /* the reader's end, the client's end */
static char given[ROOM];
static size_t length;

static void set_up(void)
{
    arena_setup();
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    reader = (struct reader){0};
    length = 0;
}

static void tear_down(void)
{
    reader_free(&reader);
    close(ends[0]);
    close(ends[1]);
    arena_teardown();
}

static void come(const char *bytes, size_t size)
{
    ck_assert_int_eq(send(ends[1], bytes, size, 0), (ssize_t)size);
}

/* Reads until nothing is left, as libmicrohttpd does, at most this many bytes at a time. */
static void read_all(size_t room)
{
    ssize_t got;

    while ((got = reader_recv(&reader, ends[0], given + length, room)) > 0)
        length += (size_t)got;
    ck_assert(got == 0 || errno == EAGAIN);
    given[length] = '\0';
}

static struct head take(void)
{
    struct head head = {.status = -1};

    ck_assert_int_eq(reader_take(&reader, arena, &head), 0);
    return head;
}

static const struct {
    const char *sent, *given;
} requests[] = {
    {"GET /a?b HTTP/1.1\r\n" HOST "Cookie: x\r\n\r\n", "POST / HTTP/1.1\r\nHost:h\r\n\r\n"},
    {"HEAD http://h/a HTTP/1.1\r\n" HOST "\r\n", "HEAD / HTTP/1.1\r\nHost:h\r\n\r\n"},
    {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
     "POST / HTTP/1.0\r\nHost:h\r\nConnection:keep-alive\r\n\r\n"},
    {"GET / HTTP/1.1\r\n" HOST "Connection: close\r\nExpect: 100-continue\r\n\r\n",
     "POST / HTTP/1.1\r\nHost:h\r\nConnection:close\r\n\r\n"},
    {POST "Content-Length: 5\r\n\r\nhello",
     "POST / HTTP/1.1\r\nHost:h\r\nContent-Length:5\r\n\r\nhello"},
    {POST "Transfer-Encoding: chunked\r\n\r\n5;a=b ; c\r\nhello\r\n00A\r\n0123456789\r\n0\r\n"
          "T: x\r\n\r\n",
     "POST / HTTP/1.1\r\nHost:h\r\nTransfer-Encoding:chunked\r\n\r\n5\r\nhello\r\na\r\n"
     "0123456789\r\n0\r\n\r\n"},
};

/* The result is the same for all sizes of pieces and reads; another request follows. */
TEST_EACH(a_request_is_rewritten_for_libmicrohttpd, COUNT(requests))
{
    const char *sent = requests[_i].sent;

    for (size_t piece = 1; piece <= strlen(sent); piece++) {
        size_t room = piece % 7 + 1;

        length = 0;
        for (size_t at = 0; at < strlen(sent); at += piece) {
            come(sent + at, strlen(sent + at) < piece ? strlen(sent + at) : piece);
            read_all(room);
        }
        ck_assert_str_eq(given, requests[_i].given);
        ck_assert_int_eq(take().status, 0);
        ck_assert(!reader_unread(&reader));
        reader_next(&reader);
        ck_assert_ptr_null(reader.buffer);
    }
}

TEST(bytes_after_a_request_wait_for_its_end)
{
    static const char two[] = POST "Content-Length: 2\r\n\r\n{}GET /b HTTP/1.1\r\n" HOST "\r\n";

    come(two, sizeof two - 1);
    read_all(4096);
    ck_assert_str_eq(given, "POST / HTTP/1.1\r\nHost:h\r\nContent-Length:2\r\n\r\n{}");
    ck_assert_str_eq(take().text, "POST");
    ck_assert(reader_waits(&reader));
    length = 0;
    read_all(4096);
    ck_assert_uint_eq(length, 0);
    reader_next(&reader);
    read_all(4096);
    ck_assert_str_eq(given, "POST / HTTP/1.1\r\nHost:h\r\n\r\n");
    struct head head = take();

    ck_assert_str_eq(head.text + head.target, "/b");
    reader_next(&reader);
    come(two, sizeof two - 1 - strlen("GET /b HTTP/1.1\r\n" HOST "\r\n"));
    read_all(4096);
    take();
    ck_assert(!reader_waits(&reader));
}

TEST(expect_100_continue_is_passed_only_if_the_client_waits)
{
    static const char waits[] = POST "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n";

    come(waits, sizeof waits - 1);
    read_all(4096);
    ck_assert_ptr_nonnull(strstr(given, "\r\nExpect:100-continue\r\n"));
    take();
    come("{}", 2);
    read_all(4096);
    reader_next(&reader);
    length = 0;
    come(waits, sizeof waits - 1);
    come("{", 1);
    read_all(4096);
    ck_assert_ptr_null(strstr(given, "Expect"));
}

TEST(a_refused_head_becomes_a_request_with_connection_close)
{
    static const char bad[] = "HEAD /a HTTP/1.1\r\n" HOST ":\r\nGET / HTTP/1.1\r\n\r\n";

    come(bad, sizeof bad - 1);
    read_all(4096);
    ck_assert_str_eq(given, "HEAD / HTTP/1.1\r\nHost:h\r\nConnection:close\r\n\r\n");
    struct head head = take();

    ck_assert_int_eq(head.status, 400);
    ck_assert_str_eq(head.text + head.target, "/a");
    ck_assert_str_eq(head_value(&head, "host"), "h");
    ck_assert(reader_unread(&reader));
    length = 0;
    reader_next(&reader);
    read_all(4096);
    ck_assert_int_eq(reader_take(&reader, arena, &head), -1);
}

static const struct {
    const char *body, *given;
} bad_bodies[] = {
    {"5\n", ""},
    {"\r\n", ""},
    {"g\r\n", ""},
    {"5;\r\n", ""},
    {"5 x\r\n", ""},
    {"5;a=\"b\r\n", ""},
    {"5;a=\"b\" c\r\n", ""},
    {"5\x01", ""},
    {"5\rx", ""},
    {"5\r\nhellox", "5\r\nhello\r\n"},
    {"5\r\nhello\rx", "5\r\nhello\r\n"},
    {"5\r\nhello\r\n0\r\n:\r\n", "5\r\nhello\r\n"},
    {"0\r\n folded\r\n", ""},
    {"0\r\na b: c\r\n", ""},
};

/* libmicrohttpd only sees the end of the body. */
TEST_EACH(a_body_with_malformed_framing_ends_at_the_error, COUNT(bad_bodies))
{
    static const char start[] = POST "Transfer-Encoding: chunked\r\n\r\n";
    static const char head[] = "POST / HTTP/1.1\r\nHost:h\r\nTransfer-Encoding:chunked\r\n\r\n";
    const char *body = bad_bodies[_i].body;

    come(start, sizeof start - 1);
    for (; *body; body++) {
        come(body, 1);
        read_all(4096);
    }
    come("0\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 4);
    read_all(4096);
    ck_assert_int_eq(strncmp(given, head, sizeof head - 1), 0);
    const char *rest = given + sizeof head - 1;
    size_t good = strlen(bad_bodies[_i].given);

    ck_assert_int_eq(strncmp(rest, bad_bodies[_i].given, good), 0);
    ck_assert_str_eq(rest + good, "0\r\n\r\n");
    ck_assert_int_eq(reader.status, 400);
    ck_assert_ptr_nonnull(reader.reason);
}

TEST(the_end_is_reported_and_an_incomplete_head_refused)
{
    shutdown(ends[1], SHUT_WR);
    ck_assert_int_eq(reader_recv(&reader, ends[0], given, 100), 0);
    close(ends[0]);
    close(ends[1]);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    come("GET / H", 7);
    read_all(4096);
    ck_assert(reader.began);
    ck_assert_uint_eq(length, 0);
    shutdown(ends[1], SHUT_WR);
    read_all(4096);
    ck_assert_int_eq(take().status, 400);
}

static const struct {
    const char *sent, *given;
    size_t zeros;     /* bytes after `given` */
    const char *rest; /* text after the zeros */
} stopped[] = {
    {POST "Content-Length: 5\r\n\r\nhe", "POST / HTTP/1.1\r\nHost:h\r\nContent-Length:5\r\n\r\nhe",
     3, ""},
    {POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhe",
     "POST / HTTP/1.1\r\nHost:h\r\nTransfer-Encoding:chunked\r\n\r\n5\r\nhe", 3, "\r\n0\r\n\r\n"},
    {POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello",
     "POST / HTTP/1.1\r\nHost:h\r\nTransfer-Encoding:chunked\r\n\r\n5\r\nhello", 0,
     "\r\n0\r\n\r\n"},
    {POST "Transfer-Encoding: chunked\r\n\r\n5",
     "POST / HTTP/1.1\r\nHost:h\r\nTransfer-Encoding:chunked\r\n\r\n", 0, "0\r\n\r\n"},
    {POST "Transfer-Encoding: chunked\r\n\r\n0\r\n",
     "POST / HTTP/1.1\r\nHost:h\r\nTransfer-Encoding:chunked\r\n\r\n", 0, "0\r\n\r\n"},
};

/* The client ends its side, the host refuses the body, or the body is late; bytes that came too
 * late and were not read do not count. */
TEST_EACH(an_incomplete_body_ends_where_it_stopped, COUNT(stopped) * 3)
{
    const char *sent = stopped[_i / 3].sent, *start = stopped[_i / 3].given;
    size_t zeros = stopped[_i / 3].zeros;
    static const int statuses[] = {400, 413, 408};

    come(sent, strlen(sent));
    if (_i % 3 == 0) {
        shutdown(ends[1], SHUT_WR);
        read_all(7);
    } else if (_i % 3 == 1) {
        read_all(4096);
        ck_assert(reader_stop(&reader, 413, NULL));
        ck_assert(!reader_stop(&reader, 413, NULL));
        ck_assert(reader_gives(&reader));
        read_all(4096);
        ck_assert(!reader_gives(&reader));
    } else {
        read_all(4096);
        come("a", 1);
        reader.late = true;
        read_all(4096);
    }
    ck_assert_int_eq(memcmp(given, start, strlen(start)), 0);
    for (size_t i = 0; i < zeros; i++)
        ck_assert_int_eq(given[strlen(start) + i], 0);
    ck_assert_uint_eq(length, strlen(start) + zeros + strlen(stopped[_i / 3].rest));
    ck_assert_str_eq(given + strlen(start) + zeros, stopped[_i / 3].rest);
    ck_assert(reader_unread(&reader));
    ck_assert_int_eq(reader.status, statuses[_i % 3]);
    ck_assert(reader.reason || reader.status == 413);
}

/* Decodes the chunks of a body into `body`; returns the number of bytes. The last chunk must be
 * there. */
static size_t unframe(const char *at, char *body)
{
    size_t all = 0, size;

    do {
        char *end;

        size = strtoul(at, &end, 16);
        ck_assert_uint_le(size, PIECE);
        ck_assert_int_eq(strncmp(end, "\r\n", 2), 0);
        memcpy(body + all, end + 2, size);
        all += size;
        at = end + 2 + size + 2;
        ck_assert_int_eq(strncmp(at - 2, "\r\n", 2), 0);
    } while (size);
    ck_assert_ptr_eq(at, given + length);
    return all;
}

static const struct {
    const char *sent, *given;
} large_heads[] = {
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n",
     "POST / HTTP/1.1\r\nHost:h\r\nTransfer-Encoding:chunked\r\n\r\n"},
    {"POST / HTTP/1.0\r\nContent-Length: %zu\r\n\r\n",
     "POST / HTTP/1.1\r\nHost:h\r\nConnection:close\r\nTransfer-Encoding:chunked\r\n\r\n"},
    {"POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: %zu\r\n\r\n",
     "POST / HTTP/1.1\r\nHost:h\r\nConnection:keep-alive\r\nTransfer-Encoding:chunked\r\n\r\n"},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n%zx\r\n",
     "POST / HTTP/1.1\r\nHost:h\r\nTransfer-Encoding:chunked\r\n\r\n"},
};

static const size_t large_sizes[] = {PIECE + 1, 2 * PIECE - 1, 2 * PIECE, 2 * PIECE + 1, 3 * PIECE};

/* Sends this many bytes of the body, cut anywhere. */
static void come_in_parts(const char *body, size_t size, size_t room)
{
    for (size_t at = 0, part = 1; at < size; at += part, part = part * 3 % 9973) {
        part = size - at < part ? size - at : part;
        come(body + at, part);
        read_all(room);
    }
}

static void come_large(int at, size_t declared)
{
    char *head = arena_format(arena, large_heads[at].sent, declared);

    come(head, strlen(head));
    read_all(4096);
    ck_assert_str_eq(given, large_heads[at].given); /* has no size, see reader_begin_piece() */
    take();
}

TEST_EACH(a_large_body_is_passed_on_in_pieces, COUNT(large_heads))
{
    static char body[LARGE], whole[LARGE];

    for (size_t i = 0; i < LARGE; i++)
        body[i] = (char)(i * 7 % 251);
    for (size_t i = 0; i < COUNT(large_sizes); i++) {
        bool chunked = strstr(large_heads[_i].sent, "chunked") != NULL;

        come_large(_i, large_sizes[i]);
        come_in_parts(body, large_sizes[i], 1000 + i * 1777);
        if (chunked)
            come("\r\n0\r\n\r\n", 7);
        read_all(4096);
        ck_assert_uint_eq(unframe(given + strlen(large_heads[_i].given), whole), large_sizes[i]);
        ck_assert_int_eq(memcmp(whole, body, large_sizes[i]), 0);
        ck_assert(!reader_unread(&reader));
        tear_down();
        set_up();
    }
}

/* The reader never makes up more bytes than the rest of a piece. */
TEST_EACH(a_large_body_that_ends_too_early_is_an_error, COUNT(large_heads))
{
    static const size_t sent[] = {0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE};
    static char body[LARGE], whole[LARGE];

    memset(body, 'x', LARGE);
    for (size_t i = 0; i < COUNT(sent); i++) {
        come_large(_i, (size_t)1 << 40);
        come_in_parts(body, sent[i], 4096);
        if (i % 2)
            ck_assert(reader_stop(&reader, 400, NULL));
        else
            shutdown(ends[1], SHUT_WR);
        read_all(4096);
        size_t all = unframe(given + strlen(large_heads[_i].given), whole);

        ck_assert_int_eq(memcmp(whole, body, sent[i]), 0);
        ck_assert_uint_eq(all, (sent[i] + PIECE - 1) / PIECE * PIECE);
        ck_assert_int_eq(reader.status, 400);
        ck_assert(!reader_stop(&reader, 413, NULL));
        ck_assert(!reader_gives(&reader));
        tear_down();
        set_up();
    }
}

TEST(buffers_are_kept_only_if_bytes_wait)
{
    struct reader many[100];

    for (size_t i = 0; i < COUNT(many); i++) {
        many[i] = (struct reader){0};
        ck_assert_int_eq(reader_recv(&many[i], ends[0], given, 100), -1);
        ck_assert_ptr_null(many[i].buffer);
    }
    for (size_t i = 0; i < COUNT(many); i++) {
        come("G", 1);
        ck_assert_int_eq(reader_recv(&many[i], ends[0], given, 100), -1);
        ck_assert_ptr_nonnull(many[i].buffer);
    }
    for (size_t i = 0; i < COUNT(many); i++) {
        reader_free(&many[i]);
        ck_assert_ptr_null(many[i].buffer);
    }
}

SUITE(reader, .before_each = set_up, .after_each = tear_down)
