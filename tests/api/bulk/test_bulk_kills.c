/*
 * Many rows of each shipped type: after several kills of the host and some time without a database,
 * in a single run, the result is the same as after an undisturbed run.
 */
#include "bulk.h"

enum { PLANTS = 100, PART = 1000, SOON_MS = 60000 };

static struct postgres *pg;
static const char *database;
static struct person *other;
static int rows, kills;

/* Starts a separate host and PostgreSQL, to be killed and stopped. */
static void begin(const char *name)
{
    struct host_spec spec = bulk_spec(name, false);

    kills = repetitions(2, 5);
    rows = (kills + 1) * PART;
    pg = postgres_make(name, true);
    the_postgres = pg;
    spec.database = database = database_make(pg, name);
    spec.keep_port = true;
    host = host_start(&spec);
    bulk_settle(name);
    db = database_connect(pg, name);
    admin = admin_of(host);
    m = person_make(host, admin, text("%s.m", name), NULL);
    other = person_make(host, admin, text("%s.other", name), NULL);
}

static void end(void)
{
    host_stop(host);
    PQfinish(db);
    postgres_stop(pg, SIGINT);
}

static const char *upload(const struct person *who, const char *type, const char *csv)
{
    return bulk_id(bulk_text(who, text("type=%s", type), csv));
}

#define PLANT_COLUMNS "externalId,commissioningDate,capacity\n"

/* Every fiftieth row is wrong. */
static const char *devices_csv(void)
{
    FILE *csv = csv_begin(PLANT_COLUMNS);

    for (int row = 1; row <= rows; row++)
        fprintf(csv, "d%d,2024-01-01,%d\n", row, row % 50 ? row % 97 + 1 : -1);
    return csv_end(csv);
}

static const char *plants_csv(void)
{
    FILE *csv = csv_begin(PLANT_COLUMNS);

    for (int row = 1; row <= PLANTS; row++)
        fprintf(csv, "p%d,2024-01-01,1000\n", row);
    return csv_end(csv);
}

/* Hours of 2025: first the first hour of all plants, then the next. */
static const char *reads_csv(void)
{
    FILE *csv = csv_begin("externalId,type,startDate,endDate,value,unit\n");

    for (int row = 1; row <= rows; row++) {
        int hour = (row - 1) / PLANTS, day = hour / 24 + 1;

        fprintf(csv, "p%d,History,2025-01-%02dT%02d:00:00Z,2025-01-%02dT%02d:30:00Z,%d,%s\n",
                row % PLANTS + 1, day, hour % 24, day, hour % 24, row % 7,
                row % 50 ? "kWh" : "furlongs");
    }
    return csv_end(csv);
}

/* Returns whether the job has passed that row, or waits at the gate in a later transaction of a
 * host that was not killed. */
static bool is_behind(const char *const *job)
{
    return sql_number(db, text("SELECT cursor FROM bulk_job WHERE id = '%s'", job[0])) >=
               strtoll(job[1], NULL, 10) ||
           sql_number(db, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
                          " AND datname = current_database()"
                          " AND backend_start > (SELECT since FROM gate)") > 0;
}

static void await_row(const char *id, int64_t row)
{
    const char *job[] = {id, text("%lld", (long long)row)};

    WAIT_UNTIL_MSG(is_behind(job), SOON_MS, "not past row %s", job[1]);
}

static bool is_finished(const char *id)
{
    return sql_number(db, text("SELECT count(*) FROM bulk_job WHERE id = '%s'"
                               " AND status = 'finished'",
                               id)) == 1;
}

static void await_end(const char *id)
{
    WAIT_UNTIL(is_finished(id), SOON_MS);
}

static void run_undisturbed(const struct person *who, const char *id)
{
    ck_status(bulk_post(who, id, "confirm"), 200);
    await_end(id);
}

static void take_database_away(void)
{
    PQfinish(db);
    postgres_stop(pg, SIGQUIT);
    sleep((unsigned)repetitions(1, 10)); /* the time without a database */
    postgres_start(pg);
    db = database_connect(pg, database);
}

/* Until the gate is moved, no transaction gets past that row of the job, so the run cannot end
 * before it is killed. */
