/*
 * webhook: signed delivery of events to URLs that users register.
 *
 * The module has two halves. The API (api/, publish/) has the routes, jobs and commands, the scopes
 * of owners, and the statement that enqueues deliveries in the publisher's transaction; it runs on
 * fibers of the host's loops. The sender (sender/) delivers, on a worker thread. The halves are
 * connected by the tables of schema.sql and the few functions of sender/sender.h.
 *
 * `struct webhook` is the state of one generation. It does not change after `open`, except for the
 * sender and the slots, which are thread-safe.
 *
 * Functions that take a request and return int return 0, or the status of the response sent, unless
 * described otherwise.
 */
#ifndef WEBHOOK_H
#define WEBHOOK_H

#include <stdatomic.h>
#include <sys/queue.h>

#include <busbar/busbar.h>

#include "modules/common/target.h"
#include "modules/webhook/http/retry_time.h"

#define WEBHOOK_CHANNEL "webhook"
#define WEBHOOK_AUTH_CHANNEL "busbar_auth"

/*
 * SQL expressions for the log of a delivery, a JSON array of its last attempts (up to 100): an
 * attempt, the log with this attempt appended, and the number of this attempt.
 */
#define WEBHOOK_ATTEMPT(number, at, status, took, error, answer, headers)                          \
    "jsonb_build_object('number', " number                                                         \
    ", 'at', " BB_SQL_TIME(at) ", 'status', " status ", 'durationMs', " took ", 'error', " error   \
                               ", 'answer', " answer ", 'headers', " headers ")"
#define WEBHOOK_LOG(log, attempt)                                                                  \
    "CASE WHEN jsonb_array_length(" log ") < 100 THEN " log " ELSE " log " - 0 END || " attempt
#define WEBHOOK_NUMBER(log) "coalesce((" log " -> -1 ->> 'number')::int, 0) + 1"

/*
 * An SQL condition: the webhook h has no filter, or its filter matches `payload`, a call of
 * webhook_payload(). If jsonb cannot hold the payload, `payload` is null, and the filter matches.
 */
#define WEBHOOK_FILTERED(payload)                                                                  \
    "(h.filter_path IS NULL OR coalesce(" payload " @@ h.filter_path, true))"

/*
 * SQL: CTEs `old` and `queued` that queue deliveries again, with the same id, webhook-id and body.
 * A row in webhook_waiting replaces the outcome and takes over its log. `ids` is an array, because
 * a join would be planned with statistics that may be old. The statement waits for the locks of
 * webhook_partition_drop().
 */
#define WEBHOOK_QUEUE_AGAIN(ids, replay)                                                           \
    " old AS (DELETE FROM webhook_outcome WHERE id = ANY (" ids ") RETURNING *),"                  \
    " queued AS (INSERT INTO webhook_waiting (id, webhook, replay, log) SELECT o.id, o.webhook,"   \
    " " replay ", coalesce(o.log, jsonb_build_array(" WEBHOOK_ATTEMPT(                             \
        "1", "o.at", "o.status", "o.duration_ms", "NULL", "o.answer",                              \
        "o.headers") ")) FROM old o RETURNING id, webhook)"

/* An SQL expression: whether a replay includes the delivery d, which has the outcome o. */
#define WEBHOOK_REPLAYED(since, until, delivered, events)                                          \
    "d.event <> '" WEBHOOK_PING "' AND d.created_at >= " since " AND (" until " IS NULL OR"        \
    " d.created_at < " until ") AND o.delivered IS NOT NULL AND (" delivered " IS NULL OR"         \
    " o.delivered = " delivered ") AND (" events " IS NULL OR " events " ? d.event)"

/* Subscribes to all events, including events of modules that are loaded later. */
#define WEBHOOK_ALL_EVENTS "*"
#define WEBHOOK_PING "ping" /* the event of a test; it needs no subscription */

struct sender;
struct slots;
struct waiters;

/* The settings in the file, in the units of the table in module.c. */
struct webhook_settings {
    json_t *retry_delays, *allow_networks, *allow_ports, *open_networks;
    int64_t timeout, max_age, retention_days, delivered_retention_days;
    int64_t slots, slots_per_webhook;
    int64_t connections, connections_per_receiver, connection_idle;
    bool http2;
    int64_t memory, queue_per_webhook, per_account, tests;
};

static inline int64_t webhook_max_age_ms(const struct webhook_settings *settings)
{
    return settings->max_age * 3600 * 1000;
}

