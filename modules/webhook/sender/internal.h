/*
 * Inside the sender. One thread, the worker's, owns everything but what stands under `lock`: the
 * inbox that sender.c's functions fill, and what they ask for. It never touches the database; that
 * is done by database tasks, which run as requests on the host's loops and come back through the
 * inbox.
 *
 * A delivery is in memory from its admission to its flow until its last result is recorded, and
 * is in exactly one place: its flow (waiting), a transfer (flying), the list of results or an
 * database task (recording), or the heap of retries. The next attempt starts only when the one
 * before it is recorded. A delivery that is to go while it flies or is recorded is marked
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
#define SENDER_LEASE_MS 8000  /* after the last good heartbeat no attempt starts */
#define SENDER_RECORD_MAX 512 /* results in a statement */

/*
 * The bytes of an event, shared by its deliveries. One that lies in webhook_body is known to the
 * sender by its id while somebody holds it, so that no delivery brings it a second time.
 */
struct body {
    struct idmap_node node; /* the id in webhook_body; 0: it lies in the delivery's row */
    struct sender *sender;  /* whose lock guards `holders`; NULL: one thread has it */
    size_t holders;
    size_t admitted; /* deliveries in flows; the worker's to count */
    size_t length;
    char *bytes; /* behind the struct, as the two next are */
    char *event;
    char id[40];
    char trace[56]; /* traceparent; "": none */
};

struct delivery {
    struct queue_item item; /* first */
    struct idmap_node node;
    struct retry_entry retry;
    struct delivery *next; /* results, or what a claim brought */
    struct subscription *subscription;
    struct body *body;
    struct webhook_outcome *outcome; /* NULL: nobody waits, or it was said */
    int tries;                       /* attempts begun since it was queued */
    int64_t queued_ms;               /* monotonic; for its age */
    bool dropped;
    /* The last attempt, until it is recorded. */
    enum schedule_verdict verdict;
    int64_t at_wall_ms, took_ms, delay_ms;
    int status;
    const char *kind;     /* of the error, for the host's log; static, or NULL */
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
 * A webhook as the sender knows it. Tests of it have a flow of their own, so that they neither wait
 * behind its deliveries nor need it to be active: a second struct, whose id is the webhook's,
 * negative.
 */
struct subscription {
    struct queue_flow flow; /* first */
    struct idmap_node node;
    enum subscription_state state;
    unsigned version; /* of the row: counts changes that were heard of */
    bool bad;         /* off because it could not be read whole: it is read again every 30 s */
    char *url;
    struct sign_key *keys[SIGN_KEYS_MAX];
    int64_t previous_until; /* wall clock, milliseconds */
    bool overflows;         /* deliveries of it wait in the table */
    bool claiming;
    int64_t claimed_to; /* claims go on behind this id: before it lie dead entries of the index */
    bool full_told;     /* in sender->full */
    int64_t used_ms;
    size_t abandoned; /* deliveries, since the log said so */
    int64_t abandoned_told_ms;
    struct subscription *unread_next;
    struct subscription *overflow_next, *overflow_prev;
};

/*
 * A piece of work on a loop of the host: `work` runs there, `back` afterwards on the worker's
 * thread, and then `drop`, which frees; only `drop` if the worker has ended. It is a
 * member of what it carries.
 */
struct db_task {
    struct db_task *next;
    struct sender *sender;
    bool ok; /* set by `work`; false when it could not be run, or not to its end */
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
    unsigned pauses; /* turns of the switch that were heard of */
    int64_t host_id;
    struct handoff *handoffs, **handoffs_end;
    struct db_task *db_tasks;
    int64_t changed[SENDER_CHANGES], scans[SENDER_CHANGES];
    size_t changed_count, scan_count; /* more than fit: all */
    int64_t full[SENDER_FULL_MAX];
    size_t full_count;
    struct idmap bodies;             /* those that lie in webhook_body */
    bool events_wait;                /* somebody told of events to be expanded */
    struct sender_counters counters; /* … to here */

