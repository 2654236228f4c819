/* Webhooks in the sender: read when first needed and again after each change. */
#include "modules/webhook/sender/internal.h"

#define READ_MAX 200  /* per statement */
#define READS 2       /* statements at a time */
#define KEEP_MS 60000 /* how long one without deliveries is kept */
#define AGAIN_MS 500  /* after a failure */

static const struct bb_sql read_subscriptions = {
    "SELECT id, url, secret, CASE WHEN previous_until > now() THEN previous END,"
    " coalesce(" BB_SQL_MS("previous_until") ", 0), active AND admitted"
                                             " FROM webhook_hook WHERE id = ANY($1::bigint[])",
    0,
};

struct fresh {
    struct subscription *subscription;
    unsigned version;
    struct sender *sender;
    bool tests; /* it is the flow of tests, for which the webhook need not be active */
    bool found, bad, active;
    bool starved; /* out of memory: it is read again */
    char *url;
    struct sign_key *keys[SIGN_KEYS_MAX];
    int64_t previous_until;
};

struct reading {
    struct db_task db_task;
    size_t count;
    int64_t ids[READ_MAX];
    struct fresh list[READ_MAX];
};

static struct subscription *of_node(struct idmap_node *node)
{
    return BB_CONTAINER_OF(node, struct subscription, node);
}

/* ---- full webhooks -------------------------------------------------------------------------- */

static void tell_full(struct sender *sender, struct subscription *subscription, bool full)
{
    if (full == subscription->full_told || subscription->node.id < 0)
        return;
    pthread_mutex_lock(&sender->lock);
    if (full && sender->full_count < SENDER_FULL_MAX) {
        sender->full[sender->full_count++] = subscription->node.id;
        subscription->full_told = true;
    } else if (!full) {
        for (size_t i = 0; i < sender->full_count; i++)
            if (sender->full[i] == subscription->node.id)
                sender->full[i] = sender->full[--sender->full_count];
        subscription->full_told = false;
    }
    pthread_mutex_unlock(&sender->lock);
}

void subscription_update(struct sender *sender, struct subscription *subscription)
{
    bool closed = subscription->state != SUBSCRIPTION_READY;

    if (closed != subscription->flow.closed)
        queue_close(&sender->queue, &subscription->flow, closed);
    tell_full(sender, subscription,
              subscription->overflows || !queue_room(&sender->queue, &subscription->flow, 4096));
}

void subscription_set_overflow(struct sender *sender, struct subscription *subscription,
                               bool overflows)
{
    if (overflows && !subscription->overflows) {
        subscription->overflow_prev = NULL;
        subscription->overflow_next = sender->overflowing;
        if (sender->overflowing)
            sender->overflowing->overflow_prev = subscription;
        sender->overflowing = subscription;
    } else if (!overflows && subscription->overflows) {
        *(subscription->overflow_prev ? &subscription->overflow_prev->overflow_next
                                      : &sender->overflowing) = subscription->overflow_next;
        if (subscription->overflow_next)
            subscription->overflow_next->overflow_prev = subscription->overflow_prev;
    }
    subscription->overflows = overflows;
    subscription_update(sender, subscription);
}

/* ---- state ---------------------------------------------------------------------------------- */

static void want(struct sender *sender, struct subscription *subscription)
{
    subscription->state = SUBSCRIPTION_UNREAD;
    subscription->unread_next = sender->unread;
    sender->unread = subscription;
    subscription_update(sender, subscription);
}

struct subscription *subscription_get(struct sender *sender, int64_t id)
{
    struct idmap_node *node = idmap_find(&sender->subscriptions, id);
    struct subscription *subscription = node ? of_node(node) : calloc(1, sizeof(*subscription));

    if (node || !subscription)
        return subscription;
    subscription->node.id = id;
    subscription->used_ms = sender->now_ms;
    queue_flow_init(&subscription->flow);
    subscription->flow.closed = true;
    if (idmap_add(&sender->subscriptions, &subscription->node)) {
        free(subscription);
        return NULL;
    }
    want(sender, subscription);
    return subscription;
}

void subscription_changed(struct sender *sender, struct subscription *subscription)
{
    subscription->version++;
    if (subscription->state != SUBSCRIPTION_UNREAD && subscription->state != SUBSCRIPTION_READING)
        want(sender, subscription);
}

static void each_changed(struct idmap_node *node, void *sender)
{
    subscription_changed(sender, of_node(node));
}

