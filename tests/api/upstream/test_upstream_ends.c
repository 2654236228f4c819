/* How requests of modules to other servers end: timeouts, broken connections, limits, reloads. */
#include "exchange.h"
#include "relay.h"

enum { SOON_MS = 5000, MANY = 48 };

static struct host *host;

static void set_up(void)
{
    struct host_spec spec = relay_spec("upstream_ends", RELAY_LOCAL);

    host = relay_start(&spec);
}

/* ---- time ---- */

TEST(a_hung_server_ends_the_request_at_its_timeout)
{
    struct catcher *catcher = catcher_of(ANSWER_NONE);
    struct answer *answer =
        relay_tells(host, "{ss si}", "url", catcher_url(catcher, ""), "timeout", 5000);

    expect_json(answer->json, "{'status':0,'failed':504,'sent':true,'error':'The response did not "
                              "arrive in time'}");
    ck_assert_msg(answer->seconds < 50, "%f", answer->seconds); /* the setting is 55 */
}

/* The client has gone, so the call is given up. */
TEST(the_deadline_of_the_route_ends_the_request)
{
    struct catcher *catcher = catcher_of(ANSWER_NONE);
    int64_t began_ms = now_ms();
    struct answer *answer =
        http(host, "POST", "/relay/soon", NULL, json_pack("{ss}", "url", catcher_url(catcher, "")));

    ck_assert_int_ge(answer->status, 503);
    WAIT_UNTIL(relay_under_way(host) == 0, SOON_MS);
    ck_assert_int_lt(now_ms() - began_ms, 50000); /* the setting is 55 s */
}

TEST(a_refused_connection_is_reported_as_not_sent)
{
    struct answer *answer = relay_tells(host, "{ss}", "url", receiver_url(receiver_none(), "/"));

    expect_json(answer->json, "{'failed':502,'sent':false}");
}

TEST(the_largest_possible_timeout_is_accepted)
{
    struct catcher *catcher = catcher_of(ANSWER_OK);

    ck_status(
        relay(host, "{ss sI}", "url", catcher_url(catcher, ""), "timeout", (json_int_t)INT64_MAX),
        200);
}

/* Returns whether no socket of this machine is connected to that port, not even half closed. */
static bool none_connected(const struct catcher *catcher)
{
    const char *all = file_text("/proc/net/tcp");

    return !strstr(all, text(" 0100007F:%04X 01 ", catcher->port)) &&
           !strstr(all, text(" 0100007F:%04X 08 ", catcher->port));
}

TEST(idle_connections_are_closed)
{
    struct host_spec spec = relay_spec("upstream_idle", RELAY_LOCAL "  connection_idle: 12\n");
    struct host *own = relay_start(&spec);
    struct catcher *catcher = catcher_of(ANSWER_OK);

    ck_status(relay(own, "{ss}", "url", catcher_url(catcher, "")), 200);
    ck_assert(!none_connected(catcher));
    WAIT_UNTIL(none_connected(catcher), 2 * SOON_MS);
    ck_status(relay(own, "{ss}", "url", catcher_url(catcher, "")), 200);
}

/* ---- broken connections ---- */

TEST(a_post_is_not_sent_again_on_a_broken_connection)
{
    struct catcher *catcher = catcher_of(ANSWER_OK, ANSWER_CUT, ANSWER_OK);
    struct answer *answer = relay_tells(host, "{ss ss si}", "method", "POST", "url",
                                        catcher_url(catcher, ""), "times", 2);

    expect_json(answer->json, "{'status':0,'sent':true}");
    ck_assert_int_eq((int)catcher_count(catcher), 2);
}

TEST(a_get_is_sent_again_on_a_broken_connection)
{
    struct catcher *catcher = catcher_of(ANSWER_OK, ANSWER_CUT, ANSWER_OK);
    struct answer *answer =
        relay_tells(host, "{ss si}", "url", catcher_url(catcher, ""), "times", 2);

    ck_assert_int_eq(answer_int(answer, "status"), 200);
    ck_assert_int_eq((int)catcher_count(catcher), 3);
}

