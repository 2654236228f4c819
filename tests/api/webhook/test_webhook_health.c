/*
 * The health of webhooks: when a webhook is failing, when its policy disables it, and the events
 * about it, which the other webhooks of its owner get.
 */
#include "deliver.h"

enum { LONG_MS = 10000 };

#define EVENTS "'webhook.failing','webhook.recovered','webhook.disabled','webhook.exhausted'"
#define ANSWER_DISABLE "HTTP/1.1 200 OK\r\nWebhook-Delivery: disable\r\nContent-Length: 0\r\n\r\n"

static struct catcher *ear; /* a receiver of the events about the Admin's webhooks */

static struct webhook_made make(const char *url, const char *members)
{
    return webhook_with(host, admin, url, text("'events':['message.new'," EVENTS "],%s", members));
}

/* Makes the webhook whose receiver is `ear`. */
static void listen_to_events(void)
{
    ear = catcher_start(NULL);
    webhook_with(host, admin, catcher_url(ear, "ear"), "'events':[" EVENTS "]");
}

/* Returns the latest of these events about a webhook, or NULL. Sets the number of events. */
static json_t *heard(const char *event, const struct webhook_made *made, size_t *count)
{
    json_t *last = NULL;

    *count = 0;
    for (size_t i = 0, all = catcher_count(ear); i < all; i++) {
        json_t *body = json_of(ear->list[i].body);

        if (strcmp(caught_header(&ear->list[i], "X-Webhook-Event"), event) != 0 ||
            json_integer_value(json_object_get(body, "webhookId")) != made->id)
            continue;
        (*count)++;
        last = body;
    }
    return last;
}

static size_t times_heard(const char *event, const struct webhook_made *made)
{
    size_t count;

    heard(event, made, &count);
    return count;
}

/* Waits for an event about a webhook, and returns the body. */
static json_t *hear(const char *event, const struct webhook_made *made)
{
    size_t count;

    WAIT_UNTIL_MSG(times_heard(event, made) > 0, LONG_MS, "there was no event %s", event);
    return heard(event, made, &count);
}

static void expect_health(const struct webhook_made *made, const char *expected)
{
    ask(admin, 200, expected, "GET %s", made->path);
}

/* The webhook subscribes to the events, but gets none about itself. */
TEST(a_failing_webhook_is_reported_to_the_other_webhooks_of_its_owner_until_it_recovers)
{
    struct catcher *catcher = catcher_of(ANSWER_500, ANSWER_500, ANSWER_OK);
    struct catcher *strange = catcher_start(NULL);
    struct person *olga = person_make(host, admin, "olga", NULL);
    struct webhook_made made = make(catcher_url(catcher, "fails"), "'retryPolicy':{'delays':[1]}");

    listen_to_events();
    webhook_with(host, olga, catcher_url(strange, "other"), "'events':[]");
    expect_health(&made, "{'health':'ok','failingSince':'(absent)','lastSuccessAt':'(absent)',"
                         "'disabledAt':'(absent)','active':true}");
    say("fails twice");
    expect_json(hear("webhook.failing", &made),
                text("{'webhookId':%jd,'userId':'*','url':'%s','since':'*Z','lastSuccessAt':null}",
                     made.id, catcher_url(catcher, "fails")));
    expect_json(hear("webhook.exhausted", &made), "{'count':1,'since':null}");
    expect_health(&made, "{'health':'failing','failingSince':'*Z','active':true}");
    say("succeeds");
    expect_json(hear("webhook.recovered", &made), "{'since':'*Z'}");
    expect_health(&made, "{'health':'ok','failingSince':'(absent)','lastSuccessAt':'*Z'}");
    ck_assert_uint_eq(times_heard("webhook.failing", &made), 1);
    ck_assert_uint_eq(catcher_count(catcher), 3);
    ck_assert_uint_eq(catcher_count(strange), 0);
}

TEST(a_refused_connection_counts_and_an_unknown_name_does_not)
{
    struct webhook_made refused = make(receiver_url(receiver_none(), "/x"), "'secret':null");
    struct webhook_made unknown = make("http://name.invalid/hook", "'secret':null");

    listen_to_events();
    say("to nobody");
    hear("webhook.failing", &refused);
    hear("webhook.exhausted", &unknown);
    expect_health(&unknown, "{'health':'ok'}");
    ck_assert_uint_eq(times_heard("webhook.failing", &unknown), 0);
}