void subscriptions_changed(struct sender *sender, int64_t id)
{
    struct idmap_node *node = id ? idmap_find(&sender->subscriptions, id) : NULL;
    struct idmap_node *tests = id ? idmap_find(&sender->subscriptions, -id) : NULL;

    if (!id)
        idmap_each(&sender->subscriptions, each_changed, sender);
    if (node)
        subscription_changed(sender, of_node(node));
    if (tests)
        subscription_changed(sender, of_node(tests));
}

/* ---- reading -------------------------------------------------------------------------------- */

/*
 * Returns the key of a secret, owned by the caller; NULL: no key in secrets.keys opens it, or out
 * of memory.
 */
static struct sign_key *open_key(struct fresh *fresh, int64_t id, const char *cell)
{
    const struct sender *sender = fresh->sender;
    char *secret;
    int opened = webhook_secret_open(sender->host, id, cell, &secret);
    struct sign_key *key = secret ? sign_key_new(sender->hmac, secret) : NULL;

    if (secret)
        OPENSSL_cleanse(secret, strlen(secret));
    free(secret);
    fresh->starved = fresh->starved || (!key && opened != SECRET_LOCKED);
    return key;
}

static void read_row(struct bb_request *rq, struct fresh *fresh, const struct bb_rows *rows,
                     size_t row)
{
    int64_t id = bb_cell_int(rq, rows, row, 0);
    const char *previous = bb_cell(rq, rows, row, 3);

    fresh->found = true;
    fresh->url = strdup(bb_cell(rq, rows, row, 1));
    fresh->starved = !fresh->url;
    fresh->keys[0] = open_key(fresh, id, bb_cell(rq, rows, row, 2));
    if (previous)
        fresh->keys[1] = open_key(fresh, id, previous);
    fresh->previous_until = bb_cell_int(rq, rows, row, 4);
    fresh->active = fresh->tests || bb_cell_int(rq, rows, row, 5);
    fresh->bad = !fresh->keys[0];
    if (fresh->starved)
        return;
    if (fresh->bad)
        bb_log(rq, BB_ERROR, "webhook %lld cannot send: its secret cannot be opened",
               (long long)id);
    else if (previous && !fresh->keys[1])
        bb_log(rq, BB_ERROR,
               "webhook %lld does not sign with its previous secret, which cannot be opened",
               (long long)id);
}

static void read_work(struct bb_request *rq, struct db_task *db_task)
{
    struct reading *reading = BB_CONTAINER_OF(db_task, struct reading, db_task);
    const struct bb_rows *rows =
        bb_query(rq, &read_subscriptions, BB_ARGS(bb_ints(reading->ids, reading->count)));

    if (!rows)
        return;
    for (size_t row = 0; row < bb_count(rq, rows); row++) {
        for (size_t i = 0; i < reading->count; i++)
            if (reading->ids[i] == bb_cell_int(rq, rows, row, 0))
                read_row(rq, &reading->list[i], rows, row);
    }
    db_task->ok = true;
}

static void forget(struct subscription *subscription)
{
    free(subscription->url);
    subscription->url = NULL;
    for (size_t i = 0; i < SIGN_KEYS_MAX; i++) {
        sign_key_free(subscription->keys[i]);
        subscription->keys[i] = NULL;
    }
}

static void apply(struct sender *sender, struct fresh *fresh)
{
    struct subscription *subscription = fresh->subscription;

    forget(subscription);
    subscription->url = fresh->url;
    memcpy(subscription->keys, fresh->keys, sizeof(subscription->keys));
    subscription->previous_until = fresh->previous_until;
    subscription->bad = fresh->bad;
    fresh->url = NULL;
    memset(fresh->keys, 0, sizeof(fresh->keys));
    if (!fresh->found)
        subscription->state = SUBSCRIPTION_GONE;
    else
        subscription->state = fresh->active && !fresh->bad ? SUBSCRIPTION_READY : SUBSCRIPTION_OFF;
    if (subscription->state == SUBSCRIPTION_GONE) {
        delivery_drop_waiting(sender, subscription);
        subscription_set_overflow(sender, subscription, false);
    } else if (subscription->state == SUBSCRIPTION_OFF) {
        delivery_put_back(sender,
                          subscription); /* it may be off for a day, and others need the memory */
    }
    subscription_update(sender, subscription);
}

