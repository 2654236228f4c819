/*
 * Heads of every size, and extreme bodies and connections: the host keeps running, and each request
 * gets a response in JSON (findings A1, A3, C4, D1). BUSBAR_TEST_SIZES=all tries every size instead
 * of only sizes near the limits and a few others.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "people.h"
#include "suite.h"
#include "suites.h"
#include "wire.h"

#define GET_HEALTH "GET /api/health HTTP/1.1\r\nHost: x\r\n"
#define POST_LOGIN "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

enum { HEAD_MAX = 16384, SIZES = 10000, BATCH = 16, ROOM = 128 * 1024 };

static struct host *host;

static void set_up(void)
{
    host = host_start(&(struct host_spec){.name = "heads",
                                          .database = database_make(the_postgres, "heads"),
                                          .http = "  idle_timeout: 9\n  header_timeout: 1\n"});
}

static void tear_down(void)
{
    host_stop(host);
}

/* ---- sizes ---- */

/* A part of a head is repeated `size` times between a beginning and an end. */
static const struct kind {
    const char *name, *before, *part, *after;
    int status; /* status while the head is small enough */
} kinds[] = {
    {"path", "GET /api/health", "a", " HTTP/1.1\r\nHost: x\r\n\r\n", 404},
    {"query", "GET /api/health?", "a", " HTTP/1.1\r\nHost: x\r\n\r\n", 200},
    {"parameters", "GET /api/health?", "a&", " HTTP/1.1\r\nHost: x\r\n\r\n", 200},
    {"one header", GET_HEALTH "A: ", "b", "\r\n\r\n", 200},
    {"headers", GET_HEALTH, "a: b\r\n", "\r\n", 200},
    {"cookies", GET_HEALTH "Cookie: a=b", "; c=d", "\r\n\r\n", 200},
    {"empty lines", "", "\r\n", GET_HEALTH "\r\n", 200},
};

static size_t write_head(char *at, const struct kind *kind, size_t size)
{
    size_t before = strlen(kind->before), part = strlen(kind->part), after = strlen(kind->after);
    char *start = at;

    if (before + size * part + after > ROOM / 4)
        size = (ROOM / 4 - before - after) / part;
    memcpy(at, kind->before, before);
    at += before;
    for (size_t i = 0; i < size; i++, at += part)
        memcpy(at, kind->part, part);
    memcpy(at, kind->after, after);
    return (size_t)(at + after - start);
}

/* Returns the status of the refusal; 0: the kind's own status. */
static int refusal_of(const struct kind *kind, size_t size, size_t length)
{
    if (length > HEAD_MAX)
        return kind->after[0] == ' ' || !*kind->before ? 414 : 431;
    return kind->part[0] == 'a' && kind->part[1] == ':' && size + 1 > 256 ? 431 : 0;
}

static void expect(const struct kind *kind, size_t size, struct wire_answer *answer, int refused)
{
    int status = refused ? refused : kind->status;

    ck_assert_msg(answer != NULL, "%s of %zu: no answer", kind->name, size);
    ck_assert_msg(answer->status == status || (refused && answer->status == 431), "%s of %zu: %d",
                  kind->name, size, answer->status);
    ck_assert_msg(answer->body[0] == '{' && strchr(answer->body, '}'), "%s of %zu: %s", kind->name,
                  size, answer->body);
}

/* Writes the heads for the sizes from *size on into one batch, up to the first head that is
 * refused. */
static size_t write_batch(char *text, const struct kind *kind, const size_t *sizes, size_t count,
                          size_t *written)
{
    size_t used = 0, i;

    for (i = 0; i < count && i < BATCH && used < ROOM / 2; i++) {
        size_t length = write_head(text + used, kind, sizes[i]);

        used += length;
        if (refusal_of(kind, sizes[i], length)) {
            i++;
            break;
        }
    }
    *written = used;
    return i;
}

static bool last_refused(const struct kind *kind, size_t size)
{
    static char text[ROOM];

    return refusal_of(kind, size, write_head(text, kind, size)) != 0;
}

/* Sends several heads at once (`at_once`) or one by one, and reads the responses. */
static void sweep(const struct kind *kind, const size_t *sizes, size_t count, bool at_once)
{
    static char text[ROOM];
    struct wire *wire = wire_open(host);

    for (size_t i = 0, taken; i < count; i += taken) {
        size_t used;

        taken = write_batch(text, kind, sizes + i, at_once ? count - i : 1, &used);
        wire_send(wire, text, used);
        for (size_t k = i; k < i + taken; k++) {
            size_t length = write_head(text, kind, sizes[k]);

            expect(kind, sizes[k], wire_read(wire, 10000), refusal_of(kind, sizes[k], length));
        }
        if (!last_refused(kind, sizes[i + taken - 1]))
            continue;
        ck_assert_msg(wire_closes(wire, 5000), "%s of %zu", kind->name, sizes[i + taken - 1]);
        wire_close(wire, false);
        wire = wire_open(host);
    }
    wire_close(wire, false);
}

