/*
 * Bulk uploads on a full disk: the host's disk while a file arrives, the database's disk while
 * the file is checked or its rows are stored.
 */
#include <sched.h>

#include "bulk.h"
#include "fault/common.h"
#include "fault/torture.h"

enum { CALLS_MAX = 60, FILE_ROWS = 20000, RUN_ROWS = 40000, SMALL_MIB = 64, LINE = 40 };

/* Returns rows with a numbered name and a value from 1001 on. */
static const char *rows_csv(const char *head, const char *name, int rows)
{
    size_t room = (size_t)rows * LINE + LINE, length = 0;
    char *csv = kept(malloc(room));

    length += (size_t)snprintf(csv, room, "%s\n", head);
    for (int i = 1; i <= rows; i++)
        length += (size_t)snprintf(csv + length, room - length, "%s%d,%d\n", name, i, 1000 + i);
    return csv;
}

static const char *things_csv(const char *name, int rows)
{
    return rows_csv("name,amount", name, rows);
}

static int64_t rows_of(const char *table)
{
    return sql_number(db, text("SELECT count(*) FROM bulk_%s", table));
}

/* The upload was refused temporarily, and nothing of it is left. */
static void expect_refused_whole(struct answer *answer, const char *directory, int64_t jobs)
{
    ck_error(answer, 503, "");
    ck_assert(store_settles(directory));
    ck_assert_int_le(store_files(directory), 0);
    ck_assert_int_eq(rows_of("job"), jobs);
    ck_assert_int_eq(rows_of("finding"), 0);
}

static void expect_stored(const char *id, const char *name, int rows)
{
    ck_assert_int_eq(bulk_number(bulk_log_of(m, id, "limit=1"), "progress", "succeeded"), rows);
    sql_is(db, rows,
           "SELECT count(*) FROM heap_thing"
           " WHERE name ~ '^%s[0-9]+$'",
           name);
    sql_is(db, (int64_t)rows * (rows + 1) / 2 + INT64_C(1000) * rows,
           "SELECT sum(amount) FROM heap_thing WHERE name ~ '^%s[0-9]+$'", name);
}

/* Starts a host that keeps its files in the given directory. With a rack: the plain build, and
 * devices instead of things. */
static void desk_open(const char *name, struct postgres *pg, struct rack *rack,
                      const char *directory)
{
    struct host_spec spec = bulk_spec(name, !rack);

    the_postgres = pg;
    spec.database = database_make(pg, name);
    spec.plain = rack != NULL;
    spec.environment = rack ? rack->environment : NULL;
    spec.more =
        text("bulk:\n  files: \"%s\"\ndevice:\n  documents: \"%s.store\"\n", directory, directory);
    if (!rack)
        spec.more = text("bulk:\n  files: \"%s\"\n", directory);
    host = host_start(&spec);
    bulk_settle(name);
    db = database_connect(pg, name);
    admin = admin_of(host);
    m = person_make(host, admin, text("%s.m", name), NULL);
}

/* ---- the host's disk ---- */

/* The first write fails, then the second, until an upload needs fewer writes. */
TEST(a_full_disk_refuses_an_upload_and_keeps_no_file)
{
    struct rack rack = rack_make("bulk-full");
    const char *directory = harness_path("bulk-full.files");
    const char *csv = rows_csv("externalId,serialNumber", "full", FILE_ROWS);
    int failures = 0;

    desk_open("fault_bulk_full", the_postgres, &rack, directory);
    for (; failures < CALLS_MAX; failures++) {
        atomic_store(&rack.numbers->writes, failures + 1);
        struct answer *answer = bulk_send(host, m, "", "x.csv", csv, strlen(csv));
        bool failed = atomic_load(&rack.numbers->writes) == 0;

        atomic_store(&rack.numbers->writes, 0);
        if (!failed) {
            bulk_store(m, bulk_id(answer));
            sql_is(db, FILE_ROWS, "SELECT count(*) FROM device");
            break;
        }
        expect_refused_whole(answer, directory, 0);
        ck_assert_int_eq(rows_of("part"), 0);
    }
    fprintf(stderr, "fault_bulk_full: each of %d calls failed once\n", failures);
    ck_assert_int_ge(failures, 1);
    ck_assert_int_lt(failures, CALLS_MAX);
}

TEST(a_full_file_system_refuses_uploads_until_space_is_freed)
{
    if (!fault_may("a disk without room", CLONE_NEWNS))
        return;
    const char *directory = harness_path("bulk-tmpfs"), *csv = things_csv("small", FILE_ROWS);

    disk_make(directory, 1, NULL);
    desk_open("fault_bulk_tmpfs", the_postgres, NULL, text("%s/files", directory));
    const char *filler = disk_fill(directory);

    for (int i = 0; i < 3; i++)
        expect_refused_whole(bulk_things(m, csv), text("%s/files", directory), 0);
    unlink(filler);
    const char *id = bulk_id(bulk_things(m, csv));

    bulk_store(m, id);
    expect_stored(id, "small", FILE_ROWS);
}

/* ---- the database's disk ---- */

TEST(a_full_database_disk_pauses_the_run_and_refuses_uploads)
{
    if (!fault_may("a disk without room", CLONE_NEWNS))
        return;
    struct postgres *pg = postgres_make("pg-bulk", true);
    const char *directory = harness_path("pg-bulk.small"), *files = harness_path("pg-bulk.files");

    postgres_on_disk(pg, directory, SMALL_MIB);
    desk_open("fault_bulk_db", pg, NULL, files);
    const char *id = bulk_id(bulk_things(m, things_csv("run", RUN_ROWS)));

    ck_status(bulk_post(m, id, "confirm"), 200);
    sql_soon(db, text("SELECT cursor FROM bulk_job WHERE id = '%s'", id));
    const char *filler = disk_fill(directory);

    host_logs(host, 0, text("a batch of bulk upload %s failed", id));
    struct answer *log = ck_status(bulk_log_of(m, id, "limit=1"), 200);

    ck_assert_str_eq(answer_text(log, "status"), "confirmed");
    ck_assert_int_eq(bulk_number(log, "progress", "failed"), 0);
    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"),
                     sql_number(db, "SELECT count(*) FROM heap_thing"));
    expect_refused_whole(bulk_things(m, things_csv("other", FILE_ROWS)), files, 1);
    sql_is(db, 0, "SELECT count(*) FROM bulk_part WHERE job <> '%s'", id);
    unlink(filler);
    bulk_await(m, id, "finished");
    expect_stored(id, "run", RUN_ROWS);
    id = bulk_id(bulk_things(m, things_csv("other", FILE_ROWS)));
    bulk_store(m, id);
    expect_stored(id, "other", FILE_ROWS);
    host_stop(host);
    postgres_end(pg, SIGINT);
}

FAULT_SUITE(bulk_uploads)
