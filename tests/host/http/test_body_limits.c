/*
 * Size limits of bodies: a client whose body is too large can read the refusal; large bodies share
 * a memory limit, and so do large responses; threat H05 and pitfalls 16, 19.
 */
#include <stdlib.h>
#include <string.h>

#include "meter.h"
#include "people.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"
#include "wire.h"

#define POST_LOGIN "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

enum { MIB = 1024 * 1024, LOGIN_MAX = 32768, CROWD = 24, REFUSED_MS = 90 };

static struct host *host;
static struct person *user;

static void set_up(void)
{
    host = host_start(&(struct host_spec){.name = "body-limits",
                                          .database = database_make(the_postgres, "body_limits")});
    user = person_make(host, admin_of(host), "body.limits", NULL);
}

static void tear_down(void)
{
    host_stop(host);
}

/* The client must see the 413 and not a reset, so the host reads and discards the bytes already
 * sent. */
static void expect_413(const char *head, bool chunked, size_t size)
{
    struct wire *wire = wire_open(host);
    char *body = calloc(1, size + 1);

    ck_assert_ptr_nonnull(body);
    memset(body, ' ', size);
    wire_say(wire, "%s", head);
    if (chunked)
        wire_say(wire, "%zx\r\n", size);
    ck_assert_msg(wire_send(wire, body, size), "the host closes while the body is on its way");
    if (chunked)
        wire_say(wire, "\r\n0\r\n\r\n");
    free(body);
    ck_wire_error(wire_read(wire, 10000), 413);
    ck_assert(!wire->reset);
    wire_close(wire, false);
}

TEST(a_client_sees_the_413_to_a_declared_body)
{
    expect_413(text(POST_LOGIN "Content-Length: %d\r\n\r\n", 2 * MIB + 1), false, 2 * MIB + 1);
    expect_413(text(POST_LOGIN "Content-Length: %d\r\n\r\n", 16 * MIB), false, 16 * MIB);
}

