/*
 * webhook: signed delivery of events to URLs that users register.
 *
 * Two halves. The API (api/, publish/): webhooks, what they may see, the statement that enqueues in
 * the publisher's transaction, the log, jobs and commands; all of it on fibers of the host's loops.
 * The sender (sender/) delivers, on a worker's thread. Between them lie the tables of schema.sql
 * and the few functions of sender/sender.h.
 *
 * `struct webhook` is the state of one generation; apart from the places of waiting tests nothing
 * in it changes after `open`, the sender guards itself.
 *
 * Functions that take a request and return int give 0, or the status of the answer they gave,
 * unless their comment differs.
 */
#ifndef WEBHOOK_H
#define WEBHOOK_H

#include <stdatomic.h>

#include <busbar/busbar.h>

#include "modules/common/target.h"
#include "modules/webhook/http/retry_time.h"
#include "modules/webhook/http/transfer.h"

#define WEBHOOK_CHANNEL "webhook"
#define WEBHOOK_AUTH_CHANNEL "busbar_auth"

/* SQL: the log of the delivery d with room for one more attempt, and the number of that attempt. A
 * log keeps the last 100, however often its delivery is sent again. */
#define WEBHOOK_LOG "CASE WHEN jsonb_array_length(d.log) < 100 THEN d.log ELSE d.log - 0 END"
#define WEBHOOK_LOG_NUMBER "coalesce((d.log -> -1 ->> 'number')::int, 0) + 1"

/* In place of the names of events: all of them, also those of modules that are loaded later. */
#define WEBHOOK_ALL_EVENTS "*"
#define WEBHOOK_PING "ping" /* the event of a test, to which nobody subscribes */

struct sender;
struct slots;

/* The settings as the file has them, in the units of the table in module.c. */
struct webhook_section {
    json_t *retry_delays, *allow_networks, *allow_ports, *open_networks;
    int64_t timeout, max_age, retention_days;
    int64_t slots, slots_per_webhook;
    int64_t connections, connections_per_receiver, connection_idle;
    bool http2;
    int64_t memory, queue_per_webhook, per_account, tests;
};

struct webhook_settings {
    struct schedule schedule; /* webhook.retry_delays */
    struct transfers_settings transfers;
    struct target_rules targets; /* webhook.allow_networks, webhook.allow_ports */
    int64_t max_age_ms;          /* how long a delivery may wait */
    int64_t retention_days;
    size_t slots;             /* attempts at the same time */
    size_t slots_per_webhook; /* of one webhook */
    size_t memory;            /* bytes of deliveries kept in memory */
    size_t queue_per_webhook; /* deliveries of one webhook kept in memory */
    size_t per_account;       /* webhooks of one account */
    size_t tests;             /* tests that wait at the same time */
};

struct webhook {
    struct bb_host *host;
    struct webhook_settings settings;
    const struct bb_accounts *accounts;
    void *accounts_state;
    struct sender *sender;
    atomic_int_least64_t *testers; /* webhook.tests places: the account that waits, or 0 */
    struct slots *long_answers;    /* under way (modules/common/slots.h) */
};

/* ---- settings.c ---- */

/* Reads the settings; 0, or -1 after bb_open_fail(). */
int webhook_settings_read(struct bb_host *host, struct webhook_settings *settings);

/* ---- secret.c: any thread ---- */

#define WEBHOOK_SECRET_MAX 256 /* characters */

/* Seals a secret for a webhook. *sealed is given: free(). 0, or -1. */
int webhook_secret_seal(struct bb_host *host, int64_t webhook, const char *secret,
                        unsigned char **sealed, size_t *length);

/* Opens a sealed secret from a cell (bytea as \x hexadecimal). Given: free(). NULL: cannot. */
char *webhook_secret_open(struct bb_host *host, int64_t webhook, const char *cell);

#define WEBHOOK_SECRET_BYTES 32 /* of a new one, which is hexadecimal */

/* "****" and the last 4 characters; of one of up to 4 characters "****". Memory of the request. */
char *webhook_secret_mask(struct bb_request *rq, const char *secret);

/* Characters (code points) of UTF-8. */
size_t webhook_characters(const char *text);

/* ---- outcome.c: what a test waits for ---- */

/*
 * The outcome of a delivery's first attempt, held by the waiting request and by the sender, each of
 * which lets go of it once. The sender says it exactly once, and before it drops the delivery
 * for whatever reason.
 */
struct webhook_outcome {
    atomic_int holders;
    struct bb_host *host;
    struct bb_completion *completion;
    int status; /* of the answer; 0: none */
    bool delivered;
    int64_t duration_ms;
    char error[256]; /* "": none */
};

/* Held twice; NULL: no memory. */
struct webhook_outcome *webhook_outcome_new(struct bb_request *rq);
void webhook_outcome_release(void *outcome);

/* The sender's: fills it in, opens the completion, lets go. `error` NULL: none. Any thread. */
void webhook_outcome_say(struct webhook_outcome *outcome, bool delivered, int status,
                         int64_t duration_ms, const char *error);

/* ---- notify.c: what changed, for all hosts ---- */

/*
 * A change runs bb_notify() of WEBHOOK_CHANNEL in its transaction; after the commit, and
 * before it answers, the handler calls webhook_changed() for this host. Payloads: "hook:ID",
 * "queued:ID" (something waits without an owner); others mean all.
 */

/* Tells all senders, a successor's on this host too, that something waits; if that fails they find
 * it a little later. Parks. */
void webhook_tell_queued(struct bb_request *rq);
/* The same in a transaction. 0 or -1. */
int webhook_notify_queued(struct bb_request *rq, struct bb_tx *tx);

#endif