static bool is_tried(const struct kind *kind, size_t size)
{
    size_t parts = strlen(kind->part), bytes = size * parts;

    if (getenv("BUSBAR_TEST_SIZES") || size <= 320 || bytes % 251 < parts)
        return true;
    return (bytes > 7700 && bytes < 8300) || (bytes > HEAD_MAX - 100 && bytes < HEAD_MAX + 30);
}

static size_t choose(const struct kind *kind, size_t sizes[2 * SIZES])
{
    size_t count = 0;

    for (size_t size = 1; size <= SIZES; size++) {
        if (is_tried(kind, size) && size * strlen(kind->part) < (size_t)2 * HEAD_MAX)
            sizes[count++] = size;
    }
    for (size_t size = HEAD_MAX - 100; strlen(kind->part) == 1 && size < HEAD_MAX + 30; size++)
        sizes[count++] = size;
    return count;
}

TEST_EACH(a_head_of_any_size_gets_its_answer, COUNT(kinds))
{
    static size_t sizes[2 * SIZES];
    size_t count = choose(&kinds[_i], sizes);

    ck_assert_uint_gt(count, 400);
    sweep(&kinds[_i], sizes, count, false);
    sweep(&kinds[_i], sizes, count, true);
}

/* ---- pieces ---- */

/* Two requests with bodies, of each kind, in pieces of any length. */
TEST(requests_are_the_same_in_whatever_pieces_they_come)
{
    static const char requests[] =
        "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        "Content-Length: 2\r\n\r\n{}"
        "POST http://x/api/auth/login/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n1;a=\"b\"\r\n{\r\n1\r\n}\r\n0\r\nX: y\r\n\r\n" GET_HEALTH
        "\r\n";
    static const int statuses[] = {400, 400, 200};

    for (size_t piece = 1; piece < 120; piece += 1 + piece / 4) {
        struct wire *wire = wire_open(host);
        int one = 1;

        setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        for (size_t at = 0; at < sizeof requests - 1; at += piece)
            wire_send(wire, requests + at,
                      at + piece < sizeof requests - 1 ? piece : sizeof requests - 1 - at);
        for (size_t i = 0; i < COUNT(statuses); i++) {
            struct wire_answer *answer = wire_read(wire, 10000);

            ck_assert_msg(answer != NULL, "pieces of %zu, answer %zu", piece, i);
            ck_assert_int_eq(answer->status, statuses[i]);
        }
        wire_close(wire, false);
    }
}

static char *zeros(size_t length)
{
    char *text = calloc(1, length + 1);

    ck_assert_ptr_nonnull(text);
    memset(text, '0', length);
    return text;
}

/* Lengths close to the sizes of the buffers of libmicrohttpd and the reader. */
TEST(what_follows_a_body_of_any_length_is_served)
{
    static const size_t lengths[] = {1,    100,  3900, 3990, 4000, 4001,  4090,  4095,  4096,
                                     4097, 4200, 8191, 8192, 8193, 16384, 65536, 200000};
    struct wire *wire = wire_open(host);

    for (size_t i = 0; i < COUNT(lengths); i++) {
        char *body = zeros(lengths[i]);

        wire_say(wire,
                 POST_LOGIN "Content-Length: %zu\r\n\r\n%s" GET_HEALTH "\r\n" POST_LOGIN
                            "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%s\r\n0\r\n\r\n" GET_HEALTH
                            "\r\n",
                 lengths[i], body, lengths[i], body);
        for (int k = 0; k < 4; k++) {
            struct wire_answer *answer = wire_read(wire, 10000);

            ck_assert_msg(answer != NULL, "length %zu, answer %d", lengths[i], k);
            if (k % 2)
                ck_assert_int_eq(answer->status, 200);
            else
                ck_wire_error(answer, lengths[i] <= 16384 ? 400 : 413);
        }
        free(body);
    }
    wire_close(wire, false);
}

/* ---- chunks ---- */

TEST(extensions_and_trailers_without_end_are_refused_at_once)
{
    static const char *const before[] = {"2;a=", "1\r\n{\r\n1;b=", "2\r\n{}\r\n0\r\nA: ", ""};
    char *many = zeros(20000);

    for (size_t i = 0; i < COUNT(before); i++) {
        struct wire *wire = wire_open(host);

        wire_say(wire, POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n%s%s", before[i], many);
        ck_wire_error(wire_read(wire, 5000), 400);
        ck_assert(wire_closes(wire, 5000));
        wire_close(wire, false);
    }
    free(many);
}

/* Each is small enough, but all together exceed the limit. */
TEST(extensions_of_many_chunks_are_bounded_together)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 40; i++)
        wire_say(wire, "1;a=%0900d\r\n0\r\n", 0);
    ck_wire_error(wire_read(wire, 5000), 400);
    wire_close(wire, false);
}

/* ---- connections ---- */

