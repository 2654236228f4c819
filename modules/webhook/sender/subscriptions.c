/* Webhooks in the sender's memory. A row is read when first needed, and again after each change. */
#include "modules/webhook/sender/internal.h"

#define KEEP_MS 60000 /* how long a webhook without deliveries is kept */
enum { PACE_BYTES = 16 * 1024 * 1024, PACE_BURST_US = 1000000, PACE_PROBES = 8 };

/* ---- rates ---------------------------------------------------------------------------------- */

/*
 * Rate limits of webhooks: at most `limit` attempts start in any period. A ring has the times of
 * the last `limit` starts; the next attempt may start one period after the oldest of them. Only the
 * owner of the shard sends, so the limit holds for all hosts together. A new owner does not know
 * the attempts of the previous owner, and waits for one period.
 *
 * In addition, each host sends at most PACE_BYTES of bodies per second for all webhooks of an
 * account together. Otherwise an account with many webhooks and large events could use all the
 * processor time and bandwidth of the host. After a pause, a burst of PACE_BURST_US is allowed.
 */
static int rate_set(const struct sender *sender, struct subscription *subscription,
                    const struct parts *parts)
{
    struct rate *rate = &subscription->rate, old = *rate;
    size_t limit = parts ? (size_t)parts->rate : 0;
    int64_t period_ms = parts ? parts->rate_ms : 0;
    int64_t gained_ms = sender->gained_ms[(uint64_t)subscription->node.id % SENDER_SHARDS];

    if (limit == old.limit && period_ms == old.period_ms)
        return 0;
    int64_t *starts = calloc(limit ? limit : 1, sizeof(*starts));

    if (!starts)
        return -1;
    /* For attempts that this host does not know, assume the latest possible start: now if the limit
     * has changed, or, at the first read of the row, when this host got the shard. */
    for (size_t i = 0; i < limit; i++)
        starts[i] = subscription->parts ? sender->now_ms : gained_ms;
    for (size_t i = 1; i <= limit && i <= old.limit; i++) /* the latest ones */
        starts[limit - i] = old.starts[(old.next + old.limit - i) % old.limit];
    rate->limit = limit;
    rate->period_ms = period_ms;
    rate->starts = starts;
    rate->next = 0;
    free(old.starts);
    return 0;
}

static bool rate_is_open(const struct subscription *subscription, int64_t now_ms)
{
    const struct rate *rate = &subscription->rate;

    return rate->paced_ms <= now_ms &&
           (!rate->limit || rate->starts[rate->next] + rate->period_ms <= now_ms);
}

bool rate_admits(struct sender *sender, struct subscription *subscription, size_t bytes)
{
    int64_t now_us = 1000 * sender->now_ms, least_us = now_us - PACE_BURST_US;
    int64_t account = subscription->parts->account;
    struct rate *rate = &subscription->rate;
    struct pace *pace = NULL; /* the account's, or an unused one; NULL: all probed are in use */

    for (uint64_t i = 0; i < PACE_PROBES && (!pace || pace->account != account); i++) {
        struct pace *at = &sender->paces[((uint64_t)account + i) % SENDER_PACES];

        if (at->account == account || (!pace && at->at_us <= least_us))
            pace = at;
    }
    if (!pace || rate->paced_ms) {
        rate->paced_ms = 0;
        return true;
    }
    int64_t begin_us = pace->at_us > least_us ? pace->at_us : least_us;

    pace->account = account;
    pace->at_us = begin_us + (int64_t)bytes * 1000000 / PACE_BYTES;
    if (begin_us > now_us)
        rate->paced_ms = begin_us / 1000 + 1;
    return begin_us <= now_us;
}

void rate_note(struct sender *sender, struct subscription *subscription)
{
    struct rate *rate = &subscription->rate;

    if (!rate->limit)
        return;
    rate->starts[rate->next] = bb_now_ms(sender->host);
    rate->next = (rate->next + 1) % rate->limit;
    if (!rate_is_open(subscription, sender->now_ms))
        subscription_update(sender, subscription);
}

static void rate_due(struct sender *sender, struct timer *timer)
{
    subscription_update(sender, BB_CONTAINER_OF(timer, struct subscription, rate.open_at));
}

/* ---- state ---------------------------------------------------------------------------------- */

