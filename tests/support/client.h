/*
 * HTTP client of the tests: libcurl for well-formed requests, a bare socket for malformed ones.
 * Responses live as long as the process. The client records secrets that it sends or receives
 * (secrets.h).
 */
#ifndef TESTS_CLIENT_H
#define TESTS_CLIENT_H

#include <curl/curl.h>

#include "harness.h"

struct answer {
    long status; /* 0: no response; see `problem` */
    char *body;  /* terminated by a NUL */
    size_t length;
    json_t *json;  /* NULL: the body is not JSON */
    char *headers; /* unparsed lines of this response */
    double seconds;
    char problem[CURL_ERROR_SIZE];
};

struct call {
    const char *method, *path;
    const char *token;          /* NULL: none */
    const char *body;           /* NULL: none */
    size_t length;              /* length of the body; 0: up to a NUL */
    const char *type;           /* NULL: application/json */
    const char *const *headers; /* further "Name: value"; NULL-terminated */
    CURL *connection;           /* from client_open(), kept alive between calls; NULL: a new one */
    const struct host *host;    /* NULL: the host that the function is called with */
};

/* Call it once, in the runner. */
void client_open_library(void);

/* Returns a connection to keep. Only one thread may use it; free it with curl_easy_cleanup(). */
CURL *client_open(void);

/* Fails the test if the API's reference does not list the response (reference.h). */
struct answer *http_send(const struct host *host, const struct call *call);

/* Sends an ordinary request; takes ownership of `json`, which may be NULL. */
struct answer *http(const struct host *host, const char *method, const char *path,
                    const char *token, json_t *json);

/* Waits until a GET gets this status; fails the test if it does not for long. */
void status_soon(const struct host *host, const char *path, const char *token, long status);

/* Returns the first value of a header in a head (the first line is skipped), or NULL. */
char *header_in(const char *head, const char *name);
const char *answer_header(const struct answer *answer, const char *name);

/* Returns a string member of the response's object; fails the test if it is not a string. */
const char *answer_text(const struct answer *answer, const char *key);
int64_t answer_int(const struct answer *answer, const char *key);

/* Fails the test unless one of the response's `warnings` begins with the text; NULL: unless the
 * response has none. */
void answer_warns(const struct answer *answer, const char *text);

/* Fails the test and prints the response unless it has this status. Returns the response. */
#define ck_status(got, expected) answer_expect((got), (expected), __FILE__, __LINE__)
struct answer *answer_expect(struct answer *answer, long status, const char *file, int line);

/* Fails the test if an error names the programs, files or tables of the host. */
void error_hides_internals(const char *headers, const char *body);

/* Also requires the service's error body, with a message that begins with `message`, and the header
 * Retry-After of a 429 or 503. */
#define ck_error(got, expected, message)                                                           \
    answer_expect_error((got), (expected), (message), __FILE__, __LINE__)
struct answer *answer_expect_error(struct answer *answer, long status, const char *message,
                                   const char *file, int line);

/* A segment of a path, percent-encoded. */
char *encoded(const char *segment);

/* Returns a socket that is connected to the host, for bytes that no client library would send. */
int raw_open(const struct host *host);

#endif
