/*
 * A server that speaks S3 (tests/s3/server.js), with one bucket, on a port of its own: it checks
 * signatures and contents, and fails as it is told to.
 */
#ifndef TESTS_BUCKET_H
#define TESTS_BUCKET_H

#include "client.h"
#include "tls.h"

#define BUCKET "documents"
#define BUCKET_ACCESS_KEY "S3RVER"
#define BUCKET_SECRET_KEY "S3RVER"

struct bucket {
    struct host at; /* for http(): its port */
    const char *directory, *log;
    const char *endpoint; /* for hosts */
    bool made;            /* whether the bucket is there */
    int tls_port;         /* 0: it has no certificate */
    struct tls_pair tls;
};

/* On a free port, not started yet. `made`: the bucket is there once it is. */
struct bucket *bucket_make(const char *name, bool made);

/* Before it runs: its endpoint speaks TLS then, with this certificate. */
void bucket_encrypt(struct bucket *bucket, const struct tls_pair *tls);

void bucket_run(struct bucket *bucket);
void bucket_stop(struct bucket *bucket);

/* Waits until it has ended by itself. */
void bucket_ended(struct bucket *bucket);

/* What it does from now on: a word of server.js. */
void bucket_mode(struct bucket *bucket, const char *mode);

/* Requests since then. */
long bucket_count(struct bucket *bucket);

/* Objects in it. */
int bucket_objects(const struct bucket *bucket);

/* Puts a file beside the server's back, an hour old. */
void bucket_plant(const struct bucket *bucket, const char *name, const char *content);

/* Makes all that is in it an hour old. */
void bucket_age(const struct bucket *bucket);

/* The section `device` of a host that keeps documents there, below the prefix "docs/". */
char *bucket_section(const struct bucket *bucket, const char *spool, const char *more);

#endif
