/*
 * Bulk uploads when memory is short. While a file is checked and confirmed and its rows are
 * stored, the nth allocation fails; n runs up from 1 or 2, by 2. BUSBAR_TEST_SEED, or else the
 * clock, chooses the first. The request may fail and the batch may be late, but no row may be lost
 * or stored twice.
 */
#include "bulk.h"
#include "fault/common.h"
#include "fault/torture.h"
#include "meter.h"

enum {
    DEEPEST = 6000,
    UNUSED_MOST = 3, /* stop after this many runs that needed fewer allocations */
    RUN_MS = 3000,
    GOOD = 2,
    BAD = 1
};

/* A type of rows. Each file has GOOD rows that can be stored and BAD ones that cannot, with unique
 * names or times. */
struct kind {
    const char *name, *type;
    const char *(*csv)(int number);
    const char *stored; /* SQL: number of stored rows */
};

struct works {
    const struct kind *kind;
    struct rack rack;
    const char *files;
    int first; /* allocation to fail */
    int made;  /* number of files so far */
};

static const char *devices_csv(int number)
{
    return text("externalId,capacity\nmem%d-a,5\nmem%d-b,0\nmem%d-c,7.5\n", number, number, number);
}

static const char *reads_csv(int number)
{
    int64_t from = days_ago(2000) + number * 3 * HOUR_MS;

    return text("externalId,type,startDate,endDate,value,unit\nplant,History,%s,%s,1,kWh\n"
                "plant,History,%s,%s,-1,kWh\nplant,History,%s,%s,2,kWh\n",
                time_text(from), time_text(from + HOUR_MS), time_text(from + HOUR_MS),
                time_text(from + 2 * HOUR_MS), time_text(from + 2 * HOUR_MS),
                time_text(from + 3 * HOUR_MS));
}

static const struct kind kinds[] = {
    {"torture_devices", "Devices", devices_csv,
     "SELECT count(*) FROM device WHERE external_id ~ '^mem'"},
    {"torture_reads", "Reads", reads_csv, "SELECT count(*) FROM reading"},
};

static void works_open(struct works *works, const struct kind *kind)
{
    struct host_spec spec = bulk_spec(kind->name, false);
    const char *given = getenv("BUSBAR_TEST_SEED");
    unsigned long seed = given ? strtoul(given, NULL, 10) : (unsigned long)now_ms();

    *works = (struct works){.kind = kind,
                            .rack = rack_make(kind->name),
                            .files = harness_path(text("%s.files", kind->name)),
                            .first = 1 + (int)(seed % 2)};
    fprintf(stderr, "%s: every second allocation fails, from number %d on (BUSBAR_TEST_SEED=%lu)\n",
            kind->name, works->first, seed);
    spec.modules = "[auth, bulk, device, reading, webhook, metrics]";
    spec.database = database_make(the_postgres, kind->name);
    spec.plain = true;
    spec.environment = works->rack.environment;
    spec.more = text("bulk:\n  files: \"%s\"\n  jobs_per_account: 10000\n"
                     "device:\n  documents: \"%s.store\"\n",
                     works->files, works->files);
    host = host_start(&spec);
    bulk_settle(kind->name);
    db = database_connect(the_postgres, kind->name);
    admin = admin_of(host);
    m = person_make(host, admin, text("%s.m", kind->name), NULL);
    meter_make(host, m, "plant", 1000, days_ago(2001));
}

static struct answer *send_file(struct works *works)
{
    const char *csv = works->kind->csv(works->made++);

    return bulk_send(host, m, text("type=%s", works->kind->type), "x.csv", csv, strlen(csv));
}

/* Every upload in the database is complete. An upload without a response may be absent. */
static void expect_whole_uploads(void)
{
    sql_is(db, 0,
           "SELECT count(*) FROM bulk_job j WHERE status <> 'arriving'"
           " AND (rows <> (SELECT coalesce(sum(p.rows), 0) FROM bulk_part p"
           " WHERE p.job = j.id) OR (status = 'created' AND doubtful <>"
           " (SELECT count(*) FROM bulk_finding f WHERE f.job = j.id)))");
}