TEST(a_client_sees_the_413_to_a_chunked_body)
{
    expect_413(POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n", true, 2 * MIB + 1);
    expect_413(POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n", true, 16 * MIB);
}

static struct wire_answer *find_of(int bytes)
{
    return wire_ask(host,
                    "POST /api/chat/conversations/find HTTP/1.1\r\nHost: x\r\n"
                    "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
                    "Content-Length: %d\r\n\r\n{%*s}",
                    user->token, bytes, bytes - 2, "");
}

TEST(a_body_of_exactly_the_limit_is_read)
{
    struct wire_answer *answer =
        wire_ask(host, POST_LOGIN "Content-Length: %d\r\n\r\n{%*s}", LOGIN_MAX, LOGIN_MAX - 2, "");

    ck_wire_error(answer, 400);
    ck_assert_ptr_nonnull(strstr(answer->body, "username"));
    answer = find_of(2 * MIB);
    ck_assert(answer && answer->status == 200);
    ck_wire_error(find_of(2 * MIB + 1), 413);
}

static char *host_metrics(const struct host *of)
{
    return ck_status(http(of, "GET", "/metrics", NULL, NULL), 200)->body;
}

static struct wire *begin_find(const struct host *at, const struct person *by, size_t bytes)
{
    struct wire *wire = wire_open(at);

    wire_say(wire,
             "POST /api/chat/conversations/find HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n{%*s",
             by->token, bytes, (int)bytes - 2, "");
    return wire;
}

static int status_of(struct wire *wire)
{
    const struct wire_answer *answer = wire_read(wire, 5000);
    const char *after = answer ? wire_header(answer, "Retry-After") : NULL;

    wire_close(wire, false);
    ck_assert(answer && (answer->status == 200 || answer->status == 429 || answer->status == 503));
    ck_assert(answer->status == 200 || after);
    return answer->status;
}

static int end_find(struct wire *wire)
{
    wire_say(wire, "}");
    return status_of(wire);
}

struct kept_bytes {
    const struct host *host;
    int bytes;
};

static bool is_kept(void *of)
{
    const struct kept_bytes *kept = of;

    return strstr(host_metrics(kept->host), text("\nbusbar_body_bytes %d\n", kept->bytes)) != NULL;
}

TEST(large_bodies_share_a_bound_and_small_ones_have_none)
{
    struct host *tight = host_start(
        &(struct host_spec){.name = "limits-bodies",
                            .database = database_make(the_postgres, "limits_bodies"),
                            .modules = "[auth, chat, health, metrics]",
                            .http = "  max_bodies: 1048576\n  metrics_networks: [127.0.0.1]\n"});
    const struct person *person = person_make(tight, admin_of(tight), "tight", NULL);
    const struct person *other = person_make(tight, admin_of(tight), "tight.other", NULL);
    struct wire *first = begin_find(tight, person, 800000);

    ck_assert(wait_until(is_kept, &(struct kept_bytes){tight, 799999}, 5000));
    ck_assert_int_eq(end_find(begin_find(tight, other, 800000)), 503);
    ck_assert_int_eq(end_find(begin_find(tight, other, 60000)), 200);
    ck_assert_int_eq(end_find(first), 200);
    ck_assert_int_eq(end_find(begin_find(tight, person, 800000)), 200);
    struct wire *alone = begin_find(tight, person, 2000000);

    ck_assert(wait_until(is_kept, &(struct kept_bytes){tight, 1999999}, 5000));
    ck_assert_int_eq(end_find(begin_find(tight, person, 60000)), 200);
    ck_assert_int_eq(end_find(alone), 200);
    ck_assert_ptr_nonnull(strstr(host_metrics(tight), "\nbusbar_body_bytes 0\n"));
    host_stop(tight);
}

/* The share is a quarter of the limit, unless a setting changes it. */
TEST(an_account_has_a_part_of_the_bound_and_leaves_the_rest_to_others)
{
    struct host *tight = host_start(
        &(struct host_spec){.name = "limits-parts",
                            .database = database_make(the_postgres, "limits_parts"),
                            .modules = "[auth, chat, health, metrics]",
                            .http = "  max_bodies: 4194304\n  metrics_networks: [127.0.0.1]\n"});
    const struct person *greedy = person_make(tight, admin_of(tight), "greedy", NULL);
    const struct person *other = person_make(tight, admin_of(tight), "patient", NULL);
    struct wire *slow = begin_find(tight, greedy, 900000);

    ck_assert(wait_until(is_kept, &(struct kept_bytes){tight, 899999}, 5000));
    ck_assert_int_eq(end_find(begin_find(tight, greedy, 400000)), 429);
    ck_assert_int_eq(end_find(begin_find(tight, greedy, 100000)), 200);
    ck_assert_int_eq(end_find(begin_find(tight, greedy, 60000)), 200);
    ck_assert_int_eq(end_find(begin_find(tight, other, 2000000)), 200);
    ck_assert_int_eq(end_find(slow), 200);
    ck_assert_int_eq(end_find(begin_find(tight, greedy, 400000)), 200);
    ck_assert_ptr_nonnull(strstr(host_metrics(tight), "\nbusbar_body_bytes 0\n"));
    host_stop(tight);
}

static struct wire *begin_shout(const struct host *at, const char *from, size_t bytes)
{
    struct wire *wire = wire_open_from(at, from, 0);

    wire_say(wire,
             "POST /api/wave/shout HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n{%*s",
             bytes, (int)bytes - 2, "");
    return wire;
}

TEST(who_has_no_token_has_a_part_by_the_address)
{
    struct host *tight = host_start(&(struct host_spec){
        .name = "limits-addresses",
        .database = database_make(the_postgres, "limits_addresses"),
        .modules = text("[auth, metrics, \"%s\"]", harness_test_module("module_wave1")),
        .http =
            "  max_bodies: 10485760\n  bodies_per_account: 10\n  metrics_networks: [127.0.0.1]\n"});
    struct wire *slow = begin_shout(tight, "127.0.0.2", 1000000);

    ck_assert(wait_until(is_kept, &(struct kept_bytes){tight, 999999}, 5000));
    int64_t began = now_ms();

    ck_assert_int_eq(end_find(begin_shout(tight, "127.0.0.2", 100000)), 429);
    ck_assert_int_ge(now_ms() - began, REFUSED_MS);
    ck_assert_int_eq(end_find(begin_shout(tight, "127.0.0.3", 1000000)), 200);
    ck_assert_int_eq(end_find(slow), 200);
    ck_assert_int_eq(end_find(begin_shout(tight, "127.0.0.2", 100000)), 200);
    host_stop(tight);
}

#define GET_HEALTH "GET /api/health HTTP/1.1\r\nHost: x\r\n"

/* The health endpoint needs neither a body nor a token. */
TEST(a_body_that_nobody_reads_takes_no_memory)
{
    struct host *tight =
        host_start(&(struct host_spec){.name = "limits-unread",
                                       .database = database_make(the_postgres, "limits_unread"),
                                       .http = "  max_bodies: 1048576\n"});
    const struct person *person = person_make(tight, admin_of(tight), "unread", NULL);
    struct wire *large = wire_open(tight), *chunked = wire_open(tight);

    wire_say(large, GET_HEALTH "Content-Length: %d\r\n\r\n%*s", MIB + 1, MIB, "");
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(end_find(begin_find(tight, person, 800000)), 200);
    wire_say(large, "x");
    ck_assert_int_eq(status_of(large), 200);
    wire_say(chunked, GET_HEALTH "Transfer-Encoding: chunked\r\n\r\n%x\r\n%*s\r\n0\r\n\r\n",
             2 * MIB + 1, 2 * MIB + 1, "");
    ck_wire_error(wire_read(chunked, 5000), 413);
    wire_close(chunked, false);
    host_stop(tight);
}

/* Makes a conversation that is longer than the kernel's buffers for a client that does not read. */
static struct talk long_talk(const struct host *at, const struct person *by)
{
    struct talk talk = talk_start(at, by, by->email, ADMIN_EMAIL, NULL);
    const char *entry = text("%0*d", MIB, 0);

    for (int i = 0; i < 9; i++)
        ck_status(talk_post(at, by, &talk, by->email, entry), 201);
    return talk;
}

/* Requests the conversation and reads only the beginning of the response. */
static struct wire *leave_unread(const struct host *at, const struct person *by,
                                 const struct talk *talk)
{
    struct wire *wire = wire_open_from(at, "127.0.0.1", 4096);

    wire_say(wire, "GET /api/chat/chain/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
             talk->head, by->token);
    ck_assert(wire_has_more(wire, 5000));
    ck_assert_msg(!strncmp(wire->bytes, "HTTP/1.1 200", 12), "%s", wire->bytes);
    return wire;
}

/* Long chains are sent in pieces and do not count as large responses, so clients that do not read
 * them do not block others. */
TEST(long_chains_that_are_not_read_shut_nobody_out)
{
    struct host *tight =
        host_start(&(struct host_spec){.name = "limits-answers",
                                       .database = database_make(the_postgres, "limits_answers"),
                                       .modules = "[auth, chat, health, metrics]",
                                       .http = "  max_answers: 1048576\n"
                                               "  metrics_networks: [127.0.0.1]\n"});
    const struct person *admin = admin_of(tight);
    const struct person *greedy = person_make(tight, admin, "unread.greedy", NULL);
    const struct person *other = person_make(tight, admin, "unread.other", NULL);
    struct talk first = long_talk(tight, greedy), second = long_talk(tight, other);
    struct wire *unread = leave_unread(tight, greedy, &first);
    struct wire *another = leave_unread(tight, admin, &first);

    ck_status(talk_chain(tight, greedy, &first, ""), 200);
    ck_status(talk_chain(tight, other, &second, ""), 200);
    ck_assert_ptr_nonnull(strstr(host_metrics(tight), "\nbusbar_answer_bytes 0\n"));
    ck_status(talk_post(tight, greedy, &first, greedy->email, text("%0*d", MIB, 0)), 201);
    wire_close(unread, true);
    wire_close(another, true);
    host_stop(tight);
}

/* Makes a device whose readings are the largest response that is counted. */
static void many_readings(const struct host *at, const struct person *by, PGconn *db)
{
    int64_t device = meter_make(at, by, by->email, 10, days_ago(500));

    sql_run(db, text("INSERT INTO reading (device, type, start_at, end_at, wh, created_at)"
                     " SELECT %jd, 'D', now() - g * interval '1 hour', now() - (g - 1) *"
                     " interval '1 hour', 1000000, now() FROM generate_series(1, 5000) g",
                     (intmax_t)device));
}

static char *readings_path(const struct person *of)
{
    return text("/api/meter-reads/new/%s?limit=5000&organizationId=%jd", encoded(of->email),
                (intmax_t)of->organization);
}

static struct answer *all_readings(const struct host *at, const struct person *by)
{
    return http(at, "GET", readings_path(by), by->token, NULL);
}

static struct wire *leave_readings(const struct host *at, const struct person *by,
                                   const struct person *of)
{
    struct wire *wire = wire_open_from(at, "127.0.0.1", 4096);

    wire_say(wire, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
             readings_path(of), by->token);
    ck_assert(wire_has_more(wire, 5000));
    ck_assert_msg(!strncmp(wire->bytes, "HTTP/1.1 200", 12), "%s", wire->bytes);
    return wire;
}

static bool has_none_unread(void *of)
{
    return strstr(host_metrics(of), "\nbusbar_answer_bytes 0\n") != NULL;
}

TEST(large_answers_that_are_not_read_share_a_bound)
{
    struct host *tight =
        host_start(&(struct host_spec){.name = "limits-readings",
                                       .database = database_make(the_postgres, "limits_readings"),
                                       .modules = "[auth, device, reading, certificate, metrics]",
                                       .http = "  max_answers: 2097152\n"
                                               "  bodies_per_account: 50\n"
                                               "  metrics_networks: [127.0.0.1]\n"});
    PGconn *db = database_connect(the_postgres, "limits_readings");
    const struct person *admin = admin_of(tight);
    const struct person *greedy = person_make(tight, admin, "large.greedy", NULL);
    const struct person *other = person_make(tight, admin, "large.other", NULL);

    many_readings(tight, greedy, db);
    many_readings(tight, other, db);
    struct wire *unread = leave_readings(tight, greedy, greedy);
    struct answer *refused = ck_error(all_readings(tight, greedy), 429,
                                      "Too many large answers in progress for this account");

    ck_assert_ptr_nonnull(answer_header(refused, "Retry-After"));
    ck_status(meter_list(tight, greedy, greedy->email, "?limit=1"), 200);
    ck_status(all_readings(tight, other), 200);
    struct wire *another = leave_readings(tight, admin, greedy);

    refused = ck_error(all_readings(tight, other), 503, "The service is busy");
    ck_assert_ptr_nonnull(answer_header(refused, "Retry-After"));
    wire_close(unread, true);
    wire_close(another, true);
    ck_assert(wait_until(has_none_unread, tight, 5000));
    ck_status(all_readings(tight, other), 200);
    host_stop(tight);
    PQfinish(db);
}

struct caller {
    const struct host *host;
    const struct person *person;
};

static bool is_served(void *of)
{
    const struct caller *caller = of;

    return end_find(begin_find(caller->host, caller->person, 60000)) == 200;
}

/* One thread reads the bodies, so most wait beyond their deadline and are never read. */
TEST(large_bodies_that_wait_too_long_for_a_reader_are_503)
{
    struct host_spec spec = {.name = "limits-hasty",
                             .database = database_make(the_postgres, "limits_hasty"),
                             .http = "  loops: 1\n"};
    struct host *hasty = host_start(&spec);
    struct person *person = person_make(hasty, admin_of(hasty), "hasty", NULL);
    struct caller caller = {hasty, person};
    struct wire *wires[CROWD];
    int refused = 0, status;

    spec.http = "  loops: 1\n  deadline: 200\n";
    file_write(hasty->conf, host_configuration(&spec));
    const char *said = host_ask(hasty, "reload", &status);

    ck_assert_msg(!status, "%s", said);
    for (int i = 0; i < CROWD; i++)
        wires[i] = begin_find(hasty, person, 2000000);
    for (int i = 0; i < CROWD; i++)
        wire_say(wires[i], "}");
    for (int i = 0; i < CROWD; i++)
        refused += status_of(wires[i]) == 503;
    ck_assert_int_gt(refused, 0);
    ck_assert(wait_until(is_served, &caller, 5000));
    host_stop(hasty);
}

TEST(a_hopeless_length_is_refused_without_reading)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, POST_LOGIN "Content-Length: 4294967296\r\n\r\n");
    ck_wire_error(wire_read(wire, 2000), 413);
    ck_assert(wire_closes(wire, 2000));
    wire_close(wire, false);
}

