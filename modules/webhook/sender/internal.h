/*
 * Internals of the sender. The worker thread owns everything except atomic fields and the fields
 * guarded by `lock`: the inbox, which other threads fill, and the values that sender.h returns. The
 * worker never accesses the database. Database tasks access it for the worker: they run as requests
 * on the host's loops, and return through the inbox.
 *
 * A delivery in memory is in exactly one place: its flow (waiting), an attempt (flying), the list
 * of results or a database task (recording), or the timers (resting). The next attempt starts only
 * after the previous one is recorded.
 */
#ifndef WEBHOOK_SENDER_INTERNAL_H
#define WEBHOOK_SENDER_INTERNAL_H

#include <busbar/heap.h>
#include <pthread.h>
#include <string.h>
#include <sys/queue.h>

#include "modules/common/http_client.h"
#include "modules/webhook/http/sign.h"
#include "modules/webhook/sender/idmap.h"
#include "modules/webhook/sender/oauth.h"
#include "modules/webhook/sender/queue.h"
#include "modules/webhook/sender/sender.h"

#define SENDER_SHARDS 64
#define SENDER_STREAMS 32      /* webhooks from which one statement reads deliveries */
#define SENDER_BODIES 256      /* large bodies in memory that are not read again */
#define SENDER_ROWS 200        /* webhooks that one statement reads */
#define SENDER_LEASE_MS 6000   /* from the last heartbeat; webhook_tend() allows 8 s */
#define SENDER_RECORD_MAX 1024 /* results per statement */
#define SENDER_RECORD_COLUMNS 9
#define SENDER_PACES 1024
#define SENDER_RECENT (1 << 18) /* a power of two */
#define SENDER_AGAIN_MS 250     /* after a failure of the database or of malloc() */

/*
 * A CTE that locks the row of this host ($1). It is empty if the host has lost its lease, or if the
 * lease began on another timeline (after a promotion, an id may belong to another delivery).
 */
#define SENDER_ME                                                                                  \
    "me AS MATERIALIZED (SELECT id FROM webhook_host WHERE id = $1::bigint"                        \
    " AND timeline = (SELECT busbar_timeline()) FOR KEY SHARE)"

/* Work that the sender does at a given time. */
struct timer {
    struct bb_heap_node node;
    void (*due)(struct sender *sender, struct timer *timer);
};

/*
 * The body of an event, shared by its deliveries. The thread that creates a body passes it to the
 * worker with the deliveries, so only one thread at a time changes `holders`.
 */
struct body {
    struct idmap_node node;  /* id in webhook_body; 0: the body is in the delivery's row */
    STAILQ_ENTRY(body) next; /* in sender->kept */
    size_t holders;
    size_t length;
    bool missing; /* not read, because sender->bodies had the body; see delivery_admit() */
    bool shared;  /* in sender->bodies; the queue counts the bytes once */
    char *bytes;  /* allocated with the struct, like `event` */
    char *event;
    char id[40];
    char trace[56]; /* traceparent; "": none */
};

/* How a receiver asked to be disabled: by 410 or by a header. The SQL in health.c uses 1 and 2. */
enum health_asked { HEALTH_NOT_ASKED, HEALTH_GONE, HEALTH_REQUESTED };

struct delivery {
    struct idmap_node node; /* first, so that the result of idmap_find() can be cast */
    struct queue_item item;
    struct timer retry;
    STAILQ_ENTRY(delivery) next;       /* in a list of results, or of deliveries to be admitted */
    struct subscription *subscription; /* the webhook; NULL until delivery_admit() succeeds */
    struct body *body;
    int64_t webhook;
    int64_t queued_ms;    /* when the delivery became due; until delivery_admit(): ms since then */
    int tries;            /* attempts begun since the delivery was queued */
    bool kept;            /* the delivery has a row in webhook_waiting */
    int64_t sequence;     /* place in the order of the delivery's key; 0: no order, or a test */
    bool replay;          /* part of a replay: sent after other deliveries */
    struct waiters *test; /* set for a test, which this host sends even for another host's shard */
    bool lease_lost;      /* read or sent under a lease that this host has lost */
    bool resent;          /* it may have been queued again before its outcome was settled */
    int64_t failing_since_ms; /* health.since_ms after the first attempt; 0: unknown */
    /* The last attempt, until it is recorded. */
    enum retry_verdict verdict;
    bool notes; /* the result is recorded together with the health of the webhook */
    enum health_asked asked;
    int64_t at_wall_ms, took_ms, delay_ms;
    int status;
    const char *kind; /* kind of error to log; static, or NULL */
    json_t *details;  /* [error, answer, headers], or NULL */
};

