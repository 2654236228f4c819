/* Webhooks in the sender: read when first needed and again after each change. */
#include "modules/webhook/sender/internal.h"

#define READ_MAX 200  /* per statement */
#define READS 2       /* statements at a time */
#define KEEP_MS 60000 /* how long a webhook without deliveries is kept */

/* The milliseconds of a time, or of an interval; 0: null. */
#define MS(of) "coalesce(" BB_SQL_MS(of) ", 0)"

// clang-format off
static const struct bb_sql read_subscriptions = {
    "SELECT id, url, secret, CASE WHEN previous_until > now() THEN previous END,"
    " " MS("previous_until") ", active AND admitted, retry_policy::text,"
    " " MS("failing_since") ", " MS("last_success_at") ","
    " " MS("(disable_policy ->> 'after')::interval") ","
    " (rate_limit ->> 'limit')::bigint,"
    " CASE rate_limit ->> 'per' WHEN 'minute' THEN 60000 ELSE 1000 END, kind IS NOT NULL, account,"
    " " EXTRAS_COLUMNS " FROM webhook_hook WHERE id = ANY($1::bigint[])",
    0,
};
// clang-format on

struct fresh {
    struct subscription *subscription;
    unsigned version;
    bool found, unreadable, active;
    bool polled;  /* not found for the sender */
    bool starved; /* out of memory: it is read again */
    struct request_parts parts;
    size_t rate; /* attempts in rate_ms; 0: no limit */
    int64_t rate_ms, account;
    struct health health; /* only what health_apply() takes */
};

struct reading {
    struct db_task db_task;
    size_t count;
    int64_t ids[READ_MAX];
    struct fresh list[READ_MAX];
};

/* ---- state ---------------------------------------------------------------------------------- */

/* Opens or closes the flows of a webhook, and updates whether it is in the list `to_read`. */
void subscription_update(struct sender *sender, struct subscription *subscription)
{
    bool mine = sender->mine & ~sender->to_give & sender_shard(subscription->node.id);
    bool known =
        subscription->state == SUBSCRIPTION_READY || subscription->state == SUBSCRIPTION_OFF;
    bool open = mine && subscription->state == SUBSCRIPTION_READY;
    bool listed = mine && subscription->state < SUBSCRIPTION_OFF &&
                  (subscription->backlog || subscription->due);

    if (open && !rate_is_open(subscription, sender->now_ms))
        open = rate_wait(sender, subscription); /* out of memory: send it too early */
    if (open == subscription->flow.closed)
        queue_close(&sender->queue, &subscription->flow, !open);
    if ((known && !subscription->unreadable) == subscription->tests.closed)
        queue_close(&sender->queue, &subscription->tests, !subscription->tests.closed);
    if (listed && !subscription->listed)
        TAILQ_INSERT_TAIL(&sender->to_read, subscription, read_next);
    else if (!listed && subscription->listed)
        TAILQ_REMOVE(&sender->to_read, subscription, read_next);
    subscription->listed = listed;
    if (listed && subscription->state == SUBSCRIPTION_IDLE)
        subscription_need(sender, subscription);
}

static void subscription_want(struct sender *sender, struct subscription *subscription)
{
    subscription->state = SUBSCRIPTION_UNREAD;
    subscription->unread_next = sender->unread;
    sender->unread = subscription;
    subscription_update(sender, subscription);
}

void subscription_need(struct sender *sender, struct subscription *subscription)
{
    if (subscription->state == SUBSCRIPTION_IDLE)
        subscription_want(sender, subscription);
}

struct subscription *subscription_find(struct sender *sender, int64_t webhook)
{
    struct idmap_node *node = idmap_find(&sender->subscriptions, webhook);

    return node ? subscription_of(node) : NULL;
}

struct subscription *subscription_get(struct sender *sender, int64_t webhook)
{
    struct subscription *subscription = subscription_find(sender, webhook);

