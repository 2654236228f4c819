/* Replays: which deliveries are sent again, how, in what order, and what interrupts them. */
#include "deliver.h"

#define SINCE "'since':'2020-01-01T00:00:00Z'"

enum { STORED = 150, WAITING = 64, GENEROUS_MS = 60000 };

static void expect_replay(const struct webhook_made *made, const char *state)
{
    WAIT_UNTIL(
        glob_matches(answer_text(ask(admin, 200, NULL, "GET %s/replay", made->path), "state"),
                     state) &&
            sql_number(db, text("SELECT count(*) FROM webhook_waiting WHERE webhook = %jd",
                                made->id)) == 0,
        GENEROUS_MS);
}

/* Stores deliveries that were delivered or abandoned, alternately; the first was delivered. */
static void store(const struct webhook_made *made, int count)
{
    sql_run(db,
            text("WITH d AS (INSERT INTO webhook_delivery (webhook, event, event_id, body) SELECT"
                 " %jd, 'message.new', gen_random_uuid(), '{\"conversationId\":' || n ||"
                 " ',\"message\":{\"uuid\":\"' || gen_random_uuid() || '\",\"username\":"
                 "\"a@shop.example\",\"chatEntry\":\"x\",\"createdAt\":"
                 "\"2026-04-01T12:00:00.000Z\"},\"deviceProjectName\":\"Rooftop 7\"}' FROM"
                 " generate_series(1, %d) AS n RETURNING id, webhook) INSERT INTO webhook_outcome"
                 " (id, webhook, at, duration_ms, status, delivered) SELECT id, webhook, now(), 1,"
                 " 200, row_number() OVER (ORDER BY id) %% 2 = 1 FROM d",
                 made->id, count));
    deliver_await_cursor(made->id);
}

TEST(a_replay_sends_what_matches_again_with_the_same_id_and_a_header)
{
    struct catcher *catcher = catcher_of(ANSWER_OK, ANSWER_GONE, ANSWER_OK);
    struct webhook_made made = hook_to(catcher);

    say_until(&made, "arrives", "delivered");
    say_until(&made, "does not arrive", "abandoned");
    exchanges(host, {text("GET %s/replay", made.path), admin, 404, "The webhook has no replay"},
              {text("POST %s/replay {" SINCE ",'dryRun':true}", made.path), admin, 200,
               "{'state':'dry_run','matched':2}"},
              {text("POST %s/replay {" SINCE ",'status':'abandoned','dryRun':true}", made.path),
               admin, 200, "{'matched':1}"},
              {text("POST %s/replay {" SINCE ",'events':['x'],'dryRun':true}", made.path), admin,
               200, "{'matched':0}"},
              {text("POST %s/replay {'since':'2999-01-01T00:00:00Z','dryRun':true}", made.path),
               admin, 200, "{'matched':0}"},
              {text("POST %s/replay {" SINCE "}", made.path),
               person_make(host, admin, "replay-ben", NULL), 404, "Webhook not found"},
              {text("POST %s/replay {" SINCE ",'status':'abandoned','events':['message.new']}",
                    made.path),
               admin, 200, "{'matched':1,'status':'abandoned','events':['message.new']}"});
    const struct caught *again = catcher_wait(catcher, 3, 5000);

    ck_assert_str_eq(caught_header(again, "webhook-id"),
                     caught_header(&catcher->list[1], "webhook-id"));
    ck_assert_str_eq(caught_header(again, "webhook-replay"), "true");
    ck_assert_ptr_null(caught_header(&catcher->list[1], "webhook-replay"));
    ck_assert_str_eq(again->body, catcher->list[1].body);
    expect_signed(again, made.secret);
    expect_replay(&made, "done");
    expect_json(webhook_newest(host, admin, &made),
                "{'status':'delivered','attempts':[{'number':1,'status':410},{'number':2,"
                "'status':200,'requestHeaders':{'webhook-replay':'true'}}]}");
    ask(admin, 200, "{'state':'done','matched':1,'queued':1,'waiting':0,'endedAt':'*'}",
        "GET %s/replay", made.path);
}

