/* GET /metrics: access, the format, and the values. Slow requests. */
#include "exposition.h"
#include "hook.h"
#include "sse.h"
#include "stage.h"
#include "wire.h"

static struct person *platform;
static const char database[] = "metrics";

enum { PLACES = 4, CROWD = 20 };

#define MODULES "[auth, chat, health, metrics, webhook]"

static void set_up(void)
{
    stage_open(&(struct host_spec){
        .name = database,
        .modules = MODULES,
        .http = "  slow_request: 150\n",
        .redis_ms = 10000,
        .auth = "  argon2_memory: 64\n  argon2_rounds: 1\n  login_failures_per_account: 2\n"});
    platform = person_make(host, admin, "measured", NULL);
}

static double value(const struct exposition *from, const char *name, const char *labels)
{
    double number = exposition_value(from, name, labels);

    ck_assert_msg(number >= 0, "there is no %s{%s}", name, labels);
    return number;
}

static double answered(const struct exposition *from, const char *method, const char *route,
                       int code)
{
    double number =
        exposition_value(from, "busbar_http_requests_total",
                         text("method=\"%s\",route=\"%s\",code=\"%d\"", method, route, code));

    return number < 0 ? 0 : number;
}

TEST(metrics_are_for_admins_only)
{
    exchanges(host, {"GET /metrics", NULL, 401, "Unauthorized"},
              {"GET /metrics", platform, 403, "Forbidden"});
    exposition_get(host, admin->token);
}

static long status_from(const struct host *of, const char *forwarded)
{
    const char *const headers[] = {forwarded ? text("X-Forwarded-For: %s", forwarded) : NULL, NULL};
    struct call call = {.method = "GET", .path = "/metrics", .headers = headers};

    return http_send(of, &call)->status;
}

TEST(metrics_networks_need_no_token_except_through_a_proxy)
{
    struct host_spec spec = {.name = "metrics-inside",
                             .database = database,
                             .modules = MODULES,
                             .http = "  metrics_networks: [127.0.0.1, 10.1.0.0/16]\n"};
    struct host *open = host_start(&spec);

    ck_assert_int_eq(status_from(open, NULL), 200);
    ck_assert_int_eq(status_from(open, "192.0.2.7"), 401);
    ck_assert_int_eq(status_from(open, "127.0.0.1"), 401);
    ck_assert_int_eq(http(open, "GET", "/api/auth/me", NULL, NULL)->status, 401);
    host_stop(open);
    spec.name = "metrics-proxied";
    spec.http = "  metrics_networks: [10.1.0.0/16]\n  trusted_proxies: [127.0.0.1]\n";
    open = host_start(&spec);
    ck_assert_int_eq(status_from(open, "10.1.2.3"), 200);
    ck_assert_int_eq(status_from(open, "10.2.2.3"), 401);
    ck_assert_int_eq(status_from(open, "10.1.2.3\r\nX-Forwarded-For: 192.0.2.7"), 401);
    ck_assert_int_eq(status_from(open, "192.0.2.7\r\nX-Forwarded-For: 10.1.2.3"), 200);
    ck_assert_int_eq(status_from(open, NULL), 401);
    host_stop(open);
    spec.name = "metrics-proxy-inside";
    spec.http = "  metrics_networks: [127.0.0.1, 10.1.0.0/16]\n  trusted_proxies: [127.0.0.1]\n";
    open = host_start(&spec);
    ck_assert_int_eq(status_from(open, NULL), 200);
    ck_assert_int_eq(status_from(open, "10.1.2.3"), 200);
    ck_assert_int_eq(status_from(open, "somebody"), 401);
    ck_assert_int_eq(status_from(open, "192.0.2.7, somebody"), 401);
}

