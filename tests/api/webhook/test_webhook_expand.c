/*
 * Events for more webhooks than one transaction makes deliveries for: they are expanded after the
 * commit, in parts, and whatever happens meanwhile each webhook gets its delivery once.
 */
#include "exposition.h"
#include "receive.h"
#include "stage.h"

#define MODULES "[auth, chat, health, metrics, webhook]"

enum {
    AT_ONCE = 128, /* deliveries in one transaction */
    GATED = 200,   /* in the second part */
    HOOKS = 262,   /* three parts */
    DELETED = 258, /* in the third part, like SWITCHED_OFF */
    SWITCHED_OFF = 260,
    EVENTS = 4,
    LONG_MS = 20000,
};

static struct person *platform;
static struct talk talk, other;
static struct receiver *receiver;
static struct webhook_made made[HOOKS];

#define ON_DATABASE(host_name)                                                                     \
    &(struct host_spec)                                                                            \
    {                                                                                              \
        .name = (host_name), .database = "hookexpand", .modules = MODULES, .more = WEBHOOK_LOCAL   \
    }

/* The host inserts many deliveries at once until it knows how many webhooks there are. */
static void await_count_of_webhooks(void)
{
    WAIT_UNTIL(exposition_value(exposition_get(host, admin->token), "busbar_webhook_webhooks",
                                "state=\"active\"") >= (double)HOOKS,
               LONG_MS);
}

static void set_up(void)
{
    database_make(the_postgres, "hookexpand");
    stage_open(ON_DATABASE("hookexpand"));
    webhook_ready("hookexpand", 1);
    platform = person_make(host, admin, "expand", NULL);
    talk = talk_start(host, admin, ADMIN_EMAIL, "one@shop.example", "Rooftop 7");
    other = talk_start(host, platform, platform->email, ADMIN_EMAIL, "Rooftop 8");
    receiver = receiver_start("expand");
    for (int i = 0; i < HOOKS; i++)
        made[i] = webhook_make(host, admin, receiver_url(receiver, "/fast/x"), "message.new");
    await_count_of_webhooks();
}

static int64_t number(const char *what)
{
    return sql_number(db, text("SELECT %s FROM webhook_deliveries", what));
}

static bool are_expanded(void)
{
    return sql_number(db, "SELECT count(*) FROM webhook_expansion") == 0;
}

/* Waits until this many deliveries have been made and sent, one of each event to each webhook. */
static void expect_sent(int64_t count)
{
    WAIT_UNTIL_MSG(are_expanded() && number("count(*) FILTER (WHERE state <> 'queued')") >= count,
                   LONG_MS, "%jd of %jd, %jd wait", number("count(*)"), count,
                   number("count(*) FILTER (WHERE state = 'queued')"));
    ck_assert_int_eq(number("count(*)"), count);
    ck_assert_int_eq(number("count(DISTINCT (webhook, event_id))"), count);
    ck_assert_int_eq(number("count(*) FILTER (WHERE state <> 'delivered')"), 0);
}

static void post(const char *entry)
{
    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, entry), 201);
}

static void begin(void)
{
    sql_run(db, "TRUNCATE webhook_delivery, webhook_outcome, webhook_waiting, webhook_backlog");
}

#define EACH_DELIVERY "BEFORE INSERT ON webhook_delivery FOR EACH ROW"

/* Records which transaction made a delivery, because an UPDATE changes xmin. */
static void note_transactions(void)
{
    sql_run(db, "CREATE TABLE first (webhook bigint, xact xid8)");
    sql_trigger(db, EACH_DELIVERY, "INSERT INTO first VALUES (NEW.webhook, pg_current_xact_id())");
}

TEST(an_event_for_many_webhooks_is_expanded_in_small_transactions)
{
    begin();
    note_transactions();
    post("to all");
    expect_sent(HOOKS);
    ck_assert_int_eq(number("count(DISTINCT body_id)"), 1);
    ck_assert_int_eq(number("count(traceparent)"), HOOKS);
    ck_assert_int_eq(number("count(DISTINCT traceparent)"), 1);
    ck_assert_int_le(sql_number(db, "SELECT max(n) FROM (SELECT count(DISTINCT webhook) AS n FROM"
                                    " first GROUP BY xact) x"),
                     AT_ONCE);
    sql_run(db, SQL_TRIGGER_DROP);
}

/* Blocks the insertion of a delivery to that webhook until the gate is opened. */
static void shut_gate(int webhook)
{
    sql_trigger(db, text(EACH_DELIVERY " WHEN (NEW.webhook = %jd)", made[webhook].id), SQL_GATE);
    sql_run(db, SQL_GATE_SHUT);
}

static void open_gate(void)
{
    sql_run(db, SQL_GATE_OPEN);
    sql_run(db, SQL_TRIGGER_DROP);
}

static void stop_in_the_middle(void)
{
    shut_gate(GATED);
    post("is held up");
    sql_soon(db, SQL_GATE_WAITS);
    ck_assert_int_eq(number("count(*)"), AT_ONCE);
}

