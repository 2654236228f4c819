/* The operator's commands while a host is running, and the host's output. */
#include <time.h>

#include "exchange.h"
#include "exposition.h"
#include "stage.h"

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "operating",
                                   .http = "  deadline: 40s\n",
                                   .redis_ms = 10000,
                                   .modules = "[auth, chat, docs, health, metrics]"});
}

static void expect(const char *said, const char *wanted)
{
    ck_assert_msg(strstr(said, wanted), "\"%s\" is not in:\n%s", wanted, said);
}

TEST(check_prints_the_settings_in_force)
{
    const char *said = host_says(host, 0, "check", "--print");

    expect(said, "\n  deadline: 40000  # milliseconds\n");
    expect(said, "\n  slow_request: 1000  # milliseconds, default\n");
    expect(said, "\ndatabase:\n  url: \"(hidden)\"\n");
    expect(said, "\nsecrets:\n  keys: [\"(hidden)\"]\n");
    expect(said, "\n  session_days: 7  # days, default\n");
    expect(said, "\nhealth: {}\n");
    ck_assert_ptr_null(strstr(said, "0f1e2d3c"));
    ck_assert_ptr_null(strstr(said, "ok: "));
    ck_prints(host, 2, "unknown option -p", "check", "-p");
}

/* Runs `busbar --env-file` with these lines in the file, and a configuration that needs them. */
static const char *with_variables(const char *lines, int *status)
{
    const char *file = harness_path("operating.environment"), *out = harness_path("operating.out");
    const char *conf = harness_path("operating-env.yaml");
    const char *const argv[] = {
        harness_program(false), "--env-file", file, "check", "--print", NULL};

    file_write(conf, text("module_path: \"%s\"\nmodules: [docs]\ndatabase:\n  url: \"\"\n"
                          "docs:\n  description: \"${OPERATING_A}|${OPERATING_B:-none}\"\n",
                          harness_modules(false)));
    file_write(file, text("BUSBAR_CONF=%s\n%s", conf, lines));
    *status = process_run(&(struct process_spec){.argv = argv, .log = out});
    const char *said = file_text(out);

    file_write(out, "");
    return said;
}

static const struct {
    const char *lines, *description;
} variables[] = {
    {"OPERATING_A=a b \nOPERATING_B=c#d\n", "a b|c#d"},
    {"# of the service\n\n; too\n  OPERATING_A = no\n", NULL},
    {"OPERATING_A=\"a \\\"b\\\" \"\nOPERATING_B='c\\d'", "a \\\"b\\\" |c\\\\d"},
    {"OPERATING_A=a\\ \\'b\r\nOPERATING_B=\n", "a 'b|none"},
    {"OPERATING_A=one\nOPERATING_A=two\n", "two|none"},
    {"OPERATING_A=host=/run options='-c b=x' a\"b\n", "host=/run options='-c b=x' a\\\"b|none"},
    {"OPERATING_A=a \\\n  b\nOPERATING_B=\"x\" 'y  z' w'\n", "a   b|xy  zw'"},
    {"OPERATING_A=\"a\\\nb\\c\"\nOPERATING_B=c\\", "ab\\\\c|c"},
};

TEST_EACH(an_env_file_is_read_as_systemd_does, sizeof variables / sizeof variables[0])
{
    int status;
    const char *said = with_variables(variables[_i].lines, &status);

    if (variables[_i].description) {
        expect(said, text("\n  description: \"%s\"\n", variables[_i].description));
        ck_assert_int_eq(status, 0);
    } else {
        expect(said, "operating.environment:5: is not NAME=value\n");
        ck_assert_int_eq(status, 1);
    }
}

TEST(an_invalid_env_file_is_reported)
{
    const char *const away[] = {harness_program(false), "check", "--env-file", "/nonexistent",
                                NULL};
    const char *const bare[] = {harness_program(false), "check", "--env-file", NULL};
    const char *out = harness_path("operating-env.out");
    int status;

    expect(with_variables("OPERATING_A=\"geheim\nOPERATING_B=x\n", &status),
           "operating.environment:2: has an unterminated quote\n");
    ck_assert_int_eq(status, 1);
    ck_assert_int_eq(process_run(&(struct process_spec){.argv = away, .log = out}), 1);
    ck_assert_int_eq(process_run(&(struct process_spec){.argv = bare, .log = out}), 2);
    expect(file_text(out), "busbar: /nonexistent: cannot be read: No such file or directory\n");
    expect(file_text(out), "busbar: a file must follow --env-file\n");
}

