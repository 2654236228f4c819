/*
 * The issuing job, run by commands: two runs at a time, each of which leaves to the other what it
 * has begun; old statistics of PostgreSQL; groups with more Delta readings than one statement can
 * process in time, which are issued anyway and delay nobody.
 */
#include <sys/wait.h>

#include "certificates.h"

enum {
    READINGS = 3,
    WH = 2000,
    TURN_US = 700000, /* longer than a turn of a run */
    SHORT_MS = 400,
    BATCH_MS = 1000,
    USUAL_MS = 250 /* the time of the statement in scaled() on a usual machine */
};

static int64_t start; /* start of the cycle */

/*
 * Returns a time limit for this machine: `ms`, or proportionally more if PostgreSQL needs longer
 * than usual for a certain statement. Otherwise no batch would end in time on a slow machine.
 */
static int scaled(int ms)
{
    static int64_t took_ms;

    if (!took_ms) {
        int64_t began = now_ms();

        postgres_run(the_postgres, "SELECT count(DISTINCT n % 1000) FROM generate_series(1, 300000)"
                                   " n");
        took_ms = now_ms() - began;
    }
    return took_ms > USUAL_MS ? (int)(ms * took_ms / USUAL_MS) : ms;
}

/* Makes a database that only commands use, whose statements get this time. */
static void begin_alone(const char *name, int ms)
{
    certificates_alone(name, text("  statement_timeout: %d\n", scaled(ms)));
}

/* Any statement may exceed its short time on a busy machine; then the command fails, and the next
 * one continues. */
static void run_short(void)
{
    WAIT_UNTIL(certificates_try(), 60000);
}

/* ---- entries that wait to be settled ---- */

/* Makes certificates of that many entries each, of devices from 1 on. */
static void request(int certificates, int entries)
{
    sql_run(db, text("INSERT INTO certificate SELECT n, gen_random_uuid(), 1, NULL, now(), now(),"
                     " 1000, now() FROM generate_series(1, %d) n",
                     certificates));
    sql_run(db, text("INSERT INTO certificate_entry (certificate, organisation, group_id, device,"
                     " start_at, end_at, wh) SELECT c.id, 1, 1, (c.id - 1) * %d + d, now(), now(),"
                     " 1000 FROM certificate c, generate_series(1, %d) d",
                     entries, entries));
}

static void settle_rest(int entries)
{
    run_short();
    sql_is(db, entries,
           "SELECT count(*) FROM certificate_entry"
           " WHERE status = 'Succeeded'");
}

TEST(entries_locked_by_another_run_are_skipped)
{
    begin_alone("job_two", BATCH_MS);
    request(1200, 1);
    PGconn *other = database_connect(the_postgres, "job_two");

    sql_run(other, "BEGIN");
    sql_run(other, "SELECT FROM certificate_entry WHERE device <= 500 FOR UPDATE");
    run_short();
    sql_is(db, 1200,
           "SELECT count(*) FROM certificate_entry"
           " WHERE (status = 'Succeeded') = (device > 500)");
    PQfinish(other);
    settle_rest(1200);
}

/* A certificate of any size is settled in parts. */
TEST(entries_of_large_certificates_are_settled_in_parts)
{
    enum { LARGE = 13, ENTRIES = 3000 /* more than a statement settles */ };

    begin_alone("job_large", BATCH_MS);
    request(LARGE, ENTRIES);
    settle_rest(LARGE * ENTRIES);
}

static void read_meters(int devices, int unused)
{
    (void)unused;
    sql_run(db,
            text("INSERT INTO reading_device SELECT d, 'D', now(), now(), 1, now(), '-infinity',"
                 " now(), now() FROM generate_series(1, %d) d",
                 devices));
}

/* PostgreSQL analyzes the tables after their first rows are rolled back, so its statistics say that
 * they are empty. A plan made with them takes seconds for a batch. */
static void make_stale(const char *tables[2], void (*fill)(int rows, int each), int rows)
{
    for (int i = 0; i < 2 && tables[i]; i++)
        sql_run(db, text("ALTER TABLE %s SET (autovacuum_enabled = off)", tables[i]));
    sql_run(db, "BEGIN");
    fill(1000, 1);
    sql_run(db, "ROLLBACK");
    for (int i = 0; i < 2 && tables[i]; i++)
        sql_run(db, text("ANALYZE %s", tables[i]));
    fill(rows, 1);
}

TEST(stale_statistics_of_certificates_make_no_batch_slow)
{
    begin_alone("job_stale", BATCH_MS);
    make_stale((const char *[]){"certificate", "certificate_entry"}, request, 5000);
    settle_rest(5000);
}