TEST(a_get_is_not_retried_forever)
{
    struct catcher *catcher = catcher_of(ANSWER_OK, ANSWER_CUT);
    struct answer *answer =
        relay_tells(host, "{ss si}", "url", catcher_url(catcher, ""), "times", 2);

    ck_assert_int_eq(answer_int(answer, "failed"), 502);
    ck_assert_int_le((int)catcher_count(catcher), 3);
}

/* ---- certificates ---- */

TEST(a_certificate_must_be_signed_by_an_authority)
{
    struct tls_pair authority = tls_make("upstream-ca", "DNS:ca", NULL);
    struct receiver *receiver = receiver_start_tls("upstream-tls", &authority);
    struct host_spec spec = relay_spec(
        "upstream_ca", text("%s  authorities: %s\n", RELAY_LOCAL, authority.certificate));
    struct host *trusting = relay_start(&spec);
    const char *url = text("https://127.0.0.1:%d/fast", receiver->tls_port);
    struct answer *answer = relay_tells(host, "{ss ss}", "method", "POST", "url", url);

    expect_json(answer->json, "{'failed':502,'sent':false,'error':'*certificate*'}");
    ck_assert_int_eq((int)receiver_count(receiver, "/fast"), 0);
    answer = relay_tells(trusting, "{ss ss}", "method", "POST", "url", url);
    ck_assert_int_eq(answer_int(answer, "status"), 200);
}

/* ---- many ---- */

TEST(many_requests_wait_in_parallel)
{
    struct catcher *catcher = catcher_of(ANSWER_OK);
    const char *body = text("{\"url\":\"%s\",\"times\":4}", catcher_url(catcher, ""));
    struct call calls[MANY];
    struct answer *answers[MANY];

    for (int i = 0; i < MANY; i++)
        calls[i] = call_by(NULL, "POST /relay %s", body);
    parallel(host, calls, answers, MANY);
    for (int i = 0; i < MANY; i++)
        ck_status(answers[i], 200);
    ck_assert_int_eq((int)catcher_count(catcher), 4 * MANY);
    WAIT_UNTIL(relay_under_way(host) == 0, SOON_MS);
}

static struct pending_call *start(const struct host *on, const char *body)
{
    const struct call call = call_by(NULL, "POST /relay %s", body);

    return call_begin(on, &call);
}

/* Returns whether a request is accepted. A request that timed out may use its place longer. */
static bool is_accepted(const struct host *on, const char *url)
{
    return relay(on, "{ss}", "url", url)->status == 200;
}

/* Anonymous callers of public routes count as one account. */
TEST(calls_per_account_limits_parallel_requests)
{
    struct host_spec spec =
        relay_spec("upstream_few", RELAY_LOCAL "  calls: 4\n  calls_per_account: 2\n");
    struct host *few = relay_start(&spec);
    struct catcher *silent = catcher_of(ANSWER_NONE);
    struct catcher *other = catcher_of(ANSWER_OK);
    const char *body = text("{\"url\":\"%s\",\"timeout\":12000}", catcher_url(silent, ""));
    struct pending_call *waiting[] = {start(few, body), start(few, body)};

    catcher_wait(silent, 2, SOON_MS);
    ck_error(relay(few, "{ss}", "url", catcher_url(other, "")), 503, "Too many requests to other");
    ck_assert_int_eq((int)relay_outcomes(few, "busy"), 1);
    for (int i = 0; i < 2; i++)
        ck_status(call_end(waiting[i]), 504);
    WAIT_UNTIL(is_accepted(few, catcher_url(other, "")), SOON_MS);
    WAIT_UNTIL(relay_outcomes(few, "late") == 2, SOON_MS);
    ck_assert_int_eq((int)relay_outcomes(few, "answered"), 1);
}

