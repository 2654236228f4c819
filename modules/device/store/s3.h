/*
 * The wire below store_s3.c: signed requests to a server that speaks S3, one at a time on each
 * thread. Connections are kept between requests.
 *
 * Signatures are libcurl's (CURLOPT_AWS_SIGV4). What is signed is the path and the query as they
 * stand in the URL, which 7.88 neither encodes nor sorts, and the hash that x-amz-content-sha256
 * names: so callers write them in their canonical form, and a PUT is signed with the hash of its
 * content. A header that is set to nothing ("Expect:") would be signed and not sent: there is none.
 */
#ifndef DEVICE_S3_H
#define DEVICE_S3_H

#include <curl/curl.h>
#include <pthread.h>

#include "modules/device/store/store.h"

enum {
    S3_THREADS = 8, /* of the pool, and connections kept */
    S3_BASE = 1300,
    S3_URL = S3_BASE + 255 + STORE_NAME + 2,
    S3_BODY = 4 * 1024 * 1024, /* of an answer that is no object */
    S3_CODE = 64,
    S3_CODES_READ = 4096 /* of an error's body */
};

#define S3_NO_CONTENT "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct s3 {
    struct store store; /* first */
    char base[S3_BASE]; /* endpoint and bucket: "https://host/bucket" */
    const char *prefix, *access_key, *secret_key, *ca;
    char scope[128]; /* for CURLOPT_AWS_SIGV4 */
    int64_t timeout_ms;
    pthread_mutex_t lock;
    CURL *idle[S3_THREADS]; /* under the lock; NULL: taken, or not made yet */
};

struct s3_request {
    struct s3 *s3;
    const char *method; /* "GET", "PUT", "DELETE" */
    const char *url;
    const char *sha256; /* of what is sent */
    int64_t until_ms;   /* monotonic; when it must have ended */
    int file;           /* PUT: what is sent, from its beginning; else -1 */
    int64_t length;     /* of it */
    /* What a 200 brings; returns 0, or -1 to give up. NULL: nothing is wanted. */
    int (*take)(void *arg, const char *bytes, size_t length);
    void *arg;
    long status;        /* 0: there was no answer */
    char code[S3_CODE]; /* of an error, as "NoSuchKey"; "": none was given */
};

/* s3_settings.c: what is wrong with them, for the log; NULL: nothing. */
const char *s3_settings_problem(const struct device_settings *settings);

/* Milliseconds of the monotonic clock. */
int64_t s3_now_ms(void);

/* 0, if the answer is 2xx and came whole; or -1 with the reason in `why`. */
int s3_send(struct s3_request *request, char why[STORE_WHY]);

/* The names in one answer of ListObjectsV2. */
struct s3_page {
    const char *prefix;
    struct store_list *list;
    bool truncated, seen; /* there is more; there was something */
    const char *problem;  /* NULL: none */
    struct s3_reader *reader;
};

/* s3_list.c: reads it piece by piece. 0, or -1. */
int s3_page_begin(struct s3_page *page);
int s3_page_take(void *page, const char *bytes, size_t length);
int s3_page_end(struct s3_page *page);

/* The Code of an error's body, if there is one that may stand in a log; else "". */
void s3_error_code(const char *body, size_t length, char code[S3_CODE]);

#endif
