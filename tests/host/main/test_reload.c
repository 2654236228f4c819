/* Reloads: a generation takes over while requests run, and the previous one drains. */
#include "exchange.h"
#include "talk.h"
#include "wave.h"

enum { NOTIFIES = 10, NOTIFY_MS = 5000 };

static struct wave *wave;

/* ---- what a reload changes ---- */

TEST(a_reload_applies_a_setting_and_closes_the_old_generation)
{
    wave = wave_start("reload-set", NULL);
    wave_write(wave, NULL, "wave:\n  greeting: moin\n");
    wave_expect(wave, 1, "hello");
    wave_reload(wave);
    wave_expect(wave, 1, "moin");
    host_logs(wave->host, 0, "wave 1 closes (hello)");
    wave_drained(wave);
    ck_assert_ptr_nonnull(strstr(wave_status(wave), "generation 2: live"));
    ck_assert_uint_eq(host_logged(wave->host, "wave 1 is superseded (hello)"), 1);
    ck_assert_uint_eq(host_logged(wave->host, "wave 1 starts (moin)"), 1);
    ck_assert_uint_eq(host_logged(wave->host, "wave 1 leaves the water (hello)"), 1);
    ck_assert_uint_eq(host_logged(wave->host, "wave 1 closes (moin)"), 0);
    host_stop(wave->host);
    ck_assert_uint_eq(host_logged(wave->host, "wave 1 stops (moin)"), 1);
    ck_assert_uint_eq(host_logged(wave->host, "wave 1 closes (moin)"), 1);
}

TEST(quiesce_can_schedule_functions_and_close_cannot)
{
    wave = wave_start("reload-part", NULL);
    wave_write(wave, NULL, "wave:\n  greeting: moin\n");
    wave_reload(wave);
    wave_drained(wave);
    host_stop(wave->host);
    ck_assert_uint_eq(host_logged(wave->host, "wave 1 parts (hello)"), 1);
    ck_assert_uint_eq(host_logged(wave->host, "wave 1 parts (moin)"), 1);
    ck_assert_uint_eq(host_logged(wave->host, "parts too late"), 0);
}

TEST(sighup_reloads_the_configuration)
{
    wave = wave_start("reload-hup", NULL);
    wave_write(wave, NULL, "wave:\n  greeting: moin\n");
    ck_assert_int_eq(kill(wave->host->pid, SIGHUP), 0);
    wave_status_soon(wave, "generation 2: live");
    wave_expect(wave, 1, "moin");
}

/* Opening modules may take long; a SIGHUP meanwhile must not end the host. */
TEST(sighup_during_startup_reloads_later)
{
    wave = wave_prepare("reload-early", "wave:\n  slowly: 1500\n");
    wave->host->wrapper = word_list(
        "sh", "-c",
        text("host=$$; (until grep -q 'wave 1 opens' '%s'; do sleep 0.01; done; kill -HUP $host) &"
             " exec \"$0\" \"$@\"",
             wave->host->log));
    ck_assert_msg(host_run(wave->host), "%s", file_text(wave->host->log));
    wave_status_soon(wave, "generation 2: live");
}

TEST(a_reload_upgrades_removes_and_adds_a_module)
{
    wave = wave_start("reload-mod", NULL);
    PGconn *db = database_connect(the_postgres, wave->spec.database);

    wave_upgrade(wave, 2);
    wave_reload(wave);
    wave_expect(wave, 2, "hello");
    sql_is(db, 0, "SELECT count(m) FROM wave");
    ck_assert_ptr_nonnull(strstr(wave_status(wave), "module wave 2.0.0, build "));
    wave_write(wave, "chat", NULL);
    wave_reload(wave);
    ck_status(http(wave->host, "GET", "/api/wave", NULL, NULL), 404);
    ck_assert_ptr_null(strstr(wave_status(wave), "3: live\n  module wave"));
    wave_write(wave, NULL, "wave:\n  greeting: again\n");
    wave_reload(wave);
    wave_expect(wave, 2, "again");
    host_logs(wave->host, 0, "wave 2 surfs (again)");
}

