/*
 * webhook: signed delivery of events to URLs that users register.
 *
 * Two halves. This one is the API: webhooks, what they may see, the statement that enqueues in the
 * publisher's transaction, the log, jobs and commands; all of it on fibers of the host's loops. The
 * other half (sender.h) delivers, on a worker's thread. Between them lie the tables of schema.sql
 * and sender.h's few functions.
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

#include "schedule.h"
#include "target.h"

#define WEBHOOK_CHANNEL "webhook"
#define WEBHOOK_AUTH_CHANNEL "busbar_auth"

/* SQL: the log of the delivery d with room for one more attempt, and the number of that attempt. A
 * log keeps the last 100, however often its delivery is sent again. */
#define WEBHOOK_LOG "CASE WHEN jsonb_array_length(d.log) < 100 THEN d.log ELSE d.log - 0 END"
#define WEBHOOK_LOG_NUMBER "coalesce((d.log -> -1 ->> 'number')::int, 0) + 1"

struct sender;
struct array_places;

/* One row: webhooks by state (active, off, of owners who are not admitted), the events that are to
 * be expanded, and for how many milliseconds the oldest of them has been. */
extern const struct bb_sql webhook_states_sql;

struct webhook_settings {
    struct schedule schedule;    /* webhook.retry_delays */
    struct target_rules targets; /* webhook.allow_networks, webhook.allow_ports */
    int64_t timeout_ms;          /* of an attempt */
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
    struct array_places *places;   /* of long lists (modules/common/array.h) */
};

/* ---- settings.c, state.c ------------------------------------------------------------------ */

/* Reads the settings; 0, or -1 after bb_open_fail(). */
int webhook_settings_read(struct bb_host *host, struct webhook_settings *settings);

int webhook_open(struct bb_host *host, void **state);
void webhook_start(struct bb_host *host, void *state);
void webhook_close(struct bb_host *host, void *state);

/* ---- metrics.c: any thread ----------------------------------------------------------------- */

double webhook_now(void *state, size_t value);
double webhook_attempts(void *state, size_t value);
double webhook_lost_leases(void *state, size_t value);
double webhook_lag(void *state, size_t value);
double webhook_states(void *state, size_t value);
double webhook_expanding(void *state, size_t value);

/* ---- secret.c: any thread ------------------------------------------------------------------ */

#define WEBHOOK_SECRET_MAX 256 /* characters */

/* Seals a secret for a webhook. *sealed is given: free(). 0, or -1. */
int webhook_secret_seal(struct bb_host *host, int64_t webhook, const char *secret,
                        unsigned char **sealed, size_t *length);

/* Opens a sealed secret from a cell (bytea as \x hexadecimal). Given: free(). NULL: cannot. */
char *webhook_secret_open(struct bb_host *host, int64_t webhook, const char *cell);

/* A new one of 64 hexadecimal characters; NULL: no random bytes. Memory of the request. */
char *webhook_secret_new(struct bb_request *rq);

/* "****" and the last 4 characters; of one of up to 4 characters "****". Memory of the request. */
char *webhook_secret_mask(struct bb_request *rq, const char *secret);

/* Characters (code points) of UTF-8. */
size_t webhook_characters(const char *text);

/* ---- outcome.c: what a test waits for -------------------------------------------------------- */

/*
 * The outcome of a delivery's first attempt, held by the waiting request and by the sender, each of
 * which lets go of it once. The sender says it exactly once, and before it drops the delivery
 * for whatever reason.
 */
struct webhook_outcome {
    atomic_int holders;
    struct bb_host *host;
    struct bb_gate *gate;
    int status; /* of the answer; 0: none */
    bool delivered;
    int64_t duration_ms;
    char error[256]; /* "": none */
};

/* Held twice; NULL: no memory. */
struct webhook_outcome *webhook_outcome_new(struct bb_request *rq);
void webhook_outcome_release(void *outcome);

/* The sender's: fills it in, opens the gate, lets go. `error` NULL: none. Any thread. */
void webhook_outcome_say(struct webhook_outcome *outcome, bool delivered, int status,
                         int64_t duration_ms, const char *error);

/* ---- hook.c: webhooks as JSON ------------------------------------------------------------------
 */

/* The columns, in the order that webhook_json() reads them, of webhook_hook AS h. */
#define WEBHOOK_COLUMNS                                                                            \
    "h.id, h.account, h.url, to_json(h.events)::text, h.secret, h.active,"                         \
    " floor(extract(epoch FROM h.created_at) * 1000)::bigint"
