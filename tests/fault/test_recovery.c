/* A module crashes, hangs, or crashes repeatedly; the suite crash_load has every possible place.
 * Uses the plain build, because sanitizers have their own signal handlers. */
#include <sys/wait.h>

#include "exposition.h"
#include "fault/common.h"
#include "fault/crashes.h"
#include "fault/gaps.h"
#include "fault/torture.h"
#include "wire.h"

static const struct place {
    const char *place, *way;
    int signal;
    const char *ran; /* in the log line */
} places[] = {
    {"handler", "segv", SIGSEGV, "ran=handler what=\"POST /crash\" request="},
    {"handler", "overflow", SIGSEGV, "guard=\"the stack of a fiber overflowed\" module=crash"},
    {"worker", "divide", SIGFPE, "ran=worker what=extra"},
    {"pool", "segv", SIGSEGV, "ran=pool what=\"deep, POST /crash\" request="},
    {"constructor", "segv", SIGSEGV, "ran=constructor"},
    {"open", "segv", SIGSEGV, "ran=open"},
    {"close", "abort", SIGABRT, "ran=close"},
};

static void expect_report(const struct host *host, const struct place *place, size_t from)
{
    const char *line = crash_line(host, from), *report = crash_report(line);

    ck_assert_msg(strstr(line, place->ran) && strstr(line, "module="), "%s: %.600s", place->place,
                  line);
    ck_assert_msg(strstr(report, "crash") && strstr(report, "backtrace:") &&
                      strstr(report, "build ids:"),
                  "%s: %.2500s", place->place, report);
    ck_assert_msg(strstr(report, " at+0x") || !strcmp(place->place, "constructor") ||
                      !strcmp(place->way, "overflow"),
                  "%s: %.2500s", place->place, report);
}

static bool is_at_the_start(const char *place)
{
    return !strcmp(place, "open") || !strcmp(place, "constructor");
}

TEST_EACH(a_crash_is_reported_and_ends_the_process_by_its_signal, sizeof places / sizeof *places)
{
    const struct place *place = &places[_i];
    const char *name = text("crash_%s_%s", place->place, place->way);
    const char *order = text("%s %s\n", place->place, place->way);
    struct crash_bench bench = crash_bench(name, "", "");
    struct host *host = bench.host;

    if (is_at_the_start(place->place)) {
        file_write(bench.order, order);
        host_run(host);
    } else {
        ck_assert(host_run(host));
        status_soon(host, "/api/health", NULL, 200);
        file_write(bench.order, order);
        crash_go(&bench, place->place);
    }
    ck_assert_msg(crash_ended(host), "%s: the host has not ended", place->place);
    ck_assert_msg(WIFSIGNALED(host->status) && WTERMSIG(host->status) == place->signal,
                  "%s: wait status %d", place->place, host->status);
    expect_report(host, place, 0);
}

/* ---- with the supervisor ---- */

/* Places where a loop can be blocked: how, and how the host reports it. */
static const struct standstill {
    const char *place, *way;
    const char *ran, *what; /* in the log line; in the response */
} standstills[] = {
    {"handler", "sleep", "ran=handler what=\"POST /crash\" request=", "POST /crash"},
    {"handler", "loop", "ran=handler what=\"POST /crash\" request=", "POST /crash"},
    {"hook", "sleep", "ran=hook what=crash.went", "crash.went"},
    {"committed", "sleep", "ran=\"committed hook\" what=crash.went", "crash.went"},
    {"job", "sleep", "ran=job what=crash-job", "crash-job"},
    {"channel", "sleep", "ran=channel what=crash_told", "crash_told"},
};

