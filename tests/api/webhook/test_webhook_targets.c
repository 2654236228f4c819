/*
 * Permitted targets of webhooks, and harmful receivers. Cases that need a name server are in the
 * unit tests (test_webhook_target.c), which call the function that opens the sockets; here the
 * database is given an address that could not be registered.
 */
#include <sys/stat.h>

#include "exchange.h"
#include "receive.h"

/* lenient: loopback allowed; closed: the defaults, nothing allowed. */
static struct host *lenient, *closed;
static struct person *admin, *user, *closed_admin;

/* Proxies and a .netrc whose use would be noticed. */
static const char *const *traps(void)
{
    const char *home = harness_path("netrc-home");
    const char **environment = kept(calloc(7, sizeof *environment));

    mkdir(home, 0700);
    file_write(text("%s/.netrc", home), "machine 127.0.0.1\nlogin me\npassword mine\n"
                                        "default login me password mine\n");
    environment[0] = text("HOME=%s", home);
    environment[1] = "http_proxy=http://127.0.0.1:9";
    environment[2] = "HTTP_PROXY=http://127.0.0.1:9";
    environment[3] = "https_proxy=http://127.0.0.1:9";
    environment[4] = "ALL_PROXY=socks5://127.0.0.1:9";
    environment[5] = "NETRC=/dev/null";
    return environment;
}

static void set_up(void)
{
    lenient =
        host_start(&(struct host_spec){.name = "targets",
                                       .modules = WEBHOOK_MODULES,
                                       .environment = traps(),
                                       .more = WEBHOOK_LOCAL "  retry_delays: []\n  tests: 8\n"});
    closed = host_start(&(struct host_spec){.name = "targets-closed",
                                            .database = database_make(the_postgres, "targets2"),
                                            .modules = WEBHOOK_MODULES,
                                            .more = "webhook:\n  retry_delays: []\n"});
    webhook_ready("targets", 1);
    webhook_ready("targets2", 1);
    admin = admin_of(lenient);
    closed_admin = admin_of(closed);
    user = person_make(lenient, admin, "target-user", NULL);
}

static void expect_refused(const struct host *host, const struct person *by, const char *url)
{
    struct answer *answer = webhook_try(host, by, url, "message.new");

    ck_assert_msg(answer->status == 400, "%s: %ld %s", url, answer->status, answer->body);
}

/* Sends a ping, whose outcome must be the expected one. */
static void ping(const struct webhook_made *webhook, const char *expected)
{
    webhook_test(lenient, admin, webhook, "", expected);
}

/* Refused by default. The unit test webhook_target has all forms. */
static const char *const bad_urls[] = {
    "http://127.0.0.1/",
    "http://[::ffff:127.0.0.1]/",
    "http://169.254.169.254/latest",
    "http://10.0.0.1/",
    "file:///etc/passwd",
    "//a.example/",
    "http://user:pw@a.example/",
    "http://a.example/\r\nX-Evil: 1",
    "http://a.example:22/",
    "http://a.example:65536/",
    "",
    NULL,
};

TEST(forbidden_urls_are_refused_at_creation_and_change)
{
    struct webhook_made made =
        webhook_make(closed, closed_admin, "http://a.example/", "message.new");

    for (int i = 0; bad_urls[i]; i++) {
        expect_refused(closed, closed_admin, bad_urls[i]);
        if (!*bad_urls[i])
            continue; /* would change nothing */
        struct answer *answer = http(closed, "PATCH", made.path, closed_admin->token,
                                     json_pack("{ss}", "url", bad_urls[i]));

        ck_assert_msg(answer->status == 400, "PATCH %s: %ld", bad_urls[i], answer->status);
    }
    expect_refused(closed, closed_admin, text("http://a.example/%02048d", 1));
    expect_refused(lenient, admin, "http://127.0.0.1:22/"); /* on a permitted network, too */
}

/* The address is checked when the socket is opened. */
TEST(a_forbidden_address_in_the_table_is_refused_at_connect)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made =
        webhook_make(closed, closed_admin, "http://a.example/", "conversation.created");
    PGconn *db = database_connect(the_postgres, "targets2");

    EACH_TEXT (url, catcher_url(catcher, "x"), text("http://localhost:%d/", catcher->port),
               text("http://[::ffff:127.0.0.1]:%d/", catcher->port)) {
        const char *values[] = {url, text("hook:%jd", made.id)};

        sql_text(db, "UPDATE webhook_hook SET url = $1", 1, values);
        sql_text(db, "SELECT pg_notify('webhook', $1)", 1, values + 1);
        talk_start(closed, closed_admin, ADMIN_EMAIL, "other@shop.example", NULL);
        json_t *delivery = webhook_wait(closed, closed_admin, &made, "abandoned", 5000);
        const char *error = json_string_value(json_object_get(attempt_of(delivery, 0), "error"));

        ck_assert_msg(error && strstr(error, "not allowed"), "%s: %s", url, error);
        ck_status(webhook_call(closed, closed_admin, "DELETE", &made, ""), 200);
        made = webhook_make(closed, closed_admin, "http://a.example/", "conversation.created");
    }
    ck_assert_uint_eq(catcher_connections(catcher), 0);
}

