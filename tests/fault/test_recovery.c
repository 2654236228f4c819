/* A module crashes in every possible place, hangs, or crashes repeatedly. Uses the
 * plain build, because sanitizers have their own signal handlers. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault/common.h"
#include "fault/crashes.h"
#include "fault/gaps.h"
#include "fault/torture.h"
#include "wire.h"

enum { BACK_AGAIN_MS = 5000 }; /* a busy machine may take this long */

static const struct place {
    const char *place, *way;
    int signal;
    const char *ran; /* in the log line */
} places[] = {
    {"handler", "segv", SIGSEGV, "ran=handler what=\"POST /crash\" request="},
    {"handler", "overflow", SIGSEGV, "guard=\"the stack of a fiber overflowed\" module=crash"},
    {"hook", "segv", SIGSEGV, "ran=hook what=crash.went"},
    {"committed", "abort", SIGABRT, "ran=\"committed hook\" what=crash.went"},
    {"job", "segv", SIGSEGV, "ran=job what=crash-job"},
    {"worker", "divide", SIGFPE, "ran=worker what=extra"},
    {"pool", "segv", SIGSEGV, "ran=pool what=\"deep, POST /crash\" request="},
    {"channel", "segv", SIGSEGV, "ran=channel what=crash_told"},
    {"constructor", "segv", SIGSEGV, "ran=constructor"},
    {"open", "segv", SIGSEGV, "ran=open"},
    {"start", "segv", SIGSEGV, "ran=start"},
    {"quiesce", "segv", SIGSEGV, "ran=quiesce"},
    {"close", "abort", SIGABRT, "ran=close"},
};

static void expect_report(const struct crash_bench *bench, const struct place *place,
                          const char *log)
{
    const char *line = strstr(log, "msg=\"crashed\"");

    ck_assert_msg(line != NULL, "%s: no line:\n%.2000s", place->place, log);
    ck_assert_msg(strstr(line, place->ran) && strstr(line, "module="), "%s: %.600s", place->place,
                  line);
    const char *report = crash_report(line);

    ck_assert_msg(strstr(report, "crash") && strstr(report, "backtrace:") &&
                      strstr(report, "build ids:"),
                  "%s: %.2500s", place->place, report);
    ck_assert_msg(strstr(report, " at+0x") || !strcmp(place->place, "constructor") ||
                      !strcmp(place->way, "overflow"),
                  "%s: %.2500s", place->place, report);
    (void)bench;
}

static void crash(struct crash_bench *bench, const struct place *place)
{
    size_t before = strlen(file_text(bench->host->log));
    struct host *host = bench->host;

    if (strcmp(place->place, "open") != 0 && strcmp(place->place, "constructor") != 0 &&
        strcmp(place->place, "start") != 0) {
        ck_assert(host_run(host));
        expect_soon(host, "/api/health", NULL, 200);
        file_write(bench->order, text("%s %s\n", place->place, place->way));
        crash_go(bench, place->place);
    } else {
        file_write(bench->order, text("%s %s\n", place->place, place->way));
        host_run(host);
    }
    ck_assert_msg(crash_ended(host), "%s: it lives on", place->place);
    ck_assert_msg(WIFSIGNALED(host->status) && WTERMSIG(host->status) == place->signal,
                  "%s: wait status %d", place->place, host->status);
    expect_report(bench, place, file_text(host->log) + before);
}

TEST(a_crash_says_what_ran_and_ends_by_its_signal)
{
    struct crash_bench bench = crash_bench("crash_report", "", "");

    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        crash(&bench, &places[i]);
    PQfinish(bench.db);
}

/* ---- with the supervisor ---- */

static const struct place more_places[] = {
    {"handler", "exit", 0, "exit=\"exit()\" module=crash ran=handler"},
    {"pool", "_exit", 0, "exit=\"_exit()\" module=crash ran=pool"},
};

/* Returns the milliseconds until GET /api/health responds, on a connection that waits for the next
 * worker. */
static int64_t until_health(const struct host *host)
{
    int64_t began = now_ms();

    expect_soon(host, "/api/health", NULL, 200);
    return now_ms() - began;
}

/* There is no restart during a stop. */
static bool ends_a_stop(const struct place *place)
{
    return !strcmp(place->place, "quiesce") || !strcmp(place->place, "close");
}

static void crash_and_return(struct crash_bench *bench, const struct place *place)
{
    struct host *host = bench->host;
    size_t before = strlen(file_text(host->log));

    if (ends_a_stop(place))
        return;
    bool at_start = !strcmp(place->place, "open") || !strcmp(place->place, "start") ||
                    !strcmp(place->place, "constructor");

    if (at_start)
        file_write(bench->order, text("%s %s\n", place->place, place->way));
    ck_assert(host_run(host));
    expect_soon(host, "/api/health", NULL, 200);
    pid_t worker = worker_of(host, 0);

    if (!at_start) {
        file_write(bench->order, text("%s %s\n", place->place, place->way));
        crash_go(bench, place->place);
        worker_of(host, worker);
    }
    int64_t ms = until_health(host);

    ck_assert_msg(ms <= BACK_AGAIN_MS, "%s: health after %jd ms", place->place, (intmax_t)ms);
    expect_log(host, before, "the worker exited and is restarted");
    expect_log(host, before, "delay_ms=0");
    expect_log(host, before, "the previous worker exited");
    expect_report(bench, place, file_text(host->log) + before);
    host_stop(host);
}

