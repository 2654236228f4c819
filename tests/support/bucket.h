/*
 * An S3 server (tests/s3/server.js) with one bucket on its own port. It checks signatures and
 * contents, and fails on request (bucket_mode).
 */
#ifndef TESTS_BUCKET_H
#define TESTS_BUCKET_H

#include "client.h"
#include "tls.h"

#define BUCKET "documents"
#define BUCKET_ACCESS_KEY "S3RVER"
#define BUCKET_SECRET_KEY "S3RVER"

struct bucket {
    struct host at; /* has the port, for http() */
    const char *directory, *log;
    const char *endpoint; /* the setting of hosts */
    bool made;            /* whether the bucket is there */
    int tls_port;         /* 0: it has no certificate */
    struct tls_pair tls;
};

/* Returns a bucket on a free port; the server is not started yet. `made`: whether the bucket exists
 * as soon as the server runs. */
struct bucket *bucket_make(const char *name, bool made);

/* Makes the endpoint use TLS with this certificate; call it before bucket_run(). */
void bucket_encrypt(struct bucket *bucket, const struct tls_pair *tls);

void bucket_run(struct bucket *bucket);
void bucket_stop(struct bucket *bucket);

/* Waits until the server has ended without being stopped. */
void bucket_ended(struct bucket *bucket);

/* Sets the server's mode, one of the words in server.js. */
void bucket_mode(struct bucket *bucket, const char *mode);

/* Returns the number of requests since the last bucket_mode(). */
long bucket_count(struct bucket *bucket);

/* Returns the number of objects in the bucket. */
int bucket_objects(const struct bucket *bucket);

/* Puts a new file into the bucket's directory without the server knowing. */
void bucket_plant(const struct bucket *bucket, const char *name, const char *content);

/* Makes everything in the bucket an hour old. */
void bucket_age(const struct bucket *bucket);

/* Returns the section `device` for a host that keeps documents in the bucket, under the prefix
 * "docs/". */
char *bucket_section(const struct bucket *bucket, const char *spool, const char *more);

#endif
