/*
 * HTTP as the tests speak it: libcurl for requests that are well-formed, a bare socket for those
 * that are not. Answers live as long as the process. Secrets that go by are noted (secrets.h).
 */
#ifndef TESTS_CLIENT_H
#define TESTS_CLIENT_H

#include <curl/curl.h>

#include "harness.h"

struct answer {
    long status; /* 0: no answer; see `problem` */
    char *body;  /* with a NUL behind it */
    size_t length;
    json_t *json;  /* NULL: the body is no JSON */
    char *headers; /* of this answer, lines as they came */
    double seconds;
    char problem[CURL_ERROR_SIZE];
};

struct call {
    const char *method, *path;
    const char *token;          /* NULL: none */
    const char *body;           /* NULL: none */
    size_t length;              /* of the body; 0: up to its NUL */
    const char *type;           /* NULL: application/json */
    const char *const *headers; /* further "Name: value"; NULL-terminated */
    int timeout_ms;             /* 0: 30 s */
    CURL *connection;           /* of client_open(), kept alive between calls; NULL: a new one */
};

/* Once, in the runner. */
void client_open_library(void);

/* A connection to keep, for one thread; curl_easy_cleanup() ends it. */
CURL *client_open(void);

/* Fails the test where the API's reference does not have the answer (reference.h). */
struct answer *http_send(const struct host *host, const struct call *call);

/* The ordinary call; `json` is taken and may be NULL. */
struct answer *http(const struct host *host, const char *method, const char *path,
                    const char *token, json_t *json);

/* The first value of a header behind the first line of a head, or NULL. */
char *header_in(const char *head, const char *name);
const char *answer_header(const struct answer *answer, const char *name);

/* A string of the answer's object; fails the test when it is none. */
const char *answer_text(const struct answer *answer, const char *key);
int64_t answer_int(const struct answer *answer, const char *key);

/* That `warnings` of the answer has one that begins so; NULL: that it has none. */
void answer_warns(const struct answer *answer, const char *text);

/* Fails the test, and shows the answer, unless it has this status. Returns the answer. */
#define ck_status(got, expected) answer_expect((got), (expected), __FILE__, __LINE__)
struct answer *answer_expect(struct answer *answer, long status, const char *file, int line);

/* Besides, that it is the service's error body and its message begins so. */
#define ck_error(got, expected, message)                                                           \
    answer_expect_error((got), (expected), (message), __FILE__, __LINE__)
struct answer *answer_expect_error(struct answer *answer, long status, const char *message,
                                   const char *file, int line);

/* A segment of a path, percent-encoded. */
char *encoded(const char *segment);

/* ---- bare sockets (raw.c) ---- */

/* A connected socket to the host. */
int raw_open(const struct host *host);

/*
 * Sends the bytes on a new connection, and reads until the host closes it or is silent for
 * `quiet_ms`. Returns what it said; *closed (may be NULL) whether it closed.
 */
char *raw_send(const struct host *host, const void *bytes, size_t length, int quiet_ms,
               bool *closed);

/* The statuses in what raw_send() returned, in order; how many. */
int raw_statuses(const char *reply, int *statuses, int max);

#endif
