/*
 * Internals of the sender. One thread, the worker's, owns everything except the fields guarded by
 * `lock`: the inbox that sender.c's functions fill, and the values that they return. The worker
 * never accesses the database; database tasks do that, which run as requests on the host's loops
 * and return through the inbox.
 *
 * A delivery is in memory from its admission to its flow until its last result is recorded. It is
 * in exactly one place: its flow (waiting), a transfer (flying), the list of results or a database
 * task (recording), or the heap of retries. The next attempt starts only after the previous one is
 * recorded. A delivery that must be removed while it is flying or being recorded is marked
 * `dropped`.
 */
#ifndef WEBHOOK_SENDER_INTERNAL_H
#define WEBHOOK_SENDER_INTERNAL_H

#include <pthread.h>
#include <string.h>

#include "modules/webhook/http/sign.h"
#include "modules/webhook/http/transfer.h"
#include "modules/webhook/sender/idmap.h"
#include "modules/webhook/sender/queue.h"
#include "modules/webhook/sender/retry_heap.h"
#include "modules/webhook/sender/sender.h"

#define SENDER_CHANGES 64
#define SENDER_LEASE_MS 8000  /* no attempt starts this long after the last successful heartbeat */
#define SENDER_RECORD_MAX 512 /* results per statement */

/*
 * The bytes of an event, shared by its deliveries. The sender finds a body that is stored in
 * webhook_body by its id while anyone holds it, so that the body is loaded only once.
 */
struct body {
    struct idmap_node node; /* the id in webhook_body; 0: stored in the delivery's row */
    struct sender *sender;  /* its lock guards `holders`; NULL: a single thread has the body */
    size_t holders;
    size_t admitted; /* deliveries in flows; counted by the worker */
    size_t length;
    char *bytes; /* stored after the struct, like the next two */
    char *event;
    char id[40];
    char trace[56]; /* traceparent; "": none */
};

struct delivery {
    struct queue_item item; /* must be first */
    struct idmap_node node;
    struct retry_entry retry;
    struct delivery *next; /* in the list of results, or of claimed deliveries */
    struct subscription *subscription;
    struct body *body;
    struct webhook_outcome *outcome; /* NULL: nobody waits, or it was reported */
    int tries;                       /* attempts begun since it was queued */
    int64_t queued_ms;               /* on the monotonic clock; for its age */
    bool dropped;
    /* The last attempt, until it is recorded. */
    enum schedule_verdict verdict;
    int64_t at_wall_ms, took_ms, delay_ms;
    int status;
    const char *kind;     /* kind of error to log; static, or NULL */
    char *error, *answer; /* JSON text, or NULL */
};

enum subscription_state {
    SUBSCRIPTION_UNREAD,
    SUBSCRIPTION_READING,
    SUBSCRIPTION_READY,
    SUBSCRIPTION_OFF,
    SUBSCRIPTION_GONE
}; /* in this order */

/*
 * A webhook in the sender. Tests of it have a separate flow, so that they neither wait for its
 * deliveries nor need it to be active: a second struct, whose id is the negative webhook id.
 */
struct subscription {
    struct queue_flow flow; /* must be first */
    struct idmap_node node;
    enum subscription_state state;
    unsigned version; /* of the row: counts the changes received */
    bool bad;         /* off because it could not be read completely; read again every 30 s */
    char *url;
    struct sign_key *keys[SIGN_KEYS_MAX];
    int64_t previous_until; /* wall clock, in milliseconds */
    bool overflows;         /* deliveries of it wait in the table */
    bool claiming;
    int64_t claimed_to; /* claims continue after this id; before it the index has dead entries */
    bool full_told;     /* it is in sender->full */
    int64_t used_ms;
    size_t abandoned; /* deliveries abandoned since the last log line about it */
    int64_t abandoned_told_ms;
    struct subscription *unread_next;
    struct subscription *overflow_next, *overflow_prev;
};

/*
 * A task on a loop of the host: `work` runs there, then `back` on the worker's thread, and then
 * `drop`, which frees it. If the worker has ended, only `drop` is called. The struct is a member of
 * the task's data.
 */
struct db_task {
    struct db_task *next;
    struct sender *sender;
    bool ok; /* set by `work`; false if it could not be run, or not to its end */
    void (*work)(struct bb_request *rq, struct db_task *db_task);
    void (*back)(struct sender *sender, struct db_task *db_task);
    void (*drop)(struct db_task *db_task);
};

struct handoff {
    struct handoff *next;
    struct body *body;
    struct webhook_outcome *outcome;
    size_t count;
    struct sender_item items[];
};

/* Pairs of webhook and id, for statements. */
struct pairs {
    int64_t *webhooks, *ids;
    size_t count, room;
};

/* A scan continues after this delivery. */
struct scan_place {
    int64_t webhook, id;
};

struct sender {
    struct bb_host *host;
    const struct webhook_settings *settings;
    EVP_MAC *hmac;

    pthread_mutex_t lock; /* guards from here … */
    bool running;
    bool paused;
    unsigned pauses; /* changes of the switch received */
    int64_t host_id;
    struct handoff *handoffs, **handoffs_end;
    struct db_task *db_tasks;
    int64_t changed[SENDER_CHANGES], scans[SENDER_CHANGES];
    size_t changed_count, scan_count; /* overflow means all */
    int64_t full[SENDER_FULL_MAX];
    size_t full_count;
    struct idmap bodies;             /* those stored in webhook_body */
    bool events_wait;                /* events that need expanding were reported */
    struct sender_counters counters; /* … to here */

