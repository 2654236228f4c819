/*
 * Fixture of the suites of documents in a bucket: a bucket shared by two hosts, and M, who uploads
 * documents. Each suite has its own.
 */
#ifndef TESTS_S3_H
#define TESTS_S3_H

#include "bucket.h"
#include "files.h"
#include "pair.h"

extern struct bucket *bucket;
extern struct person *m;
extern const char *s3_database;

/* Call these in a suite's set-up, with the name of its database, and in its tear-down. */
void s3_open(const char *name);

/* Like s3_open(), on a bucket that does not run yet. `more`: as for bucket_section(). */
void s3_open_on(const char *name, struct bucket *on, const char *more);
void s3_close(void);

/* Starts another host on the database. `more`: as for bucket_section(). */
struct host *s3_host(const char *name, const struct bucket *of, const char *more);

/* Returns the directory in which a host stores files that are being uploaded or fetched. */
const char *s3_spool(const char *host_name);

/* Replaces the shared bucket and host by ones for this test only, for tests that end a server. */
void s3_own_bucket(const char *name);
void s3_own_bucket_end(void);

/* Sends POST for a device with one file of these bytes. */
struct answer *s3_post(const struct host *to, const char *external_id, const void *bytes,
                       size_t length);

/* Returns the path of a document in a response. */
const char *s3_path(const struct answer *made, size_t index);
struct answer *s3_get(const struct host *from, const char *path);

/* Fails the test unless the response is a 503 with Retry-After. */
void s3_expect_refused(struct answer *answer);

/*
 * Fails the test unless this host refuses an upload, keeps nothing of it, serves all other
 * requests, and logs the reason without a key. Stops the host.
 */
void s3_refuses_uploads(struct host *of, const char *reason);

#endif
