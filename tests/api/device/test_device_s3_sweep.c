/* Leftovers of interrupted uploads in a bucket, and the sweep that removes them. */
#include "s3.h"

static void set_up(void)
{
    s3_open("device_s3_sweep");
}

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

    bucket_mode(bucket, "slow");
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
    ck_error(s3_get(host, DEVICE "/Killed"), 404, "");
    db = database_connect(the_postgres, s3_database);
    sql_run(db, "UPDATE device_upload SET begun_at = now() - interval '2 hours'");
    PQfinish(db);
    expect_swept(before);
}

static void *post_slowly(void *arg)
{
    *(struct answer **)arg = s3_post(host, "Fenced", "too late", 8);
    return NULL;
}

/* If the sweep ended an upload, its documents are never stored, however late it finishes. */
TEST(an_upload_aborted_by_the_sweep_is_refused)
{
    int before = bucket_objects(bucket);
    struct answer *answer = NULL;
    pthread_t thread;

    db = database_connect(the_postgres, s3_database);
    sql_run(db, "DELETE FROM device_upload"); /* leftovers of killed hosts */
    bucket_mode(bucket, "slow");
    ck_assert_int_eq(pthread_create(&thread, NULL, post_slowly, &answer), 0);
    sql_soon(db, "SELECT count(*) FROM device_upload");
    sql_run(db, "DELETE FROM device_upload");
    pthread_join(thread, NULL);
    s3_expect_refused(answer);
    bucket_mode(bucket, "pass");
    ck_error(s3_get(host, DEVICE "/Fenced"), 404, "");
    expect_swept(before);
}

TEST(the_sweep_removes_only_objects_without_a_document)
{
    enum { ORPHANS = 1100 };
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

SUITE(device_s3_sweep, .timeout_s = 120, .before_all = set_up, .after_all = s3_close)