/* ---- status and metrics ---- */

static double metric(const char *name, const char *labels)
{
    return exposition_value(exposition_get(host, admin->token), name, labels);
}

TEST(status_is_available_as_json)
{
    const char *printed;
    json_t *json;

    /* PostgreSQL does not count as ready if it has not responded for 900 ms */
    WAIT_UNTIL((json = kept(json_of(printed = host_says(host, 0, "status", "--json")))) &&
                   json_is_true(json_object_get(json, "ready")),
               20000);
    const json_t *generation = json_array_get(json_object_get(json, "generations"), 0);
    const json_t *loop = json_array_get(json_object_get(json, "loops"), 0);
    const json_t *database = json_object_get(json, "database");

    ck_assert_str_eq(strrchr(printed, '}'), "}\n");
    ck_assert_int_eq(json_integer_value(json_object_get(json, "process")), host->pid);
    ck_assert_str_eq(json_string_value(json_object_get(json, "configuration")), host->conf);
    ck_assert_str_eq(json_string_value(json_object_get(generation, "state")), "live");
    ck_assert_uint_eq(json_array_size(json_object_get(generation, "modules")), 5);
    ck_assert(json_is_object(json_object_get(json_object_get(loop, "pools"), "read")));
    ck_assert_str_eq(json_string_value(json_object_get(database, "schema")), "ready");
    ck_assert(json_is_integer(json_object_get(database, "latencyMs")));
    ck_assert(json_is_null(json_object_get(loop, "blockedSeconds")));
    ck_prints(host, 2, "unknown option --yaml", "status", "--yaml");
}

TEST(reloads_are_counted_by_outcome)
{
    double done = metric("busbar_reloads_total", "outcome=\"done\"");
    double refused = metric("busbar_reloads_total", "outcome=\"refused\"");
    const char *conf = file_text(host->conf);

    host_says(host, 0, "reload");
    file_write(host->conf, text("%snothing: {}\n", conf));
    host_says(host, 1, "reload");
    file_write(host->conf, conf);
    ck_assert(metric("busbar_reloads_total", "outcome=\"done\"") == done + 1);
    ck_assert(metric("busbar_reloads_total", "outcome=\"refused\"") == refused + 1);
    json_t *json = host_status(host);
    const json_t *reloads = json_object_get(json, "reloads");

    ck_assert_str_eq(json_string_value(json_object_get(reloads, "lastOutcome")), "refused");
    ck_assert_int_eq(json_integer_value(json_object_get(reloads, "refused")), (int)refused + 1);
}

TEST(metrics_have_the_time_of_the_last_successful_job_run)
{
    WAIT_UNTIL(metric("busbar_job_runs_total", "job=\"busbar.idempotency\",outcome=\"done\"") > 0,
               20000);
    double now = (double)time(NULL);
    double at = metric("busbar_job_last_done_timestamp_seconds", "job=\"busbar.idempotency\"");

    ck_assert_msg(at > now - 60 && at < now + 5, "%f, now %f", at, now);
    ck_assert(metric("busbar_job_last_duration_seconds", "job=\"busbar.idempotency\"") > 0);
    ck_assert(metric("busbar_job_runs_total", "job=\"busbar.idempotency\",outcome=\"failed\"") ==
              0);
    ck_assert(metric("busbar_hooks_lost_total", "") == 0);
    ck_assert(metric("busbar_migrations_pending", "") == 0);
}

/* Everything that depends on the machine or the time is a *. */
static const char status[] =
    "busbar *, process *, up for * s, */operating_killed.yaml\n"
    "PostgreSQL responds in * ms\n"
    "reloads: 0 done, 0 refused\n"
    "the worker was restarted 1 times; the last exit: SIGKILL\n"
    "  crashes of module unknown: 1\n"
    "generation 1: live for * s, used by * requests or threads\n"
    "  module auth 1.0.0, build *, */auth.so\n"
    "  module chat 1.0.0, build *, */chat.so\n"
    "  module health 1.0.0, build *, */health.so\n"
    "  pool busbar.bodies: * of * threads, * busy, * of 4096 waiting\n"
    "*\nloop 0: * connections, * requests, Redis responds in * ms\n"
    "  database read: * of * connections, * waiting, * batches in progress\n"
    "*module               CPU s requests  p99 ms statements database s queue s   events   memory"
    " refused\n*"
    "chat             *        0     0.0          0 *        0 *       0\n*";

