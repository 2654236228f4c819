/* Webhooks as their owners see them: registering, changing, listing, what became of deliveries. */
#ifndef TESTS_HOOK_H
#define TESTS_HOOK_H

#include "talk.h"

#define WEBHOOKS "/api/chat/webhooks"
#define WEBHOOK_MODULES "[auth, chat, health, webhook]"
#define WEBHOOK_LOCAL "webhook:\n  allow_networks: [\"127.0.0.0/8\", \"::1\"]\n"
#define TEST_SECRET "a secret of thirty-two characters"
#define PUBLIC_URL "https://platform.example.org/hook"

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

/* POST and PATCH with a body (taken). */
struct answer *webhook_create(const struct host *host, const struct person *by, json_t *body);
struct answer *webhook_change(const struct host *host, const struct person *by,
                              const struct webhook_made *webhook, json_t *body);

/* The webhook in the caller's list; NULL: it is not there. */
const json_t *webhook_listed(const struct host *host, const struct person *by, int64_t id);

#endif