STAILQ_HEAD(delivery_list, delivery);

/* Rate limit of a webhook: `limit` attempts per period_ms; 0: no limit. paced_ms is 0, or the time
 * of the next attempt if the owner's account exceeds the limit of bytes per second. */
struct rate {
    int64_t paced_ms;
    size_t limit;
    int64_t period_ms;
    int64_t *starts; /* times of the last `limit` attempts; the oldest one at `next` */
    size_t next;
    struct timer open_at;
};

enum subscription_state {
    SUBSCRIPTION_IDLE, /* the webhook's row is not needed yet */
    SUBSCRIPTION_UNREAD,
    SUBSCRIPTION_READING,
    SUBSCRIPTION_READY,
    SUBSCRIPTION_OFF,
    SUBSCRIPTION_GONE
}; /* the code compares states by this order */

/* The health of a webhook; see health.c. Times are of the wall clock, in ms, unless noted. */
struct health {
    bool failing;
    bool stored;      /* in the row of webhook_hook, the webhook is failing */
    bool off;         /* in the row of webhook_hook, the webhook is inactive */
    unsigned version; /* changes with each store; rows read before the change are outdated */
    int64_t failures; /* consecutive, since the webhook was loaded into memory */
    int64_t since_ms; /* time of the first failure, or the row's failing_since; 0: no failure */
    int64_t success_ms, success_stored_ms;
    int64_t failed_at_ms;     /* monotonic time when `failing` was last set; 0: never */
    int64_t disable_after_ms; /* from the webhook's disablePolicy; 0: no policy */
};

/*
 * A webhook's row: the parts that the sender and its requests need. The webhook and its attempts in
 * flight share the object, because libcurl reads the headers until a request has ended, and a
 * webhook may change meanwhile. The thread that creates an object passes it to the worker, so only
 * one thread at a time changes `holders`. keys[1] and pairs[1] are from before a rotation, or NULL.
 */
struct parts {
    size_t holders;        /* see parts_release() */
    bool polled;           /* clients poll the events: nothing is sent, other members are unset */
    bool active;           /* the webhook and the account of its owner are active */
    bool unreadable;       /* a secret cannot be opened; the row is read again every 30 s */
    int64_t account;       /* of the webhook's owner */
    int64_t rate, rate_ms; /* at most `rate` attempts per rate_ms; rate 0: no limit */
    int64_t fails_since_ms, success_ms, disable_after_ms; /* see struct health */
    char *url;
    struct sign_key *keys[SIGN_KEYS_MAX];
    EVP_PKEY *pairs[SIGN_KEYS_MAX];    /* for Ed25519, or NULL */
    int64_t previous_until;            /* wall clock, in milliseconds */
    bool no_hmac;                      /* requests are not signed with the secret */
    struct curl_slist *headers;        /* chosen by the webhook's owner; NULL: none */
    struct oauth *oauth;               /* NULL: no access tokens are used */
    struct curl_blob certificate, key; /* client certificate in PEM; data is NULL without one */
    struct retry_delays retry;         /* from retryPolicy; count 0: use webhook.retry_delays */
};

/*
 * A webhook in the sender. If it has no backlog, each of its deliveries up to the shard's cursor is
 * finished, is in memory, or has a row in webhook_waiting. A backlog is read from the log, after
 * the id `read_to`.
 */
