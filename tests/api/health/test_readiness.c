/* Whether a host can serve: its tables fit the modules, the database responds, it does not stop. */
#include "exchange.h"
#include "exposition.h"
#include "wire.h"

enum { SOON_MS = 10000 };

static const char *state_of(const struct answer *answer, const char *what)
{
    const json_t *details = json_object_get(answer->json, "details");
    const char *state =
        json_string_value(json_object_get(json_object_get(details, what), "status"));

    return state ? state : "";
}

/* The host must be alive but not ready. */
static void expect_unfit(struct host *host, const char *reason)
{
    struct answer *ready, *state;
    int status;

    /* the host has queried the database and logged the result */
    WAIT_UNTIL_MSG(strstr(file_text(host->log), reason) &&
                       strstr(host_ask(host, "status", &status), reason) &&
                       (state = http(host, "GET", "/api/health/status", NULL, NULL)) &&
                       !strcmp(state_of(state, "database"), "up") &&
                       (ready = http(host, "GET", "/api/health/ready", NULL, NULL)) &&
                       !strcmp(state_of(ready, "database"), "up"),
                   SOON_MS, "%s: not reported", reason);
    ck_assert_str_eq(answer_text(ck_status(ready, 503), "status"), "error");
    ck_status(state, 503);
    ck_assert_str_eq(state_of(ready, "schema"), "down");
    ck_assert_str_eq(state_of(state, "schema"), "down");
    ck_status(http(host, "GET", "/api/health", NULL, NULL), 200);
}

static void expect_metrics(const struct host *host, const char *token, int number)
{
    const struct exposition *now;

    WAIT_UNTIL((now = exposition_get(host, token)) &&
                   exposition_value(now, "busbar_ready", "") == number,
               SOON_MS);
    ck_assert(exposition_value(now, "busbar_schema_up", "") == number);
}

static const char modules[] = "[auth, chat, health, metrics]";

static const struct {
    const char *name, *spoil, *mend, *reason;
} unfit[] = {
    {"newer",
     "INSERT INTO busbar_migration SELECT module, max(step) + 1, 'x', 'later' FROM "
     "busbar_migration WHERE module = 'chat' GROUP BY module",
     "DELETE FROM busbar_migration WHERE title = 'later'", "the database is newer"},
    {"changed", "UPDATE busbar_migration SET checksum = 'x' || checksum WHERE module = 'chat'",
     "UPDATE busbar_migration SET checksum = substr(checksum, 2) WHERE module = 'chat'",
     "install the version of the module"},
};

TEST_EACH(a_host_with_wrong_tables_is_alive_and_not_ready, sizeof unfit / sizeof *unfit)
{
    const char *name = text("readiness_%s", unfit[_i].name);
    PGconn *db = database_connect(the_postgres, database_make(the_postgres, name));

    sql_run(db, unfit[_i].spoil);
    struct host *host =
        host_start(&(struct host_spec){.name = name, .database = name, .modules = modules});
    expect_unfit(host, unfit[_i].reason);
    const char *token = admin_of(host)->token;
    expect_metrics(host, token, 0);

    sql_run(db, unfit[_i].mend);
    status_soon(host, "/api/health/ready", NULL, 200);
    status_soon(host, "/api/health/status", NULL, 200);
    expect_metrics(host, token, 1);
}

/* The module's table already exists and was not made by it. */
TEST(a_failed_migration_is_reported)
{
    postgres_run(the_postgres, "CREATE DATABASE readiness_failing");
    PGconn *db = database_connect(the_postgres, "readiness_failing");

    sql_run(db, "CREATE TABLE chat_conversation (somebody_elses integer)");
    struct host *host = host_start(&(struct host_spec){
        .name = "readiness_failing", .database = "readiness_failing", .modules = modules});
    expect_unfit(host, "migration of chat, step 1");
}

