/*
 * Limits of time and size on a connection: slow heads, bodies and readers are cut, bodies over the
 * limit are refused so that the client sees it, pipelines keep their order; threats H05, H07, H08,
 * H10 and pitfalls 10, 11, 16, 19. The host's limits are small, so that the tests are quick.
 */
#include <stdlib.h>
#include <string.h>

#include "people.h"
#include "suites.h"
#include "wire.h"

#define HEADER_MS 1000 /* the limits in set_up() */
#define BODY_MS 1000
#define IDLE_MS 2000
#define PATROL_MS 500
#define SLACK_MS 1500 /* for a machine that has more to do */
#define GET_HEALTH "GET /api/health HTTP/1.1\r\nHost: x\r\n"
#define POST_LOGIN "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

enum { MIB = 1024 * 1024, SLOW_ONES = 100, PIPELINED = 1000 };

static struct host *host;
static struct person *user;

static void set_up(void)
{
    host = host_start(&(struct host_spec){.name = "limits",
                                          .database = database_make(the_postgres, "limits"),
                                          .http = "  loops: 1\n"
                                                  "  deadline: 20000\n"
                                                  "  header_timeout: 1\n"
                                                  "  body_timeout: 1\n"
                                                  "  idle_timeout: 2\n"
                                                  "  write_timeout: 1\n",
                                          .db = "  statement_timeout: 20000\n"});
    user = person_make(host, admin_of(host), "limits", NULL);
}

static void tear_down(void)
{
    host_stop(host);
}

/* Sends a byte every 20 ms until the host closes; how many ms that took, -1: it never did. */
static int64_t drip(struct wire *wire, int ms)
{
    int64_t start = now_ms();

    while (now_ms() < start + ms) {
        wire_send(wire, "a", 1);
        if (wire_closes(wire, 20))
            return now_ms() - start;
    }
    return -1;
}

/* H07 */
START_TEST(a_head_that_comes_too_slowly_is_cut)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, GET_HEALTH "X-Slow: ");
    int64_t took = drip(wire, HEADER_MS + PATROL_MS + SLACK_MS);

    ck_assert_msg(took >= HEADER_MS - 20, "cut after %jd ms", (intmax_t)took);
    wire_close(wire, false);
}

START_TEST(a_connection_that_says_nothing_is_cut)
{
    struct wire *wire = wire_open(host);

    ck_assert(wire_closes(wire, HEADER_MS + PATROL_MS + SLACK_MS));
    wire_close(wire, false);
}

/* H08 */
START_TEST(a_body_that_comes_too_slowly_is_cut)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, POST_LOGIN "Content-Length: 100000\r\n\r\n");
    int64_t took = drip(wire, BODY_MS + PATROL_MS + SLACK_MS);

    ck_assert_msg(took >= BODY_MS - 20, "cut after %jd ms", (intmax_t)took);
    wire_close(wire, false);
}

START_TEST(a_refused_body_that_comes_too_slowly_is_cut_as_well)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, "POST /api/nope HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
    ck_assert_int_ge(drip(wire, BODY_MS + PATROL_MS + SLACK_MS), 0);
    wire_close(wire, false);
}

START_TEST(a_connection_kept_alive_for_nothing_is_closed)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, GET_HEALTH "\r\n");
    ck_assert_ptr_nonnull(wire_read(wire, 5000));
    ck_assert(wire_closes(wire, IDLE_MS + HEADER_MS + PATROL_MS + SLACK_MS));
    wire_close(wire, false);
}

/* H07: the slow ones do not slow the others. */
START_TEST(a_hundred_slow_heads_leave_the_others_alone)
{
    struct wire *slow[SLOW_ONES];
    struct wire *wire = wire_open(host);
    int64_t worst = 0;

    for (int i = 0; i < SLOW_ONES; i++) {
        slow[i] = wire_open(host);
        wire_say(slow[i], "GET /api/health HTTP/1.1\r\nX");
    }
    for (int i = 0; i < SLOW_ONES; i++) {
        int64_t start = now_ms();

        wire_send(slow[i], "a", 1);
        wire_say(wire, GET_HEALTH "\r\n");
        ck_assert_ptr_nonnull(wire_read(wire, 5000));
        worst = now_ms() - start > worst ? now_ms() - start : worst;
    }
    ck_assert_msg(worst < 500, "the slowest answer took %jd ms", (intmax_t)worst);
    for (int i = 0; i < SLOW_ONES; i++) {
        ck_assert(wire_closes(slow[i], HEADER_MS + PATROL_MS + SLACK_MS));
        wire_close(slow[i], false);
    }
}