/* Opens or closes the flows of a webhook, and adds it to `to_read` or removes it. */
void subscription_update(struct sender *sender, struct subscription *subscription)
{
    bool mine = sender->mine & ~sender->to_give & sender_shard(subscription->node.id);
    bool tests = subscription->state == SUBSCRIPTION_READY ||
                 (subscription->state == SUBSCRIPTION_OFF && !subscription->parts->unreadable);
    bool open = mine && subscription->state == SUBSCRIPTION_READY;
    bool listed = mine && subscription->state < SUBSCRIPTION_OFF &&
                  (subscription->backlog || subscription->due);

    if (open && !rate_is_open(subscription, sender->now_ms)) {
        const struct rate *rate = &subscription->rate;
        int64_t at_ms = rate->limit ? rate->starts[rate->next] + rate->period_ms : 0;

        subscription->rate.open_at.due = rate_due;
        bb_heap_set(&sender->timers, &subscription->rate.open_at.node,
                    at_ms > rate->paced_ms ? at_ms : rate->paced_ms);
        open = false;
    }
    queue_close(&sender->queue, &subscription->flow, !open);
    queue_close(&sender->queue, &subscription->tests, !tests);
    if (listed && !subscription->listed)
        TAILQ_INSERT_TAIL(&sender->to_read, subscription, read_next);
    else if (!listed && subscription->listed)
        TAILQ_REMOVE(&sender->to_read, subscription, read_next);
    subscription->listed = listed;
    if (listed && subscription->state == SUBSCRIPTION_IDLE)
        subscription_want(sender, subscription);
}

void subscription_want(struct sender *sender, struct subscription *subscription)
{
    subscription->state = SUBSCRIPTION_UNREAD;
    subscription->unread_next = sender->unread;
    sender->unread = subscription;
    subscription_update(sender, subscription);
}

struct subscription *subscription_find(struct sender *sender, int64_t webhook)
{
    return (struct subscription *)(void *)idmap_find(&sender->subscriptions, webhook);
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
    idmap_add(&sender->subscriptions, &subscription->node);
    return subscription;
}

/* Makes the sender read the log from the delivery `id` on, because it is not in memory. */
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

/* Sets the time at which rows of webhook_waiting are due, unless an earlier time is set. */
void subscription_due(struct sender *sender, struct subscription *subscription, int64_t at_ms)
{
    if (subscription->state == SUBSCRIPTION_GONE || subscription->due ||
        (subscription->due_at.node.set && subscription->due_at.node.at_ms <= at_ms))
        return;
    if (at_ms > sender->now_ms) {
        subscription->due_at.due = subscription_now_due;
        bb_heap_set(&sender->timers, &subscription->due_at.node, at_ms);
    } else {
        bb_heap_remove(&sender->timers, &subscription->due_at.node);
        subscription_now_due(sender, &subscription->due_at);
    }
}

static void subscription_changed(struct sender *sender, struct subscription *subscription)
{
    subscription->version++;
    if (subscription->state > SUBSCRIPTION_READING)
        subscription_want(sender, subscription);
}

