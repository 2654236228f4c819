/* Webhooks of kind poll: which events a client gets, in which order, and what ends a long poll. */
#include <sys/wait.h>

#include "deliver.h"

enum { GENEROUS_MS = 60000, LARGE = 200000, ROUNDS = 10 };

static struct webhook_made poll_make(const struct person *by, const char *more)
{
    return webhook_of(ask(by, 201, "{'kind':'poll','url':'(absent)','secret':'*'}",
                          "POST " WEBHOOKS " {'kind':'poll','events':['message.new']%s}", more));
}

/* Polls, and returns the entries of the messages, separated by spaces. Sets *offset. */
static const char *entries(const struct host *at, const struct webhook_made *made,
                           const char *query, int64_t *offset)
{
    const struct answer *got = ask_on(at, admin, 200, NULL, "GET %s/events%s", made->path, query);
    const char *list = "";
    const json_t *event;
    int64_t last = 0;
    size_t i;

    json_array_foreach (json_object_get(got->json, "events"), i, event) {
        const json_t *message = json_object_get(json_object_get(event, "payload"), "message");
        int64_t number = json_integer_value(json_object_get(event, "offset"));

        ck_assert_int_gt(number, last);
        last = number;
        list = text("%s%s%s", list, i ? " " : "",
                    json_string_value(json_object_get(message, "chatEntry")));
    }
    *offset = answer_int(got, "offset");
    ck_assert(!last || *offset == last);
    return list;
}

/* Events wait for earlier transactions, which other suites may have open. */
#define ck_entries(expected, ...) WAIT_UNTIL(!strcmp(entries(__VA_ARGS__), (expected)), 5000)

static void commit(const struct host *at, const struct webhook_made *made, const char *consumer,
                   int64_t offset)
{
    ask_on(at, admin, 200, "{'success':true}", "POST %s/commit {'consumer':'%s','offset':%jd}",
           made->path, consumer, offset);
}

TEST(each_consumer_gets_the_events_in_order_after_its_own_commit)
{
    struct webhook_made made = poll_make(admin, "");
    int64_t first, last, offset;

    ck_assert_str_eq(entries(host, &made, "", &offset), "");
    ck_assert_int_eq(offset, 0);
    say("a");
    say("b");
    say("c");
    ck_entries("a", host, &made, "?limit=1", &first);
    ck_entries("a b c", host, &made, "", &last);
    ask(admin, 200,
        "{'events':[{'eventId':'*','event':'message.new','createdAt':'*','payload':"
        "{'conversationId':'*','deviceProjectName':'Rooftop 7'}}]}",
        "GET %s/events?limit=1&wait=25", made.path);
    commit(host, &made, "default", first);
    ck_entries("b c", host, &made, "", &offset);
    ck_entries("a b c", host, &made, "?consumer=other", &offset);
    commit(host, &made, "other", last);
    ck_assert_str_eq(entries(host, &made, "?consumer=other", &offset), "");
    ck_assert_int_eq(offset, last);
    ck_entries("b c", host, &made, "", &offset);
    ask(admin, 200, "[{'consumer':'default','committedAt':'*'},{'consumer':'other'}]",
        "GET %s/consumers", made.path);
    commit(host, &made, "other", 0);
    ck_entries("a b c", host, &made, "?consumer=other", &offset);
    ask(admin, 200, NULL, "DELETE %s/consumers/default", made.path);
    ask(admin, 404, "Consumer not found", "DELETE %s/consumers/default", made.path);
    ck_entries("a b c", host, &made, "", &offset);
    ask(admin, 200, NULL, "DELETE %s", made.path);
    sql_is(db, 0, "SELECT count(*) FROM webhook_consumer WHERE webhook = %jd", made.id);
}