TEST(a_host_with_migrations_disabled_waits_for_a_migration)
{
    postgres_run(the_postgres, "CREATE DATABASE readiness_unmigrated");
    struct host *host = host_start(&(struct host_spec){.name = "readiness_unmigrated",
                                                       .database = "readiness_unmigrated",
                                                       .modules = modules,
                                                       .db = "  migrate: false\n"});

    expect_unfit(host, "run `busbar migrate`");
    host_says(host, 0, "migrate");
    status_soon(host, "/api/health/ready", NULL, 200);
}

TEST(readiness_does_not_depend_on_redis)
{
    struct host *host = host_start(
        &(struct host_spec){.name = "readiness_no_redis", .redis = harness_path("nowhere")});

    status_soon(host, "/api/health/ready", NULL, 200);
    struct answer *ready = http(host, "GET", "/api/health/ready", NULL, NULL);

    ck_assert_str_eq(state_of(ready, "host"), "up");
    ck_assert_str_eq(state_of(ready, "redis"), "");
    ck_status(http(host, "GET", "/api/health/status", NULL, NULL), 503);
}

/* A request on an open connection gets this status while it is still served. */
TEST(a_stopping_host_is_not_ready)
{
    const struct wire_answer *answer = NULL;

    /* again if the end of the request came after the second that a stopping host waits for it */
    for (int i = 0; i < 5 && (!answer || answer->status == 408); i++) {
        struct host *host = host_start(&(struct host_spec){.name = text("readiness_stop_%d", i)});

        status_soon(host, "/api/health/ready", NULL, 200);
        struct wire *wire = wire_open(host);
        ck_assert(wire_say(wire, "GET /api/health/ready HTTP/1.1\r\n"));
        ck_assert(wire_say(wire, "Host: x\r\n"));
        ck_status(http(host, "GET", "/api/health", NULL, NULL), 200); /* the head has been read */
        ck_assert_int_eq(kill(host->pid, SIGTERM), 0);
        host_logs(host, 0, "stopping");
        answer = wire_say(wire, "\r\n") ? wire_read(wire, STOP_MS) : NULL;
    }
    ck_assert_ptr_nonnull(answer);
    ck_assert_int_eq(answer->status, 503);
    ck_assert_ptr_nonnull(strstr(answer->body, "\"host\":{\"status\":\"down\"}"));
}

TEST(status_reports_the_dependencies_as_up)
{
    struct host *host = host_start(&(struct host_spec){.name = "readiness_up", .redis_ms = 10000});
    struct answer *answer;

    WAIT_UNTIL((answer = http(host, "GET", "/api/health/status", NULL, NULL))->status == 200,
               SOON_MS);
    expect_json(answer->json, "{'status':'ok','error':{},'details':{'database':{},'redis':{},"
                              "'schema':{},'clock':{'offsetMs':'*'}}}");
    ck_assert_uint_eq(json_object_size(json_object_get(answer->json, "info")), 4);
    ck_assert_uint_eq(json_object_size(json_object_get(answer->json, "error")), 0);
}

TEST(a_host_starts_without_postgresql_and_redis)
{
    struct postgres none = {.sockets = harness_path("nowhere")};
    struct host *alone = host_start(&(struct host_spec){
        .name = "health-alone", .pg = &none, .database = "none", .redis = harness_path("nowhere")});

    ck_status(http(alone, "GET", "/api/health", NULL, NULL), 200);
    struct answer *answer = ck_status(http(alone, "GET", "/api/health/status", NULL, NULL), 503);

    ck_assert_str_eq(answer_text(answer, "status"), "error");
    ck_assert_uint_eq(json_object_size(json_object_get(answer->json, "error")), 3);
    answer = ask_on(alone, NULL, 503, NULL,
                    "POST /api/auth/login {'username':'a@example.com','password':'made up'}");
    ck_assert_ptr_nonnull(answer_header(answer, "Retry-After"));
}

SUITE(readiness, .timeout_s = 60)