/* A backup locks all tables for a long time. */
TEST(a_migration_that_waits_for_a_lock_blocks_no_request)
{
    wave = wave_start("reload-lock", NULL);
    host_logs(wave->host, 0, "wave, step 1");
    PGconn *backup = database_connect(the_postgres, wave->spec.database);
    PGconn *other = database_connect(the_postgres, wave->spec.database);

    sql_run(backup, "BEGIN");
    sql_run(backup, "LOCK TABLE wave IN ACCESS SHARE MODE");
    sql_run(other, "SET statement_timeout = '30s'");
    wave_upgrade(wave, 2);
    ck_assert_int_eq(kill(wave->host->pid, SIGHUP), 0);
    for (int i = 0; i < 2; i++) {
        sql_soon(other, "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT"
                        " oid FROM pg_database WHERE datname = current_database())");
        sql_is(other, 0, "SELECT count(*) FROM wave");
    }
    wave_expect(wave, 1, "hello");
    sql_run(backup, "COMMIT");
    wave_status_soon(wave, "generation 2: live");
    wave_expect(wave, 2, "hello");
}

/* Another host holds the lock for migrations meanwhile. */
TEST(reloads_without_a_schema_change_do_not_migrate_again)
{
    wave = wave_start("reload-ready", NULL);
    status_soon(wave->host, "/api/health/ready", NULL, 200);
    PGconn *other = database_connect(the_postgres, wave->spec.database);

    sql_text(other, "SELECT pg_advisory_lock(7094709482943872001)::text", 0, NULL);
    for (int i = 0; i < 3; i++) {
        wave_reload(wave);
        ck_status(http(wave->host, "GET", "/api/health/ready", NULL, NULL), 200);
    }
}

/* PostgreSQL's autovacuum is canceled when another session waits longer than deadlock_timeout. */
TEST(a_migration_cancels_an_autovacuum)
{
    wave = wave_start("reload-vacuum", NULL);
    host_logs(wave->host, 0, "wave, step 1");
    PGconn *db = database_connect(the_postgres, wave->spec.database);

    sql_run(db, "ALTER TABLE wave SET (autovacuum_vacuum_threshold = 1, "
                "autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)");
    sql_run(db, "INSERT INTO wave SELECT generate_series(1, 100000)");
    sql_run(db, "DELETE FROM wave WHERE n % 2 = 0");
    sql_run(db, "ALTER SYSTEM SET autovacuum_naptime = 1");
    sql_run(db, "SELECT pg_reload_conf()");
    sql_soon(db, "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity USING (pid) WHERE"
                 " backend_type = 'autovacuum worker' AND l.relation = 'wave'::regclass"
                 " AND l.mode = 'ShareUpdateExclusiveLock'");
    sql_run(db, "ALTER SYSTEM RESET autovacuum_naptime");
    sql_run(db, "SELECT pg_reload_conf()");
    wave_upgrade(wave, 2);
    ck_assert_int_eq(kill(wave->host->pid, SIGHUP), 0);
    wave_status_soon(wave, "generation 2: live");
    wave_expect(wave, 2, "hello");
}

/*
 * Waits until version 1 with this greeting has logged a notification. If the host opens its
 * connection for notifications again, it misses some, and notifies the module of that.
 */
static void notify_wave(PGconn *db, const char *greeting)
{
    const char *rises = text("wave 1 rises (%s)", greeting);
    const char *deaf = text("wave 1 was deaf (%s)", greeting);

    for (int i = 0; i < NOTIFIES && !host_logged(wave->host, rises); i++) {
        size_t before = host_logged(wave->host, deaf);

        sql_run(db, "NOTIFY wave, 'rises'");
        WAIT_UNTIL_MSG(host_logged(wave->host, rises) || host_logged(wave->host, deaf) > before,
                       NOTIFY_MS, "the notification was not received");
    }
    host_logs(wave->host, 0, rises);
}

TEST(jobs_and_channels_use_the_new_generation)
{
    wave = wave_start("reload-jobs", NULL);
    PGconn *db = database_connect(the_postgres, wave->spec.database);

    host_logs(wave->host, 0, "wave 1 ticks (hello)");
    wave_write(wave, NULL, "wave:\n  greeting: moin\n");
    wave_reload(wave);
    host_logs(wave->host, 0, "wave 1 closes (hello)");
    size_t before = host_logged(wave->host, "wave 1 ticks (hello)");

    host_logs(wave->host, 0, "wave 1 ticks (moin)");
    notify_wave(db, "moin");
    ck_assert_uint_eq(host_logged(wave->host, "wave 1 ticks (hello)"), before);
    ck_assert_uint_eq(host_logged(wave->host, "wave 1 rises (hello)"), 0);
}

/* No notification may be missed after the reload's response. */
TEST(a_module_added_by_a_reload_receives_notifications_at_once)
{
    wave = wave_prepare("reload-hear", NULL);
    wave_write(wave, "chat", NULL);
    ck_assert(host_run(wave->host));
    wave_status_soon(wave, "PostgreSQL responds");
    PGconn *db = database_connect(the_postgres, wave->spec.database);

    wave_write(wave, NULL, NULL);
    wave_reload(wave);
    notify_wave(db, "hello");
}

