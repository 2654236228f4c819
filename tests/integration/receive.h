/*
 * Webhooks as the tests see them, from both ends: registering them, and receiving.
 *
 * A catcher is a receiver inside of the test that keeps every request, byte for byte, and answers
 * what it was told to. It has threads, so it is made in the test that uses it, not in a set-up.
 * The receiver of bench/ is a program; it takes loads and knows modes, see bench/receiver/main.c.
 */
#ifndef TESTS_RECEIVE_H
#define TESTS_RECEIVE_H

#include <pthread.h>

#include "talk.h"

#define WEBHOOKS "/api/chat/webhooks"
#define WEBHOOK_MODULES "[auth, chat, health, webhook]"
#define WEBHOOK_LOCAL "webhook:\n  allow_networks: [\"127.0.0.0/8\", \"::1\"]\n"
#define TEST_SECRET "a secret of thirty-two characters"

/* ---- webhooks ---- */

struct webhook_made {
    int64_t id;
    char *secret, *path; /* in full; WEBHOOKS/<id> */
};

/* A host with the module, on a database of its own of that name; `more` is appended to the section
 * webhook, lines with two spaces before them. */
struct host *webhook_host(const char *name, const char *more);

/* Waits until so many hosts can send: before that a test answers 503. */
void webhook_ready(const char *database, int hosts);

/* POST with one event and TEST_SECRET. */
struct answer *webhook_try(const struct host *host, const struct person *by, const char *url,
                           const char *event);
struct webhook_made webhook_make(const struct host *host, const struct person *by, const char *url,
                                 const char *event);

/* <path><suffix>, without a body. */
struct answer *webhook_call(const struct host *host, const struct person *by, const char *method,
                            const struct webhook_made *webhook, const char *suffix);

/* The newest delivery, and a number or text of it. */
json_t *webhook_newest(const struct host *host, const struct person *by,
                       const struct webhook_made *webhook);

/* Waits until the newest delivery has that status, and returns it; fails the test after `ms`. */
json_t *webhook_wait(const struct host *host, const struct person *by,
                     const struct webhook_made *webhook, const char *status, int ms);

/* The attempt of that number (from 0) in a delivery. */
const json_t *attempt_of(const json_t *delivery, size_t index);

/* Hexadecimal HMAC-SHA256, and the value of webhook-signature ("v1,…") over id.timestamp.body. */
char *hmac_hex(const char *secret, const void *body, size_t length);
char *hmac_standard(const char *secret, const char *id, const char *timestamp, const void *body,
                    size_t length);

/* ---- catchers ---- */

#define ANSWER_OK "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define ANSWER_500 "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops"
#define ANSWER_NONE "" /* the connection stays open and silent */

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
};

/* Only a port that is free, for another program. */
struct receiver *receiver_none(void);

struct receiver *receiver_start(const char *name);
char *receiver_url(const struct receiver *receiver, const char *path);

/* Requests to a path, and [[id, ms], …] of them in the order of arrival. */
const json_t *receiver_ids(const struct receiver *receiver, const char *path);
size_t receiver_count(const struct receiver *receiver, const char *path);

#endif