/* The recipients of an event are determined when it is committed. */
TEST(changes_of_webhooks_during_an_expansion_do_not_change_its_recipients)
{
    begin();
    stop_in_the_middle();
    ck_status(webhook_call(host, admin, "DELETE", &made[DELETED], ""), 200);
    ask(admin, 200, NULL, "PATCH %s {'active':false}", made[SWITCHED_OFF].path);
    struct webhook_made late =
        webhook_make(host, admin, receiver_url(receiver, "/fast/x"), "message.new");

    open_gate();
    WAIT_UNTIL(are_expanded(), LONG_MS);
    ck_assert_int_eq(number("count(*)"), HOOKS - 1);
    ck_assert_int_eq(
        number(text("count(*) FILTER (WHERE webhook IN (%jd, %jd))", made[DELETED].id, late.id)),
        0);
    expect_json(webhook_wait(host, admin, &made[SWITCHED_OFF], "queued", LONG_MS),
                "{'attempts':[]}");
    ask(admin, 200, NULL, "PATCH %s {'active':true}", made[SWITCHED_OFF].path);
    expect_sent(HOOKS - 1);
    ck_status(webhook_call(host, admin, "DELETE", &late, ""), 200);
    made[DELETED] = webhook_make(host, admin, receiver_url(receiver, "/fast/x"), "message.new");
}

static int64_t last_delivery_of(const char *entry)
{
    return sql_number(db, text("SELECT max(d.id) FROM webhook_delivery d JOIN webhook_body b"
                               " ON b.id = d.body_id WHERE b.body LIKE '%%\"%s\"%%'",
                               entry));
}

TEST(accounts_take_turns_in_expansions)
{
    begin();
    shut_gate(0);
    for (int i = 0; i < EVENTS; i++)
        post(text("turn %d", i));
    ck_status(talk_post(host, platform, &other, platform->email, "turn of another"), 201);
    open_gate();
    expect_sent((EVENTS + 1) * HOOKS);
    ck_assert_int_lt(last_delivery_of("turn of another"), last_delivery_of("turn 2"));
    ck_assert_int_lt(last_delivery_of("turn 2"), last_delivery_of("turn 3"));
}

/* Simulates an event whose body PostgreSQL cannot read: it waits, and so do later events of its
 * account. */
TEST(an_event_that_cannot_be_expanded_does_not_delay_other_accounts)
{
    begin();
    sql_trigger(db, EACH_DELIVERY,
                "IF (SELECT body FROM webhook_body WHERE id = NEW.body_id) LIKE '%refused%'"
                " THEN RAISE data_corrupted; END IF");
    post("refused by the database for ever");
    for (int i = 0; i < 2; i++)
        ck_status(talk_post(host, platform, &other, platform->email, "entry of the other account"),
                  201);
    bool passed = false;

    WAIT_FOR(passed = number("count(*)") >= 2 * HOOKS, LONG_MS);
    sql_run(db, SQL_TRIGGER_DROP);
    ck_assert(passed);
    expect_sent(3 * HOOKS);
}

TEST(two_hosts_send_each_delivery_once)
{
    struct host *second = host_start(ON_DATABASE("hookexpand2"));
    int events = repetitions(2, EVENTS);

    begin();
    for (int i = 0; i < events; i++) {
        post("through one");
        ck_status(talk_post(second, admin, &talk, ADMIN_EMAIL, "through the other"), 201);
    }
    expect_sent(2 * (int64_t)events * HOOKS);
}

/* Checks the last delivery, which is made after the commit. */
TEST(deliveries_made_after_the_commit_belong_to_the_trace_of_the_event)
{
    struct catcher *catcher = catcher_start(NULL);

    begin();
    ask(admin, 200, NULL, "PATCH %s {'url':'%s'}", made[HOOKS - 1].path, catcher_url(catcher, "x"));
    post("with a trace");
    const struct caught *caught = catcher_wait(catcher, 1, LONG_MS);

    expect_sent(HOOKS);
    ck_assert_str_eq(caught_header(caught, "traceparent"),
                     sql_text(db, "SELECT min(traceparent) FROM webhook_delivery", 0, NULL));
    ask(admin, 200, NULL, "PATCH %s {'url':'%s'}", made[HOOKS - 1].path,
        receiver_url(receiver, "/fast/x"));
}

/* This is the last test, because it stops the suite's host. */
TEST(an_expansion_continues_after_a_kill_where_it_stopped)
{
    host_stop(host);
    host = host_start(ON_DATABASE("hookexpandkill"));
    await_count_of_webhooks();
    begin();
    stop_in_the_middle();
    host_kill(host);
    sql_run(db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND datname = current_database()");
    open_gate();
    ck_assert_int_eq(number("count(*)"), AT_ONCE);
    ck_assert(host_run(host));
    expect_sent(HOOKS);
}

STAGE_SUITE(webhook_expand, set_up, 90)