static void read_back(struct sender *sender, struct db_task *db_task)
{
    struct reading *reading = BB_CONTAINER_OF(db_task, struct reading, db_task);

    sender->reading--;
    if (!db_task->ok)
        sender->retry_db_at = sender->now_ms + AGAIN_MS;
    for (size_t i = 0; i < reading->count; i++) {
        struct fresh *fresh = &reading->list[i];

        if (fresh->starved)
            sender->retry_db_at = sender->now_ms + AGAIN_MS;
        if (db_task->ok && !fresh->starved && fresh->version == fresh->subscription->version)
            apply(sender, fresh);
        else
            want(sender, fresh->subscription);
    }
}

static void read_drop(struct db_task *db_task)
{
    struct reading *reading = BB_CONTAINER_OF(db_task, struct reading, db_task);

    for (size_t i = 0; i < reading->count; i++) {
        free(reading->list[i].url);
        for (size_t k = 0; k < SIGN_KEYS_MAX; k++)
            sign_key_free(reading->list[i].keys[k]);
    }
    free(reading);
}

void subscriptions_read(struct sender *sender)
{
    while (sender->unread && sender->reading < READS && sender->now_ms >= sender->retry_db_at) {
        struct reading *reading = calloc(1, sizeof(*reading));

        if (!reading)
            return;
        reading->db_task =
            (struct db_task){.work = read_work, .back = read_back, .drop = read_drop};
        while (sender->unread && reading->count < READ_MAX) {
            struct subscription *subscription = sender->unread;

            sender->unread = subscription->unread_next;
            subscription->state = SUBSCRIPTION_READING;
            reading->ids[reading->count] = subscription_webhook(subscription);
            reading->list[reading->count++] = (struct fresh){.subscription = subscription,
                                                             .version = subscription->version,
                                                             .sender = sender,
                                                             .tests = subscription->node.id < 0};
        }
        sender->reading++;
        db_task_send(sender, &reading->db_task);
    }
}

/* ---- forgetting ----------------------------------------------------------------------------- */

/* Logs the deliveries abandoned since the last line about a webhook that is being forgotten. */
static void tell_rest(const struct sender *sender, const struct subscription *subscription)
{
    if (subscription->abandoned)
        bb_host_log(sender->host, BB_WARN, "deliveries were abandoned: webhook %lld, count %zu",
                    (long long)subscription_webhook(subscription), subscription->abandoned);
}

static void subscription_free(struct sender *sender, struct subscription *subscription)
{
    tell_rest(sender, subscription);
    tell_full(sender, subscription, false);
    idmap_remove(&sender->subscriptions, &subscription->node);
    forget(subscription);
    free(subscription);
}

static void clean(struct idmap_node *node, void *arg)
{
    struct sender *sender = arg;
    struct subscription *subscription = of_node(node);
    bool settled = subscription->state >= SUBSCRIPTION_READY;

    if (settled && subscription->bad) { /* a key may exist again */
        want(sender, subscription);
        return;
    }

    if (settled && !subscription->flow.held && !subscription->overflows &&
        !subscription->claiming && sender->now_ms - subscription->used_ms > KEEP_MS)
        subscription_free(sender, subscription);
}

void subscriptions_clean(struct sender *sender)
{
    idmap_each(&sender->subscriptions, clean, sender);
}

struct lag {
    int64_t now_ms, most_ms;
};

/* The first delivery in a flow has waited the longest; a retry has waited since it was due. */
static void look_at_lag(struct idmap_node *node, void *arg)
{
    struct lag *lag = arg;
    const struct subscription *subscription = of_node(node);
    const struct delivery *first =
        (const struct delivery *)(void *)subscription->flow.waiting.first;

    if (!first || subscription->state != SUBSCRIPTION_READY)
        return;
    int64_t due = first->retry.at_ms > first->queued_ms ? first->retry.at_ms : first->queued_ms;

    if (lag->now_ms - due > lag->most_ms)
        lag->most_ms = lag->now_ms - due;
}

int64_t subscriptions_lag(struct sender *sender)
{
    struct lag lag = {.now_ms = sender->now_ms};

    idmap_each(&sender->subscriptions, look_at_lag, &lag);
    return lag.most_ms;
}

static void free_each(struct idmap_node *node, void *sender)
{
    subscription_free(sender, of_node(node));
}

void subscriptions_free(struct sender *sender)
{
    idmap_each(&sender->subscriptions, free_each, sender);
    idmap_free(&sender->subscriptions);
}