TEST(refused_connections_are_counted)
{
    struct host *few = host_start(&(struct host_spec){
        .name = "metrics-few",
        .database = database,
        .modules = MODULES,
        .http = text("  loops: 1\n  metrics_networks: [127.0.0.1]\n  connections_per_address: %d\n",
                     PLACES)});
    struct wire *wires[CROWD];

    for (int i = 0; i < CROWD; i++)
        wires[i] = wire_open_from(few, "127.0.0.9", 0);
    WAIT_UNTIL(value(exposition_get(few, NULL), "busbar_http_connections_refused_total",
                     "loop=\"0\"") == CROWD - PLACES,
               5000);
    for (int i = 0; i < CROWD; i++)
        wire_close(wires[i], false);
}

TEST(requests_are_counted_by_pattern_and_status)
{
    static const char route[] = "/api/chat/conversations/:id/messages";
    struct talk talk = talk_start(host, platform, "m@shop.example", ADMIN_EMAIL, NULL);
    struct exposition *before = exposition_get(host, admin->token);

    for (int i = 0; i < 3; i++)
        ck_status(talk_post(host, platform, &talk, "m@shop.example", "counted"), 201);
    struct talk unknown = {.id = talk.id + 1000000};
    ck_status(talk_post(host, platform, &unknown, "m@shop.example", "counted"), 404);
    ask(NULL, 404, NULL, "GET /api/no/such/path/4711");
    ask(NULL, 405, NULL, "DELETE /api/health");
    struct exposition *after = exposition_get(host, admin->token);

    ck_assert(answered(after, "POST", route, 201) == answered(before, "POST", route, 201) + 3);
    ck_assert(answered(after, "POST", route, 404) == answered(before, "POST", route, 404) + 1);
    ck_assert(answered(after, "other", "none", 404) == answered(before, "other", "none", 404) + 1);
    ck_assert(answered(after, "other", "none", 405) == answered(before, "other", "none", 405) + 1);
    const char *labels = text("method=\"POST\",route=\"%s\"", route);
    ck_assert(value(after, "busbar_http_request_duration_seconds_count", labels) ==
              answered(after, "POST", route, 201) + answered(after, "POST", route, 404));
    ck_assert(value(after, "busbar_http_request_duration_seconds_sum", labels) > 0);
}

/* Counts all responses except those to GET /metrics. */
static double all_answered(const struct exposition *from)
{
    double sum = 0;

    for (size_t i = 0; i < from->count; i++)
        if (!strcmp(from->samples[i].name, "busbar_http_requests_total") &&
            !strstr(from->samples[i].labels, "route=\"/metrics\""))
            sum += from->samples[i].value;
    return sum;
}

/* The body's framing breaks off after the response was decided, or before. */
TEST(a_request_whose_body_is_refused_is_counted_once)
{
    static const char route[] = "/api/chat/conversations/find";
    const char *const tokens[] = {"nobody", platform->token};
    static const int statuses[] = {401, 400};
    struct exposition *before = exposition_get(host, admin->token);

    for (size_t i = 0; i < sizeof(tokens) / sizeof(*tokens); i++)
        ck_wire_error(wire_ask(host,
                               "POST /api/chat/conversations/find HTTP/1.1\r\nHost: x\r\n"
                               "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\nzz\r\n",
                               tokens[i]),
                      statuses[i]);
    struct exposition *after = exposition_get(host, admin->token);

    ck_assert_double_eq(all_answered(after), all_answered(before) + 2);
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++)
        ck_assert(answered(after, "POST", route, statuses[i]) ==
                  answered(before, "POST", route, statuses[i]) + 1);
}

/* Leaves out the samples of jobs, which begin whenever a job first runs. */
static size_t samples_of_requests(const struct exposition *from)
{
    size_t count = 0;

    for (size_t i = 0; i < from->count; i++)
        count += strncmp(from->samples[i].name, "busbar_job_", strlen("busbar_job_")) != 0;
    return count;
}

