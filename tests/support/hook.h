/* Webhooks as their owners see them: registering, changing and listing webhooks, and the state of
 * their deliveries. */
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
    char *secret, *path; /* the whole secret; WEBHOOKS/<id> */
};

/* Starts a host with the module on its own database of that name; `more` is appended to the section
 * webhook, as lines that begin with two spaces. */
struct host *webhook_host(const char *name, const char *more);

/* Waits until this many hosts can send; until then, requests to test a webhook get a 503. */
void webhook_ready(const char *database, int hosts);

/* Sends POST with one event and TEST_SECRET. */
struct answer *webhook_try(const struct host *host, const struct person *by, const char *url,
                           const char *event);
struct webhook_made webhook_make(const struct host *host, const struct person *by, const char *url,
                                 const char *event);

/* Creates a webhook for message.new with TEST_SECRET and these members of the body, which may
 * replace them. */
struct webhook_made webhook_with(const struct host *host, const struct person *by, const char *url,
                                 const char *members);

/* Returns the webhook of a response to POST. */
struct webhook_made webhook_of(const struct answer *created);

/* Sends a request without a body to <path><suffix>. */
struct answer *webhook_call(const struct host *host, const struct person *by, const char *method,
                            const struct webhook_made *webhook, const char *suffix);

/* Tests a webhook; `body` is "" or begins with a space, as in ask(). Returns the outcome of the
 * attempt, which must be the expected one, even if the response was sent before it. */
const json_t *webhook_test(const struct host *host, const struct person *by,
                           const struct webhook_made *webhook, const char *body,
                           const char *expected);

/* Return the newest delivery, and a number or text of it. */
json_t *webhook_newest(const struct host *host, const struct person *by,
                       const struct webhook_made *webhook);

/* Waits until the newest delivery has that status, and returns it; fails the test after `ms`. */
json_t *webhook_wait(const struct host *host, const struct person *by,
                     const struct webhook_made *webhook, const char *status, int ms);

/* Returns the attempt with that index (from 0) of a delivery. */
const json_t *attempt_of(const json_t *delivery, size_t index);

/* Send POST and PATCH; both take ownership of the body. */
struct answer *webhook_create(const struct host *host, const struct person *by, json_t *body);
struct answer *webhook_change(const struct host *host, const struct person *by,
                              const struct webhook_made *webhook, json_t *body);

/* Returns the webhook in the caller's list, or NULL if it is not there. */
const json_t *webhook_listed(const struct host *host, const struct person *by, int64_t id);

#endif
