/*
 * Time limits on a connection: slow heads, bodies and readers are cut off, pipelines keep their
 * order; threats H07, H08, H10 and pitfalls 10, 11, 16, 19. The host's limits are short to keep the
 * tests fast.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault/common.h"
#include "health_watch.h"
#include "people.h"
#include "suite.h"
#include "suites.h"
#include "wire.h"

#define HEADER_MS 1000 /* the limits in set_up() */
#define BODY_MS 1000
#define IDLE_MS 2000
#define PATROL_MS 500
#define SLACK_MS 60000 /* only to detect hangs */
#define GET_HEALTH "GET /api/health HTTP/1.1\r\nHost: x\r\n"
#define POST_LOGIN "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

enum { MIB = 1024 * 1024, SLOW_ONES = 500, DRIP_MS = 50, PIPELINED = 1000, CROWD = 60 };

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

/* Sends a byte every 20 ms until the host closes; returns the milliseconds that took, or -1 if it
 * never did. */
static int64_t drip(struct wire *wire, int ms)
{
    int64_t start = now_ms();

    while (now_ms() < start + ms) {
        wire_send(wire, "a", 1);
        if (wire_closes(wire, 0))
            return now_ms() - start;
        poll(NULL, 0, 20);
    }
    return -1;
}

static bool has_room(void *of)
{
    struct wire *wire = wire_open_from(of, "127.0.0.9", 0);

    wire_say(wire, GET_HEALTH "\r\n");
    bool served = wire_read(wire, 1000) != NULL;

    wire_close(wire, false);
    return served;
}

/* The limit holds whichever loops accepted the connections. */
TEST(an_address_has_so_many_connections_and_leaves_the_rest_to_others)
{
    struct host *few =
        host_start(&(struct host_spec){.name = "limits-address",
                                       .database = database_make(the_postgres, "limits_address"),
                                       .http = "  loops: 3\n  connections_per_address: 4\n"});
    struct wire *wires[CROWD];
    int served = 0;

    for (int i = 0; i < CROWD; i++) {
        wires[i] = wire_open_from(few, "127.0.0.9", 0);
        wire_say(wires[i], GET_HEALTH "\r\n");
        served += wire_read(wires[i], 6000) != NULL;
    }
    ck_assert_int_eq(served, 4);
    ck_assert(wire_is_served(few));
    for (int i = 0; i < CROWD; i++)
        wire_close(wires[i], false);
    for (int i = 0; i < CROWD; i++)
        ck_assert(wait_until(has_room, few, 5000));
    host_stop(few);
}

/* H09: waiting connections belong to no loop, because one loop may have accepted them all. */
TEST(all_connections_that_there_may_be_are_served_and_no_more)
{
    struct host *few = host_start(
        &(struct host_spec){.name = "limits-connections",
                            .database = database_make(the_postgres, "limits_connections"),
                            .http = "  loops: 4\n"
                                    "  max_connections: 16\n"
                                    "  connections_per_address: 16\n"});
    struct wire *wires[CROWD];

    for (int i = 0; i < CROWD; i++) {
        wires[i] = wire_open_from(few, "127.0.0.9", 0);
        wire_say(wires[i], GET_HEALTH "\r\n");
        ck_assert_msg(i < 16 ? wire_read(wires[i], 6000) != NULL : !wire_has_more(wires[i], 100),
                      "connection %d", i + 1);
    }
    for (int i = 0; i < CROWD; i++)
        wire_close(wires[i], false);
    for (int i = 0; i < CROWD; i++)
        ck_assert(wait_until(wire_is_served, few, 5000));
    host_stop(few);
}

/* H07 */
TEST(a_head_that_comes_too_slowly_is_cut)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, GET_HEALTH "X-Slow: ");
    int64_t took = drip(wire, HEADER_MS + PATROL_MS + SLACK_MS);

    ck_assert_msg(took >= HEADER_MS - 20, "cut after %jd ms", (intmax_t)took);
    wire_close(wire, false);
}

TEST(a_connection_that_says_nothing_is_cut)
{
    struct wire *wire = wire_open(host);

    ck_assert(wire_closes(wire, HEADER_MS + PATROL_MS + SLACK_MS));
    wire_close(wire, false);
}

/* H08 */
TEST(a_body_that_comes_too_slowly_is_cut)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, POST_LOGIN "Content-Length: 30000\r\n\r\n");
    int64_t took = drip(wire, BODY_MS + PATROL_MS + SLACK_MS);

    ck_assert_msg(took >= BODY_MS - 20, "cut after %jd ms", (intmax_t)took);
    wire_close(wire, false);
}