void subscriptions_changed(struct sender *sender, const struct pairs *webhooks, bool all)
{
    if (all)
        IDMAP_FOREACH (subscription, subscription, &sender->subscriptions)
            subscription_changed(sender, subscription);
    for (size_t i = 0; i < webhooks->count; i++) {
        struct subscription *subscription = subscription_find(sender, webhooks->webhooks[i]);

        if (subscription)
            subscription_changed(sender, subscription);
    }
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Applies a row (NULL: deleted). `health_version` is the health's version before the read. */
static void subscription_apply(struct sender *sender, struct subscription *subscription,
                               struct parts *after, unsigned health_version)
{
    const struct parts *before = subscription->parts;
    bool gone = !after || after->polled;
    bool ready = !gone && after->active && !after->unreadable;

    if (before && before->oauth && after && after->oauth)
        oauth_move(before->oauth, after->oauth);
    parts_release(subscription->parts);
    subscription->parts = after;
    if (!gone)
        health_apply(&subscription->health, after, health_version);
    if (ready)
        subscription->checked = sender->newest; /* webhook.sweep may have finished deliveries */
    subscription->state = gone ? SUBSCRIPTION_GONE : ready ? SUBSCRIPTION_READY : SUBSCRIPTION_OFF;
    if (gone) {
        if (after && sender->newest)
            sender_note(sender, subscription->node.id, sender->newest, true);
        subscription->backlog = subscription->due = false;
        bb_heap_remove(&sender->timers, &subscription->due_at.node);
    }
    if (!ready)
        delivery_put_back(sender, &subscription->flow);
    if (gone || after->unreadable)
        delivery_put_back(sender, &subscription->tests);
    subscription_update(sender, subscription);
}

static void subscription_read_back(struct sender *sender, struct db_task *db_task)
{
    struct reading_rows *reading = (struct reading_rows *)db_task;

    for (size_t i = 0; i < reading->count; i++) {
        struct subscription *subscription = reading->subscriptions[i];
        bool current = db_task->ok && reading->versions[i] == subscription->version;

        if (current && rate_set(sender, subscription, reading->parts[i])) {
            sender->retry_db_at = sender->now_ms + SENDER_AGAIN_MS;
            current = false;
        }
        if (current) {
            subscription_apply(sender, subscription, reading->parts[i],
                               reading->health_versions[i]);
        } else {
            parts_release(reading->parts[i]);
            subscription_want(sender, subscription);
        }
    }
    reading->count = 0;
}

void subscriptions_read(struct sender *sender)
{
    struct reading_rows *reading = &sender->reading_rows;

    if (!sender->unread || reading->db_task.busy || sender->now_ms < sender->retry_db_at)
        return;
    while (sender->unread && reading->count < SENDER_ROWS) {
        struct subscription *subscription = sender->unread;
        size_t i = reading->count++;

        sender->unread = subscription->unread_next;
        subscription->state = SUBSCRIPTION_READING;
        reading->subscriptions[i] = subscription;
        reading->ids[i] = subscription->node.id;
        reading->versions[i] = subscription->version;
        reading->health_versions[i] = subscription->health.version;
        reading->parts[i] = NULL;
    }
    db_task_send(sender, &reading->db_task, parts_read, subscription_read_back);
}

/* ---- forgetting ----------------------------------------------------------------------------- */

void subscription_free(struct sender *sender, struct subscription *subscription)
{
    if (subscription->abandoned) /* since the last line about it */
        bb_host_log(sender->host, BB_WARN, "deliveries were abandoned: webhook %lld, count %zu",
                    (long long)subscription->node.id, subscription->abandoned);
    if (subscription->listed)
        TAILQ_REMOVE(&sender->to_read, subscription, read_next);
    bb_heap_remove(&sender->timers, &subscription->due_at.node);
    bb_heap_remove(&sender->timers, &subscription->rate.open_at.node);
    free(subscription->rate.starts);
    idmap_remove(&sender->subscriptions, &subscription->node);
    parts_release(subscription->parts);
    free(subscription);
}

/* Returns whether no list, task or delivery refers to the webhook. */
static bool subscription_is_free(const struct sender *sender,
                                 const struct subscription *subscription)
{
    return !subscription->flow.held && !subscription->tests.held && !sender->reading.db_task.busy &&
           !sender->saving.db_task.busy && subscription->state != SUBSCRIPTION_UNREAD &&
           subscription->state != SUBSCRIPTION_READING;
}

void subscriptions_clean(struct sender *sender)
{
    IDMAP_FOREACH (subscription, subscription, &sender->subscriptions) {
        const struct parts *parts = subscription->parts;
        bool token = parts && parts->oauth && oauth_header(parts->oauth);

        if (subscription->state == SUBSCRIPTION_OFF && parts &&
            parts->unreadable) /* secrets.keys may have its key now */
            subscription_want(sender, subscription);
        if (!subscription_is_free(sender, subscription) || subscription->backlog ||
            subscription->due || sender->now_ms - subscription->used_ms <= KEEP_MS || token)
            continue;
        if (subscription->due_at.node.set && subscription->state >= SUBSCRIPTION_READY) {
            parts_release(subscription->parts);
            subscription->parts = NULL;
            subscription->state = SUBSCRIPTION_IDLE;
            subscription_update(sender, subscription);
        } else if (!subscription->due_at.node.set && !subscription->saved) {
            subscription_free(sender, subscription);
        }
    }
}

void subscriptions_drop(struct sender *sender, uint64_t shards)
{
    IDMAP_FOREACH (subscription, subscription, &sender->subscriptions) {
        if (!(shards & sender_shard(subscription->node.id)))
            continue;
        subscription->backlog = subscription->due = false;
        subscription->saved = subscription->missed = 0;
        bb_heap_remove(&sender->timers, &subscription->due_at.node);
        subscription->read_to = sender->cursors[subscription->node.id % SENDER_SHARDS];
        subscription->checked = sender->newest;
        subscription->health = (struct health){.version = subscription->health.version + 1};
        for (size_t i = 0; i < subscription->rate.limit; i++)
            subscription->rate.starts[i] = sender->now_ms; /* other hosts may have made attempts */
        subscription_update(sender, subscription);
        if (subscription_is_free(sender, subscription))
            subscription_free(sender, subscription);
        else if (subscription->state == SUBSCRIPTION_READY ||
                 subscription->state == SUBSCRIPTION_OFF)
            subscription_want(sender, subscription); /* to read its health */
    }
}

/* Reads only the first delivery of each flow, because it has waited longest. */
int64_t subscriptions_lag(struct sender *sender)
{
    int64_t most_ms = 0;

    IDMAP_FOREACH (subscription, subscription, &sender->subscriptions) {
        struct queue_item *item = TAILQ_FIRST(&subscription->flow.waiting);

        if (!item || subscription->state != SUBSCRIPTION_READY ||
            !rate_is_open(subscription, sender->now_ms))
            continue;
        const struct delivery *first = BB_CONTAINER_OF(item, struct delivery, item);
        int64_t again_ms = first->retry.node.at_ms;
        int64_t due = again_ms > first->queued_ms ? again_ms : first->queued_ms;

        if (sender->now_ms - due > most_ms)
            most_ms = sender->now_ms - due;
    }
    return most_ms;
}
