/*
 * Documents in a bucket that several hosts share are the same from each host; a store that cannot
 * be used at all; leftovers of interrupted uploads, and the sweep that removes them; and the
 * commands that copy and restore a bucket. See test_device_s3_faults.c for a store that fails
 * later.
 */
#include "s3.h"
#include "secrets.h"
#include "talk.h"

#define WRONG_KEY "a-key-that-the-server-does-not-know"
#define WHOLE                                                                                      \
    "  s3_endpoint: \"http://127.0.0.1/\"\n  s3_bucket: b\n  s3_access_key: a\n"                   \
    "  s3_secret_key: s\n"

static void set_up(void)
{
    s3_open("device_s3");
}

TEST(every_host_returns_the_same_documents)
{
    static const size_t lengths[] = {0, 1, 4095, 65536, 1000003, 10 * MIB};
    struct upload_body body = files_named("Same");
    unsigned count = sizeof lengths / sizeof *lengths;

    for (unsigned i = 0; i < count; i++)
        upload_file(&body, "SF_02C", "a b.bin", upload_noise(i, lengths[i]), lengths[i]);
    struct answer *made = ck_status(files_post(host, m, &body), 201);

    ck_assert_str_eq(ck_status(s3_get(other, DEVICE "/Same/documents"), 200)->body,
                     ck_status(s3_get(host, DEVICE "/Same/documents"), 200)->body);
    for (unsigned i = 0; i < count; i++) {
        struct answer *file = ck_status(s3_get(i % 2 ? host : other, s3_path(made, i)), 200);

        ck_assert_uint_eq(file->length, lengths[i]);
        ck_assert_mem_eq(file->body, upload_noise(i, lengths[i]), lengths[i]);
        ck_assert_str_eq(answer_header(file, "Content-Disposition"),
                         "attachment; filename=\"a b.bin\"; filename*=UTF-8''a%20b.bin");
        ck_assert_str_eq(answer_header(file, "X-Content-Type-Options"), "nosniff");
    }
    ck_assert(store_settles(s3_spool(host->name)));
    ck_assert(store_settles(s3_spool(other->name)));
}

TEST(equal_content_is_stored_once)
{
    struct upload_body body = files_named("Twice in one");
    int before = bucket_objects(bucket);

    upload_file(&body, "SF_02C", "a", "the same", 8);
    upload_file(&body, "COD_PROOF", "b", "the same", 8);
    ck_status(files_post(host, m, &body), 201);
    struct answer *made = ck_status(s3_post(other, "Twice", "the same", 8), 201);

    ck_assert_int_eq(bucket_objects(bucket), before + 1);
    ck_assert_str_eq(ck_status(s3_get(host, s3_path(made, 0)), 200)->body, "the same");
}

TEST(a_refused_upload_leaves_no_object_and_removes_none)
{
    struct answer *made = ck_status(s3_post(host, "Refused", "of another", 10), 201);
    int before = bucket_objects(bucket);
    struct upload_body body = files_named("refused");

    upload_file(&body, "SF_02C", "a", "of another", 10);
    upload_file(&body, "SF_02C", "b", "its own", 7);
    ck_error(files_post(other, m, &body), 409, "");
    ck_assert_int_eq(bucket_objects(bucket), before);
    ck_assert_str_eq(ck_status(s3_get(other, s3_path(made, 0)), 200)->body, "of another");
}

/* ---- a store that cannot be used ---- */

TEST(a_wrong_secret_key_is_reported_without_showing_it)
{
    secrets_add(WRONG_KEY);
    s3_refuses_uploads(s3_host("s3-wrong-key", bucket, "  s3_secret_key: " WRONG_KEY "\n"),
                       "SignatureDoesNotMatch");
}

TEST(a_missing_bucket_is_reported)
{
    struct bucket *none = bucket_make("s3-none", false);

    bucket_run(none);
    s3_refuses_uploads(s3_host("s3-no-bucket", none, NULL), "NoSuchBucket");
    bucket_stop(none);
}

