/*
 * What the suites of documents in a bucket stand on: a bucket that two hosts share, and M, who
 * sends documents. Each suite has its own.
 */
#ifndef TESTS_S3_H
#define TESTS_S3_H

#include "bucket.h"
#include "files.h"
#include "pair.h"

extern struct bucket *bucket;
extern struct person *m;
extern const char *s3_database;

/* For a suite's set-up, with the name of its database, and its tear-down. */
void s3_open(const char *name);

/* The same on a bucket that does not run yet. `more`: as bucket_section() takes it. */
void s3_open_on(const char *name, struct bucket *on, const char *more);
void s3_close(void);

/* A further host on the database. `more`: as bucket_section() takes it. */
struct host *s3_host(const char *name, const struct bucket *of, const char *more);

/* Where a host gathers what arrives and what it fetches. */
const char *s3_spool(const char *host_name);

/* A bucket and a host of the test's own, in place of the shared ones: for what ends a server. */
void s3_own_bucket(const char *name);
void s3_own_bucket_end(void);

/* POST of a device with one file of these bytes. */
struct answer *s3_post(const struct host *to, const char *external_id, const void *bytes,
                       size_t length);

/* The path of a document of an answer. */
const char *s3_path(const struct answer *made, size_t index);
struct answer *s3_get(const struct host *from, const char *path);

/* 503 with a Retry-After. */
void s3_expect_refused(struct answer *answer);

/*
 * That this host refuses an upload, keeps nothing of it, serves all else, and logs the reason
 * without a key. Stops it.
 */
void s3_refuses_uploads(struct host *host, const char *reason);

#endif
