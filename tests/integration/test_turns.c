/*
 * While answers are late, whoever has had much of the time waits for its turn, and others do not.
 * Ada has had it, Bob makes answers late.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "people.h"
#include "suites.h"
#include "wire.h"

enum { MS = 10000, PIECE_MS = 200, LATE_MS = 60, SEVERAL = 6 };

static struct host *host;
static struct person *ada, *bob;

static void set_up(void)
{
    host = host_start(&(struct host_spec){
        .name = "turns",
        .database = database_make(the_postgres, text("turns_%d", (int)getpid())),
        .modules =
            text("[auth, chat, health, metrics, \"%s\"]", harness_test_module("module_busy")),
        .http = "  loops: 1\n  inside: [127.0.0.1]\n",
        .db = "  read_connections: 1\n  write_connections: 1\n"});
    struct person *admin = admin_of(host);

    ada = person_make(host, admin, "ada", NULL);
    bob = person_make(host, admin, "bob", NULL);
}

static void tear_down(void)
{
    host_stop(host);
}

static struct wire *ask(const struct person *who, const char *what, int ms)
{
    struct wire *wire = wire_open(host);

    ck_assert(wire_say(wire,
                       "GET /api/busy/%s?ms=%d HTTP/1.1\r\nHost: x\r\n"
                       "Authorization: Bearer %s\r\n\r\n",
                       what, ms, who->token));
    return wire;
}

static struct wire_answer *answer_of(struct wire *wire)
{
    struct wire_answer *answer = wire_read(wire, MS);

    ck_assert_ptr_nonnull(answer);
    wire_close(wire, false);
    return answer;
}

static void get(const struct person *who, const char *what, int ms)
{
    ck_assert_int_eq(answer_of(ask(who, what, ms))->status, 200);
}

/* A debt of a second, which is the most: a quarter of the time pays some of it off meanwhile.
 * Nobody waits, for nothing is late. */
static void spend(const struct person *who)
{
    for (int i = 0; i < 2000 / PIECE_MS; i++)
        get(who, "spin", PIECE_MS);
}

/* Bob's answer is, for he asks PostgreSQL to sleep. The quick one behind it says what is quick, and
 * that his reads are not always slow, which would give them another connection. */
static void be_late(void)
{
    get(bob, "read", LATE_MS);
    get(bob, "read", 0);
}

/* Bob keeps answers late for as long. */
static void stay_late(int64_t ms)
{
    int64_t until = now_ms() + ms;

    while (now_ms() < until)
        be_late();
}

static int64_t refused(void)
{
    const char *line = "\nbusbar_share_refused_total{resource=\"time\",whose=\"owner\"} ";
    const char *body = ck_status(http(host, "GET", "/metrics", NULL, NULL), 200)->body;
    const char *at = strstr(body, line);

    ck_assert_msg(at != NULL, "no %s", line);
    return atoll(at + strlen(line));
}

START_TEST(who_has_had_much_of_the_time_waits_and_others_do_not)
{
    get(bob, "read", 0);
    spend(ada);
    be_late();
    struct wire *waits = ask(ada, "spin", 0);

    for (int i = 0; i < 5; i++) {
        get(bob, "spin", 0);
        be_late();
    }
    ck_assert(!wire_has_more(waits, 0));
    ck_assert_int_eq(answer_of(waits)->status, 200);
    ck_assert_int_eq(refused(), 0);
}

START_TEST(of_several_that_wait_one_goes_on_and_the_others_are_refused)
{
    struct wire *waits[SEVERAL];
    int served = 0;

    get(bob, "read", 0);
    spend(ada);
    be_late();
    for (int i = 0; i < SEVERAL; i++)
        waits[i] = ask(ada, "spin", 0);
    stay_late(2500);
    for (int i = 0; i < SEVERAL; i++) {
        struct wire_answer *answer = answer_of(waits[i]);

        served += answer->status == 200;
        if (answer->status != 200)
            ck_assert_int_ge(atoi(wire_header(ck_wire_error(answer, 429), "Retry-After")), 1);
    }
    ck_assert_int_eq(served, 1);
    ck_assert_int_eq(refused(), SEVERAL - 1);
    get(bob, "spin", 0);
}

START_TEST(nobody_waits_once_answers_come_in_time)
{
    get(bob, "read", 0);
    spend(ada);
    be_late();
    struct wire *waits = ask(ada, "spin", 0);
    int64_t start = now_ms();

    ck_assert_int_eq(answer_of(waits)->status, 200); /* late is late for a second */
    ck_assert_int_lt(now_ms() - start, 2500);
    start = now_ms();
    for (int i = 0; i < SEVERAL; i++)
        get(ada, "spin", 0);
    ck_assert_int_lt(now_ms() - start, 1000);
}

/* A batch is one transaction: a read that shares one with a write waits for its commit. */
START_TEST(a_read_does_not_wait_for_a_write)
{
    struct wire *write = ask(ada, "write", 1500);
    struct wire *behind = ask(ada, "write", 0);

    for (int i = 0; i < 5; i++)
        get(bob, "read", 0);
    ck_assert(!wire_has_more(write, 0) && !wire_has_more(behind, 0));
    ck_assert_int_eq(answer_of(write)->status, 200);
    ck_assert_int_eq(answer_of(behind)->status, 200);
}

Suite *turns_suite(void)
{
    const TTest *const tests[] = {
        who_has_had_much_of_the_time_waits_and_others_do_not,
        of_several_that_wait_one_goes_on_and_the_others_are_refused,
        nobody_waits_once_answers_come_in_time,
        a_read_does_not_wait_for_a_write,
    };
    Suite *suite = suite_create("turns");
    TCase *cases = tcase_create("turns");

    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_set_timeout(cases, 60);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    return suite;
}
