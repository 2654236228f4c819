/*
 * A long backfill of History readings: it is issued in chunks, so requests that submit readings
 * meanwhile wait for a few chunks at most; and a run that is killed at any moment and started again
 * leaves the same log as an uninterrupted run.
 */
#include "certificates.h"
#include "talk.h"

enum {
    BACKFILL = 10000,
    ABOVE = BACKFILL * 4 / 5, /* the others are below the threshold */
    CHUNK = 1000,
    MOST_CHUNKS = 6,
    MEMORY_KB = 16 * 1024
};

#define ONE_CONNECTION "  transaction_connections: 1\n"
#define ANEW "UPDATE reading_device SET fresh_from = '-infinity', fresh_to = 'infinity'"

static struct person *m;

static struct host_spec spec_of(const char *name, const char *settings)
{
    return (struct host_spec){.name = name,
                              .modules = "[auth, device, reading, certificate, webhook]",
                              .db = settings,
                              .environment = process_lean};
}

static void begin_with(const char *name, const char *settings)
{
    struct host_spec spec = spec_of(name, settings);

    host = host_start(&spec);
    db = database_connect(the_postgres, name);
    m = person_make(host, admin_of(host), name, NULL);
    meter_make(host, m, "big", 100, days_ago(2000));
    meter_make(host, m, "other", 100, days_ago(2000));
}

static void begin(const char *name)
{
    begin_with(name, NULL);
}

/* Makes the first device and does not start the host. */
static void prepare(const char *name)
{
    struct host_spec spec = spec_of(name, NULL);

    host = host_prepare(&spec);
    db = database_connect(the_postgres, name);
    sql_run(db, "INSERT INTO device (id, uuid, organisation, external_id, attributes, created_at,"
                " updated_at) VALUES (1, gen_random_uuid(), 1, 'big', '{}', now(), now())");
}

/* Adds hourly History readings of the first device as if just sent; one in five is below the
 * threshold. */
static void backfill(int64_t start, int readings)
{
    sql_run(db, text("INSERT INTO reading SELECT d.id, 'H', at, at + interval '1 hour',"
                     " 900 + (n %% 5) * 100, now() FROM device d, generate_series(0, %d) n,"
                     " LATERAL (SELECT timestamptz '%s' + n * interval '1 hour' AS at) t"
                     " WHERE d.external_id = 'big'",
                     readings - 1, time_text(start)));
    sql_run(
        db,
        "INSERT INTO reading_device SELECT device, type, max(start_at), max(end_at), 900, now(),"
        " '-infinity', min(end_at), max(end_at) FROM reading GROUP BY device, type");
}

static int64_t entries(void)
{
    return sql_number(db, "SELECT count(*) FROM certificate_entry");
}

/* Checks that exactly the readings from the threshold on are there, each with its own energy, under
 * a certificate. */
static void expect_log(void)
{
#define READ "SELECT device, start_at, end_at, wh FROM reading WHERE type = 'H' AND wh >= 1000"
#define ISSUED "SELECT device, start_at, end_at, wh FROM certificate_entry"
    sql_is(db, 0, "SELECT count(*) FROM (" READ " EXCEPT ALL " ISSUED ") x");
    sql_is(db, 0, "SELECT count(*) FROM (" ISSUED " EXCEPT ALL " READ ") x");
    sql_is(db, entries(),
           "SELECT count(*) FROM certificate_entry e JOIN certificate c"
           " ON c.id = e.certificate AND c.issued_wh = e.wh"
           " AND e.status = 'Succeeded'");
    sql_is(db, 2 * entries(), "SELECT sum(entries) FROM certificate_day");
}

static struct call reading_call(const char *key, const char *type, int64_t start)
{
    return call_by(m,
                   "POST /api/meter-reads/new/%s {'type':'%s','unit':'Wh','startDate':'%s',"
                   "'endDate':'%s','value':2000}",
                   key, type, time_text(start), time_text(start + HOUR_MS));
}

/* Slows chunks down, so that there is time to act between the first chunk and the last. */
static void slow_down(const char *seconds)
{
    sql_trigger(db, "AFTER INSERT ON certificate_entry", text("PERFORM pg_sleep(%s)", seconds));
}

static void speed_up(void)
{
    sql_run(db, SQL_TRIGGER_DROP);
}

