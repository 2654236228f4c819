/*
 * The wire protocol of store_s3.c: signed requests to an S3 server, one at a time on each thread.
 * Connections are kept between requests.
 *
 * libcurl signs the requests (CURLOPT_AWS_SIGV4). It signs the path and the query as they are in
 * the URL, which libcurl 7.88 neither encodes nor sorts, and the hash in x-amz-content-sha256. So
 * callers must write path and query in canonical form, and a PUT is signed with the hash of its
 * content. No header may be set to an empty value ("Expect:"), because libcurl would sign it and
 * not send it.
 */
#ifndef DEVICE_S3_H
#define DEVICE_S3_H

#include <curl/curl.h>
#include <pthread.h>

#include "modules/device/store/store.h"

enum {
    S3_THREADS = 8, /* threads of the pool, and connections kept */
    S3_BASE = 1300,
    S3_URL = S3_BASE + 255 + STORE_NAME + 2,
    S3_BODY = 4 * 1024 * 1024, /* of a response that is not an object */
    S3_CODE = 64,
    S3_CODES_READ = 4096 /* of an error's body */
};

#define S3_NO_CONTENT "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct s3 {
    struct store store; /* must be first */
    char base[S3_BASE]; /* endpoint and bucket: "https://host/bucket" */
    const char *prefix, *access_key, *secret_key, *ca;
    char scope[128]; /* for CURLOPT_AWS_SIGV4 */
    int64_t timeout_ms;
    pthread_mutex_t lock;
    CURL *idle[S3_THREADS]; /* under the lock; NULL: in use, or not created yet */
};

struct s3_request {
    struct s3 *s3;
    const char *method; /* "GET", "PUT", "DELETE" */
    const char *url;
    const char *sha256; /* of the content sent */
    int64_t until_ms;   /* monotonic deadline */
    int file;           /* PUT: the content, from its beginning; else -1 */
    int64_t length;     /* of `file` */
    /*
     * Receives the content of a 200 response. Returns 0, or -1 to give up. NULL: the content is not
     * wanted.
     */
    int (*take)(void *arg, const char *bytes, size_t length);
    void *arg;
    long status;        /* 0: there was no response */
    char code[S3_CODE]; /* of an error, for example "NoSuchKey"; "": none */
};

/* Returns the monotonic clock in milliseconds. */
int64_t s3_now_ms(void);

/* Returns 0 if the response is 2xx and complete, or -1 with the reason in `why`. */
int s3_send(struct s3_request *request, char why[STORE_WHY]);

/* Parser of one ListObjectsV2 response. */
struct s3_page {
    const char *prefix;
    struct store_list *list;
    bool truncated, seen; /* there are more names; there was at least one */
    const char *problem;  /* NULL: none */
    struct s3_reader *reader;
};

/* s3_list.c: parses the response piece by piece. Return 0, or -1. */
int s3_page_begin(struct s3_page *page);
int s3_page_take(void *page, const char *bytes, size_t length);
int s3_page_end(struct s3_page *page);

/* Extracts the Code of an error's body if it is safe to log; else "". */
void s3_error_code(const char *body, size_t length, char code[S3_CODE]);

#endif