struct webhook {
    struct bb_host *host;
    const struct webhook_settings *settings;
    struct retry_delays retry_delays; /* webhook.retry_delays */
    struct target_rules targets;      /* webhook.allow_networks, .allow_ports and .open_networks */
    struct sender *sender;
    struct slots *tests;        /* tests in progress (modules/common/slots.h) */
    struct slots *long_answers; /* responses in progress that need several statements */
    struct slots *polls;        /* requests that wait for events */
    struct waiters *waiters;
};

/* ---- secrets: any thread ---- */

#define WEBHOOK_SECRET_MAX 256 /* characters */

/*
 * The parts of a webhook that are stored sealed (encrypted). Each part is named after its column. A
 * sealed text can be opened only with the name of its part.
 */
#define WEBHOOK_PART_SECRET "secret" /* also for the previous secret */
#define WEBHOOK_PART_HEADERS "headers"
#define WEBHOOK_PART_AUTHENTICATION "authentication"
#define WEBHOOK_PART_SIGNING_KEY "signing_key"

/* Writes the purpose with which bb_seal() seals a part. */
void webhook_purpose(int64_t webhook, const char *part, char purpose[64]);

/*
 * Opens a sealed text from a cell (bytea as \x hexadecimal). The caller frees the result. Returns
 * NULL if no key opens the text. Ends the request if memory runs out.
 */
char *webhook_secret_open(struct bb_request *rq, int64_t webhook, const char *part,
                          const char *cell);
void webhook_secret_free(void *secret); /* NULL is allowed */

/* ---- requests that wait for events of a polled webhook, or for the result of a test ---- */

struct waiter {
    LIST_ENTRY(waiter) link;
    struct waiters *waiters;
    struct bb_completion *completion; /* NULL: none, or signaled already */
    int64_t account;
    int64_t id; /* of the webhook, or of the delivery of a test */
    bool test;
    atomic_bool revoked; /* the account or one of its tokens has changed */
    /* Result of the first attempt of a test; set before the completion is signaled. */
    bool delivered;
    int status; /* of the response; 0: no response */
    int64_t duration_ms;
    char error[256]; /* "": no error */
};

/* Returns NULL if out of memory. The host frees the memory; waiters_free() destroys the lock. */
struct waiters *waiters_new(struct bb_host *host);
void waiters_free(struct waiters *waiters);

/* Adds a waiter, which lives as long as the request. `id`: see struct waiter. */
struct waiter *waiter_add(struct bb_request *rq, struct waiters *waiters, int64_t id, bool test);

/*
 * Returns a new completion. For a test, waiters_report() signals it. Otherwise it is signaled when
 * the webhook gets an event, when the webhook, the account or one of its tokens changes, or when
 * the generation ends. NULL: out of memory, or (not for a test) the generation has ended.
 */
struct bb_completion *waiter_next(struct bb_request *rq, struct waiter *waiter);

/*
 * Wake requests that wait for events: of a webhook (0: any), of an account that has changed (0:
 * any), or all because the generation ends. Do not wake requests that wait for a test. Any thread.
 */
void waiters_wake(struct waiters *waiters, int64_t webhook);
void waiters_access_changed(struct waiters *waiters, int64_t account);
void waiters_end(struct waiters *waiters);

/* Reports the first attempt of a test; later calls have no effect. `error`: NULL if none. Any
 * thread. */
void waiters_report(struct waiters *waiters, int64_t delivery, bool delivered, int status,
                    int64_t duration_ms, const char *error);

/* ---- notifications of changes, to all hosts ---- */

/*
 * A handler that changes a webhook calls bb_notify() on WEBHOOK_CHANNEL in its transaction. After
 * the commit and before the response, it calls webhook_changed() for this host. Payloads are
 * "hook:ID", "hook:0" (all webhooks), and the payloads of sender_heard().
 */
#define WEBHOOK_QUEUED_ANY "queued:0" /* deliveries of any webhook */

/* ---- sender/health.c ---- */

/*
 * The prefix of the names of events about a webhook. The member webhookId of such an event is the
 * id of this webhook. The event goes to the other webhooks of the webhook's owner.
 */
#define WEBHOOK_EVENTS_ABOUT "webhook."

void webhook_report_exhausted(struct bb_request *rq); /* a part of the job webhook.sweep */

/* ---- jobs.c ---- */

void webhook_partitions(struct bb_request *rq);
void webhook_sweep(struct bb_request *rq);

#endif
