/*
 * Deliveries, jobs and calls to other servers are paused if a database was restored or cloned, and
 * if an operator pauses them. Requests are served meanwhile.
 */
#include "exposition.h"
#include "relay.h"

enum { LONG_MS = 30000, BEATS = 3 /* every 3 s; jobs are due after 5 s */ };

#define CLONED "the database was restored or cloned"

static struct receiver *receiver;

static struct host_spec spec_of(const char *name, struct postgres *pg, const char *database)
{
    return (struct host_spec){.name = name,
                              .pg = pg,
                              .database = database,
                              .modules = text("[auth, chat, health, metrics, upstream, webhook,"
                                              " \"%s\"]",
                                              harness_test_module("module_relay")),
                              .http = "  metrics_networks: [127.0.0.1]\n",
                              .more = WEBHOOK_LOCAL RELAY_LOCAL};
}

/* Starts a host on the database, makes a webhook and stops the host; then queues a delivery. */
static void make_original(struct postgres *pg, const char *name, const char *path)
{
    struct host_spec spec = spec_of(text("%s-original", name), pg, name);
    struct host *host = host_start(&spec);
    struct person *admin = admin_of(host);

    webhook_make(host, admin, receiver_url(receiver, path), "message.new");
    host_stop(host);
    PGconn *db = database_connect(pg, name);

    sql_run(db, "INSERT INTO webhook_delivery (webhook, event_id, event, body)"
                " SELECT id, gen_random_uuid(), 'message.new', '{}' FROM webhook_hook");
}

/* ---- actions of a host ---- */

/* Waits long enough for the host to send its deliveries and run its jobs. */
static void let_it_work(PGconn *db)
{
    for (int i = 0; i < BEATS; i++)
        sql_soon(db, text("SELECT count(*) FROM webhook_host WHERE heartbeat_at > '%s'",
                          sql_text(db, "SELECT now()", 0, NULL)));
}

static size_t jobs_done(const struct host *host)
{
    size_t done = 0, i;
    const json_t *job;

    json_array_foreach (json_object_get(host_status(host), "jobs"), i, job)
        done += (size_t)json_integer_value(json_object_get(job, "done"));
    return done;
}

static double paused_metric(const struct host *host)
{
    return exposition_value(exposition_get(host, NULL), "busbar_paused", "");
}

static void expect_paused(struct host *host, PGconn *db, const char *path, const char *reason)
{
    struct answer *ready;

    WAIT_UNTIL((ready = http(host, "GET", "/api/health/ready", NULL, NULL))->status == 200, 20000);

    ck_assert_msg(strstr(ready->body, "\"status\":\"paused\"") && strstr(ready->body, reason), "%s",
                  ready->body);
    let_it_work(db);
    ck_assert_uint_eq(receiver_count(receiver, path), 0);
    ck_assert_uint_eq(jobs_done(host), 0);
    ck_error(relay(host, "{ss}", "url", receiver_url(receiver, "/fast/upstream")), 503,
             "Requests to other servers are paused");
    ck_assert_uint_eq(receiver_count(receiver, "/fast/upstream"), 0);
    ck_assert_double_eq(paused_metric(host), 1);
    ck_prints(host, 0, text("PAUSED: deliveries, jobs and calls to other servers: %s", reason),
              "status");
    host_logs(host, 0, "are paused");
    host_logs(host, 0, reason);
}

static void expect_resumed(struct host *host, char *path)
{
    host_says(host, 0, "resume");
    WAIT_UNTIL(receiver_count(receiver, path) > 0, LONG_MS);
    WAIT_UNTIL(jobs_done(host) > 0, LONG_MS);
    WAIT_UNTIL(paused_metric(host) == 0, LONG_MS);
    ck_status(relay(host, "{ss ss}", "method", "POST", "url", receiver_url(receiver, path)), 200);
    ck_assert_ptr_null(strstr(host_says(host, 0, "status"), "PAUSED"));
    host_logs(host, 0, "are resumed");
}

/* ---- tests ---- */

TEST(a_restored_database_is_paused_until_resumed)
{
    static char path[] = "/fast/restored";
    struct postgres *after = postgres_make_apart("pg-restored");

    receiver = receiver_start("pause-restored");
    database_make(the_postgres, "pause_restored");
    make_original(the_postgres, "pause_restored", path);
    postgres_run(after, "CREATE DATABASE pause_restored");
    postgres_restore(after, "pause_restored", postgres_dump(the_postgres, "pause_restored"));
    struct host_spec spec = spec_of("restored", after, "pause_restored");
    struct host *host = host_start(&spec);
    PGconn *db = database_connect(after, "pause_restored");

    expect_paused(host, db, path, CLONED);
    host_stop(host); /* a restart does not resume */
    host = host_start(&spec);
    expect_paused(host, db, path, CLONED);
    expect_resumed(host, path);
    host_stop(host);
    host = host_start(&spec);
    WAIT_UNTIL(paused_metric(host) == 0, LONG_MS);
    host_stop(host);
    postgres_stop(after, SIGINT);
}