/* The limit does not depend on how much of the body is missing, nor on an earlier refusal. */
static const struct {
    const char *request;
    int status;
} slow_bodies[] = {
    {POST_LOGIN "Content-Length: 30000\r\n\r\n{", 408},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n", 408},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n1000000\r\n{", 408},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n1\r\n{", 408},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n1", 408},
    {POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX: ", 408},
    {"POST /api/nope HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n{", 404},
};

TEST_EACH(a_body_that_never_ends_gets_an_answer, sizeof slow_bodies / sizeof *slow_bodies)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, "%s", slow_bodies[_i].request);
    struct wire_answer *answer =
        ck_wire_error(wire_read(wire, BODY_MS + PATROL_MS + SLACK_MS), slow_bodies[_i].status);

    ck_assert_str_eq(wire_header(answer, "Connection"), "close");
    ck_assert(wire_closes(wire, 5000));
    wire_close(wire, false);
}

TEST(a_refused_body_that_comes_too_slowly_is_cut_as_well)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, "POST /api/nope HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
    ck_assert_int_ge(drip(wire, BODY_MS + PATROL_MS + SLACK_MS), 0);
    wire_close(wire, false);
}

/* libmicrohttpd would ask to be run again at once, as long as such a connection exists. */
static const char *const endless[] = {"2;", ""}; /* an extension of a chunk, a size */

TEST_EACH(the_line_of_a_chunk_that_never_ends_keeps_nobody_busy, 2)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n");
    wire_say(wire, "%s%09000d", endless[_i], 0);
    ck_assert_int_eq(http(host, "GET", "/api/health", NULL, NULL)->status, 200);
    unsigned long start = cpu_ticks(host->pid);

    poll(NULL, 0, BODY_MS / 2); /* the time that is measured */
    double share = (double)(cpu_ticks(host->pid) - start) * 1000 / (double)sysconf(_SC_CLK_TCK) /
                   (BODY_MS / 2.0);

    ck_assert_msg(share < 0.4, "%.0f %% of a processor", share * 100);
    ck_assert(wire_closes(wire, BODY_MS + PATROL_MS + SLACK_MS));
    wire_close(wire, false);
}

TEST(a_connection_kept_alive_for_nothing_is_closed)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, GET_HEALTH "\r\n");
    ck_assert_ptr_nonnull(wire_read(wire, 5000));
    ck_assert(wire_closes(wire, IDLE_MS + HEADER_MS + PATROL_MS + SLACK_MS));
    wire_close(wire, false);
}

/* Sends a byte on each open connection; returns how many are still open. */
static int drip_round(struct wire *slow[SLOW_ONES])
{
    int left = 0;

    for (int i = 0; i < SLOW_ONES; i++) {
        if (!slow[i] || !wire_send(slow[i], "a", 1) || wire_closes(slow[i], 0)) {
            if (slow[i])
                wire_close(slow[i], false);
            slow[i] = NULL;
        }
        left += slow[i] != NULL;
    }
    return left;
}

static const struct {
    const char *name, *beginning;
    int64_t limit_ms;
} crowds[] = {
    {"500 slow heads", GET_HEALTH "X-Slow: ", HEADER_MS},
    {"500 slow bodies", POST_LOGIN "Content-Length: 30000\r\n\r\n", BODY_MS},
};

/* H07, H08: five hundred slow clients at once, while health is requested continuously. bench/run
 * load compares this with slowhttptest. */
TEST_EACH(five_hundred_slow_ones_are_cut_and_leave_the_others_alone, sizeof crowds / sizeof *crowds)
{
    static struct wire *slow[SLOW_ONES];
    struct watch *watch = watch_begin(host);
    int64_t began = now_ms();

    for (int i = 0; i < SLOW_ONES; i++) {
        slow[i] = wire_open(host);
        wire_say(slow[i], "%s", crowds[_i].beginning);
    }
    int64_t opened = now_ms();
    bool early = drip_round(slow) < SLOW_ONES && now_ms() < began + crowds[_i].limit_ms;

    while (drip_round(slow) && now_ms() < opened + crowds[_i].limit_ms + PATROL_MS + SLACK_MS)
        poll(NULL, 0, DRIP_MS); /* the pace of the slow clients */
    fprintf(stderr, "%s: the last was cut %jd ms after it came\n", crowds[_i].name,
            (intmax_t)(now_ms() - opened));
    ck_assert(!early);
    ck_assert_int_eq(drip_round(slow), 0);
    watch_end(watch, crowds[_i].name);
}

