/*
 * What a receiver gets, when, and how often: signatures over the exact bytes (S15), the schedule,
 * what ends it, sending again, isolation. Crashes are test_webhook_crash.c's.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "receive.h"
#include "suites.h"

static struct host *host;
static struct person *admin;
static struct talk talk;

static void set_up(void)
{
    host = webhook_host("hookdeliver", "");
    admin = admin_of(host);
    talk = talk_start(host, admin, ADMIN_EMAIL, "other@shop.example", "Rooftop 7");
}

static void tear_down(void)
{
    host_stop(host);
}

static void say(const char *entry)
{
    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, entry), 201);
}

/* Ends the interest of a test's webhook in what the next tests say. */
static void forget(const struct webhook_made *webhook)
{
    ck_status(webhook_call(host, admin, "DELETE", webhook, ""), 200);
}

static void expect_signed(const struct caught *caught, const char *secret)
{
    const char *id = caught_header(caught, "webhook-id");
    const char *at = caught_header(caught, "webhook-timestamp");

    ck_assert_ptr_nonnull(id);
    ck_assert_ptr_nonnull(at);
    ck_assert_int_le(labs(strtol(at, NULL, 10) - (long)time(NULL)), 30);
    ck_assert_str_eq(caught_header(caught, "X-Webhook-Signature"),
                     hmac_hex(secret, caught->body, caught->length));
    ck_assert_str_eq(caught_header(caught, "webhook-signature"),
                     hmac_standard(secret, id, at, caught->body, caught->length));
}

/* Characters that JSON writers disagree on. */
static char *odd_characters(void)
{
    char controls[64] = "";

    for (int i = 1; i < 32; i++)
        controls[i - 1] = (char)i;
    return text("%s \x7f \" \\ / </script> é ß € 😀 \u2028 \u2029 \ufeff \uffff \u00a0 "
                "{\"a\":1.0,\"b\":1e3} \\u0041",
                controls);
}

START_TEST(a_message_arrives_signed_twice_with_the_headers_that_are_promised)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made =
        webhook_make(host, admin, catcher_url(catcher, "hook?a=b"), "message.new");

    say("hello there");
    const struct caught *caught = catcher_wait(catcher, 1, 5000);
    json_t *body = kept(json_loads(caught->body, 0, NULL));

    expect_signed(caught, TEST_SECRET);
    ck_assert_int_eq(strncmp(caught->head, "POST /hook?a=b HTTP/1.1\r\n", 25), 0);
    ck_assert_str_eq(caught_header(caught, "Content-Type"), "application/json");
    ck_assert_str_eq(caught_header(caught, "X-Webhook-Event"), "message.new");
    ck_assert_str_eq(caught_header(caught, "X-Webhook-Attempt"), "1");
    ck_assert_int_eq(strncmp(caught_header(caught, "User-Agent"), "busbar/", 7), 0);
    ck_assert_str_eq(keys_of(body), "conversationId message deviceProjectName");
    ck_assert_str_eq(keys_of(json_object_get(body, "message")),
                     "uuid username chatEntry createdAt");
    json_t *delivery = webhook_wait(host, admin, &made, "delivered", 5000);

    ck_assert_str_eq(json_string_value(json_object_get(delivery, "eventId")),
                     caught_header(caught, "webhook-id"));
    forget(&made);
}

/* S15 */
START_TEST(bodies_survive_a_javascript_round_trip_and_are_signed_over_their_bytes)
{
    static const char script[] =
        "const b=require('fs').readFileSync(0);"
        "const s=JSON.stringify(JSON.parse(b.toString('utf8')));"
        "if(!Buffer.from(s).equals(b)){console.error(s);console.error(b.toString());"
        "process.exit(1)}";
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made =
        webhook_make(host, admin, catcher_url(catcher, "odd"), "message.new");
    char *large = kept(malloc(900001));
    const char *entries[] = {odd_characters(), large};

    memset(large, 'y', 900000);
    large[900000] = '\0';
    for (size_t i = 0; i < 2; i++) {
        say(entries[i]);
        const struct caught *caught = catcher_wait(catcher, i + 1, 5000);
        const char *path = harness_path(text("body-%zu", i));
        json_t *body = kept(json_loads(caught->body, 0, NULL));

        expect_signed(caught, TEST_SECRET);
        ck_assert_str_eq(
            json_string_value(json_object_get(json_object_get(body, "message"), "chatEntry")),
            entries[i]);
        file_write(path, caught->body);
        const char *argv[] = {"sh", "-c", "exec node -e \"$0\" < \"$1\"", script, path, NULL};

        ck_assert_int_eq(process_run(&(struct process_spec){
                             .argv = argv, .log = harness_path("node-round-trip")}),
                         0);
    }
    forget(&made);
}