static bool cut_is_logged(void *id)
{
    const char *line = strstr(file_text(host->log), id);

    return line && strstr(text("%.*s", (int)strcspn(line, "\n"), line), " cut=true");
}

static json_t *start_body(const char *entry)
{
    return json_pack("{ss ss ss ss}", "participant1", user->email, "participant2", ADMIN_EMAIL,
                     "username", user->email, "chatEntry", entry);
}

/* H08: an answer larger than what the kernel takes, and nobody who reads it. */
START_TEST(a_reader_that_does_not_read_is_cut)
{
    char *entry = text("%0*d", MIB, 0);
    struct answer *started = ck_status(
        http(host, "POST", "/api/chat/conversations/start", user->token, start_body(entry)), 201);
    const json_t *conversation = json_object_get(started->json, "conversation");
    const char *path = text("/api/chat/conversations/%jd/messages",
                            (intmax_t)json_integer_value(json_object_get(conversation, "id")));

    for (int i = 0; i < 9; i++)
        ck_status(http(host, "POST", path, user->token,
                       json_pack("{ss ss}", "username", user->email, "chatEntry", entry)),
                  201);
    struct wire *wire = wire_open_from(host, "127.0.0.1", 4096);

    wire_say(wire,
             "GET /api/chat/chain/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
             "X-Request-Id: never-reads\r\n\r\n",
             json_string_value(json_object_get(conversation, "headUuid")), user->token);
    ck_assert(wait_until(cut_is_logged, "request=never-reads ", IDLE_MS + PATROL_MS + 4000));
    wire_close(wire, true);
}

static PGconn *lock_conversations(void)
{
    PGconn *db = database_connect(the_postgres, "limits");

    sql_text(db, "BEGIN", 0, NULL);
    sql_text(db, "LOCK TABLE chat_conversation IN ACCESS EXCLUSIVE MODE", 0, NULL);
    return db;
}

static bool somebody_waits(void *db)
{
    return sql_number(db, "SELECT count(*) FROM pg_locks WHERE NOT granted AND "
                          "relation = 'chat_conversation'::regclass") > 0;
}

static void say_find(struct wire *wire)
{
    wire_say(wire,
             "POST /api/chat/conversations/find HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
             "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
             user->token);
}

/* Pitfall 11: the limits on a head and on idling do not run while the request is at work. */
START_TEST(a_request_may_wait_longer_than_a_head_may_take)
{
    PGconn *db = lock_conversations();
    struct wire *wire = wire_open(host);

    say_find(wire);
    wire_say(wire, "GET /api/hea"); /* half of the next one */
    ck_assert(wait_until(somebody_waits, db, 5000));
    ck_assert(!wire_closes(wire, IDLE_MS + HEADER_MS + PATROL_MS));
    sql_text(db, "COMMIT", 0, NULL);
    struct wire_answer *answer = wire_read(wire, 5000);

    ck_assert_ptr_nonnull(answer);
    ck_assert_int_eq(answer->status, 200);
    wire_say(wire, "lth HTTP/1.1\r\nHost: x\r\n\r\n");
    answer = wire_read(wire, 5000);
    ck_assert_ptr_nonnull(answer);
    ck_assert_int_eq(answer->status, 200);
    wire_say(wire, "GET /api/hea"); /* and here the limit runs again */
    ck_assert(wire_closes(wire, IDLE_MS + HEADER_MS + PATROL_MS + SLACK_MS));
    PQfinish(db);
    wire_close(wire, false);
}

/* 413 must be seen, not a reset: the host takes and drops what is already on its way. */
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

START_TEST(a_client_sees_the_413_to_a_declared_body)
{
    expect_413(text(POST_LOGIN "Content-Length: %d\r\n\r\n", 2 * MIB + 1), false, 2 * MIB + 1);
    expect_413(text(POST_LOGIN "Content-Length: %d\r\n\r\n", 16 * MIB), false, 16 * MIB);
}

START_TEST(a_client_sees_the_413_to_a_chunked_body)
{
    expect_413(POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n", true, 2 * MIB + 1);
    expect_413(POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n", true, 16 * MIB);
}

START_TEST(a_body_of_exactly_the_limit_is_read)
{
    struct wire_answer *answer =
        wire_ask(host, POST_LOGIN "Content-Length: %d\r\n\r\n{%*s}", 2 * MIB, 2 * MIB - 2, "");

    ck_wire_error(answer, 400);
    ck_assert_ptr_nonnull(strstr(answer->body, "username"));
}

START_TEST(a_hopeless_length_is_refused_without_reading)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, POST_LOGIN "Content-Length: 4294967296\r\n\r\n");
    ck_wire_error(wire_read(wire, 2000), 413);
    ck_assert(wire_closes(wire, 2000));
    wire_close(wire, false);
}