/* A response may have 1 MiB, and `memory: 1` is room for one such response. */
TEST(memory_for_responses_is_limited)
{
    struct host_spec spec = relay_spec("upstream_memory", RELAY_LOCAL "  memory: 1\n");
    struct host *own = relay_start(&spec);
    struct catcher *silent = catcher_of(ANSWER_NONE);
    struct catcher *other = catcher_of(ANSWER_OK);
    struct pending_call *waiting =
        start(own, text("{\"url\":\"%s\",\"timeout\":12000}", catcher_url(silent, "")));

    catcher_wait(silent, 1, SOON_MS);
    ck_error(relay(own, "{ss si}", "url", catcher_url(other, ""), "most", 1), 503, "Too many");
    ck_status(call_end(waiting), 504);
    WAIT_UNTIL(is_accepted(own, catcher_url(other, "")), SOON_MS);
}

/* Memory of earlier requests and responses of the same request is released. */
TEST(repeated_requests_with_large_bodies_need_little_memory)
{
    enum { TIMES = 30, BYTES = 900000, MOST_KB = 15000 };
    struct host_spec spec = relay_spec("upstream_bodies", RELAY_LOCAL "  memory: 2\n");

    spec.environment = process_lean;
    struct host *own = relay_start(&spec);
    struct catcher *catcher = catcher_of(ANSWER_OK);
    const char *body = text_repeated("x", BYTES), *url = catcher_url(catcher, "");

    ck_status(relay(own, "{ss ss ss}", "method", "POST", "url", url, "text", body), 200);
    int64_t before = process_status(own->pid, "VmRSS:");

    ck_status(relay(own, "{ss ss ss si}", "method", "POST", "url", url, "text", body, "times",
                    (int)TIMES),
              200);
    ck_assert_int_lt(process_status(own->pid, "VmRSS:"), before + MOST_KB);
}

TEST(a_certificate_authority_file_that_cannot_be_read_is_reported)
{
    struct host_spec spec = relay_spec("upstream_none", "upstream:\n  authorities: /none/there\n");
    struct host *own = host_prepare(&spec);

    ck_assert(!host_run(own));
    ck_assert_ptr_nonnull(strstr(file_text(own->log), "authorities: /none/there cannot be read"));
}

/* ---- reloads and stops ---- */

static bool one_generation(const struct host *of)
{
    int status;
    char *said = host_ask(of, "status", &status);

    return status == 0 && !strstr(said, "drain");
}

/* The last calls of the request begin long after its generation was superseded. */
TEST(a_request_in_progress_continues_across_a_reload)
{
    struct host_spec spec = relay_spec("upstream_reload", RELAY_LOCAL);
    struct host *own = relay_start(&spec);
    struct receiver *receiver = receiver_start("upstream-reload");
    const char *body = text("{\"url\":\"%s\",\"method\":\"POST\",\"times\":40}",
                            receiver_url(receiver, "/slow/reload"));
    struct pending_call *waiting = start(own, body);

    while (receiver_count(receiver, "/slow/reload") < 1)
        usleep(5000);
    host_says(own, 0, "reload");
    ck_status(call_end(waiting), 200);
    ck_assert_int_eq((int)receiver_count(receiver, "/slow/reload"), 40);
    WAIT_UNTIL(one_generation(own), SOON_MS);
    ck_status(relay(own, "{ss}", "url", receiver_url(receiver, "/fast")), 200);
}

TEST(a_request_in_progress_continues_during_a_stop)
{
    struct host_spec spec = relay_spec("upstream_stop", RELAY_LOCAL);
    struct host *own = relay_start(&spec);
    struct receiver *receiver = receiver_start("upstream-stop");
    const char *body = text("{\"url\":\"%s\",\"method\":\"POST\",\"times\":10}",
                            receiver_url(receiver, "/slow/stop"));
    struct pending_call *waiting = start(own, body);

    while (receiver_count(receiver, "/slow/stop") < 1)
        usleep(5000);
    host_stop(own);
    ck_status(call_end(waiting), 200);
    ck_assert_int_eq((int)receiver_count(receiver, "/slow/stop"), 10);
}

TEST(a_command_sends_no_requests)
{
    int status;
    const char *said =
        host_ask_words(host, (const char *const[]){"relay", "http://example.org/", NULL}, &status);

    ck_assert_int_eq(status, 0);
    ck_assert_msg(strstr(said, "Requests to other servers are not possible"), "%s", said);
}

SUITE(upstream_ends, .timeout_s = 60, .before_all = set_up)