TEST(redirects_are_failures_and_are_not_followed)
{
    static const int statuses[] = {301, 302, 303, 307, 308};
    struct catcher *inner = catcher_start(NULL);

    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        struct catcher *outer =
            catcher_of(text("HTTP/1.1 %d Elsewhere\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n",
                            statuses[i], catcher_url(inner, "inner")));
        struct webhook_made made =
            webhook_make(lenient, admin, catcher_url(outer, "outer"), "message.new");

        ping(&made, text("{'success':false,'status':%d}", statuses[i]));
    }
    ck_assert_uint_eq(catcher_connections(inner), 0);
}

TEST(proxy_variables_and_netrc_are_ignored)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made =
        webhook_make(lenient, admin, catcher_url(catcher, "direct"), "message.new");

    ping(&made, "{'success':true}");
    const struct caught *caught = catcher_wait(catcher, 1, 1000);

    ck_assert_ptr_null(caught_header(caught, "Authorization"));
    ck_assert_ptr_null(caught_header(caught, "Cookie"));
    ck_assert_int_eq(strncmp(caught->head, "POST /direct HTTP/1.1\r\n", 23), 0);
}

/* A long response is cut; its status decides, and only the first KiB is kept. */
TEST(a_huge_response_body_is_cut_to_a_kibibyte)
{
    enum { SIZE = 8 << 20 };
    struct catcher *catcher = catcher_of(
        text("HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n%s", SIZE, text_repeated("x", SIZE)));
    struct webhook_made made =
        webhook_make(lenient, admin, catcher_url(catcher, "huge"), "message.new");

    ping(&made, "{'status':500}");
    json_t *delivery = webhook_wait(lenient, admin, &made, "abandoned", 5000);

    ck_assert_uint_eq(json_string_length(json_object_get(attempt_of(delivery, 0), "answer")), 1024);
    ck_error(webhook_call(lenient, user, "GET", &made, "/deliveries"), 404, "Webhook not found");
}

/* A response that is not HTTP, not UTF-8 or incomplete is a failure, and the log stays readable. */
TEST(malformed_responses_are_failures_listed_in_the_delivery_log)
{
    static const char *const broken[] = {
        "HTTP/1.1 500 No\r\nContent-Length: 6\r\n\r\n\xff\xfe\x01\x02\xc3\xc3",
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 999999 x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        NULL};

    for (int i = 0; broken[i]; i++) {
        struct catcher *catcher = catcher_of(broken[i]);
        struct webhook_made made =
            webhook_make(lenient, admin, catcher_url(catcher, "broken"), "message.new");

        ping(&made, "{'success':false}");
        webhook_wait(lenient, admin, &made, "abandoned", 5000);
    }
}

TEST(parallel_webhook_tests_are_limited_per_account)
{
    struct catcher *deaf = catcher_of(ANSWER_NONE), *quick = catcher_start(NULL);
    struct webhook_made slow =
        webhook_make(lenient, user, catcher_url(deaf, "deaf"), "message.new");
    struct webhook_made fast =
        webhook_make(lenient, admin, catcher_url(quick, "quick"), "message.new");
    struct call calls[PARALLEL_MAX];
    struct answer *answers[PARALLEL_MAX];
    int refused = 0, answered = 0;

    ping(&fast, "{'success':true}");
    for (int i = 0; i < PARALLEL_MAX - 1; i++)
        calls[i] = call_by(user, "POST %s/test", slow.path);
    calls[PARALLEL_MAX - 1] = call_by(admin, "POST %s/test", fast.path);
    parallel(lenient, calls, answers, PARALLEL_MAX);
    for (int i = 0; i < PARALLEL_MAX - 1; i++) {
        refused += answers[i]->status == 503;
        answered += answers[i]->status == 200;
    }
    ck_assert_int_eq(answered, 1); /* an account may have a sixteenth of 8, at least one */
    ck_assert_int_eq(refused, PARALLEL_MAX - 2);
    ck_status(answers[PARALLEL_MAX - 1], 200);
    webhook_wait(lenient, admin, &fast, "delivered", 5000);
    ck_assert_uint_eq(catcher_count(quick), 2);
    ck_assert_uint_le(catcher_count(deaf), 2);
}

TEST(startup_warns_if_allow_networks_is_set)
{
    host_logs(lenient, 0, "allow_networks");
    ck_assert_ptr_null(strstr(file_text(closed->log), "allow_networks"));
}

SUITE(webhook_targets, .timeout_s = 60, .before_all = set_up)
