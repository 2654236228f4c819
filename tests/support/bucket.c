#include "bucket.h"

#include <dirent.h>
#include <sys/stat.h>

#include "receive.h"
#include "upload.h"

#define OBJECT "._S3rver_object" /* suffix that s3rver adds to file names */

enum { READY_MS = 20000, END_MS = 10000 };

struct bucket *bucket_make(const char *name, bool made)
{
    struct bucket *bucket = kept(calloc(1, sizeof *bucket));

    bucket->directory = harness_path(text("%s.bucket", name));
    bucket->log = harness_path(text("%s.s3.log", name));
    bucket->made = made;
    bucket->at.port = receiver_none()->at.port;
    bucket->endpoint = text("http://127.0.0.1:%d/", bucket->at.port);
    ck_assert_int_eq(mkdir(bucket->directory, 0700), 0);
    return bucket;
}

void bucket_encrypt(struct bucket *bucket, const struct tls_pair *tls)
{
    bucket->tls_port = receiver_none()->at.port;
    bucket->tls = *tls;
    bucket->endpoint = text("https://127.0.0.1:%d/", bucket->tls_port);
}

void bucket_run(struct bucket *bucket)
{
    const char *tls = bucket->tls_port ? text(" %d %s %s", bucket->tls_port, bucket->tls.key,
                                              bucket->tls.certificate)
                                       : "";

    bucket->at.pid = process_start(&(struct process_spec){
        .argv = words("node --openssl-legacy-provider " TEST_S3 "/server.js %d %s %s%s",
                      bucket->at.port, bucket->directory, bucket->made ? BUCKET : "", tls),
        .log = bucket->log});
    WAIT_UNTIL_MSG(http(&bucket->at, "GET", "/-/count", NULL, NULL)->status == 200, READY_MS,
                   "the S3 server does not answer:\n%s", file_text(bucket->log));
}

void bucket_stop(struct bucket *bucket)
{
    process_stop(bucket->at.pid, SIGKILL, END_MS);
    bucket->at.pid = 0;
}

void bucket_ended(struct bucket *bucket)
{
    int status;

    ck_assert(process_wait(bucket->at.pid, END_MS, &status));
    bucket->at.pid = 0;
}

void bucket_mode(struct bucket *bucket, const char *mode)
{
    ck_status(http(&bucket->at, "PUT", text("/-/%s", mode), NULL, NULL), 200);
}

long bucket_count(struct bucket *bucket)
{
    return strtol(ck_status(http(&bucket->at, "GET", "/-/count", NULL, NULL), 200)->body, NULL, 10);
}

static int count_below(const char *directory)
{
    DIR *open = opendir(directory);
    const struct dirent *entry;
    int count = 0;

    while (open && (entry = readdir(open))) {
        size_t length = strlen(entry->d_name);

        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            count += count_below(text("%s/%s", directory, entry->d_name));
        count +=
            length > strlen(OBJECT) && !strcmp(entry->d_name + length - strlen(OBJECT), OBJECT);
    }
    if (open)
        closedir(open);
    return count;
}

int bucket_objects(const struct bucket *bucket)
{
    return count_below(bucket->directory);
}

void bucket_plant(const struct bucket *bucket, const char *name, const char *content)
{
    const char *parent = text("%s/" BUCKET "/docs", bucket->directory);

    mkdir(parent, 0700);
    file_write(text("%s/%s" OBJECT, parent, name), content);
}

void bucket_age(const struct bucket *bucket)
{
    store_age(bucket->directory);
}

char *bucket_section(const struct bucket *bucket, const char *spool, const char *more)
{
    return text("device:\n  store: s3\n  documents: \"%s\"\n"
                "  s3_endpoint: \"%s\"\n  s3_region: eu-test-1\n"
                "  s3_bucket: " BUCKET "\n  s3_prefix: docs/\n"
                "  s3_access_key: " BUCKET_ACCESS_KEY "\n%s",
                spool, bucket->endpoint,
                more ? more : "  s3_secret_key: " BUCKET_SECRET_KEY "\n  s3_timeout: 40000\n");
}