TEST(a_host_starts_without_its_s3_server)
{
    struct bucket *late = bucket_make("s3-late", true);

    host = s3_host("s3-late", late, NULL);
    ck_status(s3_get(host, "/api/health"), 200);
    s3_expect_refused(s3_post(host, "Late", "1", 1));
    bucket_run(late);
    ck_status(s3_post(host, "Late", "1", 1), 201);
    host_stop(host);
    bucket_stop(late);
}

/* A wrong configuration is reported before anything is served. */
TEST(wrong_s3_settings_are_refused_at_startup)
{
    static const char *const wrong[][2] = {
        {"  s3_endpoint: \"ftp://127.0.0.1/\"\n", "s3_endpoint"},
        {"  s3_endpoint: \"http://a:b@127.0.0.1/\"\n", "s3_endpoint"},
        {"  s3_endpoint: \"http://127.0.0.1/a b\"\n", "s3_endpoint"},
        {"  s3_endpoint: \"http://127.0.0.1/%41\"\n", "s3_endpoint"},
        {"  s3_endpoint: \"http://127.0.0.1/a/../b\"\n", "s3_endpoint"},
        {"  s3_endpoint: \"http://127.0.0.1/a/.\"\n", "s3_endpoint"},
        {"  s3_endpoint: \"http://127.0.0.1/\"\n", "s3_bucket"},
        {"  s3_endpoint: \"http://127.0.0.1/\"\n  s3_bucket: \"..\"\n", "s3_bucket"},
        {"  s3_endpoint: \"http://127.0.0.1/\"\n  s3_bucket: b\n", "s3_access_key"},
        {WHOLE "  s3_prefix: ../x\n", "s3_prefix"},
        {WHOLE "  s3_ca: /no/such/file\n", "s3_ca"},
        {WHOLE "  s3_ca: /dev/null\n", "s3_ca"},
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        host = host_prepare(
            &(struct host_spec){.name = text("s3-wrong-%zu", i),
                                .database = s3_database,
                                .modules = "[auth, device]",
                                .more = text("device:\n  store: s3\n%s", wrong[i][0])});
        ck_assert(!host_run(host));
        ck_assert_msg(strstr(file_text(host->log), wrong[i][1]), "%s", file_text(host->log));
    }
}

/* ---- memory ---- */

TEST(large_documents_need_little_memory)
{
    struct host *flat =
        host_start(&(struct host_spec){.name = "s3-flat",
                                       .database = s3_database,
                                       .modules = "[auth, device]",
                                       .environment = process_lean,
                                       .more = bucket_section(bucket, s3_spool("s3-flat"), NULL)});
    struct upload_body body = files_named("Flat");
    enum { FILES = 3 };

    ck_status(s3_post(flat, "Warm", "warm", 4), 201);
    int64_t before = process_status(flat->pid, "VmHWM:");

    for (unsigned i = 0; i < FILES; i++)
        upload_file(&body, "SF_02C", "x", upload_noise(i + 300, 10 * MIB), 10 * MIB);
    struct answer *made = ck_status(files_post(flat, m, &body), 201);

    for (unsigned i = 0; i < FILES; i++)
        ck_assert_uint_eq(ck_status(s3_get(flat, s3_path(made, i)), 200)->length, 10 * MIB);
    int64_t growth = process_status(flat->pid, "VmHWM:") - before;

    ck_assert_int_gt(before, 0);
    ck_assert_msg(process_shadowed() || growth < 8 * 1024, "the host grew by %jd KiB", growth);
}

/* ---- leftovers, and the sweep ---- */

static const char *const sweep[] = {"device", "sweep", NULL};

/* Waits until sweeps of old objects have left this many. */
static void expect_swept(int objects)
{
    WAIT_UNTIL((bucket_age(bucket), !host_command(host, NULL, sweep)) &&
                   bucket_objects(bucket) <= objects,
               10000);
    ck_assert_int_eq(bucket_objects(bucket), objects);
}