    /* The worker's own. */
    struct bb_worker_context *context;
    int64_t now_ms;
    int64_t me; /* host_id, without the lock */
    int64_t lease_until;
    int64_t tend_at, scan_unowned_at, scan_own_at, clean_at, retry_db_at;
    int64_t expand_at;      /* INT64_MAX: nothing waits to be expanded, as far as is known */
    int64_t expanded_last;  /* the account that had its turn */
    int64_t expand_told_ms; /* when the log last had an event that could not be expanded */
    int64_t expanding_ms;   /* how long the oldest event had waited for it a few seconds ago */
    bool tending, scanning_unowned, scanning_own, releasing, expanding;
    bool stopping;  /* claims nothing more */
    bool successor; /* and another sender of this host goes on: what waits is given to it */
    bool leaving;   /* gives up its id */
    unsigned tends;
    size_t away; /* database tasks out */
    size_t recording, claiming, reading;
    struct queue queue;
    struct idmap subscriptions, deliveries;
    struct retry_heap retries;
    struct transfers *transfers;
    struct subscription *unread, *overflowing;
    struct delivery *results, **results_end;
    size_t result_count;
    int64_t record_ms;     /* when they go, unless something lets them go before: record_at() */
    struct pairs release;  /* to be given back to nobody */
    struct pairs suspects; /* of the last scan, sorted as it gave them */
    struct scan_place own_after; /* where the scans go on */
    int64_t unowned_after;
};

/* The next whole multiple of a period: an idle sender wakes once for all that it does again and
 * again. */
static inline int64_t sender_beat(int64_t now_ms, int64_t period_ms)
{
    return now_ms - now_ms % period_ms + period_ms;
}

/* db_task.c */
void db_task_send(struct sender *sender, struct db_task *db_task);
int pairs_add(struct pairs *pairs, int64_t webhook, int64_t id);
void pairs_free(struct pairs *pairs);

/* body.c: any thread. body_new() and body_share() give a body that the caller holds. */
struct body *body_new(const struct sender_event *event);
struct body *body_find(struct sender *sender, int64_t id); /* held once more, or NULL */
/* The body (taken) under its id of webhook_body; or the one that is there under it. */
struct body *body_share(struct sender *sender, int64_t id, struct body *body);
void body_hold(struct body *body);
void body_let_go(struct body *body); /* NULL: nothing */

/* delivery.c: deliveries in memory */
struct delivery *delivery_new(int64_t id, struct body *body); /* holds the body once more */
void delivery_free(struct delivery *delivery);                /* one that was not admitted */
void delivery_refuse(struct sender *sender, int64_t webhook, struct delivery *delivery);
bool delivery_admit(struct sender *sender, struct subscription *subscription,
                    struct delivery *delivery, int64_t delay_ms);
void delivery_end(struct sender *sender, struct delivery *delivery); /* resting or waiting */
void delivery_drop_all(struct sender *sender);
void delivery_drop_waiting(struct sender *sender, struct subscription *subscription);
void delivery_put_back(struct sender *sender,
                       struct subscription *subscription); /* what waits, to the table */
void delivery_hand_over(struct sender *sender); /* some of what rests or waits, likewise */
void delivery_retry(struct sender *sender, struct delivery *delivery);
void delivery_retries_due(struct sender *sender);
void delivery_take_handoffs(struct sender *sender, struct handoff *handoffs);
void delivery_handoff_free(struct handoff *handoff);

/* The webhook that the struct is of, or whose tests. */
static inline int64_t subscription_webhook(const struct subscription *subscription)
{
    return subscription->node.id < 0 ? -subscription->node.id : subscription->node.id;
}

/* subscriptions.c: webhooks in memory */
struct subscription *subscription_get(struct sender *sender,
                                      int64_t id); /* made if need be; NULL: no memory */
void subscription_update(struct sender *sender,
                         struct subscription *subscription); /* its flow and whether it is full */
void subscription_set_overflow(struct sender *sender, struct subscription *subscription,
                               bool overflows);
void subscription_changed(struct sender *sender, struct subscription *subscription);
void subscriptions_changed(struct sender *sender, int64_t id); /* 0: all */
void subscriptions_read(struct sender *sender);
void subscriptions_clean(struct sender *sender);
int64_t subscriptions_lag(struct sender *sender); /* of what waits in memory and may go, in ms */
void subscriptions_free(struct sender *sender);

/* attempt.c */
void attempts_start(struct sender *sender);
void attempt_landed(void *sender, struct transfer_result *result);

/* record_outcomes.c, claim.c, expand.c, scan.c, lease.c: database tasks */
/* A delivery whose attempt has ended: its result is recorded soon. */
void record_add(struct sender *sender, struct delivery *delivery);
void record_results(struct sender *sender);
int64_t record_at(const struct sender *sender); /* when the results that there are go */
void claim_overflow(struct sender *sender);
void claim_release(struct sender *sender);
void expand_events(struct sender *sender);
void scan_unowned(struct sender *sender);
void scan_own(struct sender *sender);
void lease_tend(struct sender *sender);
void lease_lost(struct sender *sender);
void lease_end(struct sender *sender);

#endif