TEST(stale_statistics_of_readings_make_no_batch_slow)
{
    begin_alone("job_fresh", BATCH_MS);
    make_stale((const char *[]){"reading_device", NULL}, read_meters, 10000);
    run_short();
    sql_is(db, 0, "SELECT count(*) FROM reading_device WHERE fresh_from IS NOT NULL");
}

/* ---- groups with many readings ---- */

/* Makes a group of devices from `first` on, each with that many readings of that many minutes. */
static void group(int id, int first, int devices, const char *frequency, int readings, int minutes)
{
    int last = first + devices - 1;

    sql_run(db, text("INSERT INTO certificate_group (id, organisation, name, frequency, start_at,"
                     " created_at) VALUES (%d, 1, 'Group', '%s', date_trunc('day', now()) -"
                     " interval '300 days', now())",
                     id, frequency));
    sql_run(db, text("INSERT INTO certificate_member SELECT d, %d FROM generate_series(%d, %d) d",
                     id, first, last));
    sql_run(db, text("INSERT INTO reading SELECT d, 'D', at, at + %d * interval '1 minute', 1001,"
                     " now() FROM generate_series(%d, %d) d, generate_series(0, %d) n, LATERAL"
                     " (SELECT date_trunc('day', now()) - interval '290 days'"
                     " + n * %d * interval '1 minute' AS at) t",
                     minutes, first, last, readings - 1, minutes));
    sql_run(db, text("INSERT INTO certificate_look SELECT d, '-infinity', 'infinity'"
                     " FROM generate_series(%d, %d) d",
                     first, last));
}

/* Each run is limited; the command continues until nothing is left. */
static void issue_all(void)
{
    run_short();
    sql_is(db, 0, "SELECT count(*) FROM certificate_look");
    sql_is(db, 0, "SELECT count(*) FROM certificate_due WHERE cycle_end <= now()");
}

static void expect_measured(int id, int64_t readings)
{
    int64_t carried =
        sql_number(db, text("SELECT carry_wh FROM certificate_group WHERE id = %d", id));

    ck_assert_int_eq(certificates_issued(id) + carried, readings * 1001);
}

TEST(devices_with_years_of_readings_become_due_over_several_statements)
{
    enum { DEVICES = 20, HOURS = 6000 };

    begin_alone("job_years", SHORT_MS);
    group(1, 1001, DEVICES, "monthly", HOURS, 60);
    issue_all();
    expect_measured(1, DEVICES * HOURS);
}

TEST(a_device_with_readings_every_two_minutes_delays_no_other_group)
{
    begin_alone("job_minutes", SHORT_MS);
    group(1, 1001, 1, "daily", 200000, 2);
    group(2, 1002, 1, "daily", 10, 60);
    issue_all();
    expect_measured(2, 10);
    expect_measured(1, 200000);
}

/* Summing takes at least 30 ms for each device, too long for all of them in one statement. */
TEST(a_cycle_that_exceeds_the_statement_timeout_is_issued_in_parts)
{
    begin_alone("job_slow", SHORT_MS);
    group(1, 1001, 20, "daily", 24, 60);
    sql_run(db, text("CREATE OR REPLACE FUNCTION reading_delta_periods(devices bigint[],"
                     " after timestamptz, until timestamptz) RETURNS TABLE (device bigint,"
                     " start_at timestamptz, end_at timestamptz, wh bigint)"
                     " LANGUAGE plpgsql STABLE AS $$ BEGIN"
                     " PERFORM pg_sleep(%d / 1000.0 * cardinality(devices));"
                     " RETURN QUERY SELECT r.device, r.start_at, r.end_at, r.wh FROM reading r"
                     " WHERE r.device = ANY (devices) AND r.type = 'D' AND r.end_at > after"
                     " AND r.end_at <= until; END $$",
                     scaled(30)));
    issue_all();
    expect_measured(1, 20 * 24);
}

/* A turn is over after one or two statements that take too long. */
TEST(devices_that_exceed_the_statement_timeout_together_are_processed_one_by_one)
{
    begin_alone("job_single", SHORT_MS);
    group(1, 1001, 3, "daily", 24, 60);
    sql_run(db,
            text("CREATE OR REPLACE FUNCTION reading_delta_ends(device bigint, after timestamptz,"
                 " until timestamptz, most integer) RETURNS TABLE (end_at timestamptz)"
                 " LANGUAGE plpgsql STABLE AS $$ BEGIN PERFORM pg_sleep(%d / 1000.0);"
                 " RETURN QUERY SELECT r.end_at FROM reading r"
                 " WHERE r.device = reading_delta_ends.device AND r.type = 'D' AND r.end_at > after"
                 " AND r.end_at <= until ORDER BY r.end_at LIMIT most; END $$",
                 scaled(250)));
    issue_all();
    expect_measured(1, 3 * 24);
}