TEST(a_poll_webhook_refuses_what_it_cannot_have)
{
    struct webhook_made made = poll_make(admin, ",\"filter\":{\"deviceProjectName\":\"none\"}");
    struct webhook_made sent = webhook_make(host, admin, PUBLIC_URL, "message.new");
    const struct person *ben = person_make(host, admin, "poll-ben", NULL);
    int64_t offset;

    say("filtered");
    ck_assert_str_eq(entries(host, &made, "", &offset), "");
    ask(admin, 200, NULL, "PATCH %s {'filter':null}", made.path);
    say("not filtered");
    ck_entries("not filtered", host, &made, "", &offset);
    commit(host, &made, "default", offset);
    exchanges(host, {"POST " WEBHOOKS " {'events':[]}", admin, 400, "{'errors':[{'field':'url'}]}"},
              {"POST " WEBHOOKS " {'kind':'poll','url':'" PUBLIC_URL "','events':[]}", admin, 400,
               "{'errors':[{'field':'url'}]}"},
              {"POST " WEBHOOKS " {'kind':'poll','ordering':'key','events':[]}", admin, 400,
               "{'errors':[{'field':'ordering'}]}"},
              {text("PATCH %s {'url':'" PUBLIC_URL "'}", made.path), admin, 400,
               "{'errors':[{'field':'url'}]}"},
              {text("PATCH %s {'retryPolicy':'standard'}", made.path), admin, 400,
               "{'errors':[{'field':'retryPolicy'}]}"},
              {text("PATCH %s {'events':['conversation.created'],'headers':null}", made.path),
               admin, 200, "{'kind':'poll','events':['conversation.created']}"},
              {text("POST %s/commit {'offset':%jd}", made.path, offset + 1), admin, 400,
               "{'errors':[{'field':'offset'}]}"},
              {text("GET %s/events", made.path), ben, 404, "Webhook not found"},
              {text("POST %s/commit {'offset':0}", made.path), ben, 404, "Webhook not found"},
              {text("GET %s/consumers", made.path), ben, 404, "Webhook not found"},
              {text("DELETE %s/consumers/default", made.path), ben, 404, "Consumer not found"},
              {text("GET %s/events", sent.path), admin, 409, "The events of this webhook are sent"},
              {text("POST %s/commit {'offset':0}", sent.path), admin, 409,
               "The events of this webhook are sent"},
              {text("POST %s/recover {'since':'2020-01-01T00:00:00Z'}", made.path), admin, 409,
               "The events of this webhook are polled"},
              {text("POST %s/replay {'since':'2020-01-01T00:00:00Z'}", made.path), admin, 409,
               "The events of this webhook are polled"},
              {text("POST %s/deliveries/%jd/resend", made.path, offset), admin, 409,
               "The events of this webhook are polled"});
    sql_run(db, text("INSERT INTO webhook_consumer (webhook, name, committed)"
                     " SELECT %jd, 'c' || n, 0 FROM generate_series(1, 99) AS n",
                     made.id));
    ask(admin, 409, "A webhook may have at most 100 consumers",
        "POST %s/commit {'consumer':'x','offset':0}", made.path);
    commit(host, &made, "c99", offset);
}

TEST(a_test_of_a_poll_webhook_adds_an_event)
{
    struct webhook_made made = poll_make(admin, "");

    ask(admin, 200, "{'success':true,'status':null,'error':null}", "POST %s/test", made.path);
    ask(admin, 200, "{'success':true}", "POST %s/test {'event':'message.new'}", made.path);
    ask(admin, 200,
        "{'events':[{'event':'ping','payload':{'event':'ping'}},{'event':'message.new'}]}",
        "GET %s/events", made.path);
    sql_is(db, 0, "SELECT count(*) FROM webhook_waiting WHERE webhook = %jd", made.id);
}

/* Bodies of this size are stored apart. */
TEST(a_response_has_a_limited_size)
{
    struct webhook_made made = poll_make(admin, "");
    const char *entry = text_repeated("x", LARGE);
    int64_t offset;

    for (int i = 0; i < 3; i++)
        say(entry);
    WAIT_UNTIL(strlen(entries(host, &made, "?limit=1000", &offset)) == 2 * LARGE + 1, 5000);
    commit(host, &made, "default", offset);
    ck_entries(entry, host, &made, "?limit=1000", &offset);
}