#define WEBHOOK_COLUMN_COUNT 7

/* In place of the names of events: all of them, also those of modules that are loaded later. */
#define WEBHOOK_ALL_EVENTS "*"

/* Given; NULL: no memory. `secret` in full, or NULL: masked. */
json_t *webhook_json(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                     const char *secret);

/* Adds `warnings` for a short secret. `json` (or NULL) is taken; given, NULL: no memory. */
json_t *webhook_warn(json_t *json, const char *secret);

/* bb_reply(), or 503 where the JSON could not be made. `json` is taken. */
int webhook_reply(struct bb_request *rq, int status, json_t *json);

/*
 * The condition on a webhook h that a caller may touch, and its parameters: the webhook of the
 * path, whether the caller is an Admin, its account.
 */
#define WEBHOOK_MINE "h.id = $1::bigint AND ($2::boolean OR h.account = $3::bigint)"
#define WEBHOOK_MINE_ARGS(rq)                                                                      \
    bb_i(bb_segment_int((rq), "id")), bb_b((rq)->principal->role == BB_ROLE_ADMIN),                \
        bb_i((rq)->principal->account)
int webhook_unknown(struct bb_request *rq);    /* the 404 */
int webhook_check_mine(struct bb_request *rq); /* parks */

/* ---- fields.c: what POST and PATCH name; each 0, or the status of a 400 -------------------------
 */

int webhook_check_url(struct bb_request *rq, const char *url);
int webhook_check_secret(struct bb_request *rq, const char *secret); /* NULL: good */

/* *events: the JSON array's names, each once, as JSON text in the request's memory. */
int webhook_check_events(struct bb_request *rq, const json_t *list, const char **events);

/* ---- signal.c: what changed ---------------------------------------------------------------------
 */

/*
 * A change runs pg_notify(WEBHOOK_CHANNEL, payload) in its transaction; after the commit, and
 * before it answers, the handler calls webhook_changed() for this host. Payloads: "hook:ID",
 * "paused", "resumed", "queued:ID" (something waits without an owner); others mean all.
 */
int webhook_notify(struct bb_request *rq, struct bb_tx *tx, const char *payload);
void webhook_changed(struct webhook *webhook, const char *payload);

/* Tells all senders, an heir's on this host too, that something waits; if that fails they find it a
 * little later. Parks. */
void webhook_tell_queued(struct bb_request *rq);
/* The same in a transaction. 0 or -1. */
int webhook_notify_queued(struct bb_request *rq, struct bb_tx *tx);

void webhook_heard(void *state, const char *payload);

/* ---- scope.c: what owners may see
 * ----------------------------------------------------------------- */

/* A scope as parameters: admitted, sees_all, organisations, email. */
#define WEBHOOK_SCOPE_ARGS(scope)                                                                  \
    bb_b((scope)->active), bb_b((scope)->role == BB_ROLE_ADMIN),                                   \
        bb_ints((scope)->organisations, webhook_scope_count(scope)), bb_t((scope)->email)
size_t webhook_scope_count(const struct bb_account_scope *scope);
struct bb_account_scope webhook_scope_of_caller(const struct bb_principal *who);
void webhook_auth_heard(void *state, const char *payload);
void webhook_refresh_owners(struct bb_request *rq); /* job */

/* ---- enqueue.c: the within hook, and pings
 * ---------------------------------------------------------- */

int webhook_within(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                   void *state);

/* ---- jobs
 * ---------------------------------------------------------------------------------------------- */

void webhook_partitions(struct bb_request *rq);
void webhook_sweep(struct bb_request *rq);

/* ---- routes and commands, a file each or two
 * -------------------------------------------------------------- */

int webhook_create(struct bb_request *rq);
int webhook_list(struct bb_request *rq);
int webhook_events(struct bb_request *rq);
int webhook_get(struct bb_request *rq);
int webhook_change(struct bb_request *rq);
int webhook_delete(struct bb_request *rq);
int webhook_test(struct bb_request *rq);
int webhook_deliveries(struct bb_request *rq);
int webhook_resend(struct bb_request *rq);
int webhook_recover(struct bb_request *rq);
int webhook_rotate(struct bb_request *rq);
int webhook_command_pause(struct bb_request *rq);
int webhook_command_resume(struct bb_request *rq);
int webhook_command_status(struct bb_request *rq);

#endif
