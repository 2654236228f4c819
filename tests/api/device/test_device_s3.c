/*
 * Documents in a bucket that several hosts share are the same from each host; and a store that
 * cannot be used at all. See test_device_s3_faults.c for a store that fails later, and
 * test_device_s3_sweep.c for leftovers.
 */
#include "s3.h"
#include "secrets.h"

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
    unsigned files = (unsigned)repetitions(3, 10);

    ck_status(s3_post(flat, "Warm", "warm", 4), 201);
    int64_t before = process_status(flat->pid, "VmHWM:");

    for (unsigned i = 0; i < files; i++)
        upload_file(&body, "SF_02C", "x", upload_noise(i + 300, 10 * MIB), 10 * MIB);
    struct answer *made = ck_status(files_post(flat, m, &body), 201);

    for (unsigned i = 0; i < files; i++)
        ck_assert_uint_eq(ck_status(s3_get(flat, s3_path(made, i)), 200)->length, 10 * MIB);
    int64_t growth = process_status(flat->pid, "VmHWM:") - before;

    ck_assert_int_gt(before, 0);
    ck_assert_msg(process_shadowed() || growth < 8 * 1024, "the host grew by %jd KiB", growth);
}

SUITE(device_s3, .timeout_s = 120, .before_all = set_up, .after_all = s3_close)
