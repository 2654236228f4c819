/*
 * When and how often a receiver is called: the schedule, its end, sending again, isolation. See
 * test_webhook_wire.c for the contents of requests.
 */
#include "deliver.h"
#include "fault/common.h"

TEST(two_failed_attempts_are_retried_after_1_and_4_seconds)
{
    struct catcher *catcher = catcher_of(ANSWER_500, ANSWER_500, ANSWER_OK);
    struct webhook_made made = hook_to(catcher);

    say("third time lucky");
    catcher_wait(catcher, 3, 10000);
    int64_t first = catcher->list[1].at_ms - catcher->list[0].at_ms;
    int64_t second = catcher->list[2].at_ms - catcher->list[1].at_ms;

    ck_assert_msg(first >= 1000, "second attempt after %jd ms", first);
    ck_assert_msg(second >= 4000, "third attempt after %jd ms", second);
    for (int i = 0; i < 3; i++) {
        expect_signed(&catcher->list[i], TEST_SECRET);
        ck_assert_str_eq(caught_header(&catcher->list[i], "X-Webhook-Attempt"), text("%d", i + 1));
        ck_assert_str_eq(caught_header(&catcher->list[i], "webhook-id"),
                         caught_header(&catcher->list[0], "webhook-id"));
        ck_assert_str_eq(catcher->list[i].body, catcher->list[0].body);
    }
    expect_json(webhook_wait(host, admin, &made, "delivered", 5000),
                "{'attempts':[{'status':500,'answer':'oops'},{},{'status':200}]}");
}

static struct answer *delivery_of(const struct webhook_made *made, int64_t number)
{
    return webhook_call(host, admin, "GET", made, text("/deliveries/%jd", number));
}

/* Returns the line of a webhook in the statistics of the last 24 hours. */
static const json_t *statistics_of(const struct webhook_made *made)
{
    struct answer *all = ask(admin, 200, NULL, "GET /api/chat/webhooks/statistics");
    size_t i;
    const json_t *line;

    json_array_foreach (all->json, i, line)
        if (json_integer_value(json_object_get(line, "id")) == made->id)
            return line;
    ck_abort_msg("no statistics of webhook %jd", made->id);
    return NULL;
}

static int64_t in_statistics(const struct webhook_made *made, const char *key)
{
    return json_integer_value(json_object_get(statistics_of(made), key));
}

/* Checks the sums of the hours; deliveries at the turn of an hour are in two of them. */
static void expect_hours(const struct webhook_made *made, int64_t delivered, int64_t abandoned)
{
    struct answer *hours = ck_status(webhook_call(host, admin, "GET", made, "/statistics"), 200);
    int64_t sums[2] = {0, 0};
    size_t i;
    const json_t *hour;

    ck_assert_uint_eq(json_array_size(hours->json), 24);
    json_array_foreach (hours->json, i, hour) {
        sums[0] += json_integer_value(json_object_get(hour, "delivered"));
        sums[1] += json_integer_value(json_object_get(hour, "abandoned"));
    }
    ck_assert_int_eq(sums[0], delivered);
    ck_assert_int_eq(sums[1], abandoned);
}

/* Later deliveries are sent, the webhook stays active; resend and recover send the first one. */
TEST(a_delivery_is_abandoned_after_three_failures_and_can_be_resent)
{
    struct catcher *catcher = catcher_of(ANSWER_500, ANSWER_500, ANSWER_500, ANSWER_OK);
    struct webhook_made made = hook_to(catcher);

    json_t *lost = say_until(&made, "will be abandoned", "abandoned");
    const char *id = json_string_value(json_object_get(lost, "eventId"));
    int64_t number = json_integer_value(json_object_get(lost, "id"));

    ck_assert_uint_eq(catcher_count(catcher), 3);
    say_until(&made, "will be delivered", "delivered");
    ask(admin, 200, "{'active':true}", "GET %s", made.path);
    ask(admin, 200, "[{}]", "GET %s/deliveries?status=abandoned", made.path);
    ck_assert_int_eq(in_statistics(&made, "abandoned"), 1);
    ck_assert_int_eq(in_statistics(&made, "delivered"), 1);
    ck_assert_int_eq(in_statistics(&made, "queued"), 0);
    ck_assert(json_is_integer(json_object_get(statistics_of(&made), "durationMs")));
    expect_hours(&made, 1, 1);
    ck_assert_str_eq(answer_text(ck_status(delivery_of(&made, number), 200), "body"),
                     catcher->list[0].body);
    ck_error(delivery_of(&made, 12345), 404, "Delivery not found");
    ask(admin, 200, "{'success':true,'queued':1}",
        "POST %s/recover {'since':'2020-01-01T00:00:00.000Z'}", made.path);
    ck_assert_str_eq(caught_header(catcher_wait(catcher, 5, 5000), "webhook-id"), id);
    ck_assert_str_eq(catcher->list[4].body, catcher->list[0].body);
    sql_soon(db, text("SELECT (count(*) = 2)::int FROM webhook_deliveries WHERE webhook = %jd AND"
                      " state = 'delivered'", /* a delivery in flight is not queued again */
                      made.id));
    ask(admin, 200, NULL, "POST %s/deliveries/%jd/resend", made.path, number);
    ck_assert_str_eq(caught_header(catcher_wait(catcher, 6, 5000), "webhook-id"), id);
    ck_error(webhook_call(host, admin, "POST", &made, "/deliveries/12345/resend"), 404, "");
}