/* H05 */
START_TEST(who_asks_first_with_ten_gigabytes_is_refused_before_sending_them)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, POST_LOGIN "Expect: 100-continue\r\nContent-Length: 10737418240\r\n\r\n");
    struct wire_answer *answer = ck_wire_error(wire_read(wire, 2000), 413);

    ck_assert_str_eq(wire_header(answer, "Connection"), "close");
    ck_assert(wire_closes(wire, 2000));
    wire_close(wire, false);
}

START_TEST(who_asks_first_is_refused_without_a_token_and_else_told_to_go_on)
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

/* H10; pitfall 19 */
START_TEST(a_thousand_pipelined_requests_are_answered_in_order)
{
    struct wire *wire = wire_open(host);

    for (int i = 0; i < PIPELINED; i++)
        wire_say(wire, GET_HEALTH "X-Request-Id: number-%d\r\n\r\n", i);
    for (int i = 0; i < PIPELINED; i++) {
        struct wire_answer *answer = wire_read(wire, 10000);

        ck_assert_msg(answer != NULL, "no answer to number %d", i);
        ck_assert_int_eq(answer->status, 200);
        ck_assert_str_eq(wire_header(answer, "X-Request-Id"), text("number-%d", i));
    }
    ck_assert(!wire_has_more(wire, 100));
    wire_close(wire, false);
}

/* H10: refusals of every kind, with and without a body, and what follows on the connection. */
START_TEST(requests_behind_an_early_refusal_are_answered_in_order)
{
    static const int expected[] = {404, 404, 401, 405, 415, 413, 401, 400};
    struct wire *wire = wire_open(host);
    char *large = text("%0*d", 3 * MIB, 0);

    wire_say(wire, "GET /api/nope HTTP/1.1\r\nHost: x\r\n\r\n"
                   "POST /api/nope HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
                   "POST /api/chat/conversations/find HTTP/1.1\r\nHost: x\r\n"
                   "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
                   "PUT /api/health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "3\r\nabc\r\n0\r\n\r\n");
    wire_say(wire, "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: text/xml\r\n"
                   "Content-Length: 4\r\n\r\n<x/>");
    wire_say(wire, POST_LOGIN "Content-Length: %d\r\n\r\n%s", 3 * MIB, large);
    wire_say(wire, "GET /api/auth/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x.y.z\r\n\r\n"
                   "GET /api/health%%00 HTTP/1.1\r\nHost: x\r\n\r\n");
    for (size_t i = 0; i < 8; i++)
        ck_wire_error(wire_read(wire, 10000), expected[i]);
    ck_assert(wire_closes(wire, 5000)); /* the last one was a matter of framing */
    wire_close(wire, false);
}

Suite *limits_suite(void)
{
    Suite *suite = suite_create("limits");
    TCase *tests = tcase_create("limits");

    tcase_set_timeout(tests, 60);
    tcase_add_unchecked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_head_that_comes_too_slowly_is_cut);
    tcase_add_test(tests, a_connection_that_says_nothing_is_cut);
    tcase_add_test(tests, a_body_that_comes_too_slowly_is_cut);
    tcase_add_test(tests, a_refused_body_that_comes_too_slowly_is_cut_as_well);
    tcase_add_test(tests, a_connection_kept_alive_for_nothing_is_closed);
    tcase_add_test(tests, a_hundred_slow_heads_leave_the_others_alone);
    tcase_add_test(tests, a_reader_that_does_not_read_is_cut);
    tcase_add_test(tests, a_request_may_wait_longer_than_a_head_may_take);
    tcase_add_test(tests, a_client_sees_the_413_to_a_declared_body);
    tcase_add_test(tests, a_client_sees_the_413_to_a_chunked_body);
    tcase_add_test(tests, a_body_of_exactly_the_limit_is_read);
    tcase_add_test(tests, a_hopeless_length_is_refused_without_reading);
    tcase_add_test(tests, who_asks_first_with_ten_gigabytes_is_refused_before_sending_them);
    tcase_add_test(tests, who_asks_first_is_refused_without_a_token_and_else_told_to_go_on);
    tcase_add_test(tests, a_thousand_pipelined_requests_are_answered_in_order);
    tcase_add_test(tests, requests_behind_an_early_refusal_are_answered_in_order);
    suite_add_tcase(suite, tests);
    return suite;
}