TEST(the_sweep_removes_leftovers_of_an_s3_server_that_died_in_an_upload)
{
    s3_own_bucket("s3-dies");
    bucket_mode(bucket, "die");
    s3_expect_refused(s3_post(host, "Dies", upload_noise(79, 3 * MIB), 3 * MIB));
    bucket_ended(bucket);
    ck_assert_int_eq(bucket_objects(bucket), 1); /* half a document */
    bucket_run(bucket);
    ck_error(s3_get(host, DEVICE "/Dies"), 404, "");
    expect_swept(0);
    s3_own_bucket_end();
}

TEST(the_sweep_removes_leftovers_of_a_host_killed_in_an_upload)
{
    struct host *killed = s3_host("s3-killed", bucket, NULL);
    struct upload_body body = files_named("Killed");
    int before = bucket_objects(bucket), fd = raw_open(killed);

    bucket_mode(bucket, "hold");
    upload_file(&body, "SF_02C", "x", upload_noise(80, 300000), 300000);
    upload_close(&body);
    const char *head = text("POST " DEVICE " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                            "Content-Type: " UPLOAD_TYPE "\r\nContent-Length: %zu\r\n\r\n",
                            m->token, body.length);

    ck_assert_int_eq(write(fd, head, strlen(head)), (ssize_t)strlen(head));
    ck_assert_int_eq(write(fd, body.bytes, body.length), (ssize_t)body.length);
    while (bucket_count(bucket) == 0)
        ck_assert(host_alive(killed));
    host_kill(killed);
    close(fd);
    free(body.bytes);
    bucket_mode(bucket, "pass");
    WAIT_UNTIL(bucket_objects(bucket) > before, 10000);
    ck_error(s3_get(host, DEVICE "/Killed"), 404, "");
    db = database_connect(the_postgres, s3_database);
    sql_run(db, "UPDATE device_upload SET begun_at = now() - interval '2 hours'");
    PQfinish(db);
    expect_swept(before);
}

/* If the sweep ended an upload, its documents are never stored, however late it finishes. */
TEST(an_upload_aborted_by_the_sweep_is_refused)
{
    struct upload_body body = files_named("Fenced");
    int before = bucket_objects(bucket);

    upload_file(&body, "SF_02C", "a.bin", "too late", 8);
    const struct call call = upload_call(DEVICE, m, &body);

    db = database_connect(the_postgres, s3_database);
    sql_run(db, "DELETE FROM device_upload"); /* leftovers of killed hosts */
    bucket_mode(bucket, "hold");
    struct pending_call *pending = call_begin(host, &call);

    sql_soon(db, "SELECT count(*) FROM device_upload");
    sql_run(db, "DELETE FROM device_upload");
    bucket_mode(bucket, "pass");
    s3_expect_refused(call_end(pending));
    ck_error(s3_get(host, DEVICE "/Fenced"), 404, "");
    expect_swept(before);
}

TEST(the_sweep_removes_only_objects_without_a_document)
{
    enum { ORPHANS = 510 }; /* more than the sweep lists at once */
    static const char pattern[] = "%064x-01a1fde7-316c-754a-8708-f6719680%04x";
    struct answer *made = ck_status(s3_post(host, "Swept", "kept", 4), 201);
    int before = bucket_objects(bucket);

    for (int i = 0; i < ORPHANS; i++)
        bucket_plant(bucket, text(pattern, i * 65521, i), "orphan");
    bucket_plant(bucket, "readme.txt", "of somebody else");
    expect_swept(before + 1);
    bucket_plant(bucket, text(pattern, 1, 1), "young");
    ck_assert_int_eq(host_command(host, NULL, sweep), 0);
    ck_assert_int_eq(bucket_objects(bucket), before + 2);
    ck_assert_str_eq(ck_status(s3_get(other, s3_path(made, 0)), 200)->body, "kept");
}

