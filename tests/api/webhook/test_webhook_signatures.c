/* Requests to receivers: signatures over the exact bytes, and the code that verifies them. */
#include "deliver.h"

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
        ask(admin, 200, text("{'status':%d}", right ? 200 : 401), "POST %s/test", made.path);
        process_stop(pid, SIGKILL, 1000);
    }
}

DELIVER_SUITE(webhook_signatures, "", 60)