TEST(a_reload_works_while_the_database_is_unavailable)
{
    struct postgres *pg = postgres_make("reload-pg", false);

    wave = wave_prepare("reload-away", NULL);
    wave->spec.pg = pg;
    wave->spec.database = database_make(pg, "away");
    wave_write(wave, NULL, NULL);
    ck_assert(host_run(wave->host));
    wave_status_soon(wave, "PostgreSQL responds");
    postgres_stop(pg, SIGINT);
    wave_status_soon(wave, "PostgreSQL does not respond");
    wave_write(wave, NULL, "wave:\n  greeting: moin\n");
    wave_reload(wave);
    wave_expect(wave, 1, "moin");
    wave_upgrade(wave, 2);
    wave_refused(wave, "the database cannot be migrated: ");
    wave_expect(wave, 1, "moin");
    postgres_start(pg);
    wave_status_soon(wave, "PostgreSQL responds");
    wave_reload(wave);
    wave_expect(wave, 2, "moin");
    host_stop(wave->host);
    postgres_stop(pg, SIGINT);
}

/* ---- draining ---- */

/* Starts a request and returns once the host is serving it. */
static struct pending_call *begin(const char *path)
{
    struct pending_call *pending =
        call_begin(wave->host, &(struct call){.method = "GET", .path = path});

    wave_status_soon(wave, ", 1 requests");
    return pending;
}

/* Starts a host and locks what requests to /api/wave/lock wait for, until the connection ends. */
static PGconn *start_locked(const char *name, const char *more)
{
    wave = wave_prepare(name, NULL);
    wave->spec.db = "  statement_timeout: 60000\n";
    wave->spec.http = "  body_timeout: 600\n";
    wave_write(wave, NULL, more);
    ck_assert(host_run(wave->host));
    PGconn *db = database_connect(the_postgres, wave->spec.database);

    sql_run(db, "SELECT pg_advisory_lock(7)");
    return db;
}

TEST(a_request_ends_in_the_generation_in_which_it_began)
{
    PGconn *db = start_locked("reload-hold", NULL);
    struct pending_call *pending = begin("/api/wave/lock?ms=7");

    wave_write(wave, NULL, "wave:\n  greeting: moin\n");
    wave_upgrade(wave, 2);
    wave_reload(wave);
    wave_expect(wave, 2, "moin");
    ck_assert_ptr_nonnull(strstr(wave_status(wave), "generation 1: draining for"));
    ck_assert_uint_eq(host_logged(wave->host, "wave 1 closes"), 0);
    PQfinish(db);
    expect_json(ck_status(call_end(pending), 200)->json, "{'version':1,'greeting':'hello'}");
    wave_drained(wave);
}

TEST(requests_longer_than_the_drain_time_are_cut)
{
    static const char half[] = "GET /api/wave HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n1";
    PGconn *db = start_locked("reload-cut", "reload:\n  drain: 1\n");
    struct pending_call *pending = begin("/api/wave/lock?ms=7");
    int fd = raw_open(wave->host);

    ck_assert_int_eq(send(fd, half, sizeof half - 1, 0), sizeof half - 1);
    wave_status_soon(wave, ", 2 requests");
    wave_reload(wave);
    host_logs(wave->host, 0, "did not drain in time");
    ck_assert(ck_status(call_end(pending), 503)->seconds < 50); /* the deadline is 60 */
    PQfinish(db);
    char rest[256];

    ck_assert_int_le(recv(fd, rest, sizeof rest, 0), 0);
    close(fd);
    wave_drained(wave);
    wave_expect(wave, 1, "hello");
}

TEST(a_host_stops_while_an_old_generation_drains)
{
    const char *gate = harness_path("reload-stop.gate");

    file_write(gate, "");
    wave = wave_start("reload-stop", text("wave:\n  gate: \"%s\"\n", gate));
    struct pending_call *pending = begin("/api/wave/hold");

    wave_reload(wave);
    ck_assert_int_eq(kill(wave->host->pid, SIGTERM), 0);
    host_logs(wave->host, 0, "wave 1 stops"); /* although a request still runs */
    file_write(gate, "x");
    host_stop(wave->host);
    ck_status(call_end(pending), 200);
    ck_assert_uint_eq(host_logged(wave->host, "wave 1 closes"), 2);
}

SUITE(reload, .timeout_s = 90)
