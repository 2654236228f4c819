/* Modules that are disabled together with the module they need, and a module that prevents a
 * worker from starting or a reload from finishing. */
#include "fault/common.h"
#include "fault/crashes.h"
#include "fault/gaps.h"
#include "fault/torture.h"

enum { LEFT_OUT_MS = 30000 };

#define WRONG "{\"username\":\"somebody@example.com\",\"password\":\"a-wrong-password\"}"

static bool is_out(const struct host *host)
{
    int status; /* between two workers nobody answers */

    return strstr(host_ask(host, "status", &status), "DISABLED") != NULL;
}

/* Makes auth's pool hash a password and crash in it. */
static void crash_auth(struct host *host, struct torture *numbers)
{
    pid_t worker = worker_of(host, 0);

    atomic_store(&numbers->hashes, 1);
    http(host, "POST", "/api/auth/login", NULL, json_loads(WRONG, 0, NULL));
    worker_of(host, worker);
    status_soon(host, "/api/health", NULL, 200);
}

static const char *const outs[] = {
    "DISABLED: module auth, until the next reload: it crashed three times within a minute",
    "DISABLED: module chat, until the next reload: it needs the service ",
    "DISABLED: module webhook, until the next reload: it needs the service ",
    "DISABLED: module metrics, until the next reload: it needs the service authenticator"};

TEST(modules_that_need_auth_are_disabled_and_enabled_with_it)
{
    struct rack rack = rack_make("needed");
    struct host *host = host_start(
        &(struct host_spec){.name = "needed",
                            .modules = "[auth, chat, health, metrics, webhook]",
                            .http = "  metrics_networks: [127.0.0.1]\n",
                            .more = text("host:\n  state: \"%s\"\n", harness_path("needed.state")),
                            .environment = rack.environment,
                            .plain = true,
                            .supervised = true});

    status_soon(host, "/api/health", NULL, 200);
    for (int i = 0; i < 3; i++)
        crash_auth(host, rack.numbers);
    WAIT_UNTIL(is_out(host), BACK_MS);
    const char *told = host_says(host, 0, "status");

    for (size_t i = 0; i < sizeof outs / sizeof *outs; i++)
        ck_assert_msg(strstr(told, outs[i]) != NULL, "no \"%s\" in %s", outs[i], told);
    ck_status(http(host, "GET", "/api/health", NULL, NULL), 200);
    ck_status(http(host, "POST", "/api/auth/login", NULL, json_loads(WRONG, 0, NULL)), 404);
    host_says(host, 0, "reload");
    ck_assert(!is_out(host));
    ck_status(http(host, "POST", "/api/auth/login", NULL, json_loads(WRONG, 0, NULL)), 401);
    ck_status(http(host, "GET", A_READ, NULL, NULL), 401);
}

/* At a start without a crash before it, the missing document store would be an error. */
TEST(chat_does_without_the_disabled_module_of_its_archive)
{
    const char *copy = harness_path("device.so");

    ck_assert_int_eq(system(text("cp %s/device.so %s", harness_modules(true), copy)), 0);
    struct host *host = host_start(&(struct host_spec){
        .name = "archiveless",
        .modules = text("[auth, chat, \"%s\", health]", copy),
        .chat = "  retention_days: 30\n",
        .more = text("host:\n  state: \"%s\"\n", harness_path("archiveless.state")),
        .plain = true,
        .supervised = true});

    ck_assert_int_eq(unlink(copy), 0);
    worker_kill(host);
    WAIT_UNTIL(is_out(host), LEFT_OUT_MS);
    ck_status(http(host, "GET", A_READ, NULL, NULL), 401);
}

/* The worker has ended with a report about this phase. A constructor runs before the module has
 * given its name, so the report has the file's name. */
static void expect_ended_by(const struct host *host, const char *place)
{
    const char *module = strcmp(place, "constructor") ? "crash" : "module_crash";

    const char *line = crash_line(host, 0), *log = file_text(host->log);
    const char *reason = text("%s of module %s took ", place, module);

    ck_assert_msg(
        strstr(log, text("msg=\"module does not return\" module=%s ran=%s", module, place)) != NULL,
        "%.3000s", log);
    ck_assert_msg(strstr(line, text("module=%s ran=%s", module, place)) && strstr(line, reason),
                  "%.600s", line);
    ck_assert_ptr_nonnull(strstr(crash_report(line), text("reason: %s", reason)));
}

/* Each start takes until its timeout, so three of them take longer than the time in which crashes
 * are counted together. */
static void hangs_at_the_start(const char *place, const char *way)
{
    struct crash_bench bench = crash_bench(text("hang_%s", place), "", "  stall_timeout: 10\n");
    struct host *host = crash_run(&bench, text("%s %s always\n", place, way));

    WAIT_UNTIL(is_out(host), LEFT_OUT_MS);
    ck_status(http(host, "GET", "/api/health", NULL, NULL), 200);
    expect_ended_by(host, place);
    host_stop(host);
}

TEST_EACH(a_module_that_hangs_at_startup_is_disabled, 3)
{
    static const char *const ways[][2] = {
        {"open", "sleep"}, {"start", "sleep"}, {"constructor", "loop"}};

    hangs_at_the_start(ways[_i][0], ways[_i][1]);
}

/* ---- in a reload ---- */

static void hangs_in_a_reload(const char *place)
{
    struct crash_bench bench =
        crash_bench(text("hang_reload_%s", place), "", "  stall_timeout: 10\n");
    struct host *host = crash_run(&bench, NULL);
    pid_t worker = worker_of(host, 0);

    file_write(bench.order, text("%s sleep\n", place));
    ck_assert_int_eq(kill(host->pid, SIGHUP), 0);
    worker_of(host, worker);
    status_soon(host, "/api/health", NULL, 200);
    expect_ended_by(host, place);
    host_says(host, 0, "reload");
    host_stop(host);
}

TEST_EACH(a_module_that_hangs_in_a_reload_is_reported_and_the_worker_ended, 4)
{
    static const char *const verbs[] = {"open", "start", "quiesce", "close"};

    hangs_in_a_reload(verbs[_i]);
}

/* Returns the same configuration without the module. */
static const char *without_crash(const char *conf)
{
    const char *entry = text(", \"%s\"", crash_module()), *at = strstr(conf, entry);

    ck_assert_ptr_nonnull(at);
    return text("%.*s%s", (int)(at - conf), conf, at + strlen(entry));
}

/* The module hangs in each worker, too, until it is disabled. */
static void hangs_when_added(const char *place)
{
    struct crash_bench bench =
        crash_bench(text("hang_added_%s", place), "", "  stall_timeout: 10\n");
    const char *with = file_text(bench.host->conf);

    file_write(bench.host->conf, without_crash(with));
    struct host *host = crash_run(&bench, NULL);

    file_write(bench.order, text("%s sleep always\n", place));
    file_write(host->conf, with);
    ck_assert_int_eq(kill(host->pid, SIGHUP), 0);
    WAIT_UNTIL(is_out(host), LEFT_OUT_MS);
    status_soon(host, "/api/health", NULL, 200);
    expect_ended_by(host, place);
    ck_assert_int_eq(unlink(bench.order), 0);
    host_says(host, 0, "reload");
    ck_assert(!is_out(host));
    ck_status(http(host, "POST", "/crash", NULL, NULL), 201);
    host_stop(host);
}

TEST_EACH(a_module_added_by_a_reload_that_ends_each_worker_is_disabled, 2)
{
    hangs_when_added(_i ? "constructor" : "open");
}

FAULT_SUITE(quarantine)
