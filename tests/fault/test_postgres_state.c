/* PostgreSQL responds, but has no free connections, holds locks, or has a full disk. The suite
 * statements has wrong schemas, replication a read-only database, and the unit test pg_batch
 * serialization failures. */
#include <sched.h>

#include "fault/common.h"

enum {
    SLEEPERS_MAX = 256,
    CROWDED_MS = 3000,
    LINES_MAX = 30,
    DEADLOCKS = 3,
    LOCKED_MS = 20000,
    SMALL_MIB = 48,
    FULL_MS = 60000
};

/* ---- no free connection ---- */

struct sleepers {
    struct postgres *pg;
    PGconn *all[SLEEPERS_MAX];
    int count;
};

/* Opens connections until none is left. */
static void take_places(struct sleepers *sleepers)
{
    PGconn *db = NULL;

    while (sleepers->count < SLEEPERS_MAX) {
        db = PQconnectdb(text("host=%s dbname=postgres user=busbar", sleepers->pg->sockets));
        if (PQstatus(db) != CONNECTION_OK)
            break;
        sleepers->all[sleepers->count++] = db;
        db = NULL;
    }
}

/*
 * Returns whether the sleepers have taken the host's last connection. A connection that the host is
 * just opening is in no view, so the test counts its own connections against the total; it can use
 * all of them because it is a superuser.
 */
static bool have_all_places(struct sleepers *sleepers)
{
    PGconn *db = sleepers->all[0];

    sql_run(
        db,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'busbar'");
    take_places(sleepers);
    return sleepers->count == sql_number(db, "SELECT current_setting('max_connections')");
}

TEST(no_free_postgresql_connection_is_503_without_a_reconnect_storm)
{
    struct sleepers sleepers = {.pg = postgres_make("pg-places", true)};
    struct scene *scene = scene_on(sleepers.pg, "fault_places");
    const struct host *host = scene->hosts[0];

    load_begin(scene);
    take_places(&sleepers);
    WAIT_UNTIL(have_all_places(&sleepers), 20000);
    size_t told = host_logged(host, "PostgreSQL");

    expect_refused_until(host, scene->admin->token, now_ms() + CROWDED_MS);
    ck_assert_uint_le(host_logged(host, "PostgreSQL") - told, LINES_MAX);
    for (int i = 0; i < sleepers.count; i++)
        PQfinish(sleepers.all[i]);
    scene_recovery(scene);
    fault_over(scene);
    expect_only_503(scene);
}

/* ---- locks ---- */

/* A trigger makes the host's posts lock the conversation and then this lock. cross_locks() takes
 * them in the opposite order and makes the host's backend the one that detects the deadlock and
 * fails. */
#define SECOND_LOCK "pg_advisory_xact_lock(4711)"

static void lock_entries_too(PGconn *db)
{
    sql_trigger(db, "BEFORE INSERT ON chat_entry FOR EACH ROW", "PERFORM " SECOND_LOCK);
}

static void cross_locks(PGconn *db, int64_t conversation)
{
    sql_run(db, "BEGIN");
    sql_run(db, "SET LOCAL deadlock_timeout = '60s'");
    sql_run(db, "SELECT " SECOND_LOCK);
    sql_run(db,
            text("UPDATE chat_conversation SET last_at = last_at WHERE id = %jd", conversation));
    sql_run(db, "COMMIT");
}

static int64_t deadlocks(PGconn *db)
{
    return sql_number(db, "SELECT deadlocks FROM pg_stat_database "
                          "WHERE datname = current_database()");
}

static bool deadlocked(struct scene *scene)
{
    PGconn *db = database_connect(scene->pg, scene->database);

    cross_locks(db, scene->load.conversation);
    sql_run(db, "SELECT pg_stat_force_next_flush()");
    bool enough = deadlocks(db) >= DEADLOCKS;

    PQfinish(db);
    return enough;
}

TEST(deadlocks_are_retried_or_503)
{
    struct postgres *pg = postgres_make("pg-deadlock", true);
    struct scene *scene = scene_on(pg, "fault_deadlock");
    PGconn *db = database_connect(pg, scene->database);

    lock_entries_too(db);
    load_begin(scene);
    WAIT_UNTIL_MSG(deadlocked(scene), 60000, "no deadlock came about");
    scene_more(scene, 100);
    fault_over(scene);
    expect_only_503(scene);
}

TEST(a_table_locked_for_20_seconds_is_503_at_the_deadline)
{
    struct postgres *pg = postgres_make("pg-locked", true);
    struct scene *scene = scene_on(pg, "fault_locked");
    PGconn *db = database_connect(pg, scene->database);

    load_begin(scene);
    sql_run(db, "BEGIN");
    sql_run(db, "LOCK TABLE chat_conversation IN ACCESS EXCLUSIVE MODE");
    expect_refused_until(scene->hosts[0], scene->admin->token, now_ms() + LOCKED_MS);
    sql_run(db, "COMMIT");
    scene_recovery(scene);
    fault_over(scene);
    expect_only_503(scene);
}

/* ---- no writes ---- */

TEST(a_full_database_disk_refuses_writes_and_serves_reads)
{
    if (!fault_may("a full disk", CLONE_NEWNS))
        return;
    struct postgres *pg = postgres_make("pg-full", true);
    const char *directory = harness_path("pg-full.small");

    postgres_on_disk(pg, directory, SMALL_MIB);
    struct scene *scene = scene_on(pg, "fault_full");
    const struct host *host = scene->hosts[0];

    load_begin(scene);
    const char *filler = disk_fill(directory);

    WAIT_UNTIL_MSG(atomic_load(&scene->load.refused) > 100, FULL_MS, "the disk is not full");
    for (int i = 0; i < 20; i++)
        ck_status(http(host, "GET", A_READ, scene->admin->token, NULL), 200);
    unlink(filler);
    scene_recovery(scene);
    scene_more(scene, 100);
    fault_over(scene);
    expect_only_503(scene);
}

FAULT_SUITE(postgres_state)