struct subscription {
    struct idmap_node node;
    struct queue_flow flow;
    struct queue_flow tests; /* pings, sent at once and even if the webhook is inactive */
    enum subscription_state state;
    unsigned version;    /* number of changes of the row that were reported */
    struct parts *parts; /* NULL: the webhook is deleted, or its row was not read yet */
    struct rate rate;
    bool backlog;
    bool again;      /* the backlog changed while it was read */
    int64_t missed;  /* first delivery after read_to found since the last read began; 0: none */
    int64_t read_to; /* a backlog is read from the log after this id */
    int64_t checked; /* a read of the log skips finished deliveries up to this id */
    int64_t saved;   /* the webhook's cursor in webhook_backlog; 0: none */
    int64_t first;   /* only in lease_save(): id of the first unfinished delivery in memory */
    bool due;        /* rows of webhook_waiting are due */
    struct timer due_at;
    bool listed; /* in sender->to_read */
    TAILQ_ENTRY(subscription) read_next;
    struct subscription *unread_next;
    int64_t used_ms;
    struct health health;
    size_t abandoned; /* deliveries abandoned since the last log line about this */
    int64_t abandoned_told_ms;
};

TAILQ_HEAD(subscription_list, subscription);

/* A list of pairs of a webhook and an id. */
struct pairs {
    int64_t *webhooks, *ids;
    size_t count, room;
};

/*
 * A database task. `work` runs on a loop of the host. Then the worker thread calls `back`, unless
 * `back` is NULL or the worker has ended. If a task is not ok, the sender waits SENDER_AGAIN_MS
 * before it uses the database again. The struct is the first member of the task's data, which is a
 * member of the sender. Only the task uses this data while the task is busy.
 */
struct db_task {
    struct db_task *next;
    struct sender *sender;
    int64_t me; /* the id of this host when the task was sent; 0: none */
    bool busy;  /* from db_task_send() to `back`; only the worker reads it */
    bool ok;    /* set by `work`; false if `work` did not run to its end */
    void (*work)(struct bb_request *rq, struct db_task *db_task);
    void (*back)(struct sender *sender, struct db_task *db_task);
    struct pairs pairs; /* freed after `back` */
    uint64_t shards;    /* see db_task_shards() */
};

/* The steps of a search for deliveries that this sender does not know (read.c). */
enum look { LOOK_NONE, LOOK_BACKLOG, LOOK_WAITING, LOOK_LOG };

struct looking {
    struct db_task db_task;
    enum look look;
    int64_t after, to; /* the rest of the range to search; each task moves `after` */
};

/* The task of the heartbeat, which calls the SQL function webhook_tend(). */
struct tending {
    struct db_task db_task; /* db_task.me is 0 if this host has no id yet */
    int64_t sent_ms;
    unsigned pauses;
    bool leaving, counts;
    int64_t got[7]; /* the statement's columns except the last; got[0] is 0 if the lease is lost */
    uint64_t owned;
    int64_t cursors[SENDER_SHARDS];
    char counters[256];
    /* Numbers of webhooks by state, number of events to be expanded, and age of the oldest of these
     * events in ms. states[0] is -1 if this heartbeat did not count them. */
    int64_t states[WEBHOOK_STATES + 2];
};

/* A statement that stores cursors, and may give shards away. */
struct saving {
    struct db_task db_task;
    bool gives;  /* the running task gives shards away */
    bool failed; /* out of memory */
    bool lost;
    int64_t cursors[SENDER_SHARDS];
    struct pairs held; /* deliveries in flight */
};

/* A task that reads rows of webhooks. */
struct reading_rows {
    struct db_task db_task;
    size_t count;
    int64_t ids[SENDER_ROWS];
    struct subscription *subscriptions[SENDER_ROWS];
    unsigned versions[SENDER_ROWS], health_versions[SENDER_ROWS]; /* when the task was sent */
    struct parts *parts[SENDER_ROWS];                             /* NULL: deleted */
};