/* Sends a request that never gets a response, and disconnects once the loop is blocked. */
static void stall(const struct crash_bench *bench, const char *place, const char *way)
{
    struct wire *wire;

    file_write(bench->order, text("%s %s\n", place, way));
    wire = wire_open(bench->host);
    wire_say(wire, "POST /crash HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    if (!strcmp(place, "channel"))
        sql_run(bench->db, "NOTIFY crash_told");
    host_logs(bench->host, 0, "event loop blocked");
    wire_close(wire, false);
}

/* Uses new connections, which only a running loop accepts, until there is a response. */
static struct answer *answer_to(const struct host *host, const char *path)
{
    struct answer *answer;

    WAIT_UNTIL((answer = http(host, "GET", path, NULL, NULL))->status != 0, BACK_MS);
    return answer;
}

static void expect_stalled(const struct crash_bench *bench, const char *what)
{
    double seconds = 0;

    ck_error(answer_to(bench->host, "/api/health"), 503,
             text("An event loop is blocked in module crash, %s", what));
    ck_assert_ptr_nonnull(strstr(host_says(bench->host, 0, "status"), "BLOCKED"));
    ck_assert(
        !json_unpack(host_status(bench->host), "{s:[{s:F}]}", "loops", "blockedSeconds", &seconds));
    ck_assert(seconds > 0);
}

/* There is one loop, so all loops are blocked. */
TEST_EACH(a_blocked_event_loop_is_reported_and_ends_the_worker, COUNT(standstills))
{
    const struct standstill *still = &standstills[_i];
    const char *name = text("stall_%s_%s", still->place, still->way);
    struct crash_bench bench = crash_bench(name, "  loops: 1\n", "  stall_timeout: 20\n");
    struct host *host = crash_run(&bench, NULL);
    pid_t worker = worker_of(host, 0);

    stall(&bench, still->place, still->way);
    host_logs(host, 0, still->ran);
    host_logs(host, 0, "fall");
    expect_stalled(&bench, still->what);
    worker_of(host, worker);
    status_soon(host, "/api/health", NULL, 200);
    host_logs(host, 0, "host.stall_timeout");
    ck_assert_ptr_nonnull(strstr(crash_report(crash_line(host, 0)), "reason: event loop blocked"));
}

static void expect_told(struct host *host, const char *path, const char *reason)
{
    const struct answer *answer = answer_to(host, path);

    ck_assert_msg(answer->status == 503 && strstr(answer->body, reason), "%s: %ld %s", path,
                  answer->status, answer->body);
}

/* Fails the test unless GET /metrics has this line. */
static void expect_metric(struct host *host, const struct person *who, const char *line)
{
    const char *all = ck_status(http(host, "GET", "/metrics", who->token, NULL), 200)->body;

    ck_assert_msg(strstr(all, text("\n%s\n", line)) != NULL, "no %s in %s", line, all);
}

/* The other loop continues to serve, and reports the blocked one. */
TEST(a_blocked_event_loop_is_reported_by_the_other_loop)
{
    struct crash_bench bench = crash_bench("stall_one", "  loops: 2\n", "  stall_timeout: 20\n");
    const char *reason = "An event loop is blocked in module crash, POST /crash";

    crash_run(&bench, NULL);
    status_soon(bench.host, "/api/health/ready", NULL, 200);
    pid_t worker = worker_of(bench.host, 0);
    const struct person *who = admin_of(bench.host);

    stall(&bench, "handler", "sleep");
    expect_told(bench.host, "/api/health", reason);
    expect_told(bench.host, "/api/health/ready", reason);
    host_logs_line(bench.host, 0, "event loop blocked", "module=crash");
    ck_assert(exposition_value(exposition_get(bench.host, who->token), "busbar_loop_stalls_total",
                               "") >= 1); /* the other loop may have been blocked, too */
    worker_of(bench.host, worker);
    status_soon(bench.host, "/api/health", NULL, 200);
    status_soon(bench.host, "/api/health/ready", NULL, 200);
}

/* The disk for reports hangs while a pool's thread writes one; then a loop is blocked. */
TEST(a_hung_crash_report_does_not_keep_the_worker_alive)
{
    struct crash_bench bench = crash_bench("stuck_report", "  loops: 1\n", "  stall_timeout: 2\n");
    struct rack rack = rack_make("stuck_report");
    struct host *host = bench.host;

    host->environment = word_list(host->environment[0], rack.environment[0], rack.environment[1]);
    crash_run(&bench, NULL);
    pid_t worker = worker_of(host, 0);

    atomic_store(&rack.numbers->stuck, 1);
    file_write(bench.order, "pool segv\n");
    struct wire *wire = wire_open(host);

    wire_say(wire, "POST /crash HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    WAIT_UNTIL(access(bench.order, F_OK) != 0, BACK_MS); /* the module removes the order */
    stall(&bench, "handler", "sleep");
    WAIT_UNTIL(kill(worker, 0) != 0, 2 * BACK_MS);
    atomic_store(&rack.numbers->stuck, 0);
    status_soon(host, "/api/health", NULL, 200);
}

TEST(a_host_with_a_blocked_event_loop_reloads_and_stops)
{
    struct crash_bench bench = crash_bench("stall_stop", "  loops: 1\n", "  stall_timeout: 0\n");
    struct host *host = crash_run(&bench, NULL);

    stall(&bench, "handler", "sleep");
    host_says(host, 0, "reload");
    int status = process_stop(host->pid, SIGTERM, 2 * STOP_MS);

    host->pid = 0;
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 1, "wait status %d", status);
}

/* ---- quarantine ---- */

/* Fails the test unless the status has three crashes of the module `crash`, which is disabled. */
static void ck_crashes_in_json(const struct host *of)
{
    const char *name = NULL, *module = NULL, *how = NULL;
    int restarts = 0, count = 0;
    int read = json_unpack(host_status(of), "{s:{s:i, s:{s:s, s:s}, s:[{s:i}], s:[{s:s}]}}",
                           "crashes", "restarts", &restarts, "last", "how", &how, "module", &module,
                           "modules", "count", &count, "leftOut", "name", &name);

    ck_assert_msg(!read && restarts == 3 && count == 3, "%s", host_says(of, 0, "status"));
    ck_assert_str_eq(name, "crash");
    ck_assert_str_eq(module, "crash");
    ck_assert_str_eq(how, "SIGSEGV");
}

TEST(a_module_that_crashes_at_each_start_is_disabled_until_a_reload)
{
    struct crash_bench bench = crash_bench("crash_out", "", "");
    struct host *host = crash_run(&bench, "open segv always\n");

    host_logs(host, 0, "module disabled until the next reload");
    ck_status(http(host, "POST", "/crash", NULL, NULL), 404);
    const char *told = host_says(host, 0, "status");

    ck_assert_msg(strstr(told, "DISABLED: module crash") && strstr(told, "of module crash: 3"),
                  "%s", told);
    ck_crashes_in_json(host);
    const struct person *who = admin_of(host);

    expect_metric(host, who, "busbar_crashes_total{module=\"crash\"} 3");
    expect_metric(host, who, "busbar_worker_restarts_total 3");
    expect_metric(host, who, "busbar_module_disabled{module=\"crash\"} 1");
    unlink(bench.order);
    host_says(host, 0, "reload");
    ck_assert_ptr_null(strstr(host_says(host, 0, "status"), "DISABLED"));
    ck_assert_int_ne(http(host, "POST", "/crash", NULL, NULL)->status, 404);
}

FAULT_SUITE(recovery)