TEST(request_paths_do_not_create_series)
{
    size_t before = 0;

    for (int i = 0; i < 40; i++) {
        ask(platform, 200, NULL, "GET /api/chat/unread-count/p%d%%40shop.example", i);
        ask(NULL, 404, NULL, "GET /%d", i);
        if (i == 0)
            before = samples_of_requests(exposition_get(host, admin->token));
    }
    struct exposition *after = exposition_get(host, admin->token);

    /* /metrics itself may have got its first samples meanwhile, with its buckets */
    ck_assert_uint_le(samples_of_requests(after), before + 16);
    for (size_t i = 0; i < after->count; i++)
        ck_assert_ptr_null(strstr(after->samples[i].labels, "shop.example"));
}

TEST(logins_are_counted_by_outcome)
{
    static const char name[] = "busbar_auth_logins_total";
    struct exposition *before = exposition_get(host, admin->token);

    person_login(host, platform);
    ask(NULL, 401, NULL, "POST /api/auth/login {'username':'%s','password':'not the password'}",
        platform->email);
    struct person *pending = person_register(host, "measured-pending", NULL);

    ask(NULL, 403, NULL, "POST /api/auth/login {'username':'%s','password':'%s'}", pending->email,
        pending->password);
    for (int i = 0; i < 2; i++) /* the 403 counts as a failure, too */
        ask(NULL, i ? 429 : 401, NULL,
            "POST /api/auth/login {'username':'%s','password':'a guess'}", pending->email);
    struct person *damaged = person_make(host, admin, "measured-damaged", NULL);

    /* the text, the salt or the hash is incomplete */
    EACH_TEXT (stored, "$argon2id$", "$argon2id$v=19$m=64,t=1,p=1$AAAA$AAAA",
               "$argon2id$v=19$m=64,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAA") {
        sql_run(db, text("UPDATE auth_account SET password = '%s' WHERE email = '%s'", stored,
                         damaged->email));
        ask(NULL, 500, "The stored password cannot be read",
            "POST /api/auth/login {'username':'%s','password':'a guess'}", damaged->email);
    }
    struct exposition *after = exposition_get(host, admin->token);
    static const struct {
        const char *outcome;
        int count;
    } rows[] = {{"done", 2}, {"refused", 2}, {"not_admitted", 1}, {"throttled", 1}, {"failed", 3}};

    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *labels = text("outcome=\"%s\"", rows[i].outcome);

        ck_assert_double_eq(value(after, name, labels),
                            value(before, name, labels) + rows[i].count);
    }
}

TEST(the_state_of_the_host_and_its_dependencies_is_in_the_metrics)
{
    struct sse *sse = sse_open(host, platform->token, NULL, 0);
    struct exposition *now;

    ck_assert_int_eq(sse->status, 200);
    WAIT_UNTIL(
        (now = exposition_get(host, admin->token)) && value(now, "busbar_streams", "") == 1 &&
            value(now, "busbar_database_up", "") == 1 && value(now, "busbar_redis_up", "") == 1 &&
            value(now, "busbar_chat_listeners", "state=\"joined\"") == 1,
        5000);
    sse_close(sse);
    ck_assert(value(now, "busbar_generations", "") == 1);
    ck_assert(value(now, "busbar_generation", "") == 1);
    ck_assert(value(now, "busbar_http_connections", "loop=\"0\"") >= 0);
    ck_assert(value(now, "busbar_database_connections", "loop=\"0\",pool=\"read\"") >= 1);
    ck_assert(value(now, "busbar_database_waiting", "loop=\"0\",pool=\"unit\"") == 0);
    ck_assert(value(now, "busbar_pool_threads", "module=\"busbar\",pool=\"bodies\"") >= 1);
    ck_assert(value(now, "busbar_pool_threads", "module=\"auth\",pool=\"hash\"") >= 1);
    ck_assert(value(now, "busbar_webhook_deliveries", "state=\"waiting\"") == 0);
    ck_assert(value(now, "busbar_webhook_attempts_total", "outcome=\"delivered\"") == 0);
    ck_assert(value(now, "busbar_webhook_lost_leases_total", "") == 0);
    ck_assert(value(now, "process_resident_memory_bytes", "") > 1 << 20);
    ck_assert(value(now, "process_cpu_seconds_total", "") > 0);
    ck_assert(value(now, "process_open_fds", "") > 10);
    ck_assert(value(now, "process_max_fds", "") >= value(now, "process_open_fds", ""));
}

