/* Two hosts on one database: the deliveries of a killed host are made by the other one. */
#include "exchange.h"
#include "receive.h"
#include "suite.h"

enum {
    HOOKS = 8,
    MESSAGES = 5,
    ALL = HOOKS * MESSAGES,
    ORDERED = 20,
    REPLAYED = 150,
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

static struct host_spec spec_of(const char *name, const char *database)
{
    return (struct host_spec){
        .name = name, .database = database, .modules = WEBHOOK_MODULES, .more = WEBHOOK_LOCAL};
}

/* Waits until each of two hosts has 32 shards in a row: the first host keeps the lower ones. */
static void await_halves(PGconn *db)
{
    WAIT_UNTIL(sql_number(db, "SELECT count(*) FROM (SELECT FROM webhook_shard WHERE owner IS NOT"
                              " NULL GROUP BY owner HAVING count(*) = 32) h") == 2,
               GENEROUS_MS);
}

/* The killed host is stopped before the messages are written, so it begins no attempt. */
TEST(deliveries_of_a_killed_host_are_made_by_the_other_host)
{
    const char *database = database_make(the_postgres, "takeover");
    struct host_spec spec = spec_of("takeover-killed", database);
    struct catcher *catcher = catcher_start(NULL);
    PGconn *db = database_connect(the_postgres, database);
    struct host *killed = host_start(&spec);

    webhook_ready(database, 1);
    spec.name = "takeover-other";
    struct host *host = host_start(&spec);
    struct person *admin = admin_of(host);
    struct talk talk = talk_start(host, admin, ADMIN_EMAIL, "other@shop.example", "Rooftop 7");

    await_halves(db);
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
        ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "who is there?"), 201);
    size_t others = (HOOKS - its) * MESSAGES;

    catcher_wait(catcher, others, GENEROUS_MS);
    host_kill(killed);
    int64_t began = now_ms();
    int64_t first_ms = catcher_wait(catcher, others + 1, GENEROUS_MS)->at_ms - began;

    catcher_wait(catcher, ALL, GENEROUS_MS);
    fprintf(stderr, "takeover: the first of %zu deliveries came %jd ms after the kill\n",
            its * MESSAGES, (intmax_t)first_ms);
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
    PQfinish(db);
    host_stop(host);
}

/* Fails the test unless each number follows numbers that have all arrived; they may be repeated. */
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
static void store(PGconn *db, int64_t webhook)
{
    sql_run(db, text("WITH d AS (INSERT INTO webhook_delivery (webhook, event, event_id, body)"
                     " SELECT %jd, event, gen_random_uuid(), body FROM (SELECT * FROM"
                     " webhook_delivery WHERE event = 'message.new' LIMIT 1) d,"
                     " generate_series(1, %d) RETURNING id, webhook) INSERT INTO webhook_outcome"
                     " (id, webhook, at, duration_ms, status, delivered) SELECT id, webhook,"
                     " now(), 1, 200, true FROM d",
                     (intmax_t)webhook, REPLAYED));
}

/* The webhooks 65 to 67 belong to shards of the first host. */
TEST(order_replay_and_failing_since_survive_the_kill_of_their_host)
{
    const char *database = database_make(the_postgres, "takeall");
    struct host_spec spec = spec_of("takeall-killed", database);
    struct catcher *ordered = catcher_start(NULL), *replayed = catcher_start(NULL);
    struct catcher *failing = catcher_of(ANSWER_500);
    PGconn *db = database_connect(the_postgres, database);
    struct host *killed = host_start(&spec);

    webhook_ready(database, 1);
    spec.name = "takeall-other";
    struct host *host = host_start(&spec);
    struct person *admin = admin_of(host);
    struct talk talk = talk_start(host, admin, ADMIN_EMAIL, "other@shop.example", "Rooftop 7");

    await_halves(db);
    sql_run(db, "SELECT setval('webhook_hook_id', 64)");
    struct webhook_made keyed =
        webhook_make(host, admin, catcher_url(ordered, "ordered"), "message.new");
    struct webhook_made again =
        webhook_make(host, admin, catcher_url(replayed, "replayed"), "conversation.created");
    struct webhook_made broken =
        webhook_make(host, admin, catcher_url(failing, "failing"), "message.new");

    sql_is(db, 3,
           "SELECT count(*) FROM webhook_hook JOIN webhook_shard s ON s.shard ="
           " webhook_shard_of(id) WHERE s.owner = (SELECT min(id) FROM webhook_host)");
    ask_on(host, admin, 200, NULL, "PATCH %s {'ordering':'key'}", keyed.path);
    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "fails"), 201);
    sql_soon(db, "SELECT count(*) FROM webhook_hook WHERE failing_since IS NOT NULL");
    const char *since = sql_text(db, "SELECT max(failing_since) FROM webhook_hook", 0, NULL);

    store(db, again.id);
    ask_on(host, admin, 200, NULL, "POST %s/replay {'since':'2020-01-01T00:00:00Z'}", again.path);
    for (int i = 1; i < ORDERED; i++)
        ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, text("%d", i)), 201);
    catcher_wait(replayed, 1, GENEROUS_MS);
    host_kill(killed);
    WAIT_UNTIL(sql_number(db, "SELECT count(*) FROM webhook_replay WHERE state = 'done'") == 1 &&
                   sql_number(db, "SELECT count(*) FROM webhook_queued") == 0,
               GENEROUS_MS);
    expect_in_order(ordered, catcher_count(ordered), ORDERED);
    sql_is(db, ORDERED, "SELECT count(*) FROM webhook_outcome WHERE webhook = %jd AND delivered",
           (intmax_t)keyed.id);
    ask_on(host, admin, 200, text("{'state':'done','queued':%d}", REPLAYED), "GET %s/replay",
           again.path);
    sql_is(db, REPLAYED,
           "SELECT count(*) FROM webhook_outcome WHERE webhook = %jd AND delivered"
           " AND log::text LIKE '%%webhook-replay%%'",
           (intmax_t)again.id);
    sql_is(db, ORDERED,
           "SELECT count(*) FROM webhook_outcome WHERE webhook = %jd AND NOT delivered",
           (intmax_t)broken.id);
    ck_assert_str_eq(sql_text(db, "SELECT max(failing_since) FROM webhook_hook", 0, NULL), since);
    PQfinish(db);
    host_stop(host);
}

