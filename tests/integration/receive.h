/*
 * Receiving: signatures, and catchers.
 *
 * A catcher is a receiver inside of the test that keeps every request, byte for byte, and answers
 * what it was told to. It has threads, so it is made in the test that uses it, not in a set-up.
 * The receiver of bench/ is a program; it takes loads and knows modes, see bench/receiver/main.c.
 */
#ifndef TESTS_RECEIVE_H
#define TESTS_RECEIVE_H

#include <pthread.h>

#include "hook.h"
#include "tls.h"

/* Hexadecimal HMAC-SHA256, and the value of webhook-signature ("v1,…") over id.timestamp.body. */
char *hmac_hex(const char *secret, const void *body, size_t length);
char *hmac_standard(const char *secret, const char *id, const char *timestamp, const void *body,
                    size_t length);

/* ---- catchers ---- */

#define ANSWER_OK "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define ANSWER_500 "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops"
#define ANSWER_NONE ""   /* the connection stays open and silent */
#define ANSWER_CUT "cut" /* the connection is closed without an answer */

struct caught {
    char *head; /* with its blank line */
    char *body;
    size_t length;
    int64_t at_ms; /* when it was complete */
};

struct catcher {
    int listener, port;
    const char *const *answers;
    pthread_mutex_t lock;
    struct caught list[4096];
    size_t count, connections;
};

/* Answers in this order, the last one for ever; NULL-terminated, and lives as long as the test. */
struct catcher *catcher_start(const char *const *answers);

/* http://127.0.0.1:<port>/<path> */
char *catcher_url(const struct catcher *catcher, const char *path);

/* Waits for so many requests in all; the last one of them. Fails the test after `ms`. */
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

/* Only a port that is free, for another program. */
struct receiver *receiver_none(void);

struct receiver *receiver_start(const char *name);
/* One that speaks TLS as well, with certificates of that authority. */
struct receiver *receiver_start_tls(const char *name, const struct tls_pair *authority);
char *receiver_url(const struct receiver *receiver, const char *path);

/* Requests to a path, and [[id, ms], …] of them in the order of arrival. */
const json_t *receiver_ids(const struct receiver *receiver, const char *path);
size_t receiver_count(const struct receiver *receiver, const char *path);

#endif