TEST(expect_of_a_request_without_a_body_means_nothing)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, GET_HEALTH "Expect: 100-continue\r\n\r\n" GET_HEALTH "\r\n");
    for (int i = 0; i < 2; i++) {
        struct wire_answer *answer = wire_read(wire, 5000);

        ck_assert_ptr_nonnull(answer);
        ck_assert_int_eq(answer->status, 200);
    }
    ck_assert(!wire_has_more(wire, 100));
    wire_close(wire, false);
}

TEST(a_body_that_waits_for_leave_gets_it)
{
    static const char leave[] = "HTTP/1.1 100 Continue\r\n\r\n";
    char got[sizeof leave] = "";
    struct wire *wire = wire_open(host);

    wire_say(wire, POST_LOGIN "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    ck_assert_int_eq(recv(wire->fd, got, sizeof leave - 1, MSG_WAITALL), sizeof leave - 1);
    ck_assert_str_eq(got, leave);
    wire_say(wire, "{}" GET_HEALTH "\r\n");
    ck_wire_error(wire_read(wire, 5000), 400);
    struct wire_answer *answer = wire_read(wire, 5000);

    ck_assert(answer && answer->status == 200);
    wire_close(wire, false);
}

TEST(a_client_that_closes_its_side_gets_its_answers)
{
    static const char *const sent[] = {GET_HEALTH "\r\n", "GET /api/health HTTP/1.0\r\n\r\n",
                                       GET_HEALTH "X: y"};
    static const int statuses[] = {200, 200, 400};

    for (size_t i = 0; i < COUNT(sent); i++) {
        struct wire *wire = wire_open(host);

        wire_say(wire, "%s", sent[i]);
        shutdown(wire->fd, SHUT_WR);
        struct wire_answer *answer = wire_read(wire, 5000);

        ck_assert_ptr_nonnull(answer);
        ck_assert_int_eq(answer->status, statuses[i]);
        ck_assert(wire_closes(wire, 5000)); /* before the idle timeout */
        wire_close(wire, false);
    }
}

/* H07: the response gives the reason. */
TEST(a_head_that_never_ends_gets_an_answer)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, GET_HEALTH "X-Slow: ");
    ck_wire_error(wire_read(wire, 5000), 408);
    ck_assert(wire_closes(wire, 5000));
    wire_close(wire, false);
}

/* Much more than the kernel buffers is still being sent when the response is given. */
TEST(an_answer_reaches_a_client_that_goes_on_sending)
{
    char *many = zeros(1000000);

    for (int i = 0; i < 8; i++) {
        struct wire *wire = wire_open(host);

        wire_say(wire, GET_HEALTH "X: %s\r\n\r\n", many);
        ck_wire_error(wire_read(wire, 5000), 431);
        ck_assert(wire_closes(wire, 5000));
        ck_assert(!wire->reset);
        wire_close(wire, false);
    }
    free(many);
}

/* C4 */
TEST(an_answer_says_how_long_the_connection_is_kept)
{
    static const struct {
        const char *request, *kept;
    } asked[] = {{GET_HEALTH "\r\n", "timeout=9"},
                 {GET_HEALTH "Connection: close\r\n\r\n", NULL},
                 {"GET /api/health HTTP/1.0\r\n\r\n", NULL},
                 {"GET /api/health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "timeout=9"},
                 {"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", NULL}};

    for (size_t i = 0; i < COUNT(asked); i++) {
        struct wire_answer *answer = wire_ask(host, "%s", asked[i].request);
        const char *kept = wire_header(answer, "Keep-Alive");

        if (asked[i].kept)
            ck_assert_str_eq(kept ? kept : "none", asked[i].kept);
        else
            ck_assert_ptr_null(kept);
        ck_assert_int_eq(strcasecmp(wire_header(answer, "Connection"), "keep-alive") == 0,
                         asked[i].kept != NULL);
    }
}

TEST(a_connection_is_kept_for_75_seconds_by_default)
{
    struct host *plain = host_start(&(struct host_spec){
        .name = "heads-plain", .database = database_make(the_postgres, "heads_plain")});

    ck_assert_str_eq(wire_header(wire_ask(plain, GET_HEALTH "\r\n"), "Keep-Alive"), "timeout=75");
    host_stop(plain);
}

/* The part of the target that a response repeats must fit into a head of libmicrohttpd. */
TEST(a_list_with_a_long_query_gets_an_answer)
{
    const struct person *admin = admin_of(host);

    for (int length = 100; length < 15000; length += 700) {
        struct wire_answer *answer =
            wire_ask(host,
                     "GET /api/admin/users?limit=1&x=%0*d HTTP/1.1\r\nHost: x\r\n"
                     "Authorization: Bearer %s\r\n\r\n",
                     length, 0, admin->token);

        ck_assert_msg(answer->status == 200 || answer->status == 414, "%d: %d", length,
                      answer->status);
    }
}

SUITE(heads, .timeout_s = getenv("BUSBAR_TEST_SIZES") ? 900 : 60, .before_all = set_up,
      .after_all = tear_down)