/*
 * Begins a poll, and returns when it has run this statement, or if it ended early; end it with
 * call_end(). PostgreSQL shows only the last query of a connection, so a statement can remain
 * unseen.
 */
static struct pending_call *poll_begin(const struct host *at, const struct person *by,
                                       const struct webhook_made *made, const char *query,
                                       const char *statement)
{
    const char *now = sql_text(db, "SELECT clock_timestamp()", 0, NULL);
    const struct call call = call_by(by, "GET %s/events%s", made->path, query);
    struct pending_call *poll = call_begin(at, &call);

    const char *ran =
        text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
             " AND query LIKE '%%%s%%' AND query_start > '%s' AND pid <> pg_backend_pid()",
             statement, now);

    WAIT_UNTIL(call_is_over(poll) || sql_number(db, ran) != 0, 60000);
    return poll;
}

/* Stores an event in a transaction that the caller commits. */
static void begin_late(PGconn *open, const struct webhook_made *made)
{
    sql_run(open, "BEGIN");
    sql_run(open, text("INSERT INTO webhook_delivery (webhook, event, event_id, body) VALUES (%jd,"
                       " 'message.new', gen_random_uuid(),"
                       " '{\"message\":{\"chatEntry\":\"late\"}}')",
                       made->id));
}

/* Transactions may commit in a different order than they got their ids. */
TEST(an_event_whose_transaction_commits_late_is_not_skipped)
{
    struct webhook_made made = poll_make(admin, "");
    int64_t offset;

    say("first");
    ck_entries("first", host, &made, "", &offset);
    commit(host, &made, "default", offset);
    begin_late(db, &made);
    say("early");
    ck_assert_str_eq(entries(host, &made, "", &offset), "");
    ck_assert_str_eq(entries(host, &made, "?wait=2", &offset), "");
    sql_run(db, "COMMIT");
    ck_entries("late early", host, &made, "", &offset);
}

/* The request has found the early event, and waits for the transaction of the late one. */
TEST(an_event_that_commits_during_a_poll_does_not_exceed_its_limit)
{
    struct webhook_made made = poll_make(admin, "");
    PGconn *open = database_connect(the_postgres, PQdb(db));
    int64_t offset;

    begin_late(open, &made);
    say("early");
    struct pending_call *poll = poll_begin(host, admin, &made, "?limit=1&wait=25",
                                           "SELECT pg_snapshot_xmin(pg_current_snapshot())");

    sql_run(open, "COMMIT");
    PQfinish(open);
    const struct answer *got = call_end(poll);

    ck_assert_uint_eq(json_array_size(json_object_get(got->json, "events")), 1);
    commit(host, &made, "default", answer_int(got, "offset"));
    ck_entries("early", host, &made, "", &offset);
}

TEST(dropped_events_are_reported_until_the_consumer_begins_again)
{
    struct webhook_made made = poll_make(admin, "");
    int64_t day =
        sql_number(db, "SELECT (now() AT TIME ZONE 'UTC')::date - 40 - DATE '1970-01-01'");
    int64_t old = day << 32, offset;

    sql_run(db, text("SELECT webhook_partition_make(DATE '1970-01-01' + %jd)", day));
    sql_run(db,
            text("INSERT INTO webhook_delivery (id, webhook, event, event_id, body) SELECT %jd + n,"
                 " %jd, 'message.new', gen_random_uuid(), '{\"message\":{\"chatEntry\":\"old\"}}'"
                 " FROM generate_series(1, 2) AS n",
                 old, made.id));
    say("new");
    ck_entries("old old new", host, &made, "", &offset);
    commit(host, &made, "slow", old + 1);
    commit(host, &made, "fast", old + 2);
    sql_soon(db, text("SELECT webhook_partition_drop(DATE '1970-01-01' + %jd)::int", day));
    ask(admin, 410, text("Events after the offset %jd were dropped, because", old + 1),
        "GET %s/events?consumer=slow", made.path);
    ck_entries("new", host, &made, "?consumer=fast", &offset);
    ck_entries("new", host, &made, "?consumer=unknown", &offset);
    commit(host, &made, "slow", 0);
    ck_entries("new", host, &made, "?consumer=slow", &offset);
}