/* Of three old deliveries, one was abandoned an hour ago, and the attempts of the others ended 45
 * minutes after 2 and 3 hours ago. */
TEST(recover_sends_deliveries_abandoned_since_a_time_whenever_they_were_created)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = hook_to(catcher);

    sql_run(db, text("WITH d AS (INSERT INTO webhook_delivery (id, webhook, event_id, event, body,"
                     " created_at) SELECT webhook_day_floor(current_date - 5) + n, %jd,"
                     " gen_random_uuid(), 'poke.old', n::text, now() - interval '5 days'"
                     " FROM generate_series(1, 3) AS n RETURNING *) INSERT INTO webhook_outcome"
                     " (id, webhook, at, duration_ms, delivered) SELECT id, webhook, now()"
                     " - body::int * interval '1 hour', 2700000, false FROM d",
                     made.id));
    ask(admin, 200, "{'success':true,'queued':2}", "POST %s/recover {'since':'%s'}", made.path,
        sql_text(db, "SELECT to_json(now() - interval '90 minutes') #>> '{}'", 0, NULL));
    ck_assert_str_ne(catcher_wait(catcher, 1, 5000)->body, "3");
    ck_assert_str_ne(catcher_wait(catcher, 2, 5000)->body, "3");
}

enum { RECEIVERS = 4, LARGE = 200000 };

/* When a delivery is sent again, its body is read from the database. */
TEST(a_large_event_body_is_stored_once_for_all_webhooks)
{
    static const char stored[] = "SELECT count(*) FROM webhook_body";
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made[RECEIVERS];
    int64_t before = sql_number(db, stored);

    for (int i = 0; i < RECEIVERS; i++)
        made[i] = hook_to(catcher);
    say(text("%0*d", LARGE, 7));
    for (int i = 0; i < RECEIVERS; i++)
        expect_signed(catcher_wait(catcher, (size_t)i + 1, 10000), TEST_SECRET);
    ck_assert_int_eq(sql_number(db, stored), before + 1);
    sql_is(db, 0, "SELECT count(*) FROM webhook_delivery WHERE octet_length(body) > 2048");
    json_t *delivery = webhook_wait(host, admin, &made[0], "delivered", 10000);
    intmax_t id = json_integer_value(json_object_get(delivery, "id"));

    ck_status(webhook_call(host, admin, "POST", &made[0], text("/deliveries/%jd/resend", id)), 200);
    const struct caught *again = catcher_wait(catcher, RECEIVERS + 1, 10000);

    expect_signed(again, TEST_SECRET);
    ck_assert_uint_eq(again->length, catcher->list[0].length);
    ck_assert_str_eq(answer_text(ck_status(delivery_of(&made[0], id), 200), "body"), again->body);
}

TEST(abandoned_deliveries_are_logged_once_a_minute_per_webhook)
{
    struct catcher *catcher = catcher_of(ANSWER_GONE);
    struct webhook_made made = hook_to(catcher);
    const char *line = text("deliveries were abandoned: webhook %jd,", made.id);

    host_says(host, 0, "pause"); /* afterwards all are due in the same minute */
    for (int i = 0; i < 5; i++)
        say("to be abandoned");
    host_says(host, 0, "resume");
    sql_soon(db, text("SELECT (count(*) = 5)::int FROM webhook_deliveries WHERE webhook = %jd AND"
                      " state = 'abandoned'",
                      made.id));
    catcher_wait(catcher, 5, 10000);
    host_logs(host, 0, line);
    ck_assert_uint_eq(host_logged(host, line), 1);
}

enum { RETRY_MS = 15000 }; /* time enough to change the webhook after the first attempt */

static struct webhook_made make_patient(struct catcher *catcher)
{
    struct webhook_made made = hook_to(catcher);

    ask(admin, 200, NULL, "PATCH %s {'retryPolicy':{'delays':[%d]}}", made.path, RETRY_MS / 1000);
    return made;
}

