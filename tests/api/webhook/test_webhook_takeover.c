/* Two hosts on one database: the deliveries of a killed host are made by the other one. The suite
 * webhook_lease tests that a host whose lease has ended stops sending. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "deliver.h"

enum {
    HOOKS = 8,
    MESSAGES = 5,
    ALL = HOOKS * MESSAGES,
    ORDERED = 20,
    REPLAYED = 150,
    LEASE_MS = 6500, /* a host's lease, and a margin */
    LARGE = 8 << 20, /* bytes of a body: more than the kernel keeps */
    MINUTE_MS = 60000,
    GENEROUS_MS = 90000
};

/* Returns how often the catcher received a delivery of this webhook and event. */
static size_t times(const struct catcher *catcher, size_t count, int hook, const char *id)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += !strncmp(catcher->list[i].head, text("POST /%d ", hook), 8) &&
                 !strcmp(caught_header(&catcher->list[i], "webhook-id"), id);
    return found;
}

/* Starts a host, returns it, and lets a second one on its database take half of the shards. A
 * failed delivery is tried once more after 1 s, because a test waits for the end of its retries. */
static struct host *two_hosts(const char *name)
{
    deliver_apart(name, "  retry_delays: [1]\n");
    struct host *first = host;

    host = deliver_another(text("%s-other", name));
    deliver_await_halves();
    return first;
}

/* The killed host is stopped before the messages are written, so it begins no attempt. */
TEST(deliveries_of_a_killed_host_are_made_by_the_other_host)
{
    struct catcher *catcher = catcher_start(NULL);
    struct host *killed = two_hosts("takeover");

    /* the shards 60 to 63 and 0 to 3, because each host has 32 shards in a row */
    sql_run(db, text("SELECT setval('webhook_hook_id', %d)", 64 - HOOKS / 2 - 1));
    for (int i = 0; i < HOOKS; i++)
        webhook_make(host, admin, catcher_url(catcher, text("%d", i)), "message.new");
    size_t its = (size_t)sql_number(db, "SELECT count(*) FROM webhook_hook JOIN webhook_shard s"
                                        " ON s.shard = webhook_shard_of(id)"
                                        " WHERE s.owner = (SELECT min(id) FROM webhook_host)");

    ck_assert(its > 0 && its < HOOKS);
    ck_assert_int_eq(kill(killed->pid, SIGSTOP), 0);
    for (int i = 0; i < MESSAGES; i++)
        say("who is there?");
    size_t others = (HOOKS - its) * MESSAGES;

    catcher_wait(catcher, others, GENEROUS_MS);
    host_kill(killed);
    int64_t began = now_ms();
    int64_t first_ms = catcher_wait(catcher, others + 1, GENEROUS_MS)->at_ms - began;

    catcher_wait(catcher, ALL, GENEROUS_MS);
    fprintf(stderr, "takeover: the first of %zu deliveries came %jd ms after the kill\n",
            its * MESSAGES, first_ms);
    WAIT_UNTIL(sql_number(db, "SELECT count(*) FROM webhook_queued") == 0, GENEROUS_MS);
    sql_is(db, ALL, "SELECT count(*) FROM webhook_outcome WHERE delivered");
    PGresult *events = PQexec(db, "SELECT DISTINCT event_id FROM webhook_delivery");
    size_t count = catcher_count(catcher);

    ck_assert_int_eq(PQntuples(events), MESSAGES);
    for (int hook = 0; hook < HOOKS; hook++)
        for (int i = 0; i < MESSAGES; i++)
            ck_assert_uint_ge(times(catcher, count, hook, PQgetvalue(events, i, 0)), 1);
    ck_assert_uint_lt(count, 2 * ALL);
    PQclear(events);
}

