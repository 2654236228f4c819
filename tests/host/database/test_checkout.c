/* Connections that are checked out for a transaction: however a connection is returned, the next
 * request gets one at once. The host has only one such connection. */
#include <poll.h>

#include "exposition.h"
#include "fault/proxy.h"
#include "poke.h"
#include "stage.h"

enum { WAITERS = 3, MANY = 12, AWAY_MS = 1200, ROUNDS_MAX = 10 };

#define ONE_CONNECTION "  transaction_connections: 1\n"

static void set_up(void)
{
    host = poke_start(&(struct host_spec){.name = "checkout", .db = ONE_CONNECTION});
}

TEST(a_checked_out_connection_is_returned_after_a_rollback)
{
    poke(host, "POST", "transaction/one?refuse=1", 409);
    poke_lends(host);
}

/* The statements prepared on the connection are stale. The unit test transaction has the other
 * ends of a transaction. */
TEST(a_checked_out_connection_is_returned_to_waiting_requests)
{
    struct wire *waiters[WAITERS];

    poke(host, "POST", "transaction/shape", 201);
    sql_run(db, "ALTER TABLE poke_shape ADD COLUMN w int");
    struct wire *first = poke_begin(host, "transaction/shape");

    for (int i = 0; i < WAITERS; i++)
        waiters[i] = poke_begin(host, "transaction/one");
    const struct wire_answer *stale = wire_read(first, AT_ONCE_MS);

    ck_assert(stale && stale->status == 503);
    for (int i = 0; i < WAITERS; i++) {
        const struct wire_answer *answer = wire_read(waiters[i], AT_ONCE_MS);

        ck_assert(answer && answer->status == 201);
    }
}

TEST(a_checked_out_connection_is_returned_after_an_abandoned_request)
{
    poke(host, "POST", "abandon", 503);
    poke_lends(host);
    sql_is(db, 0, "SELECT count(*) FROM poke WHERE what = 'left'");
}

static double waiting(const struct host *on)
{
    return exposition_value(exposition_get(on, NULL), "busbar_database_waiting",
                            "loop=\"0\",pool=\"tx\"");
}

TEST(waiting_requests_are_counted_once)
{
    struct wire *wires[MANY + 1];

    sql_run(db, SQL_GATE_SHUT);
    for (int i = 0; i <= MANY; i++)
        wires[i] = poke_begin(host, "transaction/gate");
    WAIT_UNTIL(waiting(host) >= MANY - 1, 4000);
    ck_assert_int_lt((int)waiting(host), 2 * (MANY - 1)); /* may include jobs */
    sql_run(db, SQL_GATE_OPEN);
    for (int i = 0; i <= MANY; i++)
        wire_read(wires[i], 10000);
}

TEST(a_stop_does_not_wait_for_checked_out_connections)
{
    struct host *own = poke_start(&(struct host_spec){
        .name = "lent_stop", .db = ONE_CONNECTION "  statement_timeout: 5000\n"});

    poke_begin(own, "transaction/sleep");
    poke_begin(own, "transaction/one");
    poke(own, "GET", "query/one", 200);
}

/* ---- PostgreSQL becomes unavailable ---- */

static bool lends(const struct host *on)
{
    return http(on, "POST", "/api/poke/transaction/one", NULL, NULL)->status == 201;
}

#define LOST "PostgreSQL does not respond"

/*
 * Sends a request of each kind. Returns whether none was refused; if one was, the host must have
 * lost its connection for health once more, after `lost` times.
 */
static bool is_back(const struct host *own, size_t lost)
{
    static const struct {
        const char *method, *what;
        long good;
    } kinds[] = {
        {"GET", "query/one", 200}, {"POST", "unit/one", 201}, {"POST", "transaction/one", 201}};

    for (size_t i = 0; i < COUNT(kinds); i++) {
        const struct answer *answer =
            http(own, kinds[i].method, text("/api/poke/%s", kinds[i].what), NULL, NULL);

        if (answer->status == kinds[i].good)
            continue;
        ck_assert_msg(answer->status == 503 && host_logged(own, LOST) > lost, "%s: %ld %s",
                      kinds[i].what, answer->status, answer->body);
        return false;
    }
    return true;
}

/* Each connection has its own time for the next attempt; earlier requests wait for it. */
TEST(no_request_is_refused_once_health_reports_postgresql_up)
{
    struct postgres *pg = postgres_make("pg-back-lent", false);
    const char *database = database_make(pg, "lent_back");
    struct host *own = poke_start(&(struct host_spec){
        .name = "lent_back", .pg = pg, .database = database, .db = ONE_CONNECTION});

    for (int i = 0, good = 0; good < repetitions(1, 3); i++) {
        ck_assert_int_lt(i, ROUNDS_MAX);
        int64_t gone = now_ms();

        postgres_stop(pg, SIGQUIT);
        status_soon(own, "/api/health/status", NULL, 503);
        /* until attempts to connect have become rare */
        while (now_ms() < gone + AWAY_MS) {
            poke(own, "GET", "query/one", 503);
            poll(NULL, 0, 20);
        }
        size_t lost = host_logged(own, LOST);

        postgres_start(pg);
        status_soon(own, "/api/health/status", NULL, 200);
        good += is_back(own, lost);
    }
}

/* Once the probe knows of the fault, requests on all connections fail at once. */
TEST(a_frozen_postgresql_gives_503_at_once)
{
    struct postgres *pg = postgres_make("pg-frozen-lent", false);
    struct proxy *proxy = proxy_start(NULL, postgres_socket(pg));
    const char *at = text("127.0.0.1 port=%d", proxy_port(proxy));
    struct host *own = poke_start(&(struct host_spec){.name = "lent_frozen",
                                                      .pg = postgres_at(pg, at),
                                                      .database = database_make(pg, "lent_frozen"),
                                                      .db = ONE_CONNECTION});
    struct wire *first = poke_begin(own, "transaction/sleep"), *waiters[WAITERS];

    for (int i = 0; i < WAITERS; i++)
        waiters[i] = poke_begin(own, "transaction/one");
    WAIT_UNTIL(waiting(own) >= (double)WAITERS, 5000);
    proxy_set(proxy, PROXY_FREEZE, 0);
    status_soon(own, "/api/health/status", NULL, 503);
    for (int i = 0; i < WAITERS; i++)
        ck_wire_error(wire_read(waiters[i], AT_ONCE_MS), 503);
    for (int i = 0; i < 8; i++) {
        poke(own, "GET", "query/one", 503);
        poke(own, "POST", "write/one", 503);
        poke(own, "POST", "unit/one", 503);
        ck_error(poke(own, "POST", "transaction/one", 503), 503, "");
    }
    proxy_set(proxy, PROXY_PASS, 0);
    WAIT_UNTIL(lends(own), 10000);
    wire_close(first, true);
    poke_lends(own);
}

STAGE_SUITE(checkout, set_up, 90)
