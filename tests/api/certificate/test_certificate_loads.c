/*
 * Groups of devices with more Delta readings than one statement can process in time: they are
 * issued anyway and delay nobody.
 */
#include "meter.h"
#include "suite.h"
#include "suites.h"

static struct host *host;
static PGconn *db;

/* Starts a host with a short statement timeout on a separate database. */
static void begin(const char *name)
{
    host = host_start(&(struct host_spec){.name = name,
                                          .database = database_make(the_postgres, name),
                                          .db = "  statement_timeout: 400\n",
                                          .modules = METER_MODULES});
    db = database_connect(the_postgres, name);
    host_kill(host);
}

/* Makes a group of devices from id 1,001 on, each with that many past readings of that many
 * minutes. */
static void group(int id, int first, int devices, const char *frequency, int readings, int minutes)
{
    sql_run(db, text("INSERT INTO certificate_group (id, organisation, name, frequency, start_at,"
                     " created_at) VALUES (%d, 1, 'Group', '%s', date_trunc('day', now()) -"
                     " interval '300 days', now())",
                     id, frequency));
    sql_run(db, text("INSERT INTO certificate_member SELECT d, %d FROM generate_series(%d, %d) d",
                     id, first, first + devices - 1));
    sql_run(db, text("INSERT INTO reading SELECT d, 'D', at, at + %d * interval '1 minute', 1001,"
                     " now() FROM generate_series(%d, %d) d, generate_series(0, %d) n, LATERAL"
                     " (SELECT date_trunc('day', now()) - interval '290 days'"
                     " + n * %d * interval '1 minute' AS at) t",
                     minutes, first, first + devices - 1, readings - 1, minutes));
    sql_run(db, text("INSERT INTO certificate_look SELECT d, '-infinity', 'infinity'"
                     " FROM generate_series(%d, %d) d",
                     first, first + devices - 1));
}

/* Each run is limited; the command continues until nothing is left. */
static void issue(void)
{
    const char *words[] = {"certificate", "issue", NULL};

    ck_assert_int_eq(host_command(host, NULL, words), 0);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM certificate_look"), 0);
    ck_assert_int_eq(
        sql_number(db, "SELECT count(*) FROM certificate_due WHERE cycle_end <= now()"), 0);
}

static int64_t measured(int id)
{
    return sql_number(db, text("SELECT coalesce((SELECT sum(issued_wh) FROM certificate"
                               " WHERE group_id = %d), 0) + (SELECT carry_wh FROM"
                               " certificate_group WHERE id = %d)",
                               id, id));
}

TEST(devices_with_years_of_readings_become_due_though_one_statement_cannot_look_through_them)
{
    int devices = repetitions(20, 50);

    begin("loads_years");
    group(1, 1001, devices, "monthly", 6000, 60);
    issue();
    ck_assert_int_eq(measured(1), devices * 6000 * INT64_C(1001));
}

TEST(a_device_with_readings_of_minutes_holds_up_no_others)
{
    begin("loads_minutes");
    group(1, 1001, 1, "daily", 200000, 2);
    group(2, 1002, 1, "daily", 10, 60);
    issue();
    ck_assert_int_eq(measured(2), 10 * INT64_C(1001));
    ck_assert_int_eq(measured(1), 200000 * INT64_C(1001));
}

/* Summing takes 30 ms for each device, too long for all of them in one statement. */
TEST(a_cycle_whose_devices_take_too_long_together_is_issued_in_smaller_parts)
{
    begin("loads_slow");
    group(1, 1001, 20, "daily", 24, 60);
    sql_run(db, "CREATE OR REPLACE FUNCTION reading_delta_periods(devices bigint[],"
                " after timestamptz, until timestamptz) RETURNS TABLE (device bigint,"
                " start_at timestamptz, end_at timestamptz, wh bigint)"
                " LANGUAGE plpgsql STABLE AS $$ BEGIN"
                " PERFORM pg_sleep(0.03 * cardinality(devices));"
                " RETURN QUERY SELECT r.device, r.start_at, r.end_at, r.wh FROM reading r"
                " WHERE r.device = ANY (devices) AND r.type = 'D' AND r.end_at > after"
                " AND r.end_at <= until; END $$");
    issue();
    ck_assert_int_eq(measured(1), 20 * 24 * INT64_C(1001));
}

static void end(void)
{
    PQfinish(db);
}

SUITE(certificate_loads, .timeout_s = 300, .after_each = end)