TEST(a_webhook_is_disabled_after_its_duration_and_continues_with_what_waits)
{
    struct catcher *catcher = catcher_of(ANSWER_500, ANSWER_500, ANSWER_500, ANSWER_OK);
    struct webhook_made made =
        make(catcher_url(catcher, "off"),
             "'retryPolicy':{'delays':[1,3600]},'disablePolicy':{'after':'1h'}");

    listen_to_events();
    say("waits for an hour");
    sql_soon(db, text("SELECT count(*) FROM webhook_waiting WHERE webhook = %jd AND tries = 2",
                      made.id));
    expect_health(&made, "{'health':'ok','active':true}");
    sql_run(db, text("UPDATE webhook_hook SET failing_since = now() - interval '61 minutes'"
                     " WHERE id = %jd",
                     made.id));
    ask(admin, 200, "{'health':'failing'}", "PATCH %s {'events':['message.new']}", made.path);
    say("is the last straw");
    expect_json(hear("webhook.disabled", &made), "{'reason':'failing','since':'*Z'}");
    expect_health(&made, "{'health':'disabled','active':false,'disabledReason':'failing',"
                         "'disabledAt':'*Z','failingSince':'*Z'}");
    ck_assert_uint_eq(catcher_count(catcher), 3);
    say("is not for this webhook");
    ask(admin, 200,
        "{'health':'ok','active':true,'disabledReason':'(absent)','disabledAt':'(absent)',"
        "'failingSince':'(absent)','disablePolicy':{'after':'1h'}}",
        "PATCH %s {'active':true}", made.path);
    catcher_wait(catcher, 4, LONG_MS);
    ck_assert_str_eq(catcher->list[3].body, catcher->list[2].body);
    sql_soon(db, text("SELECT count(*) FROM webhook_outcome WHERE webhook = %jd AND delivered",
                      made.id));
    expect_health(&made, "{'health':'ok','active':true}");
}

/* A policy that was cleared does not disable the webhook, although the sender may not know yet. */
TEST(a_receiver_disables_its_webhook_by_410_or_a_header_only_if_it_has_a_policy)
{
    static const char *const answers[] = {ANSWER_GONE, ANSWER_DISABLE};
    static const char *const reasons[] = {"gone", "requested"};

    listen_to_events();
    for (int i = 0; i < 2; i++) {
        struct catcher *catcher = catcher_of(answers[i]);
        struct webhook_made made =
            make(catcher_url(catcher, "by"), "'disablePolicy':{'after':'30d'}");
        struct webhook_made plain = make(catcher_url(catcher, "never"), "'disablePolicy':null");

        say("disable, please");
        expect_json(hear("webhook.disabled", &made),
                    text("{'reason':'%s','lastSuccessAt':%s}", reasons[i], i ? "'*Z'" : "null"));
        expect_health(
            &made, text("{'health':'disabled','active':false,'disabledReason':'%s'}", reasons[i]));
        webhook_wait(host, admin, &plain, i ? "delivered" : "abandoned", LONG_MS);
        expect_health(&plain, "{'active':true,'disabledAt':'(absent)'}");
        ask(admin, 200, NULL, "DELETE %s", made.path);
        ask(admin, 200, NULL, "DELETE %s", plain.path);
    }
}

/* The job webhook.sweep reports what was abandoned after the last event. */
TEST(abandoned_deliveries_are_reported_once_an_hour_with_their_number)
{
    enum { DELIVERIES = 3 };
    struct catcher *catcher = catcher_of(ANSWER_GONE);
    struct webhook_made made = hook_to(catcher);

    listen_to_events();
    for (int i = 0; i < DELIVERIES; i++)
        say("to be abandoned");
    int64_t told = json_integer_value(json_object_get(hear("webhook.exhausted", &made), "count"));

    sql_soon(db, text("SELECT (exhausted + %jd = %d)::int FROM webhook_hook WHERE id = %jd", told,
                      DELIVERIES, made.id));
    ck_assert_uint_eq(times_heard("webhook.exhausted", &made), 1);
    sql_run(db, text("UPDATE webhook_hook SET exhausted = 7,"
                     " exhausted_at = now() - interval '61 minutes' WHERE id = %jd",
                     made.id));
    WAIT_UNTIL(times_heard("webhook.exhausted", &made) > 1, LONG_MS); /* the job runs each minute */
    expect_json(hear("webhook.exhausted", &made), "{'count':7,'since':'*Z'}");
}

