/*
 * Receivers of webhooks and their signatures.
 *
 * A catcher is a receiver inside the test that keeps every request, byte for byte, and sends the
 * responses that the test lists. It has threads, so make it in the test that uses it, not in a
 * set-up. The receiver of bench/ is a separate program that takes high loads and has modes; see
 * bench/receiver/main.c.
 */
#ifndef TESTS_RECEIVE_H
#define TESTS_RECEIVE_H

#include <pthread.h>

#include "hook.h"
#include "tls.h"

/* Return the hexadecimal HMAC-SHA256, and the value of webhook-signature ("v1,…") over
 * id.timestamp.body. */
char *hmac_hex(const char *secret, const void *body, size_t length);
char *hmac_standard(const char *secret, const char *id, const char *timestamp, const void *body,
                    size_t length);

/* ---- catchers ---- */

#define ANSWER_OK "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define ANSWER_GONE "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"
#define ANSWER_500 "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops"
#define ANSWER_NONE ""   /* keeps the connection open and silent */
#define ANSWER_CUT "cut" /* closes the connection after the bytes that follow "cut", if any */

struct caught {
    char *head; /* including the blank line */
    char *body;
    size_t length;
    int64_t at_ms; /* when the request was complete */
};

struct catcher {
    int port;
    const char *const *answers;
    pthread_mutex_t lock;
    struct caught list[4096];
    size_t count, connections;
};

/* Sends these responses in order and repeats the last one forever. catcher_start() takes a list
 * that ends with NULL; NULL: ANSWER_OK only. */
#define catcher_of(...) catcher_start((const char *const[]){__VA_ARGS__, NULL})
struct catcher *catcher_start(const char *const *answers);

/* http://127.0.0.1:<port>/<path> */
char *catcher_url(const struct catcher *catcher, const char *path);

/* Waits for this many requests in total and returns the last one. Fails the test after `ms`. */
const struct caught *catcher_wait(struct catcher *catcher, size_t count, int ms);
size_t catcher_count(struct catcher *catcher);
size_t catcher_connections(struct catcher *catcher);

/* The value of a header, or NULL. */
char *caught_header(const struct caught *caught, const char *name);

/* ---- the receiver of bench/ ---- */

struct receiver {
    pid_t pid;
    struct host at; /* its port, for http() */
    int tls_port;   /* 0: none */
};

/* Only reserves a free port, for another program. */
struct receiver *receiver_none(void);

struct receiver *receiver_start(const char *name);
/* Starts a receiver that also accepts TLS, with certificates of that authority. */
struct receiver *receiver_start_tls(const char *name, const struct tls_pair *authority);
char *receiver_url(const struct receiver *receiver, const char *path);

/* Returns the requests to a path as [[id, ms], …] in the order of arrival. */
const json_t *receiver_ids(const struct receiver *receiver, const char *path);
size_t receiver_count(const struct receiver *receiver, const char *path);

#endif