TEST(readings_submitted_during_a_long_backfill_wait_for_few_chunks)
{
    begin("history_long");
    slow_down("2");
    backfill(days_ago(1900), BACKFILL);
    pid_t job = meter_issue_start(host);

    WAIT_UNTIL(entries() > 0, 30000);
    struct call calls[] = {reading_call("big", "History", days_ago(30)),
                           reading_call("other", "Delta", days_ago(30))};
    struct answer *answers[2];
    int64_t before = entries();

    parallel(host, calls, answers, 2);
    int64_t after = entries();

    ck_status(answers[0], 201);
    ck_status(answers[1], 201);
    ck_assert_int_lt(before, ABOVE);
    ck_assert_msg(after - before <= MOST_CHUNKS * CHUNK * 4 / 5,
                  "%jd entries were issued meanwhile", (after - before));
    process_stop(job, SIGKILL, 5000);
    speed_up();
    certificates_run();
    certificates_await(db);
    expect_log();
    ck_assert_int_eq(entries(), ABOVE + 1);
}

TEST(a_killed_backfill_leaves_the_same_log_as_an_uninterrupted_one)
{
    int64_t seen = 0, steps = 0;
    int status;

    prepare("history_kill");
    backfill(days_ago(1900), BACKFILL);
    for (int i = 0; i < repetitions(4, 8); i++) {
        pid_t job = meter_issue_start(host);
        bool ended = false;

        WAIT_UNTIL((ended = process_wait(job, 0, &status)) || entries() > seen, 30000);
        /* kill it at a different moment of a chunk each time */
        if (!ended && !process_wait(job, i * 3, &status))
            process_stop(job, SIGKILL, 5000);
        steps += entries() > seen && entries() < ABOVE;
        seen = entries();
    }
    ck_assert_int_gt(steps, 0); /* some were killed in the middle */
    certificates_run();
    certificates_await(db);
    expect_log();
    ck_assert_int_eq(entries(), ABOVE);
    sql_run(db, ANEW);
    certificates_run();
    certificates_await(db);
    expect_log();
}

/* A reading that arrives late, before the position that a chunk has reached, is issued too. */
TEST(a_reading_stored_before_the_position_of_a_chunk_is_issued)
{
    begin("history_late");
    host_kill(host);
    backfill(days_ago(1900), 2 * CHUNK);
    sql_run(db, "INSERT INTO certificate_history SELECT device, max(end_at) - interval '1 day',"
                " max(end_at) FROM reading GROUP BY device");
    ck_assert(host_run(host));
    store(m, "big", "History", days_ago(1950), days_ago(1950) + HOUR_MS, 2000);
    certificates_run();
    certificates_await(db);
    expect_log();
}

/* Adds one reading of a day for each device; earlier versions issued fewer devices in a run of the
 * job. */
static void crowd(int devices)
{
    sql_run(db, text("INSERT INTO device (id, uuid, organisation, external_id, attributes,"
                     " created_at, updated_at) SELECT 1000 + n, gen_random_uuid(),"
                     " (SELECT organisation FROM device WHERE external_id = 'big'), 'crowd' || n,"
                     " '{}', now(), now() FROM generate_series(1, %d) n",
                     devices));
    sql_run(db, text("INSERT INTO reading SELECT 1000 + n, 'H', timestamptz '%s',"
                     " timestamptz '%s', 2000, now() FROM generate_series(1, %d) n",
                     time_text(days_ago(20)), time_text(days_ago(19)), devices));
    sql_run(db, "INSERT INTO reading_device SELECT device, type, start_at, end_at, wh, now(),"
                " '-infinity', end_at, end_at FROM reading WHERE device > 1000");
}

/* Tests the job; the command has always continued to the end. */
TEST(the_job_issues_history_until_nothing_is_left)
{
    enum { DEVICES = 400 };

    prepare("history_crowd");
    crowd(DEVICES);
    ck_assert(host_run(host));
    certificates_await(db);
    expect_log();
    ck_assert_int_eq(entries(), DEVICES);
}

/* Adds hourly readings to a device of the crowd, before its daily one. */
static void read_hours(int device, int hours)
{
    sql_run(db, text("INSERT INTO reading SELECT %d, 'H', at, at + interval '1 hour',"
                     " 900 + (n %% 5) * 100, now() FROM generate_series(0, %d) n,"
                     " LATERAL (SELECT timestamptz '%s' + n * interval '1 hour' AS at) t",
                     device, hours - 1, time_text(days_ago(900))));
    sql_run(db,
            text("UPDATE reading_device SET fresh_from = '-infinity' WHERE device = %d", device));
}

