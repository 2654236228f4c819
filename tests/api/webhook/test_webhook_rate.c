/* Rate limits of webhooks: the attempts that start in any second, also if hosts change. */
#include "deliver.h"

enum {
    LIMIT = 5,
    MESSAGES = 18,
    HOOKS = 4,
    LARGE_HOOKS = 40,
    LARGE = 1000000,
    BYTES_A_SECOND = 16 * 1024 * 1024,
    GENEROUS_MS = 60000,
    ROUNDING_MS = 2
};

#define LIMITED "{'rateLimit':{'limit':5,'per':'second'}}"

/* Returns the shortest time in which LIMIT + 1 attempts of a webhook started. */
static int64_t shortest_ms(void)
{
    return sql_number(db, text("SELECT floor(extract(epoch FROM min(gap)) * 1000) FROM (SELECT at -"
                               " lag(at, %d) OVER (PARTITION BY webhook ORDER BY at) AS gap FROM"
                               " webhook_outcome) g",
                               LIMIT));
}

TEST(a_rate_limit_is_checked_shown_and_cleared)
{
    struct webhook_made made = webhook_make(host, admin, PUBLIC_URL, "message.new");

    exchanges(
        host,
        {text("PATCH %s {'rateLimit':{'limit':0,'per':'second'}}", made.path), admin, 400,
         "{'errors':[{'field':'rateLimit.limit'}]}"},
        {text("GET %s", made.path), admin, 200, "{'rateLimit':'(absent)'}"},
        {text("PATCH %s {'rateLimit':{'limit':100,'per':'minute'}}", made.path), admin, 200,
         "{'rateLimit':{'limit':100,'per':'minute'}}"},
        {text("PATCH %s {'rateLimit':null}", made.path), admin, 200, "{'rateLimit':'(absent)'}"});
}

TEST(no_more_attempts_start_in_a_second_than_allowed_and_what_waits_costs_none)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = hook_to(catcher);

    ask(admin, 200, LIMITED, "PATCH %s " LIMITED, made.path);
    for (int i = 0; i < MESSAGES; i++)
        say("one of many");
    catcher_wait(catcher, MESSAGES, GENEROUS_MS);
    WAIT_UNTIL(sql_number(db, "SELECT count(*) FROM webhook_outcome") == MESSAGES, GENEROUS_MS);
    ck_assert_int_ge(shortest_ms(), 1000 - ROUNDING_MS);
    sql_is(db, 0, "SELECT count(*) FROM webhook_outcome WHERE log IS NOT NULL");
}

TEST(a_limit_that_is_cleared_lets_the_waiting_deliveries_go)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = hook_to(catcher);

    say("before the limit");
    catcher_wait(catcher, 1, GENEROUS_MS);
    ask(admin, 200, NULL, "PATCH %s {'rateLimit':{'limit':1,'per':'minute'}}", made.path);
    for (int i = 0; i < LIMIT; i++)
        say("waits for a minute");
    ck_assert_uint_eq(catcher_count(catcher), 1); /* a new limit begins with a whole period */
    ask(admin, 200, NULL, "PATCH %s {'rateLimit':null}", made.path);
    catcher_wait(catcher, 1 + LIMIT, GENEROUS_MS);
}

/* The first second's bytes are sent at once. */
TEST(the_webhooks_of_an_account_share_a_limit_of_bytes_a_second)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made[LARGE_HOOKS];
    int64_t all_ms = (int64_t)(LARGE_HOOKS - 1) * LARGE * 1000 / BYTES_A_SECOND;

    for (int i = 0; i < LARGE_HOOKS; i++)
        made[i] = webhook_make(host, admin, catcher_url(catcher, text("%d", i)), "message.new");
    say(text_repeated("x", LARGE));
    const char *outcomes = text("FROM webhook_outcome WHERE webhook >= %jd", made[0].id);

    WAIT_UNTIL(sql_number(db, text("SELECT count(*) %s", outcomes)) == LARGE_HOOKS, GENEROUS_MS);
    ck_assert_int_ge(
        sql_number(db,
                   text("SELECT floor(extract(epoch FROM max(at) - min(at)) * 1000) %s", outcomes)),
        all_ms - 1000 - ROUNDING_MS);
}

DELIVER_SUITE(webhook_rate, "", 90)

TEST(a_limit_holds_while_another_host_takes_the_webhook_over)
{
    struct catcher *catcher = catcher_start(NULL);

    deliver_apart("hookratehosts", "");
    struct host *first = host;

    host = deliver_another("rate-two");
    deliver_await_halves();
    /* the shards 62, 63, 0 and 1, because each host has 32 shards in a row */
    sql_run(db, text("SELECT setval('webhook_hook_id', %d)", 64 - HOOKS / 2 - 1));
    for (int i = 0; i < HOOKS; i++)
        ask(admin, 200, NULL, "PATCH %s " LIMITED, hook_to(catcher).path);
    for (int i = 0; i < MESSAGES; i++)
        say("one of many");
    catcher_wait(catcher, HOOKS * LIMIT, GENEROUS_MS);
    host_stop(first);
    catcher_wait(catcher, HOOKS * MESSAGES, GENEROUS_MS);
    sql_soon(db, text("SELECT (count(*) = %d)::int FROM webhook_outcome", HOOKS * MESSAGES));
    ck_assert_int_ge(shortest_ms(), 1000 - ROUNDING_MS);
}

SUITE(webhook_rate_hosts, .timeout_s = 120)
