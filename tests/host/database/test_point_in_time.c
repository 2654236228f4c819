/* Point-in-time recovery of the database, while the store of documents stays as it is. */
#include "files.h"
#include "talk.h"

static const char *store, *wal; /* `wal` is the archive of the WAL, with the base backups */
static struct postgres *pg;
static struct host *host;
static struct person *person;
static struct talk talk;
static json_t *whole; /* the chain */
enum { STEADY, DELETED, LATER, DEVICES, MESSAGES = 6 };
static const char *const names[] = {"steady", "deleted", "later"}, *paths[DEVICES];

/* The latest first, because a sweep deletes files that only later moments have. */
static const struct moment {
    const char *name;
    int64_t messages, parts; /* numbers in the database */
    int swept;               /* files in the store after a sweep; before it, there are 3 */
    long status[DEVICES];    /* of a download from each device */
} moments[] = {
    {"restored", MESSAGES, 0, 3, {200, 404, 200}},
    {"archived", 1, 1, 3, {200, 404, 200}},
    {"before", MESSAGES, 0, 2, {200, 503, 404}},
};

static void run_service(const char *command)
{
    postgres_tool(pg, (const char *const[]){"sh", "-euc", command, NULL});
}

static void upload(int device)
{
    const char *name = names[device];
    struct upload_body body = files_named(name);

    upload_file(&body, "SF_02C", name, name, strlen(name));
    struct answer *made = ck_status(files_post(host, person, &body), 201);

    paths[device] = text("%s/documents/%s", name, files_document(made, 0, "id"));
}

/* Sets the times of all files, and sweeps. */
static void sweep(const char *when)
{
    ck_assert_int_eq(system(text("find %s -type f -exec touch -d '%s' {} +", store, when)), 0);
    host_says(host, 0, "device", "sweep");
}

static void set_up(void)
{
    store = harness_path("moments.store");
    wal = harness_path("moments.wal");
    pg = postgres_make("moments", false);
    process_service_directory(wal);
    postgres_run(pg, "ALTER SYSTEM SET archive_mode = on");
    postgres_run(pg, text("ALTER SYSTEM SET archive_command = 'cp %%p %s/%%f'", wal));
    postgres_stop(pg, SIGINT);
    postgres_start(pg);
    host = host_start(&(struct host_spec){.name = "moments",
                                          .pg = pg,
                                          .modules = "[auth, chat, device, health]",
                                          .chat = "  retention_days: 30\n",
                                          .more = files_section(store)});
    person = person_make(host, admin_of(host), "moments", NULL);
    run_service(text("%s -D %s/base -h %s -U busbar -c fast -X none --no-sync",
                     postgres_program("pg_basebackup"), wal, pg->sockets));
    PGconn *db = database_connect(pg, host->name);

    upload(STEADY);
    upload(DELETED);
    talk = talk_start(host, person, "moment@shop.example", ADMIN_EMAIL, NULL);
    for (int i = 2; i <= MESSAGES; i++)
        ck_status(talk_post(host, person, &talk, "moment@shop.example", text("%d", i)), 201);
    whole = ck_status(talk_chain(host, person, &talk, ""), 200)->json;
    sql_run(db, "SELECT pg_create_restore_point('before')");
    sql_run(db, "UPDATE chat_conversation SET last_at = now() - interval '31 days'");
    host_says(host, 0, "chat", "archive");
    ck_status(http(host, "DELETE", text(DEVICE "/%s", paths[DELETED]), person->token, NULL), 200);
    upload(LATER);
    sql_run(db, "SELECT pg_create_restore_point('archived')");
    talk_retention(host, " 0"); /* otherwise the job could archive again */
    host_says(host, 0, "chat", "restore");
    sweep("2 hours ago");
    sql_run(db, "SELECT pg_create_restore_point('restored')");
    PQfinish(db);
    host_stop(host);
    postgres_stop(pg, SIGINT); /* archives the last WAL */
}

static void recover(const char *to)
{
    pg->data = text("%s/%s", wal, to);
    run_service(text("cd %s; cp -a base %s; touch %s/recovery.signal; printf '%%s\\n'"
                     " 'archive_mode = off' \"restore_command = 'cp %s/%%f %%p'\""
                     " \"recovery_target_name = '%s'\" 'recovery_target_timeline = current'"
                     " 'recovery_target_action = promote' >>%s/postgresql.auto.conf",
                     wal, to, to, wal, to, to));
    postgres_start(pg);
    database_soon(pg, host->name, "SELECT (NOT pg_is_in_recovery())::int");
}

static void expect_agreement(const struct moment *moment, int files)
{
    ck_assert_int_eq(files_now(store), files);
    ck_assert_str_eq(host_says(host, 0, "chat", "doctor"), "");
    ck_assert_str_eq(host_says(host, 0, "device", "doctor"),
                     moment->status[DELETED] == 503
                         ? "error the store has no file for document deleted of device deleted\n"
                         : "");
    for (int i = 0; i < DEVICES; i++)
        ck_status(files_get(host, person, paths[i]), moment->status[i]);
    ck_assert(json_equal(ck_status(talk_chain(host, person, &talk, ""), 200)->json, whole));
}

TEST_EACH(rows_and_files_agree_after_a_recovery, sizeof moments / sizeof *moments)
{
    const struct moment *moment = &moments[_i];

    recover(moment->name);
    PGconn *db = database_connect(pg, host->name);

    sql_is(db, moment->messages, "SELECT count(*) FROM chat_entry");
    sql_is(db, moment->parts, "SELECT count(*) FROM chat_archive");
    sweep("1 hour"); /* all files are too young, also for the host's own job */
    ck_assert(host_run(host));
    expect_agreement(moment, 3);
    sweep("2 hours ago");
    expect_agreement(moment, moment->swept);
    sql_is(db, MESSAGES, "SELECT count(*) FROM chat_entry");
    PQfinish(db);
    host_stop(host);
    postgres_stop(pg, SIGINT);
}

SUITE(point_in_time, .timeout_s = 120, .before_all = set_up)