/* The flag is in the request's own line, not in the extra line for slow requests. */
static bool cut_is_logged(void *id)
{
    const char *line =
        strstr(file_text(host->log), text("msg=\"request\" request=%s ", (char *)id));

    return line && strstr(text("%.*s", (int)strcspn(line, "\n"), line), " cut=true");
}

static json_t *start_body(const char *entry)
{
    return json_pack("{ss ss ss ss}", "participant1", user->email, "participant2", ADMIN_EMAIL,
                     "username", user->email, "chatEntry", entry);
}

/* H08: a response that is too large for the kernel's buffers, and a client that does not read. */
TEST(a_reader_that_does_not_read_is_cut)
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
    ck_assert(wait_until(cut_is_logged, "never-reads", IDLE_MS + PATROL_MS + 4000));
    wire_close(wire, true);
}

static PGconn *lock_conversations(void)
{
    PGconn *db = database_connect(the_postgres, "limits");

    sql_run(db, "BEGIN");
    sql_run(db, "LOCK TABLE chat_conversation IN ACCESS EXCLUSIVE MODE");
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

enum { PLACES = 16 };

static bool all_places_are_free(void *left)
{
    struct wire *wires[PLACES];
    int served = 0;

    for (int i = 0; i < PLACES; i++) {
        wires[i] = wire_open(left);
        wire_say(wires[i], GET_HEALTH "\r\n");
        served += wire_read(wires[i], 1000) != NULL;
    }
    for (int i = 0; i < PLACES; i++)
        wire_close(wires[i], false);
    return served == PLACES;
}

/* One wake-up reports a part of a head and the end after it; libmicrohttpd notices only the
 * part. */
TEST(who_leaves_in_the_middle_of_a_head_keeps_no_place)
{
    struct host *left =
        host_start(&(struct host_spec){.name = "limits-left",
                                       .database = database_make(the_postgres, "limits_left"),
                                       .http = text("  loops: 1\n  max_connections: %d\n"
                                                    "  header_timeout: 60\n",
                                                    PLACES)});

    ck_assert_int_eq(kill(left->pid, SIGSTOP), 0);
    for (int i = 0; i < PLACES / 2; i++) {
        struct wire *wire = wire_open(left);

        wire_say(wire, "GET /api/hea");
        wire_close(wire, false);
    }
    ck_assert_int_eq(kill(left->pid, SIGCONT), 0);
    ck_assert(wait_until(all_places_are_free, left, 10000));
    host_stop(left);
}

/* Pitfall 11: the limits for a head and for idling do not apply while a request is being
 * handled. */
TEST(a_request_may_wait_longer_than_a_head_may_take)
{
    PGconn *db = lock_conversations();
    struct wire *wire = wire_open(host);

    say_find(wire);
    wire_say(wire, "GET /api/hea"); /* half of the next one */
    ck_assert(wait_until(somebody_waits, db, 5000));
    poll(NULL, 0, IDLE_MS + HEADER_MS + PATROL_MS); /* longer than both limits */
    ck_assert(!wire_closes(wire, 0));
    sql_run(db, "COMMIT");
    struct wire_answer *answer = wire_read(wire, 5000);

    ck_assert_ptr_nonnull(answer);
    ck_assert_int_eq(answer->status, 200);
    wire_say(wire, "lth HTTP/1.1\r\nHost: x\r\n\r\n");
    answer = wire_read(wire, 5000);
    ck_assert_ptr_nonnull(answer);
    ck_assert_int_eq(answer->status, 200);
    wire_say(wire, "GET /api/hea"); /* from here on the limit applies again */
    ck_assert(wire_closes(wire, IDLE_MS + HEADER_MS + PATROL_MS + SLACK_MS));
    PQfinish(db);
    wire_close(wire, false);
}

/* H10; pitfall 19 */
TEST(a_thousand_pipelined_requests_are_answered_in_order)
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

/* H10: refusals of every kind, with and without a body, and the requests that follow on the
 * connection. */
TEST(requests_behind_an_early_refusal_are_answered_in_order)
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
    ck_assert(wire_closes(wire, 5000)); /* the last request had invalid framing */
    wire_close(wire, false);
}

SUITE(limits, .timeout_s = 60, .before_all = set_up, .after_all = tear_down)
