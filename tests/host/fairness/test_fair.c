/*
 * One account or address never blocks the others: each has a share of all common resources, and
 * waiting work is served in turns. The unit test http_shares has the places of connections.
 * Attackers use 127.0.0.2 and higher addresses, other clients 127.0.0.1.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "people.h"
#include "wire.h"

enum {
    CROWD = 60,
    MS = 6000,
    LOCK = 4711,
    HOLDS_SHARE = (4 + 64) / 4, /* share of the threads and places of the pool */
    QUEUE = 64,
    QUEUE_SHARE = QUEUE / 4
};

static struct host *host;
static struct wire *crowd[CROWD];
static int gate; /* for each byte written, one call in the pool ends */

static void set_up(void)
{
    const char *fifo = harness_path("fair.gate");

    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    gate = open(fifo, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(gate, 0);
    host = host_start(&(struct host_spec){
        .name = "fair",
        .modules =
            text("[auth, chat, health, metrics, \"%s\"]", harness_test_module("module_wave1")),
        .http = "  loops: 1\n  deadline: 60000\n  metrics_networks: [127.0.0.1]\n",
        .db = text("  queue: %d\n  statement_timeout: 60000\n", QUEUE),
        .more = text("wave:\n  gate: \"%s\"\n", fifo)});
}

static void tear_down(void)
{
    host_stop(host);
    close(gate);
}

static void ask(struct wire *wire, const char *path)
{
    wire_say(wire, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
}

/* When this is answered, the only loop has read all earlier requests, because it reads sockets in
 * order. */
static void let_begin(void)
{
    ck_status(http(host, "GET", "/api/health", NULL, NULL), 200);
}

static void attack(const char *path)
{
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = wire_open_from(host, "127.0.0.2", 0);
        ask(crowd[i], path);
    }
    let_begin();
}

/* Reads the crowd's responses, 200 or 429; returns the number of 429s. */
static int refused_of_crowd(void)
{
    int refused = 0;

    for (int i = 0; i < CROWD; i++) {
        struct wire_answer *answer = wire_read(crowd[i], MS);

        ck_assert_ptr_nonnull(answer);
        ck_assert(answer->status == 200 || answer->status == 429);
        refused += answer->status == 429;
        if (answer->status == 429)
            ck_wire_error(answer, 429);
        wire_close(crowd[i], false);
    }
    return refused;
}

/* Starts a request from another address. */
static struct wire *begin_other(const char *path)
{
    struct wire *wire = wire_open(host);

    ask(wire, path);
    let_begin();
    return wire;
}

static void expect_ok(struct wire *wire)
{
    struct wire_answer *answer = wire_read(wire, MS);

    ck_assert_ptr_nonnull(answer);
    ck_assert_int_eq(answer->status, 200);
    wire_close(wire, false);
}

static int64_t metric(const char *line)
{
    const char *body = ck_status(http(host, "GET", "/metrics", NULL, NULL), 200)->body;
    const char *at = strstr(body, text("\n%s ", line));

    ck_assert_msg(at != NULL, "no %s in %s", line, body);
    return atoll(at + 2 + strlen(line));
}

static void let_end(int pieces)
{
    char bytes[CROWD] = "";

    ck_assert_int_eq(write(gate, bytes, (size_t)pieces), pieces);
}

/* In any pool, accounts take turns, so only one piece of the crowd's work goes before the other
 * client's. */
TEST(accounts_take_turns_in_a_thread_pool)
{
    enum { OTHERS = 3, PIECES = 2 /* the running one, and the one whose turn it is */ };

    attack("/api/wave/hold");
    for (int i = 0; i < OTHERS; i++) {
        struct wire *other = begin_other("/api/wave/nap?ms=0");

        ck_assert(!wire_has_more(other, 0));
        let_end(PIECES);
        expect_ok(other);
    }
    let_end(HOLDS_SHARE - OTHERS * PIECES);
    ck_assert_int_eq(refused_of_crowd(), CROWD - HOLDS_SHARE);
    ck_assert_int_eq(metric("busbar_share_refused_total{resource=\"pools\",whose=\"owner\"}"),
                     CROWD - HOLDS_SHARE);
}

/* Other clients are served while all the statements that the crowd may have at a time wait. */
TEST(long_statements_of_one_account_delay_no_other)
{
    PGconn *db = database_connect(the_postgres, "fair");

    sql_run(db, text("SELECT pg_advisory_lock(%d)", LOCK));
    attack(text("/api/wave/lock?ms=%d", LOCK));
    for (int i = 0; i < 3; i++)
        expect_ok(begin_other("/api/wave/doze?ms=0"));
    sql_run(db, text("SELECT pg_advisory_unlock(%d)", LOCK));
    ck_assert_int_eq(refused_of_crowd(), CROWD - QUEUE_SHARE);
    ck_assert_int_eq(metric("busbar_share_refused_total{resource=\"database\",whose=\"owner\"}"),
                     CROWD - QUEUE_SHARE);
}

static void expect_health(struct wire *wire)
{
    ask(wire, "/api/health");
    const struct wire_answer *answer = wire_read(wire, MS);

    ck_assert_ptr_nonnull(answer);
    ck_assert_int_eq(answer->status, 200);
}

enum { MANY = 128, GREEDY = 4, KEPT = MANY / 64 };

/* Addresses that hold nearly all connections, and would reconnect at once, must leave some to
 * addresses with few. */
TEST(the_last_connections_are_for_addresses_with_few_connections)
{
    struct host *few = host_start(&(struct host_spec){
        .name = "fair-kept", .http = text("  loops: 1\n  max_connections: %d\n", MANY)});
    struct wire *idle[MANY];

    for (int i = 0; i < MANY; i++) {
        idle[i] = wire_open_from(few, text("127.0.0.%d", 2 + i % GREEDY), 0);
        if (i < MANY - KEPT)
            expect_health(idle[i]);
        else
            ck_assert(wire_closes(idle[i], MS));
    }
    for (int i = 0; i < KEPT; i++)
        expect_health(wire_open_from(few, text("127.0.1.%d", 1 + i), 0));
    for (int i = 0; i < MANY - KEPT; i++)
        expect_health(idle[i]);
    expect_health(wire_open_from(few, "127.0.1.9", 0));
}

SUITE(fair, .timeout_s = 120, .before_all = set_up, .after_all = tear_down)
