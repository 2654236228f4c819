/* The policies of a webhook: when failed deliveries are sent again. */
#include "deliver.h"

/* Makes a webhook with further members of the body. */
static struct webhook_made make_with(struct catcher *catcher, const char *members)
{
    return webhook_with(host, admin, catcher_url(catcher, "policy"), members);
}

#define POST "POST " WEBHOOKS " {'url':'" PUBLIC_URL "','events':['message.new'],'retryPolicy':"

TEST(a_retry_policy_is_checked_and_errors_name_the_path_of_the_value)
{
    const char *const problem = "{'errors':[{'field':'%s','problem':'%s'}]}";

    exchanges(host, {POST "'default'}", admin, 201, "{'retryPolicy':'default'}"},
              {POST "'standard'}", admin, 201, "{'retryPolicy':'standard'}"},
              {POST "{'delays':[1]}}", admin, 201, "{'retryPolicy':{'delays':[1]}}"},
              {POST "{'delays':[86400,86400,86400,86400,86400,86400,86400]}}", admin, 201},
              {POST "null}", admin, 201, "{'retryPolicy':'(absent)'}"},
              {POST "'often'}", admin, 400, "{'errors':[{'field':'retryPolicy'}]}"},
              {POST "5}", admin, 400, "{'errors':[{'field':'retryPolicy'}]}"},
              {POST "[1,2]}", admin, 400, "{'errors':[{'field':'retryPolicy'}]}"},
              {POST "{}}", admin, 400, text(problem, "retryPolicy.delays", "is required")},
              {POST "{'delays':[]}}", admin, 400,
               text(problem, "retryPolicy.delays", "must have at least 1 item")},
              {POST "{'delays':[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}}", admin, 400,
               text(problem, "retryPolicy.delays", "must have at most 16 items")},
              {POST "{'delays':[1,0]}}", admin, 400,
               text(problem, "retryPolicy.delays[1]", "must be at least 1")},
              {POST "{'delays':[86401]}}", admin, 400,
               text(problem, "retryPolicy.delays[0]", "must be at most 86400")},
              {POST "{'delays':['soon']}}", admin, 400,
               text(problem, "retryPolicy.delays[0]", "must be a whole number")},
              {POST "{'delays':[86400,86400,86400,86400,86400,86400,86400,1]}}", admin, 400,
               text(problem, "retryPolicy.delays", "must add up to at most 7 days (604800)")});
}

TEST(a_retry_policy_is_changed_by_patch_and_cleared_by_null)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = make_with(catcher, "'retryPolicy':'standard'");

    exchanges(
        host,
        {text("PATCH %s {'active':true}", made.path), admin, 200, "{'retryPolicy':'standard'}"},
        {text("PATCH %s {'retryPolicy':{'delays':[2,3]}}", made.path), admin, 200,
         "{'retryPolicy':{'delays':[2,3]}}"},
        {text("GET %s", made.path), admin, 200, "{'retryPolicy':{'delays':[2,3]}}"},
        {text("PATCH %s {'retryPolicy':{'delays':[0]}}", made.path), admin, 400},
        {text("PATCH %s {'retryPolicy':null}", made.path), admin, 200,
         "{'retryPolicy':'(absent)'}"},
        {text("GET %s", made.path), admin, 200, "{'retryPolicy':'(absent)'}"});
}

TEST(a_delivery_has_one_attempt_more_than_its_policy_has_delays)
{
    struct catcher *catcher = catcher_of(ANSWER_500);
    struct webhook_made made = make_with(catcher, "'retryPolicy':{'delays':[1,1,1,1]}");

    expect_json(say_until(&made, "five attempts", "abandoned"), "{'attempts':[{},{},{},{},{}]}");
    ck_assert_uint_eq(catcher_count(catcher), 5);
    for (size_t i = 1; i < 5; i++)
        ck_assert_int_ge(catcher->list[i].at_ms - catcher->list[i - 1].at_ms, 1000);
}