START_TEST(two_failures_and_a_success_are_three_attempts_at_0_1_and_5_seconds)
{
    static const char *const answers[] = {ANSWER_500, ANSWER_500, ANSWER_OK, NULL};
    struct catcher *catcher = catcher_start(answers);
    struct webhook_made made =
        webhook_make(host, admin, catcher_url(catcher, "flaky"), "message.new");

    say("third time lucky");
    catcher_wait(catcher, 3, 10000);
    int64_t first = catcher->list[1].at_ms - catcher->list[0].at_ms;
    int64_t second = catcher->list[2].at_ms - catcher->list[1].at_ms;

    ck_assert_msg(first >= 1000 && first < 1500, "second attempt after %jd ms", (intmax_t)first);
    ck_assert_msg(second >= 4000 && second < 4500, "third attempt after %jd ms", (intmax_t)second);
    for (int i = 0; i < 3; i++) {
        expect_signed(&catcher->list[i], TEST_SECRET);
        ck_assert_str_eq(caught_header(&catcher->list[i], "X-Webhook-Attempt"), text("%d", i + 1));
        ck_assert_str_eq(caught_header(&catcher->list[i], "webhook-id"),
                         caught_header(&catcher->list[0], "webhook-id"));
        ck_assert_str_eq(catcher->list[i].body, catcher->list[0].body);
    }
    json_t *delivery = webhook_wait(host, admin, &made, "delivered", 5000);

    ck_assert_uint_eq(json_array_size(json_object_get(delivery, "attempts")), 3);
    ck_assert_int_eq(json_integer_value(json_object_get(attempt_of(delivery, 0), "status")), 500);
    ck_assert_str_eq(json_string_value(json_object_get(attempt_of(delivery, 0), "answer")), "oops");
    ck_assert_int_eq(json_integer_value(json_object_get(attempt_of(delivery, 2), "status")), 200);
    forget(&made);
}

static bool is_delivered(void *arg)
{
    const struct webhook_made *made = arg;
    struct answer *answer =
        ck_status(webhook_call(host, admin, "GET", made, "/deliveries?status=delivered"), 200);

    return json_array_size(answer->json) == 2;
}

/* Then what followed is delivered, the webhook stays active, resend and recover make up for it. */
START_TEST(a_delivery_that_fails_three_times_is_abandoned_and_can_be_sent_again)
{
    static const char *const answers[] = {ANSWER_500, ANSWER_500, ANSWER_500, ANSWER_OK, NULL};
    struct catcher *catcher = catcher_start(answers);
    struct webhook_made made =
        webhook_make(host, admin, catcher_url(catcher, "dead"), "message.new");

    say("will be abandoned");
    json_t *lost = webhook_wait(host, admin, &made, "abandoned", 10000);
    const char *id = json_string_value(json_object_get(lost, "eventId"));
    int64_t number = json_integer_value(json_object_get(lost, "id"));

    ck_assert_uint_eq(catcher_count(catcher), 3);
    say("will be delivered");
    webhook_wait(host, admin, &made, "delivered", 5000);
    struct answer *state = ck_status(webhook_call(host, admin, "GET", &made, ""), 200);

    ck_assert(json_is_true(json_object_get(state->json, "active")));
    struct answer *only =
        ck_status(webhook_call(host, admin, "GET", &made, "/deliveries?status=abandoned"), 200);

    ck_assert_uint_eq(json_array_size(only->json), 1);
    struct answer *recovered =
        ck_status(http(host, "POST", text("%s/recover", made.path), admin->token,
                       json_pack("{ss}", "since", "2020-01-01T00:00:00.000Z")),
                  200);

    ck_assert_str_eq(recovered->body, "{\"success\":true,\"queued\":1}");
    ck_assert_str_eq(caught_header(catcher_wait(catcher, 5, 5000), "webhook-id"), id);
    ck_assert_str_eq(catcher->list[4].body, catcher->list[0].body);
    ck_assert(wait_until(is_delivered, &made, 5000)); /* what is on its way is not queued again */
    ck_status(
        webhook_call(host, admin, "POST", &made, text("/deliveries/%jd/resend", (intmax_t)number)),
        200);
    ck_assert_str_eq(caught_header(catcher_wait(catcher, 6, 5000), "webhook-id"), id);
    ck_error(webhook_call(host, admin, "POST", &made, "/deliveries/12345/resend"), 404, "");
    forget(&made);
}