/* A transaction that stays open keeps the cursors below the deliveries that are written later. */
static void cursors_hold(PGconn *db)
{
    sql_run(db, "BEGIN");
    sql_run(db, "SELECT pg_current_xact_id()");
}

static struct webhook_made limited(const struct host *host, const struct person *admin,
                                   const struct catcher *catcher)
{
    struct webhook_made made =
        webhook_make(host, admin, catcher_url(catcher, "limited"), "message.new");

    ask_on(host, admin, 200, NULL, "PATCH %s {'rateLimit':{'limit':1,'per':'minute'}}", made.path);
    return made;
}

/*
 * The limit keeps the deliveries from being sent, first by the only host, then by one that gets
 * half of the shards and is killed. The first host must then find them again.
 */
TEST(deliveries_that_were_given_away_unsent_are_made_after_the_other_host_is_killed)
{
    const char *database = database_make(the_postgres, "takeback");
    struct host_spec spec = spec_of("takeback-first", database);
    struct catcher *catcher = catcher_start(NULL);
    PGconn *db = database_connect(the_postgres, database),
           *open = database_connect(the_postgres, database);
    struct host *host = host_start(&spec);
    struct person *admin = admin_of(host);
    struct talk talk = talk_start(host, admin, ADMIN_EMAIL, "other@shop.example", "Rooftop 7");

    webhook_ready(database, 1);
    sql_run(db, "SELECT setval('webhook_hook_id', 62)"); /* the shard 63, which is given away */
    struct webhook_made made = limited(host, admin, catcher);

    cursors_hold(open);
    for (int i = 0; i < MESSAGES; i++)
        ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "who is there?"), 201);
    spec.name = "takeback-killed";
    struct host *killed = host_start(&spec);

    WAIT_UNTIL(sql_number(db, "SELECT coalesce(owner, 0) FROM webhook_shard WHERE shard = 63") >
                   sql_number(db, "SELECT owner FROM webhook_shard WHERE shard = 0"),
               GENEROUS_MS);
    host_kill(killed);
    WAIT_UNTIL(sql_number(db, "SELECT count(*) FROM webhook_shard a JOIN webhook_shard b USING"
                              " (owner) WHERE a.shard = 63 AND b.shard = 0") == 1,
               GENEROUS_MS);
    ck_assert_uint_le(catcher_count(catcher), 1);
    ask_on(host, admin, 200, NULL, "PATCH %s {'rateLimit':null}", made.path);
    catcher_wait(catcher, MESSAGES, GENEROUS_MS);
    PQfinish(open);
    PQfinish(db);
    host_stop(host);
}

/* The attempt gets no response. When it ends, the host has its shards again, with another lease. */
TEST(an_attempt_that_outlives_its_lease_is_repeated_by_the_same_host)
{
    const char *database = database_make(the_postgres, "outlived");
    struct host *host = host_start(&(struct host_spec){.name = "outlived",
                                                       .database = database,
                                                       .modules = WEBHOOK_MODULES,
                                                       .more = WEBHOOK_LOCAL});
    struct catcher *catcher = catcher_of(ANSWER_NONE, ANSWER_OK);
    PGconn *db = database_connect(the_postgres, database),
           *open = database_connect(the_postgres, database);
    struct person *admin = admin_of(host);
    struct talk talk = talk_start(host, admin, ADMIN_EMAIL, "other@shop.example", "Rooftop 7");

    webhook_ready(database, 1);
    webhook_make(host, admin, catcher_url(catcher, "outlived"), "message.new");
    cursors_hold(open);
    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "who is there?"), 201);
    catcher_wait(catcher, 1, GENEROUS_MS);
    sql_run(db, "DELETE FROM webhook_host");
    catcher_wait(catcher, 2, GENEROUS_MS);
    ck_assert_str_eq(caught_header(&catcher->list[1], "X-Webhook-Attempt"), "1");
    PQfinish(open);
    PQfinish(db);
    host_stop(host);
}

SUITE(webhook_takeover, .timeout_s = 120)
