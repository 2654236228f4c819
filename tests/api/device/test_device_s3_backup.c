/* Runs the commands of docs/operating.md that copy and restore a bucket, unchanged. */
#include "s3.h"

enum { LENGTH = 300000 };

static void set_up(void)
{
    s3_open("device_s3_backup");
}

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

SUITE(device_s3_backup, .timeout_s = 120, .before_all = set_up, .after_all = s3_close)