/* H05 */
TEST(who_asks_first_with_ten_gigabytes_is_refused_before_sending_them)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, POST_LOGIN "Expect: 100-continue\r\nContent-Length: 10737418240\r\n\r\n");
    struct wire_answer *answer = ck_wire_error(wire_read(wire, 2000), 413);

    ck_assert_str_eq(wire_header(answer, "Connection"), "close");
    ck_assert(wire_closes(wire, 2000));
    wire_close(wire, false);
}

TEST(who_asks_first_is_refused_without_a_token_and_else_told_to_go_on)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, "POST /api/chat/conversations/find HTTP/1.1\r\nHost: x\r\n"
                   "Content-Type: application/json\r\nExpect: 100-continue\r\n"
                   "Content-Length: 2\r\n\r\n");
    ck_wire_error(wire_read(wire, 5000), 401);
    wire_close(wire, false);
    wire = wire_open(host);
    wire_say(wire, POST_LOGIN "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    ck_assert(wire_has_more(wire, 5000));
    ck_assert_msg(!strncmp(wire->bytes, "HTTP/1.1 100 ", 13), "%s", wire->bytes);
    wire_say(wire, "{}");
    ck_wire_error(wire_read(wire, 5000), 400);
    wire_close(wire, false);
}

SUITE(body_limits, .timeout_s = 60, .before_all = set_up, .after_all = tear_down)
