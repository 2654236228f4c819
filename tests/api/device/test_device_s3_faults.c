/*
 * A bucket that refuses, cuts, hangs, corrupts or disappears: each document has
 * its row and each row its document, contents are never wrong, and responses are clear.
 */
#include "s3.h"

static void set_up(void)
{
    s3_open_on("device_s3_faults", bucket_make("device_s3_faults", true),
               "  s3_secret_key: " BUCKET_SECRET_KEY "\n  s3_timeout: 20000\n");
}

TEST(a_failed_upload_to_s3_leaves_nothing)
{
    int before = bucket_objects(bucket);

    EACH_TEXT (mode, "refuse", "cut", "hang") {
        bucket_mode(bucket, mode);
        s3_expect_refused(s3_post(host, "Fails", upload_noise(77, 3 * MIB), 3 * MIB));
        ck_assert_int_gt(bucket_count(bucket), 0);
        ck_status(s3_get(host, "/api/health"), 200);
        ck_error(s3_get(host, DEVICE "/Fails"), 404, "");
        ck_assert(store_settles(s3_spool(host->name)));
    }
    host_logs(host, 0, "PUT: Operation timed out");
    bucket_mode(bucket, "pass");
    ck_assert_int_eq(bucket_objects(bucket), before);
    ck_status(s3_post(host, "Fails", upload_noise(77, 3 * MIB), 3 * MIB), 201);
    ck_assert_int_eq(bucket_objects(bucket), before + 1);
}

TEST(a_failed_download_from_s3_never_returns_wrong_content)
{
    char *bytes = upload_noise(78, 2 * MIB);
    const char *path = s3_path(ck_status(s3_post(host, "Reads", bytes, 2 * MIB), 201), 0);

    EACH_TEXT (mode, "refuse", "cut", "hang", "corrupt") {
        bucket_mode(bucket, mode);
        s3_expect_refused(s3_get(other, path));
        ck_status(s3_get(other, "/api/health"), 200);
    }
    bucket_mode(bucket, "pass");
    ck_assert_mem_eq(ck_status(s3_get(other, path), 200)->body, bytes, 2 * MIB);
    ck_assert(store_settles(s3_spool(other->name)));
}

TEST(downloads_work_again_when_the_s3_server_is_back)
{
    s3_own_bucket("s3-restarts");
    const char *path = s3_path(ck_status(s3_post(host, "Restarts", "content", 7), 201), 0);

    bucket_stop(bucket);
    s3_expect_refused(s3_get(host, path));
    s3_expect_refused(s3_post(host, "Restarts 2", "another", 7));
    bucket_run(bucket);
    ck_assert_str_eq(ck_status(s3_get(host, path), 200)->body, "content");
    s3_own_bucket_end();
}

SUITE(device_s3_faults, .timeout_s = 120, .before_all = set_up, .after_all = s3_close)