    if (subscription)
        return subscription;
    subscription = calloc(1, sizeof(*subscription));
    if (!subscription)
        return NULL;
    subscription->node.id = webhook;
    subscription->used_ms = sender->now_ms;
    subscription->read_to = sender->cursors[webhook % SENDER_SHARDS];
    subscription->checked = sender->newest;
    queue_flow_init(&subscription->flow);
    queue_flow_init(&subscription->tests);
    subscription->flow.closed = subscription->tests.closed = true;
    if (!idmap_add(&sender->subscriptions, &subscription->node))
        return subscription;
    free(subscription);
    return NULL;
}

/* Has the log read again from the delivery `id`, which is not in memory. */
void subscription_backlog(struct sender *sender, struct subscription *subscription, int64_t id)
{
    if (subscription->state == SUBSCRIPTION_GONE)
        return;
    if (id <= subscription->read_to) {
        subscription->read_to = id - 1;
        subscription->checked = sender->newest;
    }
    subscription->backlog = subscription->again = true;
    subscription_update(sender, subscription);
}

/* Notes when rows of webhook_waiting are due, unless an earlier time is noted already. */
void subscription_due(struct sender *sender, struct subscription *subscription, int64_t at_ms)
{
    if (subscription->state == SUBSCRIPTION_GONE || subscription->due ||
        (subscription->due_at.place && subscription->due_at.at_ms <= at_ms))
        return;
    retry_remove(&sender->due_times, &subscription->due_at);
    subscription->due_at.at_ms = at_ms;
    subscription->due =
        at_ms <= sender->now_ms || retry_add(&sender->due_times, &subscription->due_at);
    subscription_update(sender, subscription);
}

void subscriptions_due(struct sender *sender)
{
    struct retry_entry *first;

    while ((first = retry_first(&sender->due_times)) && first->at_ms <= sender->now_ms) {
        struct subscription *subscription = BB_CONTAINER_OF(first, struct subscription, due_at);

        retry_remove(&sender->due_times, first);
        subscription->due = true;
        subscription_update(sender, subscription);
    }
}

static void subscription_changed(struct idmap_node *node, void *sender)
{
    struct subscription *subscription = subscription_of(node);

    subscription->version++;
    if (subscription->state > SUBSCRIPTION_READING)
        subscription_want(sender, subscription);
}

void subscriptions_changed(struct sender *sender, int64_t webhook)
{
    struct idmap_node *node = webhook ? idmap_find(&sender->subscriptions, webhook) : NULL;

    if (!webhook)
        idmap_each(&sender->subscriptions, subscription_changed, sender);
    else if (node)
        subscription_changed(node, sender);
}

/* ---- reading -------------------------------------------------------------------------------- */

/*
 * Returns the key of a secret, owned by the caller; NULL: no key in secrets.keys opens it, or out
 * of memory.
 */
static struct sign_key *subscription_open_key(const struct sender *sender, struct fresh *fresh,
                                              int64_t id, const char *cell)
{
    char *secret;
    int opened = webhook_secret_open(sender->host, id, WEBHOOK_PART_SECRET, cell, &secret);
    struct sign_key *key = secret ? sign_key_new(sender->hmac, secret) : NULL;

    webhook_secret_free(secret);
    fresh->starved = fresh->starved || (!key && opened != SECRET_LOCKED);
    return key;
}

/* Reads the webhook's own policy; without one, `retry` stays NULL. */
static void subscription_read_retry(struct bb_request *rq, struct fresh *fresh, const char *cell)
{
    struct retry_delays delays;
    json_t *policy = cell ? bb_json_read(rq, cell) : NULL;
    bool own = policy && !retry_time_policy(policy, &delays);

    json_decref(policy);
    if (own && (fresh->parts.retry = malloc(sizeof(delays))))
        *fresh->parts.retry = delays;
    fresh->starved = fresh->starved || (cell && !policy) || (own && !fresh->parts.retry);
}

