/* Webhooks in the sender: read when first needed and again after each change. */
#include "modules/webhook/sender/internal.h"

#define READ_MAX 200  /* per statement */
#define READS 2       /* statements at a time */
#define KEEP_MS 60000 /* how long a webhook without deliveries is kept */

/* The milliseconds of a time, or of an interval; 0: null. */
#define MS(of) "coalesce(" BB_SQL_MS(of) ", 0)"

// clang-format off
static const struct bb_sql read_subscriptions = {
    "SELECT id, kind IS NOT NULL, active AND admitted, " MS("failing_since") ","
    " " MS("last_success_at") ", " MS("(disable_policy ->> 'after')::interval") ","
    " (rate_limit ->> 'limit')::bigint,"
    " CASE rate_limit ->> 'per' WHEN 'minute' THEN 60000 ELSE 1000 END, account,"
    " " PARTS_COLUMNS " FROM webhook_hook WHERE id = ANY($1::bigint[])",
    0,
};
// clang-format on
enum { ID, POLLED, ACTIVE, FAILS_SINCE, SUCCESS_AT, DISABLE_AFTER, RATE, RATE_MS, ACCOUNT, PARTS };

struct fresh {
    struct subscription *subscription;
    unsigned version;
    bool unreadable, active;
    bool polled;         /* its owner polls the events */
    struct parts *parts; /* NULL: polled, or deleted */
    size_t rate;         /* attempts in rate_ms; 0: no limit */
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

static void subscription_now_due(struct sender *sender, struct timer *timer)
{
    struct subscription *subscription = BB_CONTAINER_OF(timer, struct subscription, due_at);

    subscription->due = true;
    subscription_update(sender, subscription);
}

/* Notes when rows of webhook_waiting are due, unless an earlier time is noted already. */
void subscription_due(struct sender *sender, struct subscription *subscription, int64_t at_ms)
{
    if (subscription->state == SUBSCRIPTION_GONE || subscription->due ||
        (subscription->due_at.place && subscription->due_at.at_ms <= at_ms))
        return;
    timer_heap_remove(&sender->timers, &subscription->due_at);
    subscription->due_at.at_ms = at_ms;
    subscription->due_at.due = subscription_now_due;
    subscription->due =
        at_ms <= sender->now_ms || timer_heap_add(&sender->timers, &subscription->due_at);
    subscription_update(sender, subscription);
}

static void subscription_changed(struct sender *sender, struct subscription *subscription)
{
    subscription->version++;
    if (subscription->state > SUBSCRIPTION_READING)
        subscription_want(sender, subscription);
}

void subscriptions_changed(struct sender *sender, int64_t webhook)
{
    struct subscription *one = webhook ? subscription_find(sender, webhook) : NULL;

    if (one)
        subscription_changed(sender, one);
    IDMAP_FOREACH(node, &sender->subscriptions)
    {
        if (webhook)
            break;
        subscription_changed(sender, subscription_of(node));
    }
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Returns 0, or -1 if out of memory. */
static int subscription_read_row(struct bb_request *rq, const struct sender *sender,
                                 struct fresh *fresh, const struct bb_rows *rows, size_t row)
{
    fresh->polled = bb_cell_int(rq, rows, row, POLLED);
    if (fresh->polled)
        return 0;
    int opened = parts_read(rq, sender->hmac, rows, row, PARTS, &fresh->parts);

    fresh->unreadable = opened == SECRET_LOCKED;
    fresh->active = bb_cell_int(rq, rows, row, ACTIVE);
    fresh->health.off = !fresh->active;
    fresh->health.since_ms = bb_cell_int(rq, rows, row, FAILS_SINCE);
    fresh->health.success_ms = bb_cell_int(rq, rows, row, SUCCESS_AT);
    fresh->health.disable_after_ms = bb_cell_int(rq, rows, row, DISABLE_AFTER);
    fresh->rate = (size_t)bb_cell_int(rq, rows, row, RATE);
    fresh->rate_ms = bb_cell_int(rq, rows, row, RATE_MS);
    fresh->account = bb_cell_int(rq, rows, row, ACCOUNT);
    return opened == SECRET_NO_MEMORY ? -1 : 0;
}

static void subscription_read(struct bb_request *rq, struct db_task *db_task)
{
    struct reading *reading = BB_CONTAINER_OF(db_task, struct reading, db_task);
    const struct bb_rows *rows =
        bb_query(rq, &read_subscriptions, BB_ARGS(bb_ints(reading->ids, reading->count)));

    for (size_t row = 0; rows && row < bb_count(rq, rows); row++) {
        for (size_t i = 0; i < reading->count; i++)
            if (reading->ids[i] == bb_cell_int(rq, rows, row, ID) &&
                subscription_read_row(rq, db_task->sender, &reading->list[i], rows, row))
                return;
    }
    db_task->ok = rows != NULL;
}

static void subscription_drop_waiting(struct sender *sender, struct queue_flow *flow)
{
    while (TAILQ_FIRST(&flow->waiting)) // NOLINT: delivery_end() removes it
        delivery_end(sender, (struct delivery *)(void *)TAILQ_FIRST(&flow->waiting));
}

static void subscription_apply(struct sender *sender, struct fresh *fresh)
{
    struct subscription *subscription = fresh->subscription;
    const struct parts *before = subscription->parts, *after = fresh->parts;
    bool ready = after && fresh->active && !fresh->unreadable;

    if (rate_set(sender, subscription, fresh->rate, fresh->rate_ms)) {
        sender->retry_db_at = sender->now_ms + SENDER_AGAIN_MS;
        subscription_want(sender, subscription);
        return;
    }
    subscription->read_once = true;
    subscription->account = fresh->account;
    if (before && before->oauth && after && after->oauth)
        oauth_move(before->oauth, after->oauth);
    parts_release(subscription->parts);
    subscription->parts = fresh->parts;
    fresh->parts = NULL;
    subscription->unreadable = fresh->unreadable;
    subscription->polled = fresh->polled;
    health_apply(&subscription->health, &fresh->health);
    if (ready)
        subscription->checked = sender->newest; /* the sweep may have abandoned deliveries */
    subscription->state = !after  ? SUBSCRIPTION_GONE
                          : ready ? SUBSCRIPTION_READY
                                  : SUBSCRIPTION_OFF;
    if (!after) {
        if (fresh->polled && sender->newest)
            sender_note(sender, subscription->node.id, sender->newest, true);
        subscription->backlog = subscription->due = false;
        timer_heap_remove(&sender->timers, &subscription->due_at);
        subscription_drop_waiting(sender, &subscription->flow);
    } else if (!ready) {
        delivery_put_back(sender, subscription);
    }
    if (!after || fresh->unreadable)
        subscription_drop_waiting(sender, &subscription->tests);
    subscription_update(sender, subscription);
}

static void subscription_read_back(struct sender *sender, struct db_task *db_task)
{
    struct reading *reading = BB_CONTAINER_OF(db_task, struct reading, db_task);

    sender->subscribing--;
    for (size_t i = 0; i < reading->count; i++) {
        struct fresh *fresh = &reading->list[i];

        if (db_task->ok && fresh->version == fresh->subscription->version)
            subscription_apply(sender, fresh);
        else
            subscription_want(sender, fresh->subscription);
    }
}

static void subscription_read_drop(struct db_task *db_task)
{
    struct reading *reading = BB_CONTAINER_OF(db_task, struct reading, db_task);

    for (size_t i = 0; i < reading->count; i++)
        parts_release(reading->list[i].parts);
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
    timer_heap_remove(&sender->timers, &subscription->due_at);
    timer_heap_remove(&sender->timers, &subscription->rate.open_at);
    free(subscription->rate.starts);
    idmap_remove(&sender->subscriptions, &subscription->node);
    parts_release(subscription->parts);
    free(subscription);
}

/* Returns whether the webhook has an access token that its next delivery can use. */
static bool subscription_has_token(const struct subscription *subscription)
{
    const struct parts *parts = subscription->parts;

    return parts && parts->oauth && oauth_header(parts->oauth);
}

/* Returns whether no list, task or delivery refers to the webhook. */
static bool subscription_is_free(const struct sender *sender,
                                 const struct subscription *subscription)
{
    return !subscription->flow.held && !subscription->tests.held && !sender->reading &&
           !sender->saving && subscription->state != SUBSCRIPTION_UNREAD &&
           subscription->state != SUBSCRIPTION_READING;
}

void subscriptions_clean(struct sender *sender)
{
    IDMAP_FOREACH(node, &sender->subscriptions)
    {
        struct subscription *subscription = subscription_of(node);

        if (subscription->unreadable &&
            subscription->state == SUBSCRIPTION_OFF) /* secrets.keys may have its key now */
            subscription_want(sender, subscription);
        if (!subscription_is_free(sender, subscription) || subscription->backlog ||
            subscription->due || sender->now_ms - subscription->used_ms <= KEEP_MS ||
            subscription_has_token(subscription))
            continue;
        if (subscription->due_at.place && subscription->state >= SUBSCRIPTION_READY) {
            parts_release(subscription->parts);
            subscription->parts = NULL;
            subscription->state = SUBSCRIPTION_IDLE;
            subscription_update(sender, subscription);
        } else if (!subscription->due_at.place && !subscription->saved) {
            subscription_free(sender, subscription);
        }
    }
}

void subscriptions_drop(struct sender *sender, uint64_t shards)
{
    IDMAP_FOREACH(node, &sender->subscriptions)
    {
        struct subscription *subscription = subscription_of(node);

        if (!(shards & sender_shard(node->id)))
            continue;
        subscription->backlog = subscription->due = false;
        subscription->saved = 0;
        timer_heap_remove(&sender->timers, &subscription->due_at);
        subscription->read_to = sender->cursors[node->id % SENDER_SHARDS];
        subscription->checked = sender->newest;
        subscription->health = (struct health){.version = subscription->health.version + 1};
        rate_forget(sender, subscription);
        subscription_update(sender, subscription);
        if (subscription_is_free(sender, subscription))
            subscription_free(sender, subscription);
        else if (subscription->state == SUBSCRIPTION_READY ||
                 subscription->state == SUBSCRIPTION_OFF)
            subscription_want(sender, subscription); /* for its health */
    }
}

/* The first delivery in a flow has waited the longest, a retry since it was due. */
int64_t subscriptions_lag(struct sender *sender)
{
    int64_t most_ms = 0;

    IDMAP_FOREACH(node, &sender->subscriptions)
    {
        const struct subscription *subscription = subscription_of(node);
        const struct delivery *first =
            (const struct delivery *)(void *)TAILQ_FIRST(&subscription->flow.waiting);

        if (!first || subscription->state != SUBSCRIPTION_READY ||
            !rate_is_open(subscription, sender->now_ms))
            continue;
        int64_t due = first->retry.at_ms > first->queued_ms ? first->retry.at_ms : first->queued_ms;

        if (sender->now_ms - due > most_ms)
            most_ms = sender->now_ms - due;
    }
    return most_ms;
}

void subscriptions_free(struct sender *sender)
{
    IDMAP_FOREACH(node, &sender->subscriptions)
    {
        subscription_free(sender, subscription_of(node));
    }
    idmap_free(&sender->subscriptions);
}