/* The new owner goes on with the failures that the killed host has recorded. */
TEST(a_webhook_that_fails_before_and_after_a_takeover_is_disabled_once)
{
    struct catcher *catcher = catcher_of(ANSWER_500, ANSWER_500, ANSWER_500);
    struct catcher *ear = catcher_start(NULL);
    struct host *killed = two_hosts("takepolicy");

    webhook_with(host, admin, catcher_url(ear, "ear"),
                 "'events':['webhook.failing','webhook.disabled']");
    sql_run(db, "SELECT setval('webhook_hook_id', (SELECT min(i) - 1 FROM generate_series(9, 99) i"
                " JOIN webhook_shard s ON s.shard = webhook_shard_of(i)"
                " WHERE s.owner = (SELECT min(id) FROM webhook_host)))");
    struct webhook_made made =
        webhook_with(host, admin, catcher_url(catcher, "fails"),
                     "'retryPolicy':{'delays':[1]},'disablePolicy':{'after':'1h'}");

    say("fails twice");
    catcher_wait(ear, 1, GENEROUS_MS);
    sql_soon(db, "SELECT (count(*) = 0)::int FROM webhook_queued");
    host_kill(killed);
    sql_run(db, text("UPDATE webhook_hook SET failing_since = failing_since - interval '1 hour'"
                     " WHERE id = %jd",
                     made.id));
    say("fails again");
    ck_assert_str_eq(caught_header(catcher_wait(ear, 2, GENEROUS_MS), "X-Webhook-Event"),
                     "webhook.disabled");
    ask(admin, 200, "{'health':'disabled','active':false,'disabledReason':'failing'}", "GET %s",
        made.path);
    sql_is(db, 2,
           "SELECT count(DISTINCT event_id) FROM webhook_delivery WHERE event <> 'message.new'");
    ck_assert_uint_eq(catcher_count(catcher), 3);
}

/* The first host owns webhook 65, has it in memory, and finds the test in the log. */
TEST(a_test_with_an_event_is_sent_once_if_another_host_owns_the_webhook)
{
    struct catcher *catcher = catcher_start(NULL);

    two_hosts("taketest");
    sql_run(db, "SELECT setval('webhook_hook_id', 64)");
    struct webhook_made made = hook_to(catcher);

    say("before the test");
    catcher_wait(catcher, 1, GENEROUS_MS);
    webhook_test(host, admin, &made, " {'event':'message.new'}", "{'success':true}");
    deliver_await_cursor(made.id);
    say("after the test");
    catcher_wait(catcher, 3, GENEROUS_MS);
    sql_soon(db, "SELECT (count(*) = 0)::int FROM webhook_queued");
    ck_assert_uint_eq(catcher_count(catcher), 3);
}

/* Fails the test if a number arrives before all smaller numbers. Numbers may be repeated. */
static void expect_in_order(const struct catcher *catcher, size_t count, int64_t last)
{
    int64_t most = 0;

    for (size_t i = 0; i < count; i++) {
        int64_t number = strtoll(caught_header(&catcher->list[i], "webhook-sequence"), NULL, 10);

        ck_assert_int_le(number, most + 1);
        most = number > most ? number : most;
    }
    ck_assert_int_eq(most, last);
}

/* Stores deliveries of a webhook that were delivered, with the body of another one. */
static void store(int64_t webhook)
{
    sql_run(db, text("WITH d AS (INSERT INTO webhook_delivery (webhook, event, event_id, body)"
                     " SELECT %jd, event, gen_random_uuid(), body FROM (SELECT * FROM"
                     " webhook_delivery WHERE event = 'message.new' LIMIT 1) d,"
                     " generate_series(1, %d) RETURNING id, webhook) INSERT INTO webhook_outcome"
                     " (id, webhook, at, duration_ms, status, delivered) SELECT id, webhook,"
                     " now(), 1, 200, true FROM d",
                     webhook, REPLAYED));
    deliver_await_cursor(webhook);
}

/* The webhooks 65 to 67 belong to shards of the first host. */
TEST(order_replay_and_failing_since_survive_the_kill_of_their_host)
{
    struct catcher *ordered = catcher_start(NULL), *replayed = catcher_start(NULL);
    struct catcher *failing = catcher_of(ANSWER_500), *moved = catcher_of(ANSWER_500);
    struct host *killed = two_hosts("takeall");

    sql_run(db, "SELECT setval('webhook_hook_id', 64)");
    struct webhook_made keyed = hook_to(ordered);
    struct webhook_made again =
        webhook_make(host, admin, catcher_url(replayed, "replayed"), "conversation.created");
    struct webhook_made broken = hook_to(failing);

    sql_is(db, 3,
           "SELECT count(*) FROM webhook_hook JOIN webhook_shard s ON s.shard ="
           " webhook_shard_of(id) WHERE s.owner = (SELECT min(id) FROM webhook_host)");
    ask(admin, 200, NULL, "PATCH %s {'ordering':'key'}", keyed.path);
    say("fails");
    sql_soon(db, "SELECT count(*) FROM webhook_hook WHERE failing_since IS NOT NULL");
    const char *since = sql_text(db, "SELECT max(failing_since) FROM webhook_hook", 0, NULL);

    /* the other host notifies the owner of the change */
    ask(admin, 200, NULL, "PATCH %s {'url':'%s'}", broken.path, catcher_url(moved, "moved"));
    store(again.id);
    ask(admin, 200, NULL, "POST %s/replay {'since':'2020-01-01T00:00:00Z'}", again.path);
    for (int i = 1; i < ORDERED; i++)
        say(text("%d", i));
    catcher_wait(replayed, 1, GENEROUS_MS);
    host_kill(killed);
    WAIT_UNTIL(sql_number(db, "SELECT count(*) FROM webhook_replay WHERE state = 'done'") == 1 &&
                   sql_number(db, "SELECT count(*) FROM webhook_queued") == 0,
               GENEROUS_MS);
    expect_in_order(ordered, catcher_count(ordered), ORDERED);
    sql_is(db, ORDERED, "SELECT count(*) FROM webhook_outcome WHERE webhook = %jd AND delivered",
           keyed.id);
    ask(admin, 200, text("{'state':'done','queued':%d}", REPLAYED), "GET %s/replay", again.path);
    sql_is(db, REPLAYED,
           "SELECT count(*) FROM webhook_outcome WHERE webhook = %jd AND delivered"
           " AND log::text LIKE '%%webhook-replay%%'",
           again.id);
    sql_is(db, ORDERED,
           "SELECT count(*) FROM webhook_outcome WHERE webhook = %jd AND NOT delivered", broken.id);
    ck_assert_uint_gt(catcher_count(moved), 0);
    ck_assert_str_eq(sql_text(db, "SELECT max(failing_since) FROM webhook_hook", 0, NULL), since);
}

