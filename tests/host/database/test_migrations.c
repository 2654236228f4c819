/* `busbar migrate`: which steps are applied; a refusal leaves the database unchanged. */
#include "harness.h"

#define RECORDS                                                                                    \
    "SELECT md5(string_agg(module || step || checksum, ',' ORDER BY module, step))"                \
    " FROM busbar_migration"

static PGconn *empty_database(const char *name)
{
    postgres_run(the_postgres, text("CREATE DATABASE %s", name));
    return database_connect(the_postgres, name);
}

/* Runs `busbar migrate` with these modules; fails the test unless it ends with this status and
 * prints this. */
static void migrate(const char *database, const char *modules, int status, const char *prints)
{
    struct host *host = host_prepare(
        &(struct host_spec){.name = database, .database = database, .modules = modules});

    ck_prints(host, status, prints, "migrate");
}

TEST(checksums_of_all_modules_are_compared_before_a_step_is_applied)
{
    PGconn *db = empty_database("migrate_compare");

    migrate("migrate_compare", "[auth, health, device, reading, certificate]", 0, "");
    sql_run(db, "UPDATE busbar_migration SET checksum = reverse(checksum)"
                " WHERE module = 'certificate' AND step = 1");
    const char *before = sql_text(db, RECORDS, 0, NULL);

    migrate("migrate_compare", "[auth, chat, health, webhook, device, reading, certificate]", 1,
            "migration of certificate: step 1");
    ck_assert_str_eq(sql_text(db, RECORDS, 0, NULL), before);
    ck_assert_ptr_null(sql_text(db, "SELECT to_regclass('chat_conversation')", 0, NULL));
}

/* A table of the last module already exists. */
TEST(a_failed_step_rolls_back_the_previous_ones)
{
    PGconn *db = empty_database("migrate_fail");

    sql_run(db, "CREATE TABLE certificate_due (somebody_elses integer)");
    migrate("migrate_fail", "[auth, health, device, reading, certificate]", 1,
            "migration of certificate, step");
    sql_is(db, 0, "SELECT count(*) FROM busbar_migration");
    ck_assert_ptr_null(sql_text(db, "SELECT to_regclass('auth_account')", 0, NULL));
    sql_run(db, "DROP TABLE certificate_due");
    migrate("migrate_fail", "[auth, health, device, reading, certificate]", 0, "");
}

TEST(steps_that_cannot_share_a_transaction_are_applied_separately)
{
    PGconn *db = empty_database("migrate_alone");
    const char *modules = text("[\"%s\"]", harness_test_module("module_steps"));

    migrate("migrate_alone", modules, 0, "");
    sql_run(db, "DROP TABLE steps_thing");
    sql_run(db, "DROP TYPE steps_kind");
    sql_run(db, "CREATE TYPE steps_kind AS ENUM ('a')");
    sql_run(db, "DELETE FROM busbar_migration WHERE module = 'steps' AND step > 1");
    migrate("migrate_alone", modules, 0, "2 steps applied now");
    sql_is(db, 0, "SELECT count(*) FROM steps_thing");
}

/* As databases were before 0.9.0, when the first step of the host's own schema was another one. */
TEST(a_database_of_a_development_version_is_refused_and_unchanged)
{
    PGconn *db = empty_database("migrate_development");
    const char *refusal = "the database was made by a development version before 0.9.0; it cannot"
                          " be migrated";

    migrate("migrate_development", "[auth, health]", 0, "");
    sql_run(db, "UPDATE busbar_migration SET checksum = reverse(checksum) WHERE step = 1");
    sql_run(db, "INSERT INTO busbar_migration (module, step, checksum, title) SELECT 'busbar',"
                " max(step) + 1, 'x', 'an old step' FROM busbar_migration WHERE module = 'busbar'");
    const char *before = sql_text(db, RECORDS, 0, NULL);

    migrate("migrate_development", "[auth, chat, health]", 1, refusal);
    ck_assert_str_eq(sql_text(db, RECORDS, 0, NULL), before);
    ck_assert_ptr_null(sql_text(db, "SELECT to_regclass('chat_conversation')", 0, NULL));
}

/* As on a standby, or during maintenance. */
TEST(a_host_migrates_as_soon_as_the_database_accepts_writes)
{
    PGconn *db = empty_database("migrate_read_only");

    sql_run(db, "ALTER DATABASE migrate_read_only SET default_transaction_read_only = on");
    struct host *host = host_start(&(struct host_spec){
        .name = "migrate_read_only", .database = "migrate_read_only", .modules = "[auth, health]"});

    host_logs(host, 0, "msg=\"the database cannot be migrated\"");
    sql_run(db, "ALTER DATABASE migrate_read_only RESET default_transaction_read_only");
    sql_soon(db, "SELECT count(*) FROM pg_class WHERE relname = 'auth_account'");
    host_logs(host, 0, "msg=\"the database matches the modules\"");
}

SUITE(migrations, .timeout_s = 60)