TEST(an_inactive_webhook_sends_waiting_deliveries_when_it_is_active_again)
{
    struct catcher *catcher = catcher_of(ANSWER_500, ANSWER_OK);
    struct webhook_made made = make_patient(catcher);
    struct catcher *other = catcher_start(NULL);

    hook_to(other);
    say("waits for its second attempt");
    catcher_wait(catcher, 1, 5000);
    ck_status(http(host, "PATCH", made.path, admin->token, json_pack("{sb}", "active", 0)), 200);
    say("is not for this webhook");
    int64_t off = catcher_wait(other, 2, 5000)->at_ms;
    struct webhook_made later =
        webhook_make(host, admin, catcher_url(other, "later"), "conversation.created");

    /* until the retry would have been due */
    WAIT_UNTIL(webhook_call(host, admin, "POST", &later, "/test")->status == 200 &&
                   now_ms() > off + RETRY_MS + 500,
               4 * RETRY_MS);
    ck_assert_uint_eq(catcher_count(catcher), 1);
    ck_status(http(host, "PATCH", made.path, admin->token, json_pack("{sb}", "active", 1)), 200);
    const struct caught *second = catcher_wait(catcher, 2, 5000);

    ck_assert_str_eq(second->body, catcher->list[0].body);
    webhook_wait(host, admin, &made, "delivered", 5000);
    ck_assert_uint_eq(catcher_count(catcher), 2);
}

TEST(a_changed_url_is_used_by_the_next_attempt)
{
    struct catcher *before = catcher_of(ANSWER_500), *after = catcher_start(NULL);
    struct webhook_made made = make_patient(before);

    say("moves");
    catcher_wait(before, 1, 5000);
    ask(admin, 200, NULL, "PATCH %s {'url':'%s'}", made.path, catcher_url(after, "new"));
    catcher_wait(after, 1, 5000);
    ck_assert_uint_eq(catcher_count(before), 1);
}

/* The second result comes while the statement for the first one is blocked, and is recorded after
 * it. */
TEST(a_result_that_arrives_while_results_are_recorded_is_recorded_next)
{
    enum { ROUNDS = 5 };
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = hook_to(catcher);

    sql_trigger(
        db, text("BEFORE INSERT ON webhook_outcome FOR EACH ROW WHEN (NEW.webhook = %jd)", made.id),
        SQL_GATE);
    for (size_t round = 1; round <= ROUNDS; round++) {
        sql_run(db, SQL_GATE_SHUT);
        say("is held up");
        sql_soon(db, SQL_GATE_WAITS);
        say("comes meanwhile");
        catcher_wait(catcher, 2 * round, 5000);
        sql_run(db, SQL_GATE_OPEN);
        sql_soon(db, text("SELECT (count(*) >= %zu)::int FROM webhook_deliveries WHERE"
                          " webhook = %jd AND state = 'delivered'",
                          2 * round, made.id));
    }
    sql_run(db, SQL_TRIGGER_DROP);
    ck_assert_uint_eq(catcher_count(catcher), 2 * ROUNDS);
}

/* Recording is retried four times a second; the host sleeps in between. */
TEST(results_that_cannot_be_recorded_do_not_cause_a_busy_loop)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = hook_to(catcher);

    sql_trigger(db, "BEFORE INSERT ON webhook_outcome", "RAISE 'barred'");
    say("cannot be recorded");
    catcher_wait(catcher, 1, 5000);
    WAIT_UNTIL(process_sleeps(host->pid), 5000);
    sql_run(db, SQL_TRIGGER_DROP);
    expect_json(webhook_wait(host, admin, &made, "delivered", 5000), "{'attempts':[{}]}");
    ck_assert_uint_eq(catcher->count, 1);
}

TEST(waiting_deliveries_of_a_deleted_webhook_are_dropped)
{
    struct catcher *catcher = catcher_of(ANSWER_500), *other = catcher_start(NULL);
    struct webhook_made made = make_patient(catcher);
    struct webhook_made witness =
        webhook_make(host, admin, catcher_url(other, "w"), "conversation.created");

    say("will be dropped");
    int64_t first = catcher_wait(catcher, 1, 5000)->at_ms;

    ask(admin, 200, NULL, "DELETE %s", made.path);
    /* until the retry would have been due */
    WAIT_UNTIL(webhook_call(host, admin, "POST", &witness, "/test")->status == 200 &&
                   now_ms() > first + RETRY_MS + 500,
               4 * RETRY_MS);
    ck_assert_uint_eq(catcher_count(catcher), 1);
}

DELIVER_SUITE(webhook_delivery, "", 60)
