#include "s3.h"

struct bucket *bucket;

const char *s3_database;

const char *s3_spool(const char *host_name)
{
    return harness_path(text("%s.spool", host_name));
}

struct host *s3_host(const char *name, const struct bucket *of, const char *more)
{
    return host_start(&(struct host_spec){.name = name,
                                          .database = s3_database,
                                          .modules = "[auth, device, health]",
                                          .more = bucket_section(of, s3_spool(name), more)});
}

void s3_open(const char *name)
{
    s3_open_on(name, bucket_make(name, true), NULL);
}

void s3_open_on(const char *name, struct bucket *on, const char *more)
{
    s3_database = database_make(the_postgres, name);
    bucket = on;
    bucket_run(bucket);
    host = s3_host(text("%s-one", name), bucket, more);
    other = s3_host(text("%s-two", name), bucket, more);
    m = person_make(host, admin_of(host), "s3.m", NULL);
}

void s3_close(void)
{
    hosts_stop();
    bucket_stop(bucket);
}

void s3_own_bucket(const char *name)
{
    bucket = bucket_make(name, true);
    bucket_run(bucket);
    host = s3_host(name, bucket, NULL);
}

void s3_own_bucket_end(void)
{
    host_stop(host);
    bucket_stop(bucket);
}

struct answer *s3_post(const struct host *to, const char *external_id, const void *bytes,
                       size_t length)
{
    struct upload_body body = files_named(external_id);

    upload_file(&body, "SF_02C", "a.bin", bytes, length);
    return files_post(to, m, &body);
}

const char *s3_path(const struct answer *made, size_t index)
{
    return text(DEVICE "/%s/documents/%s", answer_text(made, "uuid"),
                files_document(made, index, "id"));
}

struct answer *s3_get(const struct host *from, const char *path)
{
    return http(from, "GET", path, m->token, NULL);
}

void s3_expect_refused(struct answer *answer)
{
    ck_error(answer, 503, "");
}

void s3_refuses_uploads(struct host *of, const char *reason)
{
    int before = bucket_objects(bucket);

    s3_expect_refused(s3_post(of, of->name, "1", 1));
    ck_status(s3_get(of, "/api/health"), 200);
    status_soon(of, "/api/health/status", m->token, 200); /* Redis is connected after the start */
    ck_error(s3_get(of, text(DEVICE "/%s", of->name)), 404, "");
    ck_assert_int_eq(bucket_objects(bucket), before);
    ck_assert(store_settles(s3_spool(of->name)));
    host_logs(of, 0, reason);
    ck_assert_uint_eq(host_logged(of, BUCKET_SECRET_KEY), 0);
    host_stop(of);
}