TEST(counters_keep_their_values_across_a_reload)
{
    struct exposition *before = exposition_get(host, admin->token), *after;

    ck_assert_int_eq(kill(host->pid, SIGHUP), 0);
    WAIT_UNTIL((after = exposition_get(host, admin->token)) &&
                   value(after, "busbar_generation", "") == 2 &&
                   value(after, "busbar_generations", "") == 1,
               10000);

    ck_assert(answered(after, "POST", "/api/auth/login", 200) >=
              answered(before, "POST", "/api/auth/login", 200));
    ck_assert(value(after, "busbar_auth_logins_total", "outcome=\"done\"") >=
              value(before, "busbar_auth_logins_total", "outcome=\"done\""));
    ck_assert(answered(after, "POST", "/api/auth/login", 200) > 0);
}

/* Returns the number after `key` in a line of the log. */
static double in_line(const char *line, const char *key)
{
    const char *at = strstr(line, text(" %s=", key));

    ck_assert_msg(at, "no %s in %.200s", key, line);
    return strtod(at + strlen(key) + 2, NULL);
}

/* Returns the first line about a slow request after this offset in the log; NULL: none yet. */
static const char *slow_line(size_t from)
{
    const char *log = file_text(host->log) + from;
    const char *line = strstr(log, "slow request");

    while (line && !strstr(text("%.*s", (int)strcspn(line, "\n"), line), "unread-count"))
        line = strstr(line + 1, "slow request");
    return line ? text("%.*s", (int)strcspn(line, "\n"), line) : NULL;
}

TEST(a_slow_request_is_logged_with_the_time_of_each_phase)
{
    const struct call slow = call_by(platform, "GET /api/chat/unread-count/slow@shop.example");

    size_t from = host_log_size(host);

    PQclear(PQexec(db, "BEGIN; LOCK TABLE chat_conversation IN ACCESS EXCLUSIVE MODE"));
    struct pending_call *asking = call_begin(host, &slow);

    database_soon(the_postgres, database, SQL_LOCK_WAITS);
    PQclear(PQexec(db, "SELECT pg_sleep(0.4); COMMIT"));
    ck_status(call_end(asking), 200);
    WAIT_UNTIL(slow_line(from) != NULL, 5000);
    const char *line = slow_line(from);

    ck_assert(strstr(line, "route=/api/chat/unread-count/:email"));
    ck_assert_ptr_null(strstr(line, "slow@shop.example"));
    double database_ms = in_line(line, "database_ms"), work_ms = in_line(line, "work_ms");
    ck_assert_msg(database_ms >= 150 && database_ms <= work_ms, "%s", line);
    ck_assert_msg(in_line(line, "ms") >= work_ms, "%s", line);
    ck_assert_msg(in_line(line, "queue_ms") + in_line(line, "handler_ms") + database_ms <=
                      work_ms + 0.01,
                  "%s", line);
}

TEST(webhooks_are_counted_by_state_and_paused_ones_lag)
{
    struct exposition *now;

    webhook_ready(database, 1);
    webhook_make(host, platform, PUBLIC_URL, "conversation.created");
    struct webhook_made off = webhook_make(host, platform, PUBLIC_URL, "message.new");

    ck_status(webhook_change(host, platform, &off, json_pack("{sb}", "active", 0)), 200);
    host_says(host, 0, "pause");
    talk_start(host, platform, platform->email, "lag@shop.example", NULL);
    WAIT_UNTIL((now = exposition_get(host, admin->token)) &&
                   value(now, "busbar_webhook_webhooks", "state=\"active\"") == 1 &&
                   value(now, "busbar_webhook_webhooks", "state=\"off\"") == 1 &&
                   value(now, "busbar_webhook_deliveries", "state=\"waiting\"") == 1 &&
                   value(now, "busbar_webhook_lag_seconds", "") > 0,
               15000);
}

STAGE_SUITE(metrics, set_up, 60)