static void subscription_read_row(struct bb_request *rq, const struct sender *sender,
                                  struct fresh *fresh, const struct bb_rows *rows, size_t row)
{
    int64_t id = bb_cell_int(rq, rows, row, 0);
    const char *previous = bb_cell(rq, rows, row, 3);

    fresh->polled = bb_cell_int(rq, rows, row, 12);
    fresh->found = !fresh->polled;
    if (fresh->polled)
        return;
    struct request_parts *parts = &fresh->parts;

    parts->url = strdup(bb_cell(rq, rows, row, 1));
    fresh->starved = !parts->url;
    parts->keys[0] = subscription_open_key(sender, fresh, id, bb_cell(rq, rows, row, 2));
    if (previous)
        parts->keys[1] = subscription_open_key(sender, fresh, id, previous);
    parts->previous_until = bb_cell_int(rq, rows, row, 4);
    fresh->active = bb_cell_int(rq, rows, row, 5);
    int extras = extras_read(rq, id, rows, row, 14, &parts->extras);

    fresh->starved = fresh->starved || extras == SECRET_NO_MEMORY;
    fresh->unreadable = !parts->keys[0] || extras == SECRET_LOCKED;
    subscription_read_retry(rq, fresh, bb_cell(rq, rows, row, 6));
    fresh->health.off = !fresh->active;
    fresh->health.since_ms = bb_cell_int(rq, rows, row, 7);
    fresh->health.success_ms = bb_cell_int(rq, rows, row, 8);
    fresh->health.disable_after_ms = bb_cell_int(rq, rows, row, 9);
    fresh->rate = (size_t)bb_cell_int(rq, rows, row, 10);
    fresh->rate_ms = bb_cell_int(rq, rows, row, 11);
    fresh->account = bb_cell_int(rq, rows, row, 13);
    if (fresh->starved)
        return;
    if (fresh->unreadable)
        bb_log(rq, BB_ERROR, "webhook %lld cannot send: its secrets cannot be opened",
               (long long)id);
    else if (previous && !parts->keys[1])
        bb_log(rq, BB_ERROR,
               "webhook %lld does not sign with its previous secret, which cannot be opened",
               (long long)id);
}

static void subscription_read(struct bb_request *rq, struct db_task *db_task)
{
    struct reading *reading = BB_CONTAINER_OF(db_task, struct reading, db_task);
    const struct bb_rows *rows =
        bb_query(rq, &read_subscriptions, BB_ARGS(bb_ints(reading->ids, reading->count)));

    if (!rows)
        return;
    for (size_t row = 0; row < bb_count(rq, rows); row++) {
        for (size_t i = 0; i < reading->count; i++)
            if (reading->ids[i] == bb_cell_int(rq, rows, row, 0))
                subscription_read_row(rq, db_task->sender, &reading->list[i], rows, row);
    }
    db_task->ok = true;
}

static void subscription_forget(struct request_parts *parts)
{
    free(parts->url);
    free(parts->retry);
    extras_release(parts->extras);
    for (size_t i = 0; i < SIGN_KEYS_MAX; i++)
        sign_key_free(parts->keys[i]);
    *parts = (struct request_parts){.url = NULL};
}

static void subscription_drop_waiting(struct sender *sender, struct queue_flow *flow)
{
    while (TAILQ_FIRST(&flow->waiting)) // NOLINT: delivery_end() removes it
        delivery_end(sender, (struct delivery *)(void *)TAILQ_FIRST(&flow->waiting));
}