/* The copy looks like a standby that takes over, which must not be paused. */
TEST(a_physical_copy_is_paused_before_its_first_serve)
{
    static char path[] = "/fast/physical";
    struct postgres *pg = postgres_make("pg-physical", false), copy = *pg;

    receiver = receiver_start("pause-physical");
    database_make(pg, "pause_physical");
    make_original(pg, "pause_physical", path);
    postgres_stop(pg, SIGINT);
    copy.data = text("%s-copy", pg->data);
    process_service_directory(copy.data);
    postgres_tool(pg, words("cp -a %s/. %s", pg->data, copy.data));
    postgres_start(&copy);
    PGconn *db = database_connect(&copy, "pause_physical");

    sql_is(db, 1, "SELECT (busbar_pause_reason() IS NULL)::int");
    struct host_spec spec = spec_of("physical", &copy, "pause_physical");
    struct host *host = host_prepare(&spec);

    host_says(host, 0, "pause");
    ck_assert(host_run(host));
    expect_paused(host, db, path, "an operator ran `busbar pause`");
    expect_resumed(host, path);
    host_stop(host);
    postgres_stop(&copy, SIGINT);
}

TEST(a_clone_in_the_same_cluster_is_paused_and_a_new_database_is_not)
{
    postgres_run(the_postgres, "CREATE DATABASE pause_clone TEMPLATE template_busbar");
    PGconn *db = database_connect(the_postgres, "pause_clone");

    ck_assert_ptr_nonnull(strstr(sql_text(db, "SELECT busbar_pause_reason()", 0, NULL), CLONED));
    db = database_connect(the_postgres, "template_busbar");
    sql_is(db, 1, "SELECT (busbar_pause_reason() IS NULL)::int");
}

/* A database that cannot be dropped, for example of a provider, is restored over its old tables. */
TEST(a_database_that_was_restored_over_itself_is_paused)
{
    const char *name = database_make(the_postgres, "pause_itself");
    PGconn *db = database_connect(the_postgres, name);

    const char *file = postgres_dump(the_postgres, name);

    sql_is(db, 1, "SELECT (busbar_pause_reason() IS NULL)::int");
    sql_run(db, "DROP SCHEMA public CASCADE");
    sql_run(db, "CREATE SCHEMA public");
    postgres_restore(the_postgres, name, file);
    ck_assert_ptr_nonnull(strstr(sql_text(db, "SELECT busbar_pause_reason()", 0, NULL), CLONED));
    sql_run(db, "UPDATE busbar_pause SET place = busbar_place()");
    sql_is(db, 1, "SELECT (busbar_pause_reason() IS NULL)::int");
}

TEST(a_running_host_can_be_paused_and_resumed)
{
    static char path[] = "/fast/running";
    struct host_spec spec = spec_of("running", NULL, database_make(the_postgres, "pause_running"));

    receiver = receiver_start("pause-running");
    make_original(the_postgres, "pause_running", path);
    struct host *host = host_start(&spec);
    PGconn *db = database_connect(the_postgres, "pause_running");

    WAIT_UNTIL(receiver_count(receiver, path) > 0, LONG_MS);
    size_t sent = receiver_count(receiver, path);

    host_says(host, 0, "pause");
    WAIT_UNTIL(paused_metric(host) == 1, LONG_MS);
    sql_run(db, "WITH old AS (DELETE FROM webhook_outcome RETURNING id, webhook)"
                " INSERT INTO webhook_waiting (id, webhook) SELECT id, webhook FROM old");
    sql_run(db, "SELECT pg_notify('webhook', 'shards')");
    let_it_work(db);
    ck_assert_uint_eq(receiver_count(receiver, path), sent);
    expect_resumed(host, path);
}

TEST(pause_on_an_unmigrated_database_says_what_to_do)
{
    struct host_spec spec = spec_of("pause-empty", NULL, "pause_empty");

    postgres_run(the_postgres, "CREATE DATABASE pause_empty");
    ck_prints(host_prepare(&spec), 1, "run `busbar migrate`", "pause");
}

SUITE(pause, .timeout_s = 600)