TEST(a_killed_worker_is_restarted_and_its_end_is_reported)
{
    struct host *of = host_start(&(struct host_spec){.name = "operating_killed",
                                                     .database = "operating",
                                                     .http = "  loops: 1\n",
                                                     .log = "  format: logfmt\n",
                                                     .redis_ms = 10000,
                                                     .supervised = true});
    char *conf = file_text(of->conf);
    int worker = (int)json_integer_value(json_object_get(host_status(of), "process"));
    json_t *crashes =
        json_pack("{si s{ss sn sn} s[{ss si}] s[]}", "restarts", 1, "last", "how", "SIGKILL",
                  "module", "report", "modules", "name", "unknown", "count", 1, "leftOut");

    memcpy(strstr(conf, "logfmt"), "json  ", 6); /* the supervisor logs in the same format */
    file_write(of->conf, conf);
    host_says(of, 0, "reload");
    ck_assert_int_ne(worker, of->pid);
    kill(worker, SIGKILL);
    status_soon(of, "/api/health/ready", NULL, 200);
    ck_assert(json_equal(json_object_get(host_status(of), "crashes"), crashes));
    ck_assert_uint_eq(host_logged(of, "\"msg\":\"the worker exited and is restarted\",\"how\":"
                                      "\"SIGKILL\",\"delay_ms\":0}"),
                      1);
    const char *said;

    WAIT_UNTIL_MSG(glob_matches(said = host_says(of, 0, "status"), status), 20000, "%s", said);
}

/* ---- the commands ---- */

static const char commands[] =
    "usage: busbar [-c FILE] [--env-file FILE] COMMAND [options]\n\n"
    "  -c, --config FILE   settings file (or $BUSBAR_CONF; currently */*.yaml)\n"
    "      --env-file FILE  variables of the service, as NAME=value\n\ncommands:\n"
    "  serve              run the host in the foreground\n*"
    "  help               list the commands\n*\n`busbar COMMAND --help` prints more.\n";

TEST(help_lists_the_commands)
{
    const char *const help[] = {harness_program(false), "help", NULL};
    const char *out = harness_path("operating-help.out");

    ck_assert_int_eq(process_run(&(struct process_spec){.argv = help, .log = out}), 0);
    ck_assert_msg(glob_matches(file_text(out), commands), "%s", file_text(out));
    ck_assert_ptr_null(strstr(file_text(out), "  user add "));
    out = host_says(host, 0, "help");
    ck_assert_msg(glob_matches(out, commands) && strstr(out, "\n  user add           "), "%s", out);
}

/* ---- migrations ---- */

static json_int_t pending(const struct host *of)
{
    json_t *database = json_object_get(host_status(of), "database");

    return json_integer_value(json_object_get(database, "migrationsPending"));
}

TEST(a_command_waits_for_the_functions_that_it_has_scheduled)
{
    struct host *of = host_prepare(
        &(struct host_spec){.name = "operating_wave",
                            .modules = text("[\"%s\"]", harness_test_module("module_wave1"))});

    ck_prints(of, 0, "wave 1 ran late", "wave");
}

TEST(migrate_dry_run_lists_the_pending_steps)
{
    postgres_run(the_postgres, "CREATE DATABASE operating_dry");
    struct host *bare = host_start(&(struct host_spec){
        .name = "operating_dry", .database = "operating_dry", .db = "  migrate: false\n"});

    WAIT_UNTIL(pending(bare) > 1, 10000);
    const char *said = host_says(bare, 0, "migrate", "--dry-run");

    expect(said, "busbar, step 1: ");
    expect(said, "chat, step 1: ");
    expect(said,
           text("\n%zu steps would be applied, 0 are already applied\n", text_lines(said) - 1));
    ck_assert_str_eq(host_says(bare, 0, "migrate", "--dry-run"), said);
    ck_assert_ptr_null(sql_text(database_connect(the_postgres, "operating_dry"),
                                "SELECT to_regclass('busbar_migration')", 0, NULL));
    host_says(bare, 0, "migrate");
    ck_prints(bare, 0, "up to date: 0 steps applied now", "migrate", "--dry-run");
    WAIT_UNTIL(pending(bare) == 0 && json_is_true(json_object_get(host_status(bare), "ready")),
               10000);
}