static void subscription_apply(struct sender *sender, struct fresh *fresh)
{
    struct subscription *subscription = fresh->subscription;
    const struct extras *before = subscription->parts.extras, *after = fresh->parts.extras;

    if (rate_set(sender, subscription, fresh->rate, fresh->rate_ms)) {
        sender->retry_db_at = sender->now_ms + SENDER_AGAIN_MS;
        subscription_want(sender, subscription);
        return;
    }
    subscription->read_once = true;
    subscription->account = fresh->account;
    if (before && before->oauth && after && after->oauth)
        oauth_move(before->oauth, after->oauth);
    subscription_forget(&subscription->parts);
    subscription->parts = fresh->parts;
    fresh->parts = (struct request_parts){.url = NULL};
    subscription->unreadable = fresh->unreadable;
    subscription->polled = fresh->polled;
    health_apply(&subscription->health, &fresh->health);
    if (!fresh->found) {
        subscription->state = SUBSCRIPTION_GONE;
        if (fresh->polled && sender->newest)
            sender_signal(sender, subscription->node.id, sender->newest);
        subscription->backlog = subscription->due = false;
        retry_remove(&sender->due_times, &subscription->due_at);
        subscription_drop_waiting(sender, &subscription->flow);
    } else {
        bool ready = fresh->active && !fresh->unreadable;

        if (ready)
            subscription->checked = sender->newest; /* the sweep may have abandoned deliveries */
        subscription->state = ready ? SUBSCRIPTION_READY : SUBSCRIPTION_OFF;
        if (!ready)
            delivery_put_back(sender, subscription);
    }
    if (!fresh->found || fresh->unreadable)
        subscription_drop_waiting(sender, &subscription->tests);
    subscription_update(sender, subscription);
}

static void subscription_read_back(struct sender *sender, struct db_task *db_task)
{
    struct reading *reading = BB_CONTAINER_OF(db_task, struct reading, db_task);

    sender->subscribing--;
    for (size_t i = 0; i < reading->count; i++) {
        struct fresh *fresh = &reading->list[i];

        if (fresh->starved)
            sender->retry_db_at = sender->now_ms + SENDER_AGAIN_MS;
        if (db_task->ok && !fresh->starved && fresh->version == fresh->subscription->version)
            subscription_apply(sender, fresh);
        else
            subscription_want(sender, fresh->subscription);
    }
}

static void subscription_read_drop(struct db_task *db_task)
{
    struct reading *reading = BB_CONTAINER_OF(db_task, struct reading, db_task);

    for (size_t i = 0; i < reading->count; i++)
        subscription_forget(&reading->list[i].parts);
}

void subscriptions_read(struct sender *sender)
{
    while (sender->unread && sender->subscribing < READS && sender->now_ms >= sender->retry_db_at) {
        struct reading *reading = db_task_new(sender, sizeof(*reading), subscription_read,
                                              subscription_read_back, subscription_read_drop);

        if (!reading)
            return;
        while (sender->unread && reading->count < READ_MAX) {
            struct subscription *subscription = sender->unread;

            sender->unread = subscription->unread_next;
            subscription->state = SUBSCRIPTION_READING;
            reading->ids[reading->count] = subscription->node.id;
            reading->list[reading->count++] =
                (struct fresh){.subscription = subscription,
                               .version = subscription->version,
                               .health.version = subscription->health.version};
        }
        sender->subscribing++;
        db_task_send(&reading->db_task, NULL);
    }
}

/* ---- forgetting ----------------------------------------------------------------------------- */

static void subscription_free(struct sender *sender, struct subscription *subscription)
{
    if (subscription->abandoned) /* since the last line about it */
        bb_host_log(sender->host, BB_WARN, "deliveries were abandoned: webhook %lld, count %zu",
                    (long long)subscription->node.id, subscription->abandoned);
    if (subscription->listed)
        TAILQ_REMOVE(&sender->to_read, subscription, read_next);
    retry_remove(&sender->due_times, &subscription->due_at);
    retry_remove(&sender->rates, &subscription->rate.open_at);
    free(subscription->rate.starts);
    idmap_remove(&sender->subscriptions, &subscription->node);
    subscription_forget(&subscription->parts);
    free(subscription);
}

/* Returns whether the webhook has an access token that its next delivery can use. */
static bool subscription_has_token(const struct subscription *subscription)
{
    const struct extras *extras = subscription->parts.extras;

    return extras && extras->oauth && oauth_header(extras->oauth);
}