START_TEST(retry_after_lengthens_the_gap)
{
    static const char *const answers[] = {
        "HTTP/1.1 503 Later\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n", ANSWER_OK, NULL};
    struct catcher *catcher = catcher_start(answers);
    struct webhook_made made =
        webhook_make(host, admin, catcher_url(catcher, "later"), "message.new");

    say("later, please");
    int64_t gap = catcher_wait(catcher, 2, 5000)->at_ms - catcher->list[0].at_ms;

    ck_assert_msg(gap >= 2000 && gap < 2500, "%jd ms", (intmax_t)gap);
    forget(&made);
}

START_TEST(a_receiver_that_is_gone_is_not_asked_again)
{
    static const char *const answers[] = {"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", NULL};
    struct catcher *catcher = catcher_start(answers);
    struct webhook_made made =
        webhook_make(host, admin, catcher_url(catcher, "gone"), "message.new");

    say("gone");
    json_t *delivery = webhook_wait(host, admin, &made, "abandoned", 5000);

    ck_assert_uint_eq(json_array_size(json_object_get(delivery, "attempts")), 1);
    ck_assert_uint_eq(catcher_count(catcher), 1);
    forget(&made);
}

START_TEST(after_a_rotation_both_secrets_sign)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made =
        webhook_make(host, admin, catcher_url(catcher, "both"), "message.new");
    struct answer *answer =
        ck_status(webhook_call(host, admin, "POST", &made, "/rotate-secret"), 200);
    const char *fresh = answer_text(answer, "secret");

    ck_assert_str_ne(fresh, TEST_SECRET);
    ck_assert_uint_eq(strlen(fresh), 64);
    ck_assert_ptr_nonnull(answer_text(answer, "previousSecretUntil"));
    say("signed by two");
    const struct caught *caught = catcher_wait(catcher, 1, 5000);
    const char *id = caught_header(caught, "webhook-id");
    const char *at = caught_header(caught, "webhook-timestamp");

    ck_assert_str_eq(caught_header(caught, "X-Webhook-Signature"),
                     hmac_hex(fresh, caught->body, caught->length));
    ck_assert_str_eq(caught_header(caught, "webhook-signature"),
                     text("%s %s", hmac_standard(fresh, id, at, caught->body, caught->length),
                          hmac_standard(TEST_SECRET, id, at, caught->body, caught->length)));
    forget(&made);
}

START_TEST(switched_off_nothing_is_sent_and_what_waits_goes_out_when_it_is_on_again)
{
    static const char *const answers[] = {ANSWER_500, ANSWER_OK, NULL};
    struct catcher *catcher = catcher_start(answers);
    struct webhook_made made =
        webhook_make(host, admin, catcher_url(catcher, "switch"), "message.new");
    struct catcher *other = catcher_start(NULL);
    struct webhook_made witness =
        webhook_make(host, admin, catcher_url(other, "witness"), "message.new");

    say("waits for its second attempt");
    catcher_wait(catcher, 1, 5000);
    ck_status(http(host, "PATCH", made.path, admin->token, json_pack("{sb}", "active", 0)), 200);
    say("is not for this webhook");
    int64_t off = catcher_wait(other, 2, 5000)->at_ms;
    struct webhook_made later =
        webhook_make(host, admin, catcher_url(other, "later"), "conversation.created");

    while (now_ms() < off + 1500) /* the retry would have been due */
        ck_status(webhook_call(host, admin, "POST", &later, "/test"), 200);
    ck_assert_uint_eq(catcher_count(catcher), 1);
    ck_status(http(host, "PATCH", made.path, admin->token, json_pack("{sb}", "active", 1)), 200);
    const struct caught *second = catcher_wait(catcher, 2, 5000);

    ck_assert_str_eq(second->body, catcher->list[0].body);
    webhook_wait(host, admin, &made, "delivered", 5000);
    ck_assert_uint_eq(catcher_count(catcher), 2);
    forget(&made);
    forget(&witness);
    forget(&later);
}

START_TEST(a_change_of_the_url_takes_effect_with_the_next_attempt)
{
    static const char *const answers[] = {ANSWER_500, NULL};
    struct catcher *before = catcher_start(answers), *after = catcher_start(NULL);
    struct webhook_made made = webhook_make(host, admin, catcher_url(before, "old"), "message.new");

    say("moves");
    catcher_wait(before, 1, 5000);
    ck_status(http(host, "PATCH", made.path, admin->token,
                   json_pack("{ss}", "url", catcher_url(after, "new"))),
              200);
    catcher_wait(after, 1, 5000);
    ck_assert_uint_eq(catcher_count(before), 1);
    forget(&made);
}