/* Tests the upload and its check. */
static void refuse_uploads(struct works *works)
{
    int unused = 0, n = works->first, created = 0;

    for (; unused < UNUSED_MOST && n < DEEPEST; n += 2) {
        rack_arm(&works->rack, n);
        struct answer *answer = send_file(works);

        unused = rack_arm(&works->rack, 0) ? 0 : unused + 1;
        expect_running(host);
        ck_assert_msg(answer->status == 201 || answer->status == 503 || answer->status == 0,
                      "upload %d is answered %ld: %s", n, answer->status, answer->body);
        if (answer->status != 201)
            continue;
        created++;
        ck_assert_int_eq(bulk_number(answer, "check", "passed"), GOOD);
        ck_assert_int_eq(bulk_number(answer, "check", "failed"), BAD);
    }
    fprintf(stderr, "%s: %d uploads with a failed allocation, of which %d succeeded\n",
            works->kind->name, works->made - UNUSED_MOST, created);
    ck_assert_int_lt(n, DEEPEST);
    ck_assert_int_ge(created, UNUSED_MOST);
    expect_whole_uploads();
    ck_assert_int_ge(sql_number(db, "SELECT count(*) FROM bulk_job WHERE status = 'created'"),
                     created);
    sql_run(db, "DELETE FROM bulk_job");
    ck_assert_int_eq(sql_number(db, works->kind->stored), 0);
}

/* Tests the confirmation and the first batch after it. */
static bool run_once(struct works *works, long n)
{
    const char *id = bulk_id(send_file(works));

    rack_arm(&works->rack, n);
    long status = bulk_post(m, id, "confirm")->status;

    WAIT_FOR(
        atomic_load(&works->rack.numbers->allocations) == 0 ||
            sql_number(db,
                       text("SELECT (status = 'finished')::int FROM bulk_job WHERE id = '%s'", id)),
        RUN_MS);
    bool failed = rack_arm(&works->rack, 0);

    expect_running(host);
    ck_assert_msg(status == 200 || status == 503 || status == 0, "confirm %ld: %ld", n, status);
    if (status != 200) {
        status = bulk_post(m, id, "confirm")->status;
        ck_assert_msg(status == 200 || status == 409, "again %ld: %ld", n, status);
    }
    return failed;
}

/* A job that was stopped by a failure is retried automatically; each row is stored once. */
static void expect_all_stored(const struct works *works, int jobs)
{
    sql_soon(db, "SELECT (count(*) = 0)::int FROM bulk_job WHERE status NOT IN ('finished',"
                 " 'arriving')");
    sql_is(db, jobs, "SELECT count(*) FROM bulk_job WHERE status = 'finished'");
    sql_is(db, jobs,
           "SELECT count(*) FROM bulk_job j WHERE status = 'finished' AND"
           " (succeeded, failed) = (%d, %d) AND (SELECT count(*) FROM bulk_finding"
           " f WHERE f.job = j.id) = %d AND (SELECT sum(failed) FROM bulk_part p"
           " WHERE p.job = j.id) = %d",
           GOOD, BAD, BAD, BAD);
    ck_assert_int_eq(sql_number(db, works->kind->stored), (int64_t)jobs * GOOD);
}

static void refuse_runs(struct works *works)
{
    int unused = 0, n = works->first, jobs = 0;

    for (; unused < UNUSED_MOST && n < DEEPEST; n += 2, jobs++)
        unused = run_once(works, n) ? 0 : unused + 1;
    fprintf(stderr, "%s: a confirmation and its run have fewer than %d allocations\n",
            works->kind->name, n);
    ck_assert_int_lt(n, DEEPEST);
    expect_all_stored(works, jobs);
}

static void works_over(struct works *works)
{
    struct answer *log = bulk_store(m, bulk_id(send_file(works)));

    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), GOOD);
    ck_assert(store_settles(works->files));
    ck_assert_int_eq(store_files(works->files), 0);
    host_stop(host);
}

TEST_EACH(a_failed_allocation_loses_and_repeats_no_uploaded_row, 2)
{
    struct works works;

    works_open(&works, &kinds[_i]);
    refuse_uploads(&works);
    refuse_runs(&works);
    works_over(&works);
}

FAULT_SUITE(bulk_torture)