/* ---- long polls ---- */

/* Begins a long poll, and returns when it has looked for events. */
static struct pending_call *long_poll(const struct host *at, const struct person *by,
                                      const struct webhook_made *made)
{
    return poll_begin(at, by, made, "?wait=25", "webhook_consumer c ON");
}

/* Without the notification, a waiting request would look again after 5 seconds. */
TEST(a_long_poll_is_woken_by_an_event_on_another_host)
{
    struct host *other = deliver_another("hookpoll-2");
    struct webhook_made made = poll_make(admin, "");
    bool woken = false;

    webhook_ready("webhook_poll", 2);
    for (int i = 0; i < 8; i++) {
        const struct host *at = i % 2 ? host : other;
        struct pending_call *poll = long_poll(at, admin, &made);

        say(text("news %d", i));
        const struct answer *got = call_end(poll);

        /* A host that lost or has just opened its connection for notifications ends polls. */
        bool ended = json_array_size(json_object_get(got->json, "events")) == 0;

        if (ended)
            got = ask_on(at, admin, 200, NULL, "GET %s/events?wait=25", made.path);
        ck_assert_int_eq(got->status, 200);
        expect_json(json_object_get(got->json, "events"), "[{'event':'message.new'}]");
        commit(host, &made, "default", answer_int(got, "offset"));
        woken = woken || (!ended && got->seconds < 4);
    }
    ck_assert(woken);
}

TEST(a_long_poll_ends_if_its_webhook_is_deleted_or_the_host_reloads)
{
    const struct answer *got = NULL;
    struct webhook_made made;
    struct pending_call *poll;

    /* A host that opens its connection for notifications again ends polls early. */
    for (int i = 0; i < ROUNDS && (!got || got->status == 200); i++) {
        made = poll_make(admin, "");
        poll = long_poll(host, admin, &made);
        ask(admin, 200, NULL, "DELETE %s", made.path);
        got = call_end(poll);
    }
    ck_assert_int_eq(got->status, 404);
    made = poll_make(admin, "");
    poll = long_poll(host, admin, &made);
    ck_prints(host, 0, "", "reload");
    got = call_end(poll);

    ck_assert_int_eq(got->status, 200);
    ck_assert(got->seconds < 20);
    expect_json(got->json, "{'events':[],'offset':0}");
    webhook_ready("webhook_poll", 1);
}

TEST(a_long_poll_ends_if_its_token_is_revoked)
{
    struct person *owner = person_make(host, admin, "revoked.poller", NULL);
    struct webhook_made made = poll_make(owner, "");
    struct pending_call *poll = long_poll(host, owner, &made);

    ask(owner, 200, NULL, "POST /api/auth/logout");
    const struct answer *got = call_end(poll);

    ck_assert_int_eq(got->status, 200);
    ck_assert(got->seconds < 20);
    expect_json(got->json, "{'events':[],'offset':0}");
    ask(owner, 401, NULL, "GET %s/events?wait=25", made.path);
}

DELIVER_SUITE(webhook_poll, "", 120)

TEST(a_killed_host_loses_neither_events_nor_commits)
{
    int64_t offset;

    deliver_apart("pollkill", "");
    struct webhook_made made = poll_make(admin, "");

    say("one");
    say("two");
    ck_entries("one two", host, &made, "", &offset);
    host_kill(host);
    host = deliver_another("pollkill-2");
    ck_entries("one two", host, &made, "", &offset);
    commit(host, &made, "default", offset);
    host_kill(host);
    host = deliver_another("pollkill-3");
    ck_assert_str_eq(entries(host, &made, "", &offset), "");
    say("three");
    ck_entries("three", host, &made, "", &offset);
    commit(host, &made, "default", offset);
    /* a stop ends a long poll, else the host would have to cut it off */
    struct pending_call *poll = long_poll(host, admin, &made);

    host_stop(host);
    const struct answer *got = call_end(poll);

    ck_assert_msg(got->status == 200, "%ld %s", got->status, got->problem);
}

