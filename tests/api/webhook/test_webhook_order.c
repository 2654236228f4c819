/* Webhooks with `ordering`: events of a conversation arrive one after the other, whatever happens.
 */
#include "deliver.h"

enum { MESSAGES = 12, TALKS = 3, GENEROUS_MS = 60000 };

static struct webhook_made ordered(const struct catcher *catcher)
{
    struct webhook_made made = hook_to(catcher);

    ask(admin, 200, "{'ordering':'key'}", "PATCH %s {'ordering':'key'}", made.path);
    return made;
}

static void expect_caught(const struct caught *caught, const char *entry, const char *sequence)
{
    ck_assert_msg(strstr(caught->body, entry) != NULL, "%s instead of %s", caught->body, entry);
    ck_assert_str_eq(caught_header(caught, "webhook-sequence"), sequence);
}

TEST(the_order_is_checked_shown_and_cleared)
{
    struct webhook_made made = ordered(catcher_start(NULL));

    ask(admin, 400, NULL, "PATCH %s {'ordering':'all'}", made.path);
    ask(admin, 200, "{'ordering':'(absent)'}", "PATCH %s {'ordering':null}", made.path);
}

/* The first request gets no response until the timeout of 30 s. */
TEST(a_delivery_waits_for_the_previous_one_of_its_key_while_others_go_on)
{
    struct catcher *catcher = catcher_of(ANSWER_NONE, ANSWER_OK);
    struct talk other = talk_start(host, admin, ADMIN_EMAIL, "third@shop.example", "Rooftop 8");

    ordered(catcher);
    say("first");
    catcher_wait(catcher, 1, GENEROUS_MS);
    say("second");
    say("third");
    ck_status(talk_post(host, admin, &other, ADMIN_EMAIL, "other key"), 201);
    catcher_wait(catcher, 5, GENEROUS_MS);
    expect_caught(&catcher->list[0], "first", "1");
    expect_caught(&catcher->list[1], "other key", "1");
    expect_caught(&catcher->list[2], "first", "1");
    expect_caught(&catcher->list[3], "second", "2");
    expect_caught(&catcher->list[4], "third", "3");
}

TEST(an_abandoned_delivery_lets_the_next_one_go_and_leaves_a_gap)
{
    struct catcher *catcher = catcher_of(ANSWER_GONE, ANSWER_OK);
    struct webhook_made made = ordered(catcher);

    ask(admin, 200, NULL, "PATCH %s {'active':false}", made.path);
    ask(admin, 200, NULL, "PATCH %s {'active':true}", made.path);
    say("is refused");
    say("is taken");
    catcher_wait(catcher, 2, GENEROUS_MS);
    expect_caught(&catcher->list[0], "is refused", "1");
    expect_caught(&catcher->list[1], "is taken", "2");
    json_t *list = webhook_call(host, admin, "GET", &made, "/deliveries?status=abandoned")->json;
    int64_t id = json_integer_value(json_object_get(json_array_get(list, 0), "id"));

    ask(admin, 200, NULL, "POST %s/deliveries/%jd/resend", made.path, id);
    expect_caught(catcher_wait(catcher, 3, GENEROUS_MS), "is refused", "1");
}

/* Without an order, the filter of such a body is evaluated after the commit. */
TEST(large_events_keep_their_place)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = ordered(catcher);
    const char *filler = text_repeated("x", 20000);

    ask(admin, 200, NULL, "PATCH %s {'filter':{'message':{'$exist':true}}}", made.path);
    say(text("%s 1", filler));
    say("2");
    say(text("%s 3", filler));
    catcher_wait(catcher, 3, GENEROUS_MS);
    for (size_t i = 0; i < 3; i++)
        ck_assert_str_eq(caught_header(&catcher->list[i], "webhook-sequence"), text("%zu", i + 1));
}

DELIVER_SUITE(webhook_order, "  timeout: 30\n", 120)

/* Every third request fails, and the host is killed in between. */
TEST(the_order_holds_with_failures_and_a_kill)
{
    struct catcher *catcher = catcher_of(ANSWER_OK, ANSWER_500, ANSWER_OK, ANSWER_OK, ANSWER_500,
                                         ANSWER_500, ANSWER_OK, ANSWER_500, ANSWER_OK);
    struct talk talks[TALKS];

    deliver_apart("orderkill", "  retry_delays: [0.2, 0.2, 0.2, 0.2, 0.2]\n");
    ordered(catcher);
    for (int t = 0; t < TALKS; t++)
        talks[t] = talk_start(host, admin, ADMIN_EMAIL, text("shop%d@order.example", t), "Roof");
    for (int i = 0; i < MESSAGES; i++)
        for (int t = 0; t < TALKS; t++)
            ck_status(talk_post(host, admin, &talks[t], ADMIN_EMAIL, text("m%d", i)), 201);
    catcher_wait(catcher, TALKS * MESSAGES / 3, GENEROUS_MS);
    host_kill(host);
    host = deliver_another("orderkill-next");
    sql_soon(db, text("SELECT (count(*) = %d)::int FROM webhook_outcome WHERE delivered",
                      TALKS * MESSAGES));
    long last[TALKS] = {0};

    for (size_t i = 0; i < catcher_count(catcher); i++) {
        const struct caught *caught = &catcher->list[i];
        json_t *body = json_of(caught->body);
        int64_t conversation = json_integer_value(json_object_get(body, "conversationId"));
        long sequence = strtol(caught_header(caught, "webhook-sequence"), NULL, 10);

        for (int t = 0; t < TALKS; t++) {
            if (talks[t].id != conversation)
                continue;
            ck_assert_msg(sequence == last[t] || sequence == last[t] + 1, "%ld after %ld", sequence,
                          last[t]);
            last[t] = sequence;
        }
    }
    for (int t = 0; t < TALKS; t++)
        ck_assert_int_eq(last[t], MESSAGES);
}

/* The key z has the oldest delivery. The others always have more than fit in memory. */
TEST(a_key_does_not_wait_for_the_keys_before_it)
{
    struct catcher *catcher = catcher_start(NULL);
    size_t place = 0;

    deliver_apart("orderkeys", "  queue_per_webhook: 8\n");
    struct webhook_made made = ordered(catcher);

    ask(admin, 200, NULL, "PATCH %s {'active':false}", made.path);
    sql_run(db, text("INSERT INTO webhook_delivery (id, webhook, event, event_id, body, sequence)"
                     " SELECT o.id, %jd, 'poke.key', gen_random_uuid(), to_json(k.key)::text,"
                     " o.sequence FROM (SELECT 'z' AS key UNION ALL SELECT 'a' || n %% 32"
                     " FROM generate_series(1, 319) AS n) k, webhook_order(%jd, k.key) AS o",
                     made.id, made.id));
    ask(admin, 200, NULL, "PATCH %s {'active':true}", made.path);
    catcher_wait(catcher, 320, GENEROUS_MS);
    while (strcmp(catcher->list[place].body, "\"z\"") != 0)
        place++;
    ck_assert_uint_lt(place, 16);
}

SUITE(webhook_order_kill, .timeout_s = 200)