/* A task that reads deliveries. A stream is a webhook's log, or its due rows in webhook_waiting. */
struct reading {
    struct db_task db_task;
    size_t count; /* streams */
    struct subscription *subscriptions[SENDER_STREAMS];
    int64_t webhooks[SENDER_STREAMS], checked[SENDER_STREAMS], most[SENDER_STREAMS];
    int64_t after[SENDER_STREAMS];   /* the log is read after this id; -1: due rows are read */
    int64_t next_ms[SENDER_STREAMS]; /* ms until the next row is due; 0: no such row */
    int64_t found[SENDER_STREAMS];   /* number of rows */
    bool cut[SENDER_STREAMS];        /* some rows are left for another read */
    int64_t bodies[SENDER_BODIES];   /* ids of large bodies in memory, which are not read again */
    size_t body_count;
    size_t bytes;
    struct delivery_list list;
};

struct expansion {
    struct db_task db_task;
    int64_t account; /* the account whose event was expanded last */
    int64_t sent_ms;
    char refused[6]; /* SQLSTATE if the event could not be expanded; otherwise "" */
    bool found;
};

/* Columns of the results that are recorded with the health of their webhooks. */
enum { NOTE_WEBHOOK, NOTE_SINCE, NOTE_SUCCESS, NOTE_ASKED, NOTE_EXHAUSTED, NOTE_COLUMNS };

struct recording {
    struct db_task db_task; /* `pairs` has webhooks that were disabled */
    bool plain;             /* the results are plain; see record_add() */
    bool verifies;          /* some attempts were made under a lease that was lost */
    bool lost;
    size_t count, note_count;
    struct delivery *list[SENDER_RECORD_MAX];
    int64_t columns[SENDER_RECORD_COLUMNS][SENDER_RECORD_MAX],
        notes[NOTE_COLUMNS][SENDER_RECORD_MAX];
    json_t *details;
    bool noted; /* the results were recorded together with the health */
};

/*
 * A receiver is the scheme, host and port of a URL; several webhooks may use it. The struct counts
 * the attempts and connections, and has the TLS sessions. libcurl keeps sessions only for one
 * request, or in a share, which has room for only eight hosts. So each receiver has a separate
 * share. A session is used for at most an hour, so that the certificate is checked again even if
 * there are many requests. A receiver with neither attempts nor open connections may be freed.
 */
struct receiver {
    struct idmap_node node; /* the id is a hash of scheme, host and port */
    TAILQ_ENTRY(receiver) by_use;
    struct receiver_sessions *sessions;
    size_t flying;  /* attempts */
    size_t waiting; /* attempts that have not received the headers of a response */
    size_t open;    /* connections */
    const struct sender *sender;
};

struct sender {
    struct bb_host *host;
    const struct webhook *webhook;
    const struct webhook_settings *settings;
    EVP_MAC *hmac;

    atomic_bool running, ready;          /* ready: this host has a lease */
    atomic_uint pauses;                  /* number of notifications of the pause switch */
    atomic_uint_fast64_t owned;          /* bits of the shards that this host owns */
    atomic_bool heard_shards, heard_all; /* shards were freed; notifications may have been lost */
    atomic_bool events_wait;             /* events that need expanding were reported */
    pthread_mutex_t lock;                /* guards `paused` to `counters` */
    bool paused;
    struct delivery_list handoffs;
    struct db_task *db_tasks;
    struct pairs changed; /* changed webhooks; if changed_all is set, all may have changed */
    bool changed_all;
    struct pairs heard;              /* new deliveries of owned shards: see sender_heard() */
    struct pairs signals;            /* new deliveries of other shards or of polled webhooks */
    struct sender_counters counters; /* a copy of `totals` */