TEST(a_sweep_reports_a_failing_s3_server)
{
    bucket_mode(bucket, "refuse");
    ck_assert_int_ne(host_command(host, NULL, sweep), 0);
    ck_assert_ptr_nonnull(strstr(file_text(host->log), "SlowDown"));
    bucket_mode(bucket, "corrupt");
    ck_assert_int_ne(host_command(host, NULL, sweep), 0);
    bucket_mode(bucket, "again");
    ck_assert_int_ne(host_command(host, NULL, sweep), 0);
    ck_assert_ptr_nonnull(strstr(file_text(host->log), "does not advance"));
    bucket_mode(bucket, "pass");
    ck_assert_int_eq(host_command(host, NULL, sweep), 0);
}

/* ---- backup: the commands of docs/operating.md, unchanged ---- */

enum { LENGTH = 300000 };

/* Returns the block of commands below a heading of the page. */
static const char *commands_of(const char *heading)
{
    const char *page = file_text(TEST_SOURCES "/../docs/operating.md");
    const char *at = strstr(page, text("\n### %s\n", heading));
    const char *begin = at ? strstr(at, "\n```bash\n") : NULL;
    const char *end = begin ? strstr(begin + 9, "```") : NULL;

    ck_assert_ptr_nonnull(end);
    return text("%.*s", (int)(end - begin - 9), begin + 9);
}

static void run_commands(const char *heading)
{
    const char *script = harness_path(text("%s.sh", heading));

    file_write(script, commands_of(heading));
    ck_assert_int_eq(system(text("sh -eu '%s' >'%s.log' 2>&1", script, script)), 0);
}

static void set_variables(const char *backup)
{
    const char *const variables[][2] = {
        {"RCLONE_CONFIG", harness_path("rclone.conf")},
        {"RCLONE_CONFIG_DOCUMENTS_TYPE", "s3"},
        {"RCLONE_CONFIG_DOCUMENTS_PROVIDER", "Other"},
        {"RCLONE_CONFIG_DOCUMENTS_ENDPOINT", bucket->endpoint},
        {"RCLONE_CONFIG_DOCUMENTS_REGION", "eu-test-1"},
        {"RCLONE_CONFIG_DOCUMENTS_ACCESS_KEY_ID", BUCKET_ACCESS_KEY},
        {"RCLONE_CONFIG_DOCUMENTS_SECRET_ACCESS_KEY", BUCKET_SECRET_KEY},
        {"bucket", BUCKET},
        {"backup", backup},
    };

    ck_assert_int_eq(unsetenv("AWS_CA_BUNDLE"), 0); /* rclone 1.60 exits if it is set */
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        ck_assert_int_eq(setenv(variables[i][0], variables[i][1], 1), 0);
}

static void empty_bucket(void)
{
    ck_assert_int_eq(
        system(text("find %s/" BUCKET " -name '*._S3rver_*' -delete", bucket->directory)), 0);
    ck_assert_int_eq(bucket_objects(bucket), 0);
}

TEST(the_documented_backup_commands_restore_documents)
{
    empty_bucket(); /* copying the documents of the other tests would take long */
    struct answer *first = ck_status(s3_post(host, "First", upload_noise(1, LENGTH), LENGTH), 201);

    set_variables(harness_path("bucket-backup"));
    run_commands("Copying the bucket");
    struct answer *after = ck_status(s3_post(host, "After", "later", 5), 201);

    empty_bucket();
    ck_status(s3_get(host, s3_path(first, 0)), 503);
    run_commands("Restoring the bucket");
    struct answer *file = ck_status(s3_get(other, s3_path(first, 0)), 200);

    ck_assert_uint_eq(file->length, LENGTH);
    ck_assert_mem_eq(file->body, upload_noise(1, LENGTH), LENGTH);
    ck_status(s3_get(host, s3_path(after, 0)), 503);
    ck_status(s3_post(other, "Again", "again", 5), 201);
}

SUITE(device_s3, .timeout_s = 120, .before_all = set_up, .after_all = s3_close)