/* Runs `busbar webhook listen` with a configuration that has no database. */
static pid_t listen_start(const struct webhook_made *made, const char *target, const char *token,
                          const char *output)
{
    const char *conf = harness_path("listen.yaml");
    const char *const environment[] = {text("BUSBAR_TOKEN=%s", token),
                                       "BUSBAR_WEBHOOK_SECRET=" TEST_SECRET, NULL};

    file_write(conf, text("module_path: %s\nmodules: [auth, webhook]\n", harness_modules(false)));
    return process_start(&(struct process_spec){
        .argv = words("%s -c %s webhook listen %jd --server http://127.0.0.1:%d --forward-to %s",
                      harness_program(false), conf, made->id, host->port, target),
        .environment = environment,
        .log = output});
}

TEST(listen_sends_signed_events_until_they_succeed_also_after_a_restart_of_the_host)
{
    struct catcher *catcher = catcher_of(ANSWER_500, ANSWER_OK);
    const char *output = harness_path("listen.out");
    int status;

    deliver_apart("polllisten", "");
    host_stop(host);
    host->keep_port = true;
    ck_assert(host_run(host));
    struct webhook_made made = poll_make(admin, ",\"secret\":\"" TEST_SECRET "\"");

    say("one");
    /* an integer that jansson refuses; the documented events have none */
    sql_run(db, "UPDATE webhook_delivery SET event = 'poke.large',"
                " body = '{\"value\":100000000000000000000}'");
    pid_t pid = listen_start(&made, catcher_url(catcher, "local"), admin->token, output);
    const struct caught *again = catcher_wait(catcher, 2, GENEROUS_MS);

    for (int i = 0; i < 2; i++) {
        expect_signed(&catcher->list[i], TEST_SECRET);
        ck_assert_str_eq(caught_header(&catcher->list[i], "X-Webhook-Attempt"), i ? "2" : "1");
        ck_assert_str_eq(caught_header(&catcher->list[i], "X-Webhook-Event"), "poke.large");
    }
    ck_assert_str_eq(caught_header(again, "webhook-id"),
                     caught_header(&catcher->list[0], "webhook-id"));
    sql_soon(db, "SELECT count(*) FROM webhook_consumer WHERE name = 'listen' AND committed > 0");
    ck_assert_str_eq(
        again->body,
        sql_text(db, "SELECT body FROM webhook_delivery ORDER BY id LIMIT 1", 0, NULL));
    host_kill(host);
    ck_assert(host_run(host));
    say("two");
    expect_signed(catcher_wait(catcher, 3, GENEROUS_MS), TEST_SECRET);
    sql_soon(db, "SELECT count(*) FROM webhook_consumer c WHERE committed ="
                 " (SELECT max(id) FROM webhook_delivery d WHERE d.webhook = c.webhook)");
    ck_assert_int_eq(process_stop(pid, SIGINT, STOP_MS), 0);
    ck_assert_uint_eq(catcher_count(catcher), 3);
    ck_assert(glob_matches(file_text(output), "*poke.large *: 500 in *poke.large *: 200 in *"
                                              "message.new *: 200 in *"));
    pid = listen_start(&made, catcher_url(catcher, "local"), "none", output);
    ck_assert(process_wait(pid, GENEROUS_MS, &status));
    ck_assert_int_eq(WEXITSTATUS(status), 1);
    ck_assert(glob_matches(file_text(output), "*Unauthorized*"));
}

SUITE(webhook_poll_kill, .timeout_s = 120)
