/* `busbar doctor` on an installation without faults, and on one with several. */
#include "devices.h"
#include "files.h"

enum { PAUSE_MS = 30000 };

static char *documents;

static void upload(const char *device, const char *file)
{
    struct upload_body body = files_named(device);

    upload_file(&body, "SF_02C", file, file, strlen(file));
    upload_file(&body, "SF_02C", "kept.pdf", "kept", 4);
    ck_status(upload_send(host, "POST", DEVICE, m, &body), 201);
}

static void set_up(void)
{
    documents = harness_path("doctor-documents");
    stage_open(&(struct host_spec){.name = "doctor",
                                   .modules = "[auth, chat, device, health, webhook]",
                                   .more = files_section(documents)});
    m = person_make(host, admin, "doctor.m", NULL);
    status_soon(host, "/api/health/ready", NULL, 200);
    upload("Lost", "lost.pdf");
}

/* Runs `busbar doctor`, which always finds an error. */
static const json_t *findings(void)
{
    return kept(json_of(host_says(host, 1, "doctor", "--json")));
}

/* Fails the test unless the check has a finding with this state and a text with this part. */
static void expect_finding(const json_t *list, const char *check, const char *state,
                           const char *part)
{
    const json_t *finding;
    bool found = false;
    size_t i;

    json_array_foreach (list, i, finding) {
        found |= !strcmp(json_string_value(json_object_get(finding, "check")), check) &&
                 !strcmp(json_string_value(json_object_get(finding, "state")), state) &&
                 strstr(json_string_value(json_object_get(finding, "text")), part);
    }
    ck_assert_msg(found, "no %s of %s with \"%s\":\n%s", state, check, part,
                  json_dumps(list, JSON_INDENT(2)));
}

/* The clusters of the tests run without fsync, which is the only fault of this installation. */
TEST(doctor_finds_that_fsync_is_off_and_nothing_else)
{
    const char *said = host_says(host, 1, "doctor");

    ck_assert_msg(strstr(said, "error    durability   fsync is off"), "%s", said);
    EACH_TEXT (setting, "host", "database", "rights", "writes", "clock", "sessions", "partitions",
               "vacuum", "schema", "webhook", "device", "disk")
        ck_assert_msg(strstr(said, text("ok       %s\n", setting)), "%s: %s", setting, said);
    ck_prints(host, 2, "unknown option --fix", "doctor", "--fix");
}

/* doctor names the 20 missing documents with the lowest hashes; the hash of lost.pdf is the second
 * of 31. */
static void break_documents(void)
{
    upload("Many", "many.pdf");
    ck_assert_int_eq(system(text("grep -lr '^lost.pdf$' %s | xargs rm", documents)), 0);
    sql_run(db, "INSERT INTO device_document (id, device, organisation, field, name, type, size,"
                " sha256, created_at, place) SELECT gen_random_uuid(), f.device, f.organisation,"
                " f.field, 'more.pdf', f.type, f.size, sha256(n::text::bytea), f.created_at, n + 1"
                " FROM (SELECT * FROM device_document WHERE name = 'many.pdf') f,"
                " generate_series(1, 30) n");
}

/* One run has to name all of them, because a run takes half a second of processor time. */
TEST(doctor_names_every_fault)
{
    const char *name = sql_text(db, "SELECT current_database()", 0, NULL);

    break_documents();
    host_says(host, 0, "pause");
    WAIT_UNTIL(json_is_string(json_object_get(host_status(host), "paused")), PAUSE_MS);
    sql_run(db, "UPDATE busbar_migration SET module = 'away' WHERE module = 'chat' AND step = 1");
    sql_run(db, "CREATE TABLE ending (at timestamptz) PARTITION BY RANGE (at)");
    sql_run(db, "CREATE TABLE ending_1 PARTITION OF ending FOR VALUES FROM ('2020-01-01') TO"
                " ('2021-01-01')");
    sql_run(db, text("ALTER DATABASE %s SET default_transaction_read_only = on", name));
    const json_t *found = findings();

    /* repaired before the checks: if one of them fails, later tests still find a sound host */
    sql_run(db, text("ALTER DATABASE %s RESET default_transaction_read_only", name));
    sql_run(db, "DROP TABLE ending");
    sql_run(db, "UPDATE busbar_migration SET module = 'chat' WHERE module = 'away'");
    sql_run(db, "DELETE FROM device_document WHERE name = 'more.pdf'");
    host_says(host, 0, "resume");
    expect_finding(found, "device", "error", "no file for document lost.pdf of device Lost");
    expect_finding(found, "device", "error", "no file for document more.pdf of device Many");
    expect_finding(found, "device", "error", "further files");
    expect_finding(found, "host", "warning", "paused: ");
    expect_finding(found, "schema", "error", "chat");
    expect_finding(found, "partitions", "error", "ending has partitions only until 2021-01-01");
    expect_finding(found, "writes", "error", "read-only by default");
}

/* The name of a folder of the store is a link to itself, so it cannot be opened. */
TEST(doctor_says_why_the_documents_cannot_be_checked)
{
    ck_assert_int_eq(system(text("mkdir -p %s && ln -s ff %s/ff", documents, documents)), 0);
    expect_finding(findings(), "device", "error", "the document store cannot be listed: ");
    ck_prints(host, 1, "", "device", "sweep");
    ck_assert_int_eq(system(text("rm %s/ff", documents)), 0);
    sql_run(db, "ALTER TABLE device_document RENAME TO gone");
    expect_finding(findings(), "device", "error", "the database cannot be queried: 42P01");
    sql_run(db, "ALTER TABLE gone RENAME TO device_document");
}

TEST(doctor_says_that_the_database_cannot_be_reached)
{
    struct host_spec spec = {.name = "doctor-lost"};
    struct host *lost = host_prepare(&spec);

    spec.pg = postgres_at(the_postgres, "/nowhere");
    file_write(lost->conf, host_configuration(&spec));
    ck_prints(lost, 1, "error    database     ", "doctor");
}

/* This is the last test, because it stops the host, and a new host would forget the dead one. */
TEST(doctor_names_a_dead_host_and_says_that_no_host_runs)
{
    host_stop(host);
    sql_run(db, "INSERT INTO webhook_host (heartbeat_at) VALUES (now() - interval '1 hour')");
    const json_t *found = findings();

    expect_finding(found, "host", "warning", "no host");
    expect_finding(found, "webhook", "warning", "has sent no heartbeat since");
    ck_assert(host_run(host));
    sql_soon(db, "SELECT (count(*) = 1)::integer FROM webhook_host");
}

STAGE_SUITE(doctor, set_up, 60)