/* Returns whether no list, task or delivery refers to the webhook. */
static bool subscription_is_free(const struct sender *sender,
                                 const struct subscription *subscription)
{
    return !subscription->flow.held && !subscription->tests.held && !sender->reading &&
           !sender->saving && subscription->state != SUBSCRIPTION_UNREAD &&
           subscription->state != SUBSCRIPTION_READING;
}

static void subscription_clean(struct idmap_node *node, void *arg)
{
    struct sender *sender = arg;
    struct subscription *subscription = subscription_of(node);

    if (subscription->unreadable &&
        subscription->state == SUBSCRIPTION_OFF) /* secrets.keys may have its key now */
        subscription_want(sender, subscription);
    if (!subscription_is_free(sender, subscription) || subscription->backlog || subscription->due ||
        sender->now_ms - subscription->used_ms <= KEEP_MS || subscription_has_token(subscription))
        return;
    if (subscription->due_at.place && subscription->state >= SUBSCRIPTION_READY) {
        subscription_forget(&subscription->parts);
        subscription->state = SUBSCRIPTION_IDLE;
        subscription_update(sender, subscription);
    } else if (!subscription->due_at.place && !subscription->saved) {
        subscription_free(sender, subscription);
    }
}

void subscriptions_clean(struct sender *sender)
{
    idmap_each(&sender->subscriptions, subscription_clean, sender);
}

struct dropping {
    struct sender *sender;
    uint64_t shards;
};

static void subscription_drop(struct idmap_node *node, void *arg)
{
    const struct dropping *dropping = arg;
    struct subscription *subscription = subscription_of(node);

    if (!(dropping->shards & sender_shard(node->id)))
        return;
    subscription->backlog = subscription->due = false;
    subscription->saved = 0;
    retry_remove(&dropping->sender->due_times, &subscription->due_at);
    subscription->read_to = dropping->sender->cursors[node->id % SENDER_SHARDS];
    subscription->checked = dropping->sender->newest;
    subscription->health = (struct health){.version = subscription->health.version + 1};
    rate_forget(dropping->sender, subscription);
    subscription_update(dropping->sender, subscription);
    if (subscription_is_free(dropping->sender, subscription))
        subscription_free(dropping->sender, subscription);
    else if (subscription->state == SUBSCRIPTION_READY || subscription->state == SUBSCRIPTION_OFF)
        subscription_want(dropping->sender, subscription); /* for its health */
}

void subscriptions_drop(struct sender *sender, uint64_t shards)
{
    idmap_each(&sender->subscriptions, subscription_drop, &(struct dropping){sender, shards});
}

struct lag {
    int64_t now_ms, most_ms;
};

/* The first delivery in a flow has waited the longest, a retry since it was due. */
static void subscription_lag(struct idmap_node *node, void *arg)
{
    struct lag *lag = arg;
    const struct subscription *subscription = subscription_of(node);
    const struct delivery *first =
        (const struct delivery *)(void *)TAILQ_FIRST(&subscription->flow.waiting);

    if (!first || subscription->state != SUBSCRIPTION_READY ||
        !rate_is_open(subscription, lag->now_ms))
        return;
    int64_t due = first->retry.at_ms > first->queued_ms ? first->retry.at_ms : first->queued_ms;

    if (lag->now_ms - due > lag->most_ms)
        lag->most_ms = lag->now_ms - due;
}

int64_t subscriptions_lag(struct sender *sender)
{
    struct lag lag = {.now_ms = sender->now_ms};

    idmap_each(&sender->subscriptions, subscription_lag, &lag);
    return lag.most_ms;
}

static void subscription_free_each(struct idmap_node *node, void *sender)
{
    subscription_free(sender, subscription_of(node));
}

void subscriptions_free(struct sender *sender)
{
    idmap_each(&sender->subscriptions, subscription_free_each, sender);
    idmap_free(&sender->subscriptions);
}