/* A transaction that stays open keeps the cursors below the deliveries that are written later. */
static PGconn *cursors_hold(void)
{
    PGconn *open = database_connect(the_postgres, PQdb(db));

    sql_run(open, "BEGIN");
    sql_run(open, "SELECT pg_current_xact_id()");
    return open;
}

/*
 * Because of the limit the deliveries are not sent, first by the only host, then by one that gets
 * half of the shards and is killed. The first host must then find them again.
 */
TEST(deliveries_that_were_given_away_unsent_are_made_after_the_other_host_is_killed)
{
    struct catcher *catcher = catcher_start(NULL);

    deliver_apart("takeback", "");
    sql_run(db, "SELECT setval('webhook_hook_id', 62)"); /* the shard 63, which is given away */
    struct webhook_made made = webhook_with(host, admin, catcher_url(catcher, "limited"),
                                            "'rateLimit':{'limit':1,'per':'minute'}");
    PGconn *open = cursors_hold();
    int64_t began = now_ms();

    for (int i = 0; i < MESSAGES; i++)
        say("who is there?");
    struct host *killed = deliver_another("takeback-killed");

    WAIT_UNTIL(sql_number(db, "SELECT coalesce(owner, 0) FROM webhook_shard WHERE shard = 63") >
                   sql_number(db, "SELECT owner FROM webhook_shard WHERE shard = 0"),
               GENEROUS_MS);
    host_kill(killed);
    sql_soon(db, "SELECT count(*) FROM webhook_shard a JOIN webhook_shard b USING (owner)"
                 " WHERE a.shard = 63 AND b.shard = 0");
    size_t sent = catcher_count(catcher);

    ck_assert_int_le((int64_t)sent, 1 + (now_ms() - began) / MINUTE_MS);
    ask(admin, 200, NULL, "PATCH %s {'rateLimit':null}", made.path);
    catcher_wait(catcher, MESSAGES, GENEROUS_MS);
    PQfinish(open);
}

/*
 * Kills the test's own PostgreSQL, promotes it to another timeline and runs a statement there. Then
 * the hosts continue, `other` only after the suite's host has its new lease.
 */
static void promote(const struct host *other, const char *sql)
{
    const char *database = text("%s", PQdb(db));

    ck_assert_int_eq(kill(host->pid, SIGSTOP) | kill(other->pid, SIGSTOP), 0);
    postgres_stop(the_postgres, SIGQUIT);
    PQfinish(db);
    file_write(text("%s/standby.signal", the_postgres->data), "");
    postgres_start(the_postgres);
    db = database_connect(the_postgres, database);
    ck_assert_str_eq(sql_text(db, "SELECT pg_promote()", 0, NULL), "t");
    sql_run(db, sql);
    ck_assert_int_eq(kill(host->pid, SIGCONT), 0);
    sql_soon(db, "SELECT count(*) FROM webhook_timeline WHERE timeline = busbar_timeline()");
    ck_assert_int_eq(kill(other->pid, SIGCONT), 0);
}