TEST(a_worker_that_crashes_is_started_again_at_once)
{
    struct crash_bench bench = crash_bench("crash_again", "", "");

    bench.host->supervised = true;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        crash_and_return(&bench, &places[i]);
    for (size_t i = 0; i < sizeof more_places / sizeof *more_places; i++)
        crash_and_return(&bench, &more_places[i]);
    PQfinish(bench.db);
}

/* Places where a loop can be blocked: how, and how the host reports it. */
static const struct standstill {
    const char *place, *way;
    const char *ran, *what; /* in the log line; in the response */
} standstills[] = {
    {"handler", "sleep", "ran=handler what=\"POST /crash\" request=", "POST /crash"},
    {"handler", "loop", "ran=handler what=\"POST /crash\" request=", "POST /crash"},
    {"hook", "loop", "ran=hook what=crash.went", "crash.went"},
    {"committed", "sleep", "ran=\"committed hook\" what=crash.went", "crash.went"},
    {"job", "loop", "ran=job what=crash-job", "crash-job"},
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
    expect_log(bench->host, 0, "event loop blocked");
    wire_close(wire, false);
}

static void expect_stalled(const struct crash_bench *bench, const char *what)
{
    static const char *const words[] = {"status", "--json", NULL};
    struct answer *answer = http(bench->host, "GET", "/api/health", NULL, NULL);
    int status = 0;

    ck_error(answer, 503, text("An event loop is blocked in module crash, %s", what));
    ck_assert_ptr_nonnull(strstr(host_ask(bench->host, "status", &status), "BLOCKED"));
    ck_assert_int_eq(status, 0);
    json_t *json = json_loads(host_ask_words(bench->host, words, &status), 0, NULL);
    double seconds = 0;

    ck_assert(!json_unpack(json, "{s:[{s:F}]}", "loops", "standsSeconds", &seconds));
    ck_assert(seconds > 0);
    json_decref(json);
}

/* There is one loop, so all loops are blocked. */
static void stand_and_return(const struct standstill *still)
{
    const char *name = text("stall_%s_%s", still->place, still->way);
    struct crash_bench bench = crash_bench(name, "  loops: 1\n", "  stall_timeout: 5\n");

    bench.host->supervised = true;
    ck_assert(host_run(bench.host));
    expect_soon(bench.host, "/api/health", NULL, 200);
    pid_t worker = worker_of(bench.host, 0);

    stall(&bench, still->place, still->way);
    expect_log(bench.host, 0, still->ran);
    expect_log(bench.host, 0, "fall");
    expect_stalled(&bench, still->what);
    worker_of(bench.host, worker);
    expect_soon(bench.host, "/api/health", NULL, 200);
    expect_log(bench.host, 0, "host.stall_timeout");
    ck_assert_ptr_nonnull(
        strstr(crash_report(strstr(file_text(bench.host->log), "msg=\"crashed\"")),
               "reason: event loop blocked"));
    host_stop(bench.host);
    PQfinish(bench.db);
}

TEST(a_loop_that_stands_is_named_and_ended)
{
    for (size_t i = 0; i < sizeof standstills / sizeof *standstills; i++)
        stand_and_return(&standstills[i]);
}

/* Uses a new connection, which only a running loop accepts. */
static void expect_told(struct host *host, const char *path, const char *reason)
{
    const struct wire_answer *answer = wire_ask(host, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);

    ck_assert_msg(answer->status == 503 && strstr(answer->body, reason), "%s: %d %s", path,
                  answer->status, answer->body);
}

/* Fails the test unless GET /metrics has this line. */
static void expect_metric(struct host *host, const struct person *who, const char *line)
{
    const char *all = ck_status(http(host, "GET", "/metrics", who->token, NULL), 200)->body;

    ck_assert_msg(strstr(all, text("\n%s\n", line)) != NULL, "no %s in %s", line, all);
}

/* The other loop continues to serve, and reports the blocked one. */
TEST(one_loop_of_two_that_stands_is_told_by_the_other)
{
    struct crash_bench bench = crash_bench("stall_one", "  loops: 2\n", "  stall_timeout: 5\n");
    const char *reason = "An event loop is blocked in module crash, POST /crash";

    bench.host->supervised = true;
    ck_assert(host_run(bench.host));
    expect_soon(bench.host, "/api/health/ready", NULL, 200);
    pid_t worker = worker_of(bench.host, 0);
    const struct person *who = admin_of(bench.host);

    stall(&bench, "handler", "sleep");
    expect_told(bench.host, "/api/health", reason);
    expect_told(bench.host, "/api/health/ready", reason);
    expect_metric(bench.host, who, "busbar_loop_stalls_total 1");
    worker_of(bench.host, worker);
    expect_soon(bench.host, "/api/health", NULL, 200);
    expect_soon(bench.host, "/api/health/ready", NULL, 200);
    host_stop(bench.host);
    PQfinish(bench.db);
}