/* The nine others get theirs at once while one says nothing at all. */
START_TEST(a_hanging_receiver_delays_nobody_else)
{
    enum { MESSAGES = 200, LATE_MS = 1000 };
    static const char *const silent[] = {ANSWER_NONE, NULL};
    struct catcher *deaf = catcher_start(silent), *quick = catcher_start(NULL);
    struct webhook_made dead = webhook_make(host, admin, catcher_url(deaf, "x"), "message.new");
    struct webhook_made alive = webhook_make(host, admin, catcher_url(quick, "y"), "message.new");
    int64_t worst = 0;

    for (size_t i = 0; i < MESSAGES; i++) {
        int64_t began = now_ms();

        say("to both");
        int64_t took = catcher_wait(quick, i + 1, 5000)->at_ms - began;

        worst = took > worst ? took : worst;
    }
    ck_assert_msg(worst < LATE_MS, "one took %jd ms", (intmax_t)worst);
    ck_assert_uint_ge(catcher_count(deaf), 1);
    ck_assert_uint_le(catcher_count(deaf), 64); /* slots_per_webhook */
    forget(&dead);
    forget(&alive);
}

START_TEST(what_waits_for_a_deleted_webhook_is_dropped)
{
    static const char *const answers[] = {ANSWER_500, NULL};
    struct catcher *catcher = catcher_start(answers), *other = catcher_start(NULL);
    struct webhook_made made =
        webhook_make(host, admin, catcher_url(catcher, "drop"), "message.new");
    struct webhook_made witness =
        webhook_make(host, admin, catcher_url(other, "w"), "conversation.created");

    say("will be dropped");
    int64_t first = catcher_wait(catcher, 1, 5000)->at_ms;

    forget(&made);
    while (now_ms() < first + 1500) /* the retry would have been due */
        ck_status(webhook_call(host, admin, "POST", &witness, "/test"), 200);
    ck_assert_uint_eq(catcher_count(catcher), 1);
    forget(&witness);
}

static bool says_ready(void *log)
{
    return strstr(file_text(log), "receiver ready") != NULL;
}

/* What people are told to start from: it takes what is genuine and refuses a wrong secret. */
START_TEST(the_receivers_of_the_examples_verify_both_signatures)
{
    static const char *const programs[][2] = {{"node", TEST_EXAMPLES "/receiver.js"},
                                              {"python3", TEST_EXAMPLES "/receiver.py"}};

    for (int i = 0; i < 4; i++) {
        bool right = i % 2 == 0;
        const struct receiver *port = receiver_none();
        const char *number = text("%d", port->at.port), *log = harness_path(text("example-%d", i));
        const char *environment[] = {
            right ? "WEBHOOK_SECRET=" TEST_SECRET : "WEBHOOK_SECRET=another secret", NULL};
        const char *argv[] = {programs[i / 2][0], programs[i / 2][1], number, NULL};
        pid_t pid = process_start(
            &(struct process_spec){.argv = argv, .environment = environment, .log = log});
        struct webhook_made made =
            webhook_make(host, admin, receiver_url(port, "/"), "message.new");

        ck_assert(wait_until(says_ready, (void *)(uintptr_t)log, 10000));
        struct answer *answer = ck_status(webhook_call(host, admin, "POST", &made, "/test"), 200);

        ck_assert_int_eq(answer_int(answer, "status"), right ? 200 : 401);
        forget(&made);
        process_stop(pid, SIGKILL, 1000);
    }
}

Suite *webhook_delivery_suite(void)
{
    Suite *suite = suite_create("webhook_delivery");
    TCase *tests = tcase_create("webhook_delivery");

    tcase_set_timeout(tests, 60);
    tcase_add_unchecked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_message_arrives_signed_twice_with_the_headers_that_are_promised);
    tcase_add_test(tests, bodies_survive_a_javascript_round_trip_and_are_signed_over_their_bytes);
    tcase_add_test(tests, two_failures_and_a_success_are_three_attempts_at_0_1_and_5_seconds);
    tcase_add_test(tests, a_delivery_that_fails_three_times_is_abandoned_and_can_be_sent_again);
    tcase_add_test(tests, retry_after_lengthens_the_gap);
    tcase_add_test(tests, a_receiver_that_is_gone_is_not_asked_again);
    tcase_add_test(tests, after_a_rotation_both_secrets_sign);
    tcase_add_test(tests, switched_off_nothing_is_sent_and_what_waits_goes_out_when_it_is_on_again);
    tcase_add_test(tests, a_change_of_the_url_takes_effect_with_the_next_attempt);
    tcase_add_test(tests, a_hanging_receiver_delays_nobody_else);
    tcase_add_test(tests, what_waits_for_a_deleted_webhook_is_dropped);
    tcase_add_test(tests, the_receivers_of_the_examples_verify_both_signatures);
    suite_add_tcase(suite, tests);
    return suite;
}