/* A lock delays the outcomes until the promotion, after which another event has the last row. */
TEST(outcomes_in_memory_are_recorded_after_a_promotion_for_the_same_events)
{
    struct catcher *catcher = catcher_start(NULL);

    the_postgres = postgres_make("outcomes-pg", false);
    struct host *other = two_hosts("outcomes");

    sql_run(db, "SELECT setval('webhook_hook_id', 62)"); /* a webhook of each host */
    hook_to(catcher);
    hook_to(catcher);
    sql_run(db, "BEGIN");
    sql_run(db, "LOCK webhook_outcome IN EXCLUSIVE MODE");
    for (int i = 0; i < MESSAGES; i++)
        say("who is there?");
    catcher_wait(catcher, 2 * MESSAGES, GENEROUS_MS);
    promote(other, "UPDATE webhook_delivery SET event_id = gen_random_uuid()"
                   " WHERE id = (SELECT max(id) FROM webhook_delivery)");
    sql_is(db, 2, "SELECT count(*) FROM webhook_host WHERE id > previous + 1048576");
    const char *last =
        sql_text(db, "SELECT event_id FROM webhook_delivery ORDER BY id DESC LIMIT 1", 0, NULL);

    ck_assert_str_eq(
        caught_header(catcher_wait(catcher, 2 * MESSAGES + 1, GENEROUS_MS), "webhook-id"), last);
    sql_soon(
        db, text("SELECT (count(*) = %d)::int FROM webhook_outcome WHERE delivered", 2 * MESSAGES));
    ck_assert_uint_eq(catcher_count(catcher), 2 * MESSAGES + 1);
    host_stop(other);
    host_stop(host);
    postgres_stop(the_postgres, SIGINT);
}

/* The first attempt gets no response. After the promotion its id is the id of another delivery. */
TEST(a_delivery_with_the_id_of_a_lost_one_in_flight_is_made)
{
    struct catcher *silent = catcher_of(ANSWER_NONE), *catcher = catcher_start(NULL);

    the_postgres = postgres_make("reused-pg", false);
    deliver_apart("reused", "");
    struct webhook_made made =
        webhook_make(host, admin, catcher_url(catcher, "new"), "conversation.created");

    hook_to(silent);
    say("who is there?");
    catcher_wait(silent, 1, GENEROUS_MS);
    promote(host, text("UPDATE webhook_delivery SET webhook = %jd", made.id));
    catcher_wait(catcher, 1, GENEROUS_MS);
    sql_soon(db, "SELECT count(*) FROM webhook_outcome WHERE delivered");
    host_stop(host);
    postgres_stop(the_postgres, SIGINT);
}

SUITE(webhook_takeover, .timeout_s = 120)

/* ---- tests that share a host, the last of which stops it ---- */

/*
 * The ids 0 and -1 of a notification stand for rows of webhook_waiting. While `open` is open, the
 * host does not look for deliveries in the log.
 */
TEST(a_delivery_that_is_notified_after_waiting_rows_and_the_first_delivery_is_sent)
{
    struct catcher *catcher = catcher_start(NULL);

    struct webhook_made made = hook_to(catcher);

    say("who is there?");
    catcher_wait(catcher, 1, GENEROUS_MS);
    PGconn *open = cursors_hold();

    for (int i = 0; i < ORDERED; i++) {
        sql_run(db, text("WITH d AS (INSERT INTO webhook_delivery (webhook, event, event_id, body)"
                         " SELECT webhook, event, gen_random_uuid(), body FROM webhook_delivery"
                         " WHERE webhook = %jd LIMIT 1 RETURNING id) SELECT pg_notify('webhook',"
                         " format('queued:%jd:%d,%jd:%%s,%jd:%%s', (SELECT min(id) FROM"
                         " webhook_delivery WHERE webhook = %jd), id)) FROM d",
                         made.id, made.id, -(i % 2), made.id, made.id, made.id));
        catcher_wait(catcher, (size_t)i + 2, GENEROUS_MS);
    }
    PQfinish(open);
}

/* Every statement that gives shards away fails, and the host serves all of them meanwhile. */
TEST(webhooks_of_a_host_that_cannot_give_shards_away_go_on)
{
    struct catcher *catcher = catcher_start(NULL);

    sql_run(db, "SELECT setval('webhook_hook_id', 62)"); /* the shard 63, which is to be given */
    webhook_make(host, admin, catcher_url(catcher, "given"), "message.new");
    webhook_make(host, admin, catcher_url(catcher, "kept"), "message.new");
    sql_run(db, "CREATE SEQUENCE barred");
    sql_trigger(db,
                "BEFORE UPDATE ON webhook_shard FOR EACH ROW"
                " WHEN (OLD.owner IS NOT NULL AND NEW.owner IS NULL)",
                "PERFORM nextval('barred'); RAISE 'barred'");
    struct host *first = host;

    host = deliver_another("barred-other");
    sql_soon(db, "SELECT is_called::int FROM barred");
    host = first;
    for (int i = 1; i <= MESSAGES; i++) {
        say("who is there?");
        catcher_wait(catcher, 2 * (size_t)i, GENEROUS_MS);
    }
    sql_run(db, SQL_TRIGGER_DROP);
    deliver_await_halves();
    say("who is there?");
    catcher_wait(catcher, 2 * (MESSAGES + 1), GENEROUS_MS);
}