/* ---- the log of requests ---- */

#define NO_SLOW "  slow_request: 0\n" /* a slow request has a second line */

static struct host *logging(const char *name, const char *settings)
{
    return host_start(&(struct host_spec){
        .name = name, .database = "operating", .http = NO_SLOW, .log = settings});
}

static void ask_health(struct host *of, int times)
{
    for (int i = 0; i < times; i++)
        ck_status(http(of, "GET", "/api/health", NULL, NULL), 200);
}

#define HEALTH_LINE "route=/api/health path"

TEST_EACH(requests_are_logged_as_configured, 5)
{
    static const struct {
        const char *settings;
        size_t well, refused;
    } cases[] = {{"  requests: all\n", 9, 2},
                 {"  requests: all\n  sample: 3\n", 3, 2},
                 {"  requests: problems\n", 0, 2},
                 {"  requests: none\n", 0, 0},
                 {"  access: false\n", 0, 0}};
    struct host *of = logging(text("operating_log%d", _i), cases[_i].settings);

    ask_health(of, 9);
    ck_status(http(of, "GET", "/api/auth/me", NULL, NULL), 401);
    ck_status(http(of, "GET", "/api/auth/me", NULL, NULL), 401);
    host_stop(of);
    ck_assert_uint_eq(host_logged(of, HEALTH_LINE), cases[_i].well);
    ck_assert_uint_eq(host_logged(of, "status=401"), cases[_i].refused);
}

static void rotate(const char *name, bool supervised)
{
    const char *log = harness_path(text("host-%s.log", name));
    char *old = text("%s.1", log);
    struct host *of = host_start(&(struct host_spec){.name = name,
                                                     .database = "operating",
                                                     .http = NO_SLOW,
                                                     .log = text("  file: \"%s\"\n", log),
                                                     .supervised = supervised});

    ask_health(of, 3);
    ck_assert_int_eq(rename(log, old), 0);
    ck_assert_int_eq(kill(of->pid, SIGUSR1), 0);
    WAIT_UNTIL(access(log, F_OK) == 0, 5000);
    ask_health(of, 4);
    host_stop(of);
    struct host before = *of; /* `of` logs to the new file */

    before.log = old;
    ck_assert_uint_eq(host_logged(of, HEALTH_LINE) + host_logged(&before, HEALTH_LINE), 7);
    ck_assert_uint_ge(host_logged(of, HEALTH_LINE), 4);
}

TEST(a_log_file_can_be_rotated)
{
    rotate("operating_rotate", false);
    rotate("operating_rotate_supervised", true);
}

/* ---- traces ---- */

#define TRACE "0af7651916cd43dd8448eb211c80319c"

TEST(a_request_is_logged_with_its_trace)
{
    static const char *const given[] = {"traceparent: 00-" TRACE "-b7ad6b7169203331-01", NULL};
    static const char *const bad[] = {"traceparent: 00-" TRACE "-b7ad6b7169203331-zz", NULL};
    static const char *const two[] = {"traceparent: 00-" TRACE "-b7ad6b7169203331-01",
                                      "traceparent: 00-" TRACE "-b7ad6b7169203332-01", NULL};
    struct host *of = logging("operating_trace", "  requests: all\n");

    ck_status(
        http_send(of, &(struct call){.method = "GET", .path = "/api/health", .headers = given}),
        200);
    ck_status(http_send(of, &(struct call){.method = "GET", .path = "/api/health", .headers = bad}),
              200);
    ck_status(http_send(of, &(struct call){.method = "GET", .path = "/api/health", .headers = two}),
              200);
    ask_health(of, 1);
    host_stop(of);
    ck_assert_uint_eq(host_logged(of, HEALTH_LINE), 4);
    ck_assert_uint_eq(host_logged(of, " trace="), 4);
    ck_assert_uint_eq(host_logged(of, " trace=" TRACE " "), 1);
}

STAGE_SUITE(operating, set_up, 60)
