/*
 * Many connections, idle and waiting: threats H09, H14 and pitfalls 11 to 14 of libmicrohttpd.
 * There is one loop, which all of them share. tests/fault/test_resources.c has too few descriptors.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "people.h"
#include "suite.h"
#include "suites.h"
#include "wire.h"

#define GET_HEALTH "GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n"

enum { IDLE_ONES = 2000, REQUESTS = 10000, BATCH = 100, FINDS = 100, FEW = 16 };

static struct host *host;
static struct person *user;

static void set_up(void)
{
    host = host_start(&(struct host_spec){.name = "crowd",
                                          .database = database_make(the_postgres, "crowd"),
                                          .http = "  loops: 1\n"
                                                  "  deadline: 60000\n"
                                                  "  max_connections: 4096\n"
                                                  "  connections_per_address: 4096\n",
                                          .db = "  statement_timeout: 60000\n",
                                          .log = "  access: false\n"});
    user = person_make(host, admin_of(host), "crowd", NULL);
}

static void tear_down(void)
{
    host_stop(host);
}

static PGconn *lock_conversations(const char *database)
{
    PGconn *db = database_connect(the_postgres, database);

    sql_run(db, "BEGIN");
    sql_run(db, "LOCK TABLE chat_conversation IN ACCESS EXCLUSIVE MODE");
    return db;
}

static bool somebody_waits(void *db)
{
    return sql_number(db, "SELECT count(*) FROM pg_locks WHERE NOT granted AND "
                          "relation = 'chat_conversation'::regclass") > 0;
}

static void say_find(struct wire *wire, const char *token)
{
    wire_say(wire,
             "POST /api/chat/conversations/find HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
             "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
             token);
}

static void expect_ok(struct wire *wire, int ms)
{
    struct wire_answer *answer = wire_read(wire, ms);

    ck_assert_msg(answer != NULL, "no answer (%s)", wire->ended ? "closed" : "silent");
    ck_assert_msg(answer->status == 200, "status %d: %s", answer->status, answer->body);
}

/* The connection must get its responses although another one is suspended. */
static void ask_many(struct wire *wire, int count)
{
    for (int done = 0; done < count; done += BATCH) {
        for (int i = 0; i < BATCH; i++)
            wire_say(wire, GET_HEALTH);
        for (int i = 0; i < BATCH; i++)
            expect_ok(wire, 5000);
    }
}

/* Pitfall 14 */
TEST(a_waiting_request_does_not_starve_another_connection)
{
    PGconn *db = lock_conversations("crowd");
    struct wire *waiting = wire_open(host), *busy = wire_open(host);

    say_find(waiting, user->token);
    ck_assert(wait_until(somebody_waits, db, 5000));
    ask_many(busy, REQUESTS);
    ck_assert(!wire_has_more(waiting, 0));
    ask_many(busy, BATCH);
    sql_run(db, "COMMIT");
    expect_ok(waiting, 5000);
    say_find(waiting, user->token);
    expect_ok(waiting, 5000);
    PQfinish(db);
    wire_close(waiting, false);
    wire_close(busy, false);
}

/* Pitfalls 11, 12: connections of clients that left while waiting are released when the response is
 * ready. */
TEST(clients_that_leave_while_they_wait_do_no_harm)
{
    PGconn *db = lock_conversations("crowd");

    for (int i = 0; i < FINDS; i++) {
        struct wire *wire = wire_open(host);

        say_find(wire, user->token);
        ck_assert(wait_until(somebody_waits, db, 5000));
        wire_close(wire, i % 2 == 0);
    }
    ck_assert(wire_is_served(host));
    sql_run(db, "COMMIT");
    PQfinish(db);
    struct wire *after = wire_open(host);

    say_find(after, user->token);
    expect_ok(after, 10000);
    wire_close(after, false);
    ck_assert(host_alive(host));
}

/* H09 */
TEST(two_thousand_idle_connections_do_not_keep_a_new_client_out)
{
    struct wire *idle[IDLE_ONES];

    for (int i = 0; i < IDLE_ONES; i++) {
        idle[i] = wire_open(host);
        if (i % 2)
            wire_say(idle[i], "GET /api/hea");
    }
    struct wire *wire = wire_open(host);

    for (int i = 0; i < 10; i++) {
        wire_say(wire, GET_HEALTH);
        expect_ok(wire, 60000);
    }
    wire_close(wire, false);
    for (int i = 0; i < IDLE_ONES; i++)
        wire_close(idle[i], i % 3 == 0);
}

/* H09: above the limit a connection is closed cleanly; it is served again when there is room. */
TEST(beyond_the_limit_of_connections_a_client_is_refused_until_one_leaves)
{
    struct host *small =
        host_start(&(struct host_spec){.name = "crowd-small",
                                       .database = "crowd",
                                       .http = text("  loops: 1\n"
                                                    "  max_connections: %d\n"
                                                    "  connections_per_address: %d\n",
                                                    FEW, FEW)});
    struct wire *all[FEW];

    for (int i = 0; i < FEW; i++) {
        all[i] = wire_open_from(small, "127.0.0.9", 0);
        wire_say(all[i], GET_HEALTH);
        expect_ok(all[i], 5000);
    }
    struct wire *refused = wire_open_from(small, "127.0.0.9", 0);

    wire_say(refused, GET_HEALTH);
    ck_assert(wire_closes(refused, 5000));
    wire_close(refused, false);
    wire_say(all[0], GET_HEALTH); /* accepted connections are served */
    expect_ok(all[0], 5000);
    wire_close(all[1], false);
    ck_assert(wait_until(wire_is_served, small, 5000));
    for (int i = 0; i < FEW; i++) {
        if (i != 1)
            wire_close(all[i], false);
    }
    host_stop(small);
}

/* H14 */
TEST(statements_that_take_too_long_answer_503_and_the_pool_recovers)
{
    struct host *quick = host_start(&(struct host_spec){
        .name = "crowd-quick", .database = "crowd", .db = "  statement_timeout: 500\n"});
    PGconn *db = lock_conversations("crowd");
    struct wire *wires[FINDS];

    for (int i = 0; i < FINDS; i++) {
        wires[i] = wire_open(quick);
        say_find(wires[i], user->token);
    }
    for (int i = 0; i < FINDS; i++) {
        struct wire_answer *answer = ck_wire_error(wire_read(wires[i], 15000), 503);

        ck_assert_ptr_nonnull(wire_header(answer, "Retry-After"));
    }
    ck_assert(wire_is_served(quick));
    sql_run(db, "COMMIT");
    PQfinish(db);
    for (int i = 0; i < FINDS; i++)
        wire_close(wires[i], false);
    struct wire *after = wire_open(quick);

    say_find(after, user->token);
    expect_ok(after, 5000);
    wire_close(after, false);
    host_stop(quick);
}

SUITE(crowd, .timeout_s = 60, .before_all = set_up, .after_all = tear_down)
