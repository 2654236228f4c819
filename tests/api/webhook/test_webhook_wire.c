/*
 * Requests as receivers get them: signatures over the exact bytes, the code that verifies them, and
 * all forms of secrets. Unusual responses of receivers: the log matches the requests sent.
 */
#include "deliver.h"

/* libcurl itself would send the request again, at once and unlogged. */
TEST(a_keep_alive_connection_that_breaks_counts_as_one_attempt)
{
    struct catcher *catcher = catcher_of(ANSWER_OK, ANSWER_CUT, ANSWER_OK);
    struct webhook_made made = hook_to(catcher);

    say_until(&made, "opens the connection", "delivered");
    say("finds it cut");
    catcher_wait(catcher, 3, 5000);
    ck_assert_int_ge(catcher->list[2].at_ms - catcher->list[1].at_ms, 300);
    expect_json(webhook_wait(host, admin, &made, "delivered", 5000),
                "{'attempts':[{'status':null},{}]}");
    ck_assert_uint_eq(catcher_count(catcher), 3);
}

TEST(retry_after_counts_only_in_the_final_response)
{
    struct catcher *catcher =
        catcher_of("HTTP/1.1 103 Early Hints\r\nRetry-After: 30\r\n\r\n" ANSWER_500, ANSWER_OK);
    struct webhook_made made = hook_to(catcher);

    expect_json(say_until(&made, "at the usual time", "delivered"), "{'attempts':[{},{}]}");
    ck_assert_int_lt(catcher->list[1].at_ms - catcher->list[0].at_ms,
                     30000); /* the Retry-After of the 103 does not count */
}

TEST(endless_response_headers_fail_the_attempt_with_that_error)
{
    static char flood[200 * 1024] = "HTTP/1.1 200 OK\r\nX-Long: ";
    static const char *answers[] = {flood, NULL};
    size_t head = strlen(flood);

    memset(flood + head, 'a', sizeof flood - head - 1);
    struct catcher *catcher = catcher_start(answers);
    struct webhook_made made = hook_to(catcher);

    expect_json(say_until(&made, "a text that is too much", "abandoned"),
                "{\"attempts\":[{\"error\":\"the response's headers are too large\"},{},{}]}");
}

/* The receiver is a server without TLS: this host. */
TEST(a_tls_handshake_error_does_not_show_the_library_version)
{
    struct webhook_made made =
        webhook_make(host, admin, text("https://127.0.0.1:%d/hook", host->port), "message.new");
    const json_t *outcome =
        webhook_test(host, admin, &made, "", "{'error':'*wrong version number*'}");
    const char *error = json_string_value(json_object_get(outcome, "error"));

    ck_assert_msg(!strstr(error, "OpenSSL"), "%s", error);
}

/* ---- signatures ---- */

/* Returns characters that JSON writers encode differently. */
static char *odd_characters(void)
{
    char controls[64] = "";

    for (int i = 1; i < 32; i++)
        controls[i - 1] = (char)i;
    return text("%s \x7f \" \\ / </script> é ß € 😀 \u2028 \u2029 \ufeff \uffff \u00a0 "
                "{\"a\":1.0,\"b\":1e3} \\u0041",
                controls);
}

TEST(a_delivery_has_both_signatures_and_all_documented_headers)
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
}

TEST(bodies_are_signed_byte_for_byte_and_survive_a_javascript_round_trip)
{
    static const char script[] =
        "const b=require('fs').readFileSync(0);"
        "const s=JSON.stringify(JSON.parse(b.toString('utf8')));"
        "if(!Buffer.from(s).equals(b)){console.error(s);console.error(b.toString());"
        "process.exit(1)}";
    struct catcher *catcher = catcher_start(NULL);
    const char *entries[] = {odd_characters(), text_repeated("y", 900000)};

    hook_to(catcher);
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
}

/* The examples that users start from accept genuine requests and refuse a wrong secret. */
TEST(the_example_receivers_verify_both_signatures)
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

        WAIT_UNTIL(strstr(file_text(log), "receiver ready") != NULL, 10000);
        webhook_test(host, admin, &made, "", text("{'status':%d}", right ? 200 : 401));
        process_stop(pid, SIGKILL, 1000);
    }
}

/* "whsec_" and the base64 of 32 bytes, padded or not, as libraries of receivers decode it. */
TEST(a_base64_secret_signs_the_same_with_and_without_padding)
{
    static const char *const secrets[] = {"whsec_YSBzZWNyZXQgb2YgdGhpcnR5LXR3byBjaGFycyEhISE=",
                                          "whsec_YSBzZWNyZXQgb2YgdGhpcnR5LXR3byBjaGFycyEhISE"};

    for (size_t i = 0; i < 2; i++) {
        struct catcher *catcher = catcher_start(NULL);
        struct webhook_made made = webhook_with(host, admin, catcher_url(catcher, "hook"),
                                                text("'secret':'%s'", secrets[i]));

        say_until(&made, "signed", "delivered");
        const struct caught *caught = catcher_wait(catcher, 1, 5000);

        ck_assert_str_eq(caught_header(caught, "webhook-signature"),
                         hmac_standard("a secret of thirty-two chars!!!!",
                                       caught_header(caught, "webhook-id"),
                                       caught_header(caught, "webhook-timestamp"), caught->body,
                                       caught->length));
    }
}

TEST(a_whsec_secret_that_is_not_valid_base64_is_refused)
{
    EACH_TEXT (secret, "whsec_", "whsec_a", "whsec_not base64!", "whsec_YWJj=", "whsec_YWJjZA-_") {
        ask(admin, 400, NULL,
            "POST " WEBHOOKS " {'url':'" PUBLIC_URL "','events':[],'secret':'%s'}", secret);
    }
}