    /* Owned by the worker. */
    struct bb_worker_context *context;
    int64_t now_ms;
    int64_t me; /* copy of host_id that needs no lock */
    int64_t lease_until;
    int64_t tend_at, scan_unowned_at, scan_own_at, clean_at, retry_db_at;
    int64_t expand_at;      /* INT64_MAX: no event is known to need expanding */
    int64_t expanded_last;  /* the account that had the last turn */
    int64_t expand_told_ms; /* last log line about an event not expanded */
    int64_t expanding_ms;   /* age of the oldest event to be expanded, a few seconds ago */
    bool tending, scanning_unowned, scanning_own, releasing, expanding;
    bool stopping;  /* claims no more deliveries */
    bool successor; /* another sender of this host continues: waiting deliveries are passed to it */
    bool leaving;   /* gives up its id */
    unsigned tends;
    size_t away; /* database tasks in progress */
    size_t recording, claiming, reading;
    struct queue queue;
    struct idmap subscriptions, deliveries;
    struct retry_heap retries;
    struct transfers *transfers;
    struct subscription *unread, *overflowing;
    struct delivery *results, **results_end;
    size_t result_count;
    int64_t record_ms;           /* when results are recorded at the latest: see record_at() */
    struct pairs release;        /* to be given back without an owner */
    struct pairs suspects;       /* of the last scan, in its order */
    struct scan_place own_after; /* where the scans continue */
    int64_t unowned_after;
};

/*
 * Returns the next multiple of a period, so that an idle sender wakes up once for all its periodic
 * work.
 */
static inline int64_t sender_beat(int64_t now_ms, int64_t period_ms)
{
    return now_ms - now_ms % period_ms + period_ms;
}

/* db_task.c */
void db_task_send(struct sender *sender, struct db_task *db_task);
int pairs_add(struct pairs *pairs, int64_t webhook, int64_t id);
void pairs_free(struct pairs *pairs);

/* body.c: any thread. body_new() and body_share() return a body with a reference for the caller. */
struct body *body_new(const struct sender_event *event);
struct body *body_find(struct sender *sender, int64_t id); /* with one more reference, or NULL */
/*
 * Registers the body (takes the reference) under its id of webhook_body; or returns the one already
 * registered.
 */
struct body *body_share(struct sender *sender, int64_t id, struct body *body);
void body_hold(struct body *body);
void body_let_go(struct body *body); /* NULL is allowed */

/* delivery.c: deliveries in memory */
struct delivery *delivery_new(int64_t id, struct body *body); /* adds a reference to the body */
void delivery_free(struct delivery *delivery);                /* if it was not admitted */
void delivery_refuse(struct sender *sender, int64_t webhook, struct delivery *delivery);
bool delivery_admit(struct sender *sender, struct subscription *subscription,
                    struct delivery *delivery, int64_t delay_ms);
void delivery_end(struct sender *sender, struct delivery *delivery); /* if resting or waiting */
void delivery_drop_all(struct sender *sender);
void delivery_drop_waiting(struct sender *sender, struct subscription *subscription);
void delivery_put_back(struct sender *sender,
                       struct subscription *subscription); /* waiting ones, to the table */
void delivery_hand_over(struct sender *sender);            /* some resting or waiting ones too */
void delivery_retry(struct sender *sender, struct delivery *delivery);
void delivery_retries_due(struct sender *sender);
void delivery_take_handoffs(struct sender *sender, struct handoff *handoffs);
void delivery_handoff_free(struct handoff *handoff);

/* Returns the id of the webhook, also for the struct of its tests. */
static inline int64_t subscription_webhook(const struct subscription *subscription)
{
    return subscription->node.id < 0 ? -subscription->node.id : subscription->node.id;
}

/* subscriptions.c: webhooks in memory */
struct subscription *subscription_get(struct sender *sender,
                                      int64_t id); /* creates it if needed; NULL: out of memory */
void subscription_update(struct sender *sender,
                         struct subscription *subscription); /* its flow and whether it is full */
void subscription_set_overflow(struct sender *sender, struct subscription *subscription,
                               bool overflows);
void subscription_changed(struct sender *sender, struct subscription *subscription);
void subscriptions_changed(struct sender *sender, int64_t id); /* 0: all */
void subscriptions_read(struct sender *sender);
void subscriptions_clean(struct sender *sender);
int64_t subscriptions_lag(struct sender *sender); /* age in ms of the oldest sendable delivery */
void subscriptions_free(struct sender *sender);

/* attempt.c */
void attempts_start(struct sender *sender);
void attempt_landed(void *sender, struct transfer_result *result);

/* record_outcomes.c, claim.c, expand.c, scan.c, lease.c: database tasks */
/* Adds a delivery whose attempt has ended; its result is recorded soon. */
void record_add(struct sender *sender, struct delivery *delivery);
void record_results(struct sender *sender);
int64_t record_at(const struct sender *sender); /* when the pending results are recorded */
void claim_overflow(struct sender *sender);
void claim_release(struct sender *sender);
void expand_events(struct sender *sender);
void scan_unowned(struct sender *sender);
void scan_own(struct sender *sender);
void lease_tend(struct sender *sender);
void lease_lost(struct sender *sender);
void lease_end(struct sender *sender);

#endif