    /* Owned by the worker. */
    struct bb_worker_context *context;
    struct sender_counters totals;
    int64_t now_ms;
    int64_t me;          /* the id of this host; 0: none */
    int64_t lease_until; /* in ms of CLOCK_BOOTTIME */
    int64_t tend_at, clean_at, retry_db_at, signal_at;
    int64_t replay_at;      /* INT64_MAX: this host knows of no running replay */
    int64_t expand_at;      /* INT64_MAX: this host knows of no event to be expanded */
    int64_t expand_told_ms; /* time of the last log line about an event that was not expanded */
    int64_t expanding_ms;   /* age of the oldest event to be expanded, as of the last count */
    struct db_task signaling, replaying, leave;
    struct tending tending;
    struct saving saving;
    struct looking looking;
    struct reading_rows reading_rows;
    struct reading reading;
    struct expansion expansion;
    struct recording recording;
    bool give_failed; /* shards could not be given away since the last heartbeat */
    bool stopping;    /* reads no more deliveries */
    bool successor;   /* the sender of a newer generation of this host continues */
    bool leaving;     /* the sender deletes this host's row in webhook_host */
    unsigned tends;
    size_t tasks_pending;   /* database tasks in progress */
    uint64_t mine, to_give; /* bits of shards: a copy of `owned`, and shards to give away */
    int64_t cursors[SENDER_SHARDS], gained_ms[SENDER_SHARDS];
    int64_t newest;    /* the highest known id of a delivery */
    int64_t joined;    /* deliveries up to this id are only read from the log */
    size_t lost_count; /* deliveries in memory with lease_lost */
    int64_t frontier,
        frontier_xact; /* the next cursor, valid when transactions below frontier_xact ended */
    bool frontier_safe, look_wanted;
    enum look look;
    uint64_t look_shards; /* shards that this host has owned since the search began */
    struct queue queue;
    struct idmap subscriptions, deliveries, bodies, receivers;
    STAILQ_HEAD(, body) kept; /* the bodies that were read last: see bodies_keep() */
    size_t kept_bytes;
    struct bb_heap timers;
    struct pace {
        int64_t account, at_us;
    } paces[SENDER_PACES]; /* see rate_admits() */
    struct http_client *client;
    TAILQ_HEAD(, receiver) receivers_by_use; /* least recently used first */
    SLIST_HEAD(, attempt) attempts;          /* unused ones, for reuse */
    bool ended_attempts;                     /* true: results of attempts are ignored */
    struct subscription *unread;
    struct subscription_list to_read;
    struct delivery_list results[2]; /* results[true]: plain results; see record_add() */
    size_t result_count;             /* in both lists */
    int64_t record_ms;               /* latest time at which the results are recorded */
    uint64_t reads;                  /* number of reads of deliveries begun so far */
    struct recent {
        int64_t id;          /* negated after a lost lease, because the id may be reused */
        uint64_t read;       /* value of `reads` when the delivery left memory */
    } recent[SENDER_RECENT]; /* deliveries that were recorded or left memory, by id */
};

static inline uint64_t sender_shard(int64_t webhook)
{
    return UINT64_C(1) << ((uint64_t)webhook % SENDER_SHARDS);
}

/* sender.c */

/* Starts a task that is not busy: runs `work` on a loop, and then `back` on the worker. */
void db_task_send(struct sender *sender, struct db_task *db_task,
                  void (*work)(struct bb_request *rq, struct db_task *db_task),
                  void (*back)(struct sender *sender, struct db_task *db_task));
struct bb_value db_task_shards(struct bb_request *rq, const struct db_task *db_task);
/* Adds the first two columns of the rows to the task's pairs. Sets `ok` unless `rows` is NULL. */
void db_task_read(struct bb_request *rq, struct db_task *db_task, const struct bb_rows *rows);

/* Notifies the owner of the webhook's shard, or `all` hosts, of a new delivery. id 0: the webhook
 * has new rows in webhook_waiting; -1: these rows have an order. Any thread. */
void sender_note(struct sender *sender, int64_t webhook, int64_t id, bool all);
int pairs_add(struct pairs *pairs, int64_t webhook, int64_t id);
void pairs_free(struct pairs *pairs);