/* ---- two runs, and a reading that arrives between two steps of one of them ---- */

/* Stores the reading of the cycle's hour with this number, as POST does. */
static void add_reading(int number)
{
    const char *at = time_text(start + number * HOUR_MS);

    sql_run(db, text("WITH stored AS (INSERT INTO reading SELECT device, 'D', at - interval '1"
                     " hour', at, %d, now() FROM reading_device, LATERAL (SELECT timestamptz '%s'"
                     " AS at) t WHERE type = 'D') UPDATE reading_device SET fresh_from = '%s',"
                     " fresh_to = '%s' WHERE type = 'D'",
                     WH, at, at, at));
}

/*
 * Makes a device in a group with one issued reading; a second reading makes the cycle due again. A
 * run that processes the cycle waits at the gate `when` (BEFORE, AFTER) it removes the cycle from
 * the list.
 */
static void begin_at_gate(const char *name, const char *when)
{
    certificates_begin(name, "  statement_timeout: 600000\n");
    struct person *m = person_make(host, admin_of(host), name, NULL);

    start = days_ago(30);
    certificate_group_of(m, "one", "daily", start, NULL);
    store(m, "one", "Delta", start, start + HOUR_MS, WH);
    host_kill(host);
    certificates_run();
    ck_assert_uint_eq(host_logged(host, "cycles examined: 1; History readings issued: 0\n"), 1);
    sql_is(db, WH, "SELECT sum(issued_wh) FROM certificate");
    add_reading(2);
    sql_run(db, "INSERT INTO certificate_due SELECT id, start_at, start_at + interval '1 day'"
                " FROM certificate_group");
    sql_trigger(db, text("%s DELETE ON certificate_due", when),
                "PERFORM pg_advisory_xact_lock(4711)");
    sql_run(db, SQL_GATE_SHUT);
}

static pid_t run_until_it_waits(int waiting)
{
    pid_t run = meter_issue_start(host);

    WAIT_UNTIL_MSG(sql_number(db, SQL_LOCK_WAITS) >= waiting, 20000, "the run does not wait");
    return run;
}

static void end_run(pid_t run, int expected)
{
    int status;

    ck_assert(process_wait(run, 200000, &status));
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == expected, "%x", (unsigned)status);
}

static void expect_issued(int readings)
{
    end_run(meter_issue_start(host), 0);
    sql_is(db, 0, "SELECT count(*) FROM certificate_due");
    sql_is(db, readings * WH, "SELECT sum(issued_wh) FROM certificate");
    sql_is(db, readings * WH, "SELECT sum(wh) FROM certificate_entry");
}

/* The third reading arrives when a run has begun to process the cycle. */
static void meet(const char *name, const char *when)
{
    begin_at_gate(name, when);
    sql_run(db, "UPDATE reading_device SET fresh_from = NULL, fresh_to = NULL");
    pid_t first = run_until_it_waits(1);

    add_reading(3);
    pid_t second = run_until_it_waits(2);

    sql_run(db, SQL_GATE_OPEN);
    end_run(first, 0);
    end_run(second, 0);
    expect_issued(READINGS);
    const char *said = file_text(host->log);

    ck_assert_msg(!strstr(said, "failed") && !strstr(said, "cannot"), "%s", said);
}

TEST(a_reading_stored_just_before_its_cycle_is_dequeued_is_issued)
{
    meet("job_before", "BEFORE");
}

TEST(a_reading_stored_while_its_cycle_is_issued_is_issued)
{
    meet("job_after", "AFTER");
}

/* The interrupted run finishes; the next command issues the rest. */
TEST(an_interrupt_ends_the_command_after_the_current_run)
{
    begin_at_gate("job_interrupted", "BEFORE");
    pid_t run = run_until_it_waits(1);

    sql_soon(db, "SELECT (count(*) = 5)::int FROM pg_stat_activity WHERE datname ="
                 " current_database() AND application_name = 'busbar'"); /* one of each kind */
    ck_assert_int_eq(kill(run, SIGINT), 0);
    usleep(TURN_US);
    sql_run(db, SQL_GATE_OPEN);
    end_run(run, 130);
    expect_issued(2);
}

SUITE(certificate_job, .timeout_s = 300, .after_each = stage_disconnect)