/* Repeated resends must not let a delivery's log grow forever. */
TEST(a_delivery_keeps_its_last_100_attempts)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = hook_to(catcher);
    int64_t id =
        json_integer_value(json_object_get(say_until(&made, "once more", "delivered"), "id"));
    const char *values[] = {text("%jd", id)};

    sql_text(db,
             "UPDATE webhook_outcome o SET log = (SELECT jsonb_agg(d.log -> 0 ||"
             " jsonb_build_object('number', n)) FROM webhook_deliveries d,"
             " generate_series(1, 100) n WHERE d.id = o.id) WHERE id = $1",
             1, values);
    ask(admin, 200, NULL, "POST %s/deliveries/%jd/resend", made.path, id);
    catcher_wait(catcher, 2, 5000);
    json_t *delivery = webhook_wait(host, admin, &made, "delivered", 5000);

    ck_assert_uint_eq(json_array_size(json_object_get(delivery, "attempts")), 100);
    ck_assert_int_eq(json_integer_value(json_object_get(attempt_of(delivery, 0), "number")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(attempt_of(delivery, 99), "number")), 101);
}

/* ---- traces ---- */

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"

enum { TRACEPARENT = 55, SPAN_AT = 36, FLAGS_AT = 53 };

static void post_traced(const char *entry)
{
    ask_with((&(struct exchange){
        text("POST /api/chat/conversations/%jd/messages {'username':'" ADMIN_EMAIL
             "','chatEntry':'%s'}",
             deliver_talk.id, entry),
        admin, 201, .header = "traceparent: 00-" TRACE "-" SPAN "-01"}));
}

static const char *traceparent_of(const struct caught *caught)
{
    const char *found = caught_header(caught, "traceparent");

    ck_assert_msg(found && strlen(found) == TRACEPARENT, "%s", found ? found : "none");
    return found;
}

/* Tests each attempt, a delivery that was read from the table, and a large body, which is stored in
 * another table. */
TEST(a_delivery_continues_the_trace_of_the_request_that_raised_its_event)
{
    struct catcher *catcher = catcher_of(ANSWER_500, ANSWER_OK);
    struct webhook_made made = hook_to(catcher);

    post_traced("in a trace of the client");
    const json_t *delivery = webhook_wait(host, admin, &made, "delivered", 8000);
    int64_t id = json_integer_value(json_object_get(delivery, "id"));

    ask(admin, 200, NULL, "POST %s/deliveries/%jd/resend", made.path, id);
    catcher_wait(catcher, 3, 5000);
    post_traced(text("%03000d", 7));
    catcher_wait(catcher, 4, 5000);
    const char *first = traceparent_of(&catcher->list[0]);

    ck_assert_msg(!strncmp(first, "00-" TRACE "-", SPAN_AT), "%s", first);
    ck_assert_msg(strncmp(first + SPAN_AT, SPAN, strlen(SPAN)) != 0, "the client's span");
    ck_assert_str_eq(first + FLAGS_AT, "01");
    ck_assert_str_eq(traceparent_of(&catcher->list[1]), first);
    ck_assert_str_eq(traceparent_of(&catcher->list[2]), first);
    ck_assert(!strncmp(traceparent_of(&catcher->list[3]), first, SPAN_AT));
}

TEST(a_delivery_gets_a_new_trace_if_the_request_has_none)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = hook_to(catcher);

    say_until(&made, "in no trace", "delivered");
    say_until(&made, "in no trace either", "delivered");
    ck_status(webhook_call(host, admin, "POST", &made, "/test"), 200);
    catcher_wait(catcher, 3, 5000);
    for (size_t i = 0; i < 3; i++) {
        const char *found = traceparent_of(&catcher->list[i]);

        ck_assert(!strncmp(found, "00-", 3) && !strcmp(found + FLAGS_AT, "02"));
        ck_assert(i == 0 || strncmp(found, traceparent_of(&catcher->list[i - 1]), SPAN_AT) != 0);
    }
}

/* Servers refuse unencoded bytes of this kind. */
TEST(a_url_is_stored_and_requested_percent_encoded)
{
    struct catcher *catcher = catcher_of(ANSWER_OK);
    struct answer *created = ck_status(
        webhook_try(host, admin, catcher_url(catcher, "h\xC3\xB6 k?name=\xC3\xBC&x=<\"'>#f"),
                    "message.new"),
        201);
    struct webhook_made made = webhook_of(created);

    ck_assert_str_eq(answer_text(created, "url"),
                     catcher_url(catcher, "h%C3%B6%20k?name=%C3%BC&x=%3C%22%27%3E#f"));
    say_until(&made, "to the first address", "delivered");
    ck_assert_ptr_nonnull(strstr(catcher_wait(catcher, 1, 5000)->head,
                                 "POST /h%C3%B6%20k?name=%C3%BC&x=%3C%22%27%3E HTTP/1.1\r\n"));
    ask(admin, 200, NULL, "PATCH %s {'url':'%s'}", made.path, catcher_url(catcher, "\xE2\x82\xAC"));
    say("to the second address");
    ck_assert_ptr_nonnull(
        strstr(catcher_wait(catcher, 2, 5000)->head, "POST /%E2%82%AC HTTP/1.1\r\n"));
}

DELIVER_SUITE(webhook_wire, "  retry_delays: [0.3, 0.3]\n", 60)