/* The event and the change are one transaction, and the outcome is recorded in any case. */
TEST(an_event_that_cannot_be_stored_delays_the_change_but_not_the_outcome)
{
    struct catcher *catcher = catcher_of(ANSWER_GONE);
    struct webhook_made made =
        make(catcher_url(catcher, "atomic"), "'disablePolicy':{'after':'5d'}");

    listen_to_events();
    sql_trigger(db,
                "BEFORE INSERT ON webhook_delivery FOR EACH ROW"
                " WHEN (NEW.event = 'webhook.disabled')",
                "RAISE 'barred'");
    say_until(&made, "cannot be reported", "abandoned");
    expect_health(&made, "{'health':'ok','active':true}");
    sql_run(db, SQL_TRIGGER_DROP);
    say("can be reported");
    hear("webhook.disabled", &made);
    expect_health(&made, "{'health':'disabled','active':false}");
}

#define POST "POST " WEBHOOKS " {'url':'" PUBLIC_URL "','events':['message.new'],'disablePolicy':"
#define BAD_AFTER                                                                                  \
    "{'errors':[{'field':'disablePolicy.after',"                                                   \
    "'problem':'must be a duration from 1h to 30d, such as 5d or 36h'}]}"

TEST(a_disable_policy_is_checked_and_cleared_by_null)
{
    struct webhook_made made = make(PUBLIC_URL, "'disablePolicy':{'after':'5d'}");

    exchanges(
        host, {POST "{'after':'1h'}}", admin, 201, "{'disablePolicy':{'after':'1h'}}"},
        {POST "{'after':'30d'}}", admin, 201}, {POST "{'after':'90m'}}", admin, 201},
        {POST "null}", admin, 201, "{'disablePolicy':'(absent)','health':'(absent)'}"},
        {POST "{'after':'59m'}}", admin, 400, BAD_AFTER},
        {POST "{'after':'31d'}}", admin, 400, BAD_AFTER},
        {POST "{'after':'5 days'}}", admin, 400, BAD_AFTER},
        {POST "{'after':'d'}}", admin, 400, BAD_AFTER},
        {POST "{'after':'-5d'}}", admin, 400, BAD_AFTER},
        {POST "{'after':'9999999999h'}}", admin, 400, BAD_AFTER},
        {text("GET %s", made.path), admin, 200, "{'disablePolicy':{'after':'5d'},'health':'ok'}"},
        {text("PATCH %s {'health':'failing','disabledAt':'2026-01-01T00:00:00Z'}", made.path),
         admin, 200, "{'health':'ok','disabledAt':'(absent)'}"},
        {text("PATCH %s {'disablePolicy':null}", made.path), admin, 200,
         "{'disablePolicy':'(absent)'}"});
}

TEST(an_event_about_a_webhook_goes_to_at_most_100_others_first_those_that_name_it)
{
    enum { MANY = 100 };
    struct catcher *catcher = catcher_start(NULL);

    for (size_t i = 0; i < MANY; i++)
        webhook_with(host, admin, catcher_url(catcher, "all"), "'events':[]");
    struct webhook_made made =
        make(receiver_url(receiver_none(), "/x"), "'retryPolicy':{'delays':[1]}");

    listen_to_events();
    say("to all");
    hear("webhook.exhausted", &made);
    sql_is(db, MANY,
           "SELECT count(*) FROM webhook_delivery WHERE event = 'webhook.exhausted'"
           " AND body::jsonb @> '{\"webhookId\":%jd}'",
           made.id);
}

DELIVER_SUITE(webhook_health, "", 240)