/* The attempt gets no response. When it ends, the host has its shards again, with another lease. */
TEST(an_attempt_that_outlives_its_lease_is_repeated_by_the_same_host)
{
    struct catcher *catcher = catcher_of(ANSWER_NONE, ANSWER_OK);

    hook_to(catcher);
    PGconn *open = cursors_hold();

    say("who is there?");
    catcher_wait(catcher, 1, GENEROUS_MS);
    sql_run(db, "DELETE FROM webhook_host");
    catcher_wait(catcher, 2, GENEROUS_MS);
    ck_assert_str_eq(caught_header(&catcher->list[1], "X-Webhook-Attempt"), "1");
    PQfinish(open);
}

/* Reads until the connection ends. Returns the number of bytes, and sets *why to its errno or 0. */
static size_t read_out(int fd, size_t most, int *why)
{
    static char bytes[65536];
    size_t all = 0;
    ssize_t got = 1;

    while (all < most && (got = read(fd, bytes, sizeof(bytes))) > 0)
        all += (size_t)got;
    *why = got < 0 ? errno : 0;
    return all;
}

/*
 * The receiver reads nothing until the lease has ended, because the database does not respond (0),
 * the host is stopped (1), other hosts took over its shards (2), or the host ends (3). The host
 * must then send nothing more, neither the rest of the request nor what the kernel has kept of it:
 * another host may have sent later deliveries. The last case stops the suite's host.
 */
TEST_EACH(a_request_in_flight_is_reset_when_the_lease_ends, 4)
{
    int port, why, receiver = port_listen(&port), small = 4096, usual = 1 << 20;

    ck_assert_int_eq(setsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    struct webhook_made made =
        webhook_make(host, admin, text("http://127.0.0.1:%d/", port), "message.new");

    sql_run(db, text("INSERT INTO webhook_delivery (webhook, event_id, event, body) VALUES (%jd,"
                     " gen_random_uuid(), 'message.new', repeat('x', %d))",
                     made.id, LARGE));
    struct pollfd in_flight = {.fd = accept(receiver, NULL, NULL), .events = POLLIN};

    ck_assert_int_eq(poll(&in_flight, 1, GENEROUS_MS), 1);
    in_flight.events = 0; /* the end only */
    if (_i < 2)
        sql_run(db, "BEGIN");
    if (_i == 0) {
        sql_run(db, "LOCK webhook_host IN ACCESS EXCLUSIVE MODE");
    } else if (_i == 2) {
        sql_run(db, "DELETE FROM webhook_host");
    } else if (_i == 3) {
        struct host *ends = host;

        host = deliver_another("reset-other");
        host_stop(ends);
    } else {
        ck_assert_int_eq(kill(host->pid, SIGSTOP), 0);
        ck_assert_int_eq(poll(&in_flight, 1, LEASE_MS), 0);
        ck_assert_int_eq(kill(host->pid, SIGCONT), 0);
    }
    ck_assert_int_eq(poll(&in_flight, 1, GENEROUS_MS), 1);
    ck_assert_uint_lt(read_out(in_flight.fd, SIZE_MAX, &why), LARGE);
    ck_assert_int_eq(why, ECONNRESET);
    ck_assert_int_eq(setsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &usual, sizeof(usual)), 0);
    if (_i < 2)
        sql_run(db, "ROLLBACK");
    int again = accept(receiver, NULL, NULL);

    while (read_out(again, LARGE, &why) < LARGE) /* the lease can end again on a busy machine */
        again = accept(receiver, NULL, NULL);
    ck_assert_int_gt(write(again, ANSWER_OK, strlen(ANSWER_OK)), 0);
    sql_soon(db, text("SELECT count(*) FROM webhook_outcome WHERE delivered AND webhook = %jd"
                      " AND (log IS NULL)::int = %d",
                      made.id, _i < 3)); /* the host that ended left a log */
}

DELIVER_SUITE(webhook_lease, "  timeout: 30\n", 120)