/* The code in that place has removed the file. */
static bool is_taken(void *order)
{
    return access(order, F_OK) != 0;
}

static bool has_gone(void *worker)
{
    return kill(*(pid_t *)worker, 0) != 0;
}

static const char *const *both_environments(const char *order, const struct rack *rack)
{
    const char **environment = kept(calloc(4, sizeof *environment));

    environment[0] = crash_environment(order)[0];
    environment[1] = rack->environment[0];
    environment[2] = rack->environment[1];
    return environment;
}

/* The disk for reports hangs while a pool's thread writes one; then a loop is blocked. */
TEST(a_report_that_hangs_keeps_no_worker_alive)
{
    struct crash_bench bench = crash_bench("stuck_report", "  loops: 1\n", "  stall_timeout: 2\n");
    struct rack rack = rack_make("stuck_report");
    struct host *host = bench.host;

    host->environment = both_environments(bench.order, &rack);
    host->supervised = true;
    ck_assert(host_run(host));
    expect_soon(host, "/api/health", NULL, 200);
    pid_t worker = worker_of(host, 0);

    atomic_store(&rack.numbers->stuck, 1);
    file_write(bench.order, "pool segv\n");
    struct wire *wire = wire_open(host);

    wire_say(wire, "POST /crash HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    ck_assert(wait_until(is_taken, (void *)(uintptr_t)bench.order, BACK_MS));
    stall(&bench, "handler", "sleep");
    ck_assert(wait_until(has_gone, &worker, 2 * BACK_MS));
    atomic_store(&rack.numbers->stuck, 0);
    expect_soon(host, "/api/health", NULL, 200);
    wire_close(wire, false);
    host_stop(host);
    PQfinish(bench.db);
}

TEST(a_host_whose_loop_stands_reloads_and_stops)
{
    struct crash_bench bench = crash_bench("stall_stop", "  loops: 1\n", "  stall_timeout: 0\n");
    int status = 0;

    bench.host->supervised = true;
    ck_assert(host_run(bench.host));
    expect_soon(bench.host, "/api/health", NULL, 200);
    stall(&bench, "handler", "loop");
    host_ask(bench.host, "reload", &status);
    ck_assert_int_eq(status, 0);
    status = process_stop(bench.host->pid, SIGTERM, 2 * STOP_MS);
    bench.host->pid = 0;
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 1, "wait status %d", status);
    PQfinish(bench.db);
}

/* ---- quarantine ---- */

/* Fails the test unless the status has three crashes of the module `crash`, which is disabled. */
static void ck_crashes_in_json(const struct host *of)
{
    static const char *const words[] = {"status", "--json", NULL};
    const char *name = NULL, *module = NULL, *how = NULL;
    int status, restarts = 0, count = 0;
    const char *told = host_ask_words(of, words, &status);
    json_t *json = json_loads(told, 0, NULL);
    int read = json_unpack(json, "{s:{s:i, s:{s:s, s:s}, s:[{s:i}], s:[{s:s}]}}", "crashes",
                           "restarts", &restarts, "last", "how", &how, "module", &module, "modules",
                           "count", &count, "leftOut", "name", &name);

    ck_assert_msg(!read && restarts == 3 && count == 3, "%s", told);
    ck_assert_str_eq(name, "crash");
    ck_assert_str_eq(module, "crash");
    ck_assert_str_eq(how, "SIGSEGV");
    json_decref(json);
}

TEST(a_module_that_crashes_at_each_start_is_left_out_until_a_reload)
{
    struct crash_bench bench = crash_bench("crash_out", "", "");
    struct host *host = bench.host;
    int status = 0;

    host->supervised = true;
    file_write(bench.order, "open segv always\n");
    ck_assert(host_run(host));
    expect_soon(host, "/api/health", NULL, 200);
    expect_log(host, 0, "module disabled until the next reload");
    ck_status(http(host, "POST", "/crash", NULL, NULL), 404);
    const char *told = host_ask(host, "status", &status);

    ck_assert_msg(strstr(told, "DISABLED: module crash") && strstr(told, "of module crash: 3"),
                  "%s", told);
    ck_crashes_in_json(host);
    const struct person *who = admin_of(host);

    expect_metric(host, who, "busbar_crashes_total{module=\"crash\"} 3");
    expect_metric(host, who, "busbar_worker_restarts_total 3");
    expect_metric(host, who, "busbar_module_left_out{module=\"crash\"} 1");
    unlink(bench.order);
    host_ask(host, "reload", &status);
    ck_assert_int_eq(status, 0);
    ck_assert_ptr_null(strstr(host_ask(host, "status", &status), "DISABLED"));
    ck_assert_int_ne(http(host, "POST", "/crash", NULL, NULL)->status, 404);
    host_stop(host);
    PQfinish(bench.db);
}

FAULT_SUITE(recovery)
