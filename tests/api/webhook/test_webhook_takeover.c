/* Two hosts on one database: the deliveries of a killed host are made by the other one. */
#include "receive.h"
#include "suite.h"

enum { HOOKS = 8, MESSAGES = 5, ALL = HOOKS * MESSAGES, GENEROUS_MS = 90000 };

/* Returns how often the catcher received a delivery of this webhook and event. */
static size_t times(const struct catcher *catcher, size_t count, int hook, const char *id)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += !strncmp(catcher->list[i].head, text("POST /%d ", hook), 8) &&
                 !strcmp(caught_header(&catcher->list[i], "webhook-id"), id);
    return found;
}

/* The killed host is stopped before the messages are written, so it begins no attempt. */
TEST(deliveries_of_a_killed_host_are_made_by_the_other_host)
{
    const char *database = database_make(the_postgres, "takeover");
    struct host_spec spec = {.name = "takeover-killed",
                             .database = database,
                             .modules = WEBHOOK_MODULES,
                             .more = WEBHOOK_LOCAL};
    struct catcher *catcher = catcher_start(NULL);
    PGconn *db = database_connect(the_postgres, database);
    struct host *killed = host_start(&spec);

    webhook_ready(database, 1);
    spec.name = "takeover-other";
    struct host *host = host_start(&spec);
    struct person *admin = admin_of(host);
    struct talk talk = talk_start(host, admin, ADMIN_EMAIL, "other@shop.example", "Rooftop 7");

    WAIT_UNTIL(sql_number(db,
                          "SELECT count(*) FROM (SELECT FROM webhook_shard WHERE owner IS NOT NULL"
                          " GROUP BY owner HAVING count(*) = 32) h") == 2,
               GENEROUS_MS);
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

SUITE(webhook_takeover, .timeout_s = 90)
