/*
 * Two runs of the job do not wait for each other's certificates, and old statistics of PostgreSQL
 * make no batch slow.
 */
#include "meter.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"

enum { BATCH_MS = 1000, LARGE = 20 };

static struct host *host;
static PGconn *db;

/* Makes a database and a host that is killed; commands settle certificates. */
static void begin(const char *name, int statement_ms)
{
    host = host_start(&(struct host_spec){.name = name,
                                          .database = database_make(the_postgres, name),
                                          .db = text("  statement_timeout: %d\n", statement_ms),
                                          .modules = METER_MODULES});
    db = database_connect(the_postgres, name);
    host_kill(host);
}

static void request(int certificates)
{
    sql_run(db, text("INSERT INTO certificate SELECT n, gen_random_uuid(), 1, NULL, now(), now(),"
                     " 1000, now() FROM generate_series(1, %d) n",
                     certificates));
    sql_run(db,
            "INSERT INTO certificate_entry (certificate, organisation, device, start_at, end_at,"
            " wh) SELECT id, 1, id, now(), now(), 1000 FROM certificate");
}

static void settle(void)
{
    ck_assert_int_eq(host_command(host, NULL, (const char *const[]){"certificate", "issue", NULL}),
                     0);
}

static void settle_rest(int entries)
{
    settle();
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM certificate_entry"
                                    " WHERE status = 'Succeeded'"),
                     entries);
    PQfinish(db);
}

TEST(what_another_run_settles_is_left_to_it)
{
    begin("settle_two", BATCH_MS);
    request(1200);
    PGconn *other = database_connect(the_postgres, "settle_two");

    sql_run(other, "BEGIN");
    sql_run(other, "SELECT FROM certificate_entry WHERE device <= 500 FOR UPDATE");
    settle();
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM certificate_entry"
                                    " WHERE (status = 'Succeeded') = (device > 500)"),
                     1200);
    PQfinish(other);
    settle_rest(1200);
}

/* PostgreSQL analyzed the tables after their first rows were rolled back, so its statistics say
 * that they are empty. A plan made with them takes seconds for a batch. */
TEST(statistics_from_before_the_rows_make_no_batch_slow)
{
    int many = repetitions(5000, 30000);

    begin("settle_stale", BATCH_MS);
    sql_run(db, "ALTER TABLE certificate SET (autovacuum_enabled = off)");
    sql_run(db, "ALTER TABLE certificate_entry SET (autovacuum_enabled = off)");
    sql_run(db, "BEGIN");
    request(1000);
    sql_run(db, "ROLLBACK");
    sql_run(db, "ANALYZE certificate, certificate_entry");
    request(many);
    settle_rest(many);
}

/* A certificate of any size is settled in parts. */
TEST(entries_of_large_certificates_are_settled)
{
    int entries = repetitions(2000, 25000);

    begin("settle_large", BATCH_MS);
    request(LARGE);
    sql_run(db, text("INSERT INTO certificate_entry (certificate, organisation, group_id, device,"
                     " start_at, end_at, wh) SELECT c.id, 1, 1, d, now(), now(), 1000"
                     " FROM certificate c, generate_series(1, %d) d",
                     entries));
    settle_rest(LARGE * (entries + 1));
}

static void read_meters(int devices)
{
    sql_run(db,
            text("INSERT INTO reading_device SELECT d, 'D', now(), now(), 1, now(), '-infinity',"
                 " now(), now() FROM generate_series(1, %d) d",
                 devices));
}

TEST(statistics_from_before_the_readings_make_no_batch_slow)
{
    int many = repetitions(10000, 50000);

    begin("fresh_stale", BATCH_MS);
    sql_run(db, "ALTER TABLE reading_device SET (autovacuum_enabled = off)");
    sql_run(db, "BEGIN");
    read_meters(1000);
    sql_run(db, "ROLLBACK");
    sql_run(db, "ANALYZE reading_device");
    read_meters(many);
    settle();
    ck_assert_int_eq(
        sql_number(db, "SELECT count(*) FROM reading_device WHERE fresh_from IS NOT NULL"), 0);
    PQfinish(db);
}

SUITE(certificate_finalize, .timeout_s = 120)