static void set_gate(int64_t row)
{
    sql_run(db, text("UPDATE gate SET row = %jd", row));
}

static void make_gate(const char *id)
{
    sql_run(db, "CREATE TABLE gate AS SELECT 0::bigint AS row, timestamptz '-infinity' AS since");
    sql_trigger(db, text("BEFORE UPDATE ON bulk_job FOR EACH ROW WHEN (NEW.id = '%s')", id),
                "WHILE NEW.cursor > (SELECT row FROM gate) LOOP PERFORM pg_sleep(0.02); END LOOP");
}

/* Kills the host at a random row in the first half of each part, or at the gate, the part's end, if
 * a batch is longer: batches of readings have up to 2,000 rows. */
static void run_disturbed(const struct person *who, const char *id, unsigned seed)
{
    make_gate(id);
    for (int i = 0; i < kills; i++) {
        set_gate((i + 1) * PART);
        if (!i)
            ck_status(bulk_post(who, id, "confirm"), 200);
        await_row(id, i * PART + rand_r(&seed) % (PART / 2));
        ck_assert(!is_finished(id));
        if (i == kills / 2)
            take_database_away();
        host_kill(host);
        sql_run(db, "UPDATE gate SET since = clock_timestamp()");
        ck_assert(host_run(host));
    }
    set_gate(rows);
    await_end(id);
}

/* Returns the query's result for the job's organization, and the job's outcome for its rows. */
static const char *outcome(const char *id, const char *query)
{
    const char *const values[] = {id};

    return text("%s; %s",
                sql_text(db,
                         "SELECT succeeded || ' ' || failed || ' ' || (SELECT count(*) || ' ' ||"
                         " md5(string_agg(f.number || f.problems, ',' ORDER BY f.number))"
                         " FROM bulk_finding f WHERE f.job = j.id)"
                         " FROM bulk_job j WHERE j.id = $1::uuid",
                         1, values),
                sql_text(db, query, 1, values));
}

static void are_same(const char *disturbed, const char *undisturbed, const char *query)
{
    const char *wanted = outcome(undisturbed, query);

    const char *counts = text("%d %d %d ", rows - rows / 50, rows / 50, rows / 50);

    ck_assert_msg(!strncmp(wanted, counts, strlen(counts)), "%s", wanted);
    ck_assert_str_eq(outcome(disturbed, query), wanted);
}

TEST(device_rows_are_stored_once_despite_kills_and_database_outages)
{
    begin("bulk_kills_devices");
    const char *csv = devices_csv();
    const char *whole = upload(other, "Devices", csv), *torn = upload(m, "Devices", csv);

    run_undisturbed(other, whole);
    run_disturbed(m, torn, 11);
    are_same(torn, whole,
             "SELECT count(*) || ' ' || count(DISTINCT external_id) || ' ' || sum(capacity) || ' '"
             " || md5(string_agg(external_id || capacity, ',' ORDER BY external_id)) FROM device"
             " WHERE organisation = (SELECT organisation FROM bulk_job WHERE id = $1::uuid)"
             " AND external_id ~ '^d'");
    end();
}

TEST(reading_rows_are_stored_once_despite_kills_and_database_outages)
{
    begin("bulk_kills_reads");
    const char *plants = plants_csv(), *csv = reads_csv();

    run_undisturbed(other, upload(other, "Devices", plants));
    run_undisturbed(m, upload(m, "Devices", plants));
    const char *whole = upload(other, "Reads", csv), *torn = upload(m, "Reads", csv);

    run_undisturbed(other, whole);
    run_disturbed(m, torn, 12);
    are_same(torn, whole,
             "SELECT count(*) || ' ' || sum(r.wh) || ' ' || sum(l.latest_wh) || ' '"
             " || md5(string_agg(d.external_id || r.end_at || r.wh, ',' ORDER BY d.external_id,"
             " r.end_at)) FROM device d JOIN reading r ON r.device = d.id"
             " JOIN reading_device l ON l.device = d.id AND l.type = r.type"
             " WHERE d.organisation = (SELECT organisation FROM bulk_job WHERE id = $1::uuid)");
    end();
}

SUITE(bulk_kills, .timeout_s = 240)