/* The rows of a chunk share its transaction's id. */
TEST(a_chunk_has_the_readings_of_as_many_devices_as_fit)
{
    enum { DEVICES = 2000, HOURS = 1500, BAD = 1700, MOST = DEVICES / 10 };
    prepare("history_many");
    crowd(DEVICES);
    read_hours(2100, HOURS);
    sql_run(db, text("ALTER TABLE certificate_entry ADD CONSTRAINT bad CHECK (device <> %d)", BAD));
    ck_assert(!certificates_try());
    sql_is(db, 1, "SELECT count(*) FROM certificate_history");
    ck_assert_int_eq(entries(), DEVICES - 1 + HOURS * 4 / 5);
    sql_run(db, "ALTER TABLE certificate_entry DROP CONSTRAINT bad");
    certificates_run();
    expect_log();
    sql_run(db, "TRUNCATE certificate, certificate_entry, certificate_day");
    sql_run(db, ANEW);
    certificates_run();
    expect_log();
    ck_assert_int_le(
        sql_number(db,
                   "SELECT count(*) FROM (SELECT DISTINCT xmin::text FROM certificate_entry) x"),
        MOST);
}

TEST(a_backfill_delays_stops_and_device_changes_by_one_turn_at_most)
{
    begin_with("history_turns", ONE_CONNECTION);
    slow_down("0.4");
    backfill(days_ago(1900), BACKFILL);
    WAIT_UNTIL(entries() > 0, 30000);
    ask(m, 200, NULL, "PATCH /api/device/other {'address':'x'}");
    ck_assert_int_lt(entries(), ABOVE);
    host_stop(host);
    ck_assert_int_lt(entries(), ABOVE);
    speed_up();
    ck_assert(host_run(host));
    certificates_await(db);
    expect_log();
}

/* Does the same as POST of a group, by hand, so that the job runs before the commit. */
TEST(readings_of_a_device_that_joins_a_group_during_the_job_are_issued)
{
    begin("history_join");
    store(m, "other", "Delta", days_ago(30), days_ago(30) + HOUR_MS, 2000);
    host_kill(host);
    PGconn *watch = database_connect(the_postgres, "history_join");
    bool ended = false;
    int status;

    sql_run(db, "UPDATE reading_device SET fresh_from = NULL, fresh_to = NULL");
    sql_run(db, "DELETE FROM certificate_look");
    sql_run(db, "INSERT INTO certificate_look SELECT device, latest_end, latest_end"
                " FROM reading_device WHERE type = 'D'");
    sql_run(db, "BEGIN");
    sql_run(db, "INSERT INTO certificate_group (id, organisation, name, frequency, start_at,"
                " created_at) VALUES (1, 1, 'Joined', 'daily', now() - interval '90 days', now())");
    sql_run(db, "INSERT INTO certificate_member SELECT device, 1 FROM reading_device"
                " WHERE type = 'D'");
    sql_run(db, "UPDATE certificate_look SET first_at = '-infinity', last_at = 'infinity'");
    pid_t job = meter_issue_start(host);

    WAIT_UNTIL((ended = ended || process_wait(job, 1, &status)) ||
                   sql_number(watch, SQL_LOCK_WAITS) > 0,
               20000);
    sql_run(db, "COMMIT");
    while (!ended)
        ended = process_wait(job, 100, &status);
    ck_assert_int_eq(status, 0);
    certificates_run();
    sql_is(db, 2000, "SELECT coalesce(sum(issued_wh), 0) FROM certificate");
}

/* Each event uses some 4 KiB for its payload and its hooks until its chunk is committed. */
TEST(a_backfill_needs_only_the_memory_of_one_chunk)
{
    int64_t first = 0, most = 0;
    int status;

    prepare("history_memory");
    backfill(days_ago(1900), BACKFILL);
    pid_t job = meter_issue_start(host);

    while (!process_wait(job, 5, &status)) {
        int64_t peak = process_status(job, "VmHWM:");

        if (!first && entries() > 0)
            first = peak;
        most = peak > most ? peak : most;
    }
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(entries(), ABOVE);
    ck_assert_int_gt(first, 0);
    ck_assert_msg(process_shadowed() || most - first < MEMORY_KB,
                  "the host grew from %jd to %jd KiB", first, most);
}

SUITE(certificate_history, .timeout_s = 300, .after_each = stage_disconnect)