/* delivery.c: bodies, and deliveries in memory */
struct body *body_new(const struct sender_event *event); /* any thread; the caller releases it */
void body_release(struct sender *sender, struct body *body);
void bodies_keep(struct sender *sender, size_t bytes);
struct delivery *delivery_new(int64_t webhook, int64_t id, struct body *body); /* any thread */
/* `sender` may be NULL if the body is not shared. */
void delivery_free(struct sender *sender, struct delivery *delivery);
void delivery_free_list(struct delivery_list *list);
bool delivery_admit(struct sender *sender, struct subscription *subscription,
                    struct delivery *delivery);
void delivery_end(struct sender *sender, struct delivery *delivery); /* if waiting or resting */
void delivery_unsettled(struct sender *sender, struct delivery *delivery);
bool delivery_is_old(const struct sender *sender, const struct delivery *delivery);
void delivery_put_back(struct sender *sender, struct queue_flow *flow);
void delivery_rest(struct sender *sender, struct delivery *delivery, int64_t delay_ms);
void delivery_take_handoffs(struct sender *sender, struct delivery_list *handoffs);

/* subscriptions.c: webhooks in memory. subscription_get() adds a webhook that is missing. */
struct subscription *subscription_find(struct sender *sender, int64_t webhook);
struct subscription *subscription_get(struct sender *sender, int64_t webhook);
void subscription_want(struct sender *sender, struct subscription *subscription);
void subscription_update(struct sender *sender, struct subscription *subscription);
void subscription_backlog(struct sender *sender, struct subscription *subscription, int64_t id);
void subscription_due(struct sender *sender, struct subscription *subscription, int64_t at_ms);
void subscriptions_changed(struct sender *sender, const struct pairs *webhooks, bool all);
void subscriptions_read(struct sender *sender);
void subscriptions_clean(struct sender *sender);
void subscriptions_drop(struct sender *sender, uint64_t shards); /* resets their webhooks */
void rate_note(struct sender *sender, struct subscription *subscription); /* an attempt started */
/* Returns whether the webhook may send this many bytes now. If not, sets paced_ms. */
bool rate_admits(struct sender *sender, struct subscription *subscription, size_t bytes);
int64_t subscriptions_lag(struct sender *sender); /* age in ms of the oldest sendable delivery */
void subscription_free(struct sender *sender, struct subscription *subscription);

/* parts.c */
void parts_read(struct bb_request *rq,
                struct db_task *db_task); /* `work` of sender->reading_rows */
void parts_release(struct parts *parts);  /* NULL is allowed */

/* attempt.c */
int attempts_init(struct sender *sender); /* 0, or -1 if out of memory */
void attempts_free(struct sender *sender);
bool attempt_is_allowed(const struct sender *sender); /* the lease is valid */
void attempts_start(struct sender *sender);

/* record.c */
void record_add(struct sender *sender, struct delivery *delivery);
void record_results(struct sender *sender);
bool record_has_given(const struct sender *sender);
int64_t record_at(const struct sender *sender); /* when the pending results are recorded */

/* health.c */

/* Updates a webhook's health after an attempt. `fault`: the receiver is the cause of a failure. */
void health_judge(const struct sender *sender, struct delivery *delivery, bool fault,
                  enum health_asked asked);
void health_note(struct recording *recording, const struct delivery *delivery);
/* Stores the health, and raises the events about it. Returns 0 or -1. */
int health_store(struct bb_request *rq, struct bb_tx *tx, struct recording *recording);
void health_stored(struct sender *sender, const struct recording *recording); /* after commit */
/* Applies a row; `version` is the health's version before the row was read. */
void health_apply(struct health *health, const struct parts *fresh, unsigned version);

/* read.c, expand.c, replay.c */
void look_on(struct sender *sender);
void look_found(struct sender *sender, int64_t webhook, int64_t id);
void read_deliveries(struct sender *sender);
void expand_events(struct sender *sender);
void replay_next(struct sender *sender);

/* lease.c */
int64_t lease_clock_ms(void);
void lease_tend(struct sender *sender);
void lease_save(struct sender *sender, uint64_t shards, bool gives);
void lease_give(struct sender *sender);
void lease_end(struct sender *sender);

#endif