TEST(a_replay_of_more_deliveries_than_are_queued_at_a_time_sends_each_once)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = hook_to(catcher);

    store(&made, STORED);
    ask(admin, 200, "{'matched':150,'status':null}", "POST %s/replay {" SINCE "}", made.path);
    catcher_wait(catcher, STORED, GENEROUS_MS);
    expect_replay(&made, "done");
    ck_assert_uint_eq(catcher_count(catcher), STORED);
    for (size_t i = 1; i < STORED; i++)
        ck_assert_str_ne(catcher->list[i].body, catcher->list[0].body);
    ask(admin, 200, "{'queued':150}", "GET %s/replay", made.path);
}

/* An inactive webhook sends nothing, so only the first deliveries are queued. */
TEST(a_replay_can_be_canceled_and_only_one_runs_at_a_time)
{
    struct webhook_made made = webhook_make(host, admin, PUBLIC_URL, "message.new");

    ask(admin, 200, NULL, "PATCH %s {'active':false}", made.path);
    store(&made, 2 * STORED);
    ask(admin, 200, "{'state':'running','matched':150}",
        "POST %s/replay {" SINCE ",'status':'delivered'}", made.path);
    ask(admin, 409, "Another replay of this webhook is running", "POST %s/replay {" SINCE "}",
        made.path);
    WAIT_UNTIL(answer_int(ask(admin, 200, NULL, "GET %s/replay", made.path), "queued") == WAITING,
               GENEROUS_MS);
    ask(admin, 200, "{'state':'running','waiting':64}", "GET %s/replay", made.path);
    ask(admin, 200, "{'state':'canceled','queued':64,'endedAt':'*'}", "DELETE %s/replay",
        made.path);
    ask(admin, 200, "{'state':'running','matched':150}",
        "POST %s/replay {" SINCE ",'status':'abandoned'}", made.path);
    ask(admin, 200, NULL, "DELETE %s", made.path);
    sql_is(db, 0, "SELECT count(*) FROM webhook_replay WHERE webhook = %jd", made.id);
}

/* The sender advances up to 50 replays at a time; all deliveries of these replays wait. */
TEST(replays_whose_receivers_fail_do_not_keep_other_replays_from_continuing)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = hook_to(catcher);

    sql_run(db, "INSERT INTO webhook_waiting (id, webhook, next_at, replay) SELECT"
                " 100 * hook + n, hook, now() + interval '1 hour', true"
                " FROM generate_series(1000001, 1000060) AS hook, generate_series(1, 64) AS n");
    sql_run(db, "INSERT INTO webhook_replay (webhook, since, until, cursor, upto, matched,"
                " checked_at) SELECT hook, now(), now(), 0, 1, 100, now() - interval '1 hour'"
                " FROM generate_series(1000001, 1000060) AS hook");
    store(&made, STORED);
    ask(admin, 200, "{'matched':150}", "POST %s/replay {" SINCE "}", made.path);
    catcher_wait(catcher, STORED, GENEROUS_MS);
    expect_replay(&made, "done");
    sql_run(db, "DELETE FROM webhook_replay WHERE webhook > 1000000");
    sql_run(db, "DELETE FROM webhook_waiting WHERE webhook > 1000000");
}

/* Commits a statement when the request, which must get this status, waits for its lock. */
static void overtake(struct call request, const char *sql, long status)
{
    PGconn *watch = database_connect(the_postgres, PQdb(db));

    sql_run(db, "BEGIN");
    sql_run(db, sql);
    struct pending_call *pending = call_begin(host, &request);

    sql_soon(watch, SQL_LOCK_WAITS);
    sql_run(db, "COMMIT");
    ck_status(call_end(pending), status);
    PQfinish(watch);
}

TEST(a_deleted_webhook_has_no_replay_even_if_both_requests_overlap)
{
    struct webhook_made made = webhook_make(host, admin, PUBLIC_URL, "message.new");

    overtake(call_by(admin, "POST %s/replay {" SINCE "}", made.path),
             text("DELETE FROM webhook_hook WHERE id = %jd", made.id), 404);
    made = webhook_make(host, admin, PUBLIC_URL, "message.new");
    overtake(call_by(admin, "DELETE %s", made.path),
             text("WITH h AS (SELECT id FROM webhook_hook WHERE id = %jd FOR KEY SHARE)"
                  " INSERT INTO webhook_replay (webhook, since, until, cursor, upto, matched)"
                  " SELECT id, now(), now(), 0, 1, 1 FROM h",
                  made.id),
             200);
    sql_is(db, 0,
           "SELECT count(*) FROM webhook_replay WHERE webhook NOT IN"
           " (SELECT id FROM webhook_hook)");
}

DELIVER_SUITE(webhook_replay, "", 120)