/* Returns in how many seconds the webhook's only delivery is due; waits for its first attempt. */
static int64_t due_s(const struct webhook_made *made)
{
    sql_soon(db, text("SELECT count(*) FROM webhook_waiting WHERE webhook = %jd AND tries > 0",
                      made->id));
    return sql_number(db,
                      text("SELECT extract(epoch FROM next_at - (log -> -1 ->> 'at')::timestamptz)"
                           "::bigint FROM webhook_waiting WHERE webhook = %jd",
                           made->id));
}

TEST(retry_after_may_delay_a_retry_by_a_day_if_the_webhook_has_a_policy)
{
    struct catcher *catcher =
        catcher_of("HTTP/1.1 503 Later\r\nRetry-After: 100000\r\nContent-Length: 0\r\n\r\n");
    struct webhook_made made = make_with(catcher, "'retryPolicy':{'delays':[1]}");
    struct webhook_made plain = hook_to(catcher);

    say("later");
    int64_t own = due_s(&made), usual = due_s(&plain);

    ck_assert_int_ge(own, 86400);
    ck_assert_int_ge(usual, 60);
    ck_assert_int_lt(usual, 3600);
}

/*
 * A retry that is due in hours is only in the database. It keeps its number when the host is killed
 * before it is due.
 */
TEST(a_retry_that_is_due_in_hours_survives_a_kill_and_is_not_sent_early)
{
    struct catcher *catcher = catcher_of(ANSWER_500, ANSWER_OK);

    deliver_apart("hookpolicykill", "");
    struct webhook_made made = make_with(catcher, "'retryPolicy':{'delays':[7200]}");

    say("in two hours");
    sql_soon(db, "SELECT count(*) FROM webhook_waiting WHERE tries = 1");
    host_kill(host);
    host = deliver_another("hookpolicynext");
    sql_soon(db, "SELECT (count(*) = 64)::int FROM webhook_shard WHERE owner ="
                 " (SELECT max(id) FROM webhook_host)");
    say("comes before the retry");
    ck_assert_str_eq(caught_header(catcher_wait(catcher, 2, 60000), "X-Webhook-Attempt"), "1");
    sql_run(db, "UPDATE webhook_waiting SET next_at = now()");
    sql_run(db, text("SELECT pg_notify('webhook', 'queued:%jd:0')", made.id));
    ck_assert_str_eq(caught_header(catcher_wait(catcher, 3, 60000), "X-Webhook-Attempt"), "2");
    ck_assert_str_eq(caught_header(&catcher->list[2], "webhook-id"),
                     caught_header(&catcher->list[0], "webhook-id"));
}

/* The lock makes the read of due deliveries wait until the second one is due, too. */
TEST(a_delivery_that_becomes_due_while_due_deliveries_are_read_is_sent)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = hook_to(catcher);
    PGconn *lock = database_connect(the_postgres, PQdb(db));

    say("the first");
    say("the second");
    WAIT_UNTIL(sql_number(db, text("SELECT count(*) FROM webhook_outcome WHERE webhook = %jd",
                                   made.id)) == 2,
               60000);
    sql_run(lock, "BEGIN");
    sql_run(lock, "LOCK TABLE webhook_body IN ACCESS EXCLUSIVE MODE");
    sql_run(db, text("WITH o AS (DELETE FROM webhook_outcome WHERE webhook = %jd RETURNING *)"
                     " INSERT INTO webhook_waiting (id, webhook, next_at) SELECT id, webhook, now()"
                     " + (row_number() OVER (ORDER BY id) - 1) * interval '1 s' FROM o",
                     made.id));
    sql_run(db, text("SELECT pg_notify('webhook', 'queued:%jd:0')", made.id));
    sql_soon(db, SQL_LOCK_WAITS " AND query LIKE '%webhook_body%webhook_waiting%'");
    WAIT_UNTIL(sql_number(db, text("SELECT count(*) FROM webhook_waiting WHERE webhook = %jd"
                                   " AND next_at > now()",
                                   made.id)) == 0,
               60000);
    sql_run(lock, "COMMIT");
    catcher_wait(catcher, 4, 60000);
}

DELIVER_SUITE(webhook_policies, "", 120)
