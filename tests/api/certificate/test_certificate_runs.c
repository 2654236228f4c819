/*
 * Two simultaneous runs of the job, and a reading that arrives between two steps of one of them:
 * one of the two runs issues it. A trigger stops a run at the chosen moment.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exchange.h"
#include "meter.h"
#include "suite.h"
#include "suites.h"

enum { GATE = 4711, READINGS = 3, WH = 2000, TURN_US = 700000 /* longer than a turn of a run */ };

static struct host *host;
static PGconn *db;
static int64_t start; /* of the cycle */

/* Makes a device in a group with one issued reading, and kills the host so that only the test's
 * runs are active. */
static void begin(const char *name)
{
    host = host_start(&(struct host_spec){
        .name = name, .database = database_make(the_postgres, name), .modules = METER_MODULES});
    db = database_connect(the_postgres, name);
    struct person *m = person_make(host, admin_of(host), name, NULL);
    int64_t device = meter_make(host, m, "one", 10, days_ago(100));

    start = days_ago(30);
    ask(m, 201, NULL,
        "POST /api/device-group {'name':'One','frequency':'daily','start':'%s','deviceIds':[%jd]}",
        time_text(start), device);
    ck_status(meter_read(host, m, "one", "Delta", start, start + HOUR_MS, WH), 201);
    host_kill(host);
    const char *words[] = {"certificate", "issue", NULL};

    ck_assert_int_eq(host_command(host, NULL, words), 0);
    ck_assert_int_eq(sql_number(db, "SELECT sum(issued_wh) FROM certificate"), WH);
}

/* Stores the reading of the cycle's hour with this number, as POST does. */
static void store(int number)
{
    sql_run(db, text("WITH stored AS (INSERT INTO reading SELECT device, 'D', at - interval '1"
                     " hour', at, %d, now() FROM reading_device, LATERAL (SELECT timestamptz '%s'"
                     " AS at) t WHERE type = 'D') UPDATE reading_device SET fresh_from = '%s',"
                     " fresh_to = '%s' WHERE type = 'D'",
                     WH, time_text(start + number * HOUR_MS), time_text(start + number * HOUR_MS),
                     time_text(start + number * HOUR_MS)));
}

/* A run that processes a cycle waits before or after it removes the cycle from the list. */
static void make_gate(const char *when)
{
    sql_run(db, text("CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS"
                     " 'BEGIN PERFORM pg_advisory_xact_lock(%d); RETURN NULL; END'",
                     GATE));
    sql_run(db, text("CREATE TRIGGER gate %s DELETE ON certificate_due FOR EACH STATEMENT"
                     " EXECUTE FUNCTION gate()",
                     when));
    sql_run(db, text("SELECT pg_advisory_lock(%d)", GATE));
}

static bool wait_in_line(void *count)
{
    return sql_number(db, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                          " AND datname = current_database()") >= *(const int *)count;
}

static pid_t run_until_it_waits(int waiting)
{
    pid_t run = meter_issue_start(host);

    ck_assert_msg(wait_until(wait_in_line, &waiting, 20000), "the run does not wait");
    return run;
}

static void end(pid_t run)
{
    int status;

    ck_assert(process_wait(run, 20000, &status));
    ck_assert_int_eq(status, 0);
}

/* The second reading makes the cycle due; the third arrives when a run has begun to process it. */
static void meet(const char *name, const char *when)
{
    begin(name);
    store(2);
    sql_run(db, "UPDATE reading_device SET fresh_from = NULL, fresh_to = NULL");
    sql_run(db, text("INSERT INTO certificate_due SELECT id, start_at, start_at + interval '1 day'"
                     " FROM certificate_group"));
    make_gate(when);
    pid_t first = run_until_it_waits(1);

    store(3);
    pid_t second = run_until_it_waits(2);

    sql_run(db, text("SELECT pg_advisory_unlock(%d)", GATE));
    end(first);
    end(second);
    end(meter_issue_start(host));
    const char *said = file_text(host->log);

    ck_assert_msg(!strstr(said, "failed") && !strstr(said, "cannot"), "%s", said);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM certificate_due"), 0);
    ck_assert_int_eq(sql_number(db, "SELECT sum(issued_wh) FROM certificate"), READINGS * WH);
    ck_assert_int_eq(sql_number(db, "SELECT sum(wh) FROM certificate_entry"), READINGS * WH);
    PQfinish(db);
}

/* The interrupted run finishes; the next command issues the rest. */
TEST(an_interrupt_ends_the_command_between_two_runs)
{
    int status;

    begin("runs_interrupted");
    store(2);
    sql_run(db, "INSERT INTO certificate_due SELECT id, start_at, start_at + interval '1 day'"
                " FROM certificate_group");
    make_gate("BEFORE");
    pid_t run = run_until_it_waits(1);

    ck_assert_int_eq(kill(run, SIGINT), 0);
    usleep(TURN_US);
    sql_run(db, text("SELECT pg_advisory_unlock(%d)", GATE));
    ck_assert(process_wait(run, 20000, &status));
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 130, "%x", (unsigned)status);
    end(meter_issue_start(host));
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM certificate_due"), 0);
    ck_assert_int_eq(sql_number(db, "SELECT sum(issued_wh) FROM certificate"), 2 * WH);
    PQfinish(db);
}

TEST(a_reading_that_comes_before_its_cycle_is_taken_off_the_list_is_issued)
{
    meet("runs_before", "BEFORE");
}

TEST(a_reading_that_comes_while_its_cycle_is_being_issued_is_issued_as_well)
{
    meet("runs_after", "AFTER");
}

SUITE(certificate_runs, .timeout_s = 120)
