/* Webhooks as the sender knows them: read when first needed and again after each change. */
#include "modules/webhook/sender/internal.h"

#define READ_MAX 200  /* in a statement */
#define READS 2       /* statements at a time */
#define KEEP_MS 60000 /* one without deliveries */
#define AGAIN_MS 500  /* after a failure */

static const struct bb_sql read_hooks = {
    "SELECT id, url, secret, CASE WHEN previous_until > now() THEN previous END,"
    " coalesce(floor(extract(epoch FROM previous_until) * 1000), 0)::bigint, active AND admitted"
    " FROM webhook_hook WHERE id = ANY($1::bigint[])",
    0,
};

struct fresh {
    struct hook *hook;
    unsigned version;
    struct sender *sender;
    bool tests; /* it is the lane of tests, which the webhook need not be active for */
    bool found, bad, active;
    char *url;
    struct sign_key *keys[SIGN_KEYS_MAX];
    int64_t previous_until;
};

struct reading {
    struct db_task db_task; /* first */
    size_t count;
    int64_t ids[READ_MAX];
    struct fresh list[READ_MAX];
};

static struct hook *of_node(struct idmap_node *node)
{
    return (struct hook *)(void *)((char *)node - offsetof(struct hook, node));
}

/* ---- the full ones
 * -------------------------------------------------------------------------------- */

static void tell_full(struct sender *sender, struct hook *hook, bool full)
{
    if (full == hook->full_told || hook->node.id < 0)
        return;
    pthread_mutex_lock(&sender->lock);
    if (full && sender->full_count < SENDER_FULL_MAX) {
        sender->full[sender->full_count++] = hook->node.id;
        hook->full_told = true;
    } else if (!full) {
        for (size_t i = 0; i < sender->full_count; i++)
            if (sender->full[i] == hook->node.id)
                sender->full[i] = sender->full[--sender->full_count];
        hook->full_told = false;
    }
    pthread_mutex_unlock(&sender->lock);
}

void hook_settle(struct sender *sender, struct hook *hook)
{
    bool closed = hook->state != HOOK_READY;

    if (closed != hook->lane.closed)
        queue_close(&sender->queue, &hook->lane, closed);
    tell_full(sender, hook, hook->overflows || !queue_room(&sender->queue, &hook->lane, 4096));
}

void hook_set_overflow(struct sender *sender, struct hook *hook, bool overflows)
{
    if (overflows && !hook->overflows) {
        hook->overflow_prev = NULL;
        hook->overflow_next = sender->overflowing;
        if (sender->overflowing)
            sender->overflowing->overflow_prev = hook;
        sender->overflowing = hook;
    } else if (!overflows && hook->overflows) {
        *(hook->overflow_prev ? &hook->overflow_prev->overflow_next : &sender->overflowing) =
            hook->overflow_next;
        if (hook->overflow_next)
            hook->overflow_next->overflow_prev = hook->overflow_prev;
    }
    hook->overflows = overflows;
    hook_settle(sender, hook);
}

/* ---- knowing
 * -------------------------------------------------------------------------------------- */

static void want(struct sender *sender, struct hook *hook)
{
    hook->state = HOOK_UNREAD;
    hook->unread_next = sender->unread;
    sender->unread = hook;
    hook_settle(sender, hook);
}

struct hook *hook_get(struct sender *sender, int64_t id)
{
    struct idmap_node *node = idmap_find(&sender->hooks, id);
    struct hook *hook = node ? of_node(node) : calloc(1, sizeof(*hook));

    if (node || !hook)
        return hook;
    hook->node.id = id;
    hook->used_ms = sender->now_ms;
    queue_lane_init(&hook->lane);
    hook->lane.closed = true;
    if (idmap_add(&sender->hooks, &hook->node)) {
        free(hook);
        return NULL;
    }
    want(sender, hook);
    return hook;
}

void hook_changed(struct sender *sender, struct hook *hook)
{
    hook->version++;
    if (hook->state != HOOK_UNREAD && hook->state != HOOK_READING)
        want(sender, hook);
}

static void each_changed(struct idmap_node *node, void *sender)
{
    hook_changed(sender, of_node(node));
}

void hooks_changed(struct sender *sender, int64_t id)
{
    struct idmap_node *node = id ? idmap_find(&sender->hooks, id) : NULL;
    struct idmap_node *tests = id ? idmap_find(&sender->hooks, -id) : NULL;

    if (!id)
        idmap_each(&sender->hooks, each_changed, sender);
    if (node)
        hook_changed(sender, of_node(node));
    if (tests)
        hook_changed(sender, of_node(tests));
}

/* ---- reading
 * -------------------------------------------------------------------------------------- */

static struct sign_key *open_key(struct sender *sender, int64_t id, const char *cell)
{
    char *secret = webhook_secret_open(sender->host, id, cell);
    struct sign_key *key = secret ? sign_key_new(sender->hmac, secret) : NULL;

    if (secret)
        OPENSSL_cleanse(secret, strlen(secret));
    free(secret);
    return key;
}

static void read_row(struct bb_request *rq, struct fresh *fresh, const struct bb_rows *rows,
                     size_t row)
{
    int64_t id = bb_cell_int(rq, rows, row, 0);
    const char *previous = bb_cell(rq, rows, row, 3);
    struct sender *sender = fresh->sender;

    fresh->found = true;
    fresh->url = strdup(bb_cell(rq, rows, row, 1));
    fresh->keys[0] = open_key(sender, id, bb_cell(rq, rows, row, 2));
    if (previous)
        fresh->keys[1] = open_key(sender, id, previous);
    fresh->previous_until = bb_cell_int(rq, rows, row, 4);
    fresh->active = fresh->tests || bb_cell_int(rq, rows, row, 5);
    fresh->bad = !fresh->url || !fresh->keys[0];
    if (fresh->bad)
        bb_log(rq, BB_ERROR, "webhook %lld cannot send: its secret cannot be opened",
               (long long)id);
}

static void read_work(struct bb_request *rq, struct db_task *db_task)
{
    struct reading *reading = (struct reading *)(void *)db_task;
    const struct bb_rows *rows =
        bb_query(rq, &read_hooks, BB_ARGS(bb_ints(reading->ids, reading->count)));

    if (!rows)
        return;
    for (size_t row = 0; row < bb_count(rq, rows); row++) {
        for (size_t i = 0; i < reading->count; i++)
            if (reading->ids[i] == bb_cell_int(rq, rows, row, 0))
                read_row(rq, &reading->list[i], rows, row);
    }
    db_task->ok = true;
}

static void forget(struct hook *hook)
{
    free(hook->url);
    hook->url = NULL;
    for (size_t i = 0; i < SIGN_KEYS_MAX; i++) {
        sign_key_free(hook->keys[i]);
        hook->keys[i] = NULL;
    }
}

static void apply(struct sender *sender, struct fresh *fresh)
{
    struct hook *hook = fresh->hook;

    forget(hook);
    hook->url = fresh->url;
    memcpy(hook->keys, fresh->keys, sizeof(hook->keys));
    hook->previous_until = fresh->previous_until;
    hook->bad = fresh->bad;
    fresh->url = NULL;
    memset(fresh->keys, 0, sizeof(fresh->keys));
    if (!fresh->found)
        hook->state = HOOK_GONE;
    else
        hook->state = fresh->active && !fresh->bad ? HOOK_READY : HOOK_OFF;
    if (hook->state == HOOK_GONE) {
        delivery_drop_waiting(sender, hook);
        hook_set_overflow(sender, hook, false);
    } else if (hook->state == HOOK_OFF) {
        delivery_put_back(sender, hook); /* it may be off for a day: memory is for who sends */
    }
    hook_settle(sender, hook);
}

static void read_back(struct sender *sender, struct db_task *db_task)
{
    struct reading *reading = (struct reading *)(void *)db_task;

    sender->reading--;
    if (!db_task->ok)
        sender->retry_db_at = sender->now_ms + AGAIN_MS;
    for (size_t i = 0; i < reading->count; i++) {
        struct fresh *fresh = &reading->list[i];

        if (db_task->ok && fresh->version == fresh->hook->version)
            apply(sender, fresh);
        else
            want(sender, fresh->hook);
    }
}

static void read_drop(struct db_task *db_task)
{
    struct reading *reading = (struct reading *)(void *)db_task;

    for (size_t i = 0; i < reading->count; i++) {
        free(reading->list[i].url);
        for (size_t k = 0; k < SIGN_KEYS_MAX; k++)
            sign_key_free(reading->list[i].keys[k]);
    }
    free(reading);
}

void hooks_read(struct sender *sender)
{
    while (sender->unread && sender->reading < READS && sender->now_ms >= sender->retry_db_at) {
        struct reading *reading = calloc(1, sizeof(*reading));

        if (!reading)
            return;
        reading->db_task =
            (struct db_task){.work = read_work, .back = read_back, .drop = read_drop};
        while (sender->unread && reading->count < READ_MAX) {
            struct hook *hook = sender->unread;

            sender->unread = hook->unread_next;
            hook->state = HOOK_READING;
            reading->ids[reading->count] = hook_webhook(hook);
            reading->list[reading->count++] = (struct fresh){.hook = hook,
                                                             .version = hook->version,
                                                             .sender = sender,
                                                             .tests = hook->node.id < 0};
        }
        sender->reading++;
        db_task_send(sender, &reading->db_task);
    }
}

/* ---- forgetting
 * ----------------------------------------------------------------------------------- */

/* What was abandoned since the last line, of a webhook that is forgotten. */
static void tell_rest(const struct sender *sender, const struct hook *hook)
{
    if (hook->abandoned)
        bb_host_log(sender->host, BB_WARN, "deliveries were abandoned: webhook %lld, count %zu",
                    (long long)hook_webhook(hook), hook->abandoned);
}

static void hook_free(struct sender *sender, struct hook *hook)
{
    tell_rest(sender, hook);
    tell_full(sender, hook, false);
    idmap_remove(&sender->hooks, &hook->node);
    forget(hook);
    free(hook);
}

static void clean(struct idmap_node *node, void *arg)
{
    struct sender *sender = arg;
    struct hook *hook = of_node(node);
    bool settled = hook->state >= HOOK_READY;

    if (settled && hook->bad) { /* a key may be there again, or memory for it */
        want(sender, hook);
        return;
    }

    if (settled && !hook->lane.held && !hook->overflows && !hook->claiming &&
        sender->now_ms - hook->used_ms > KEEP_MS)
        hook_free(sender, hook);
}

void hooks_clean(struct sender *sender)
{
    idmap_each(&sender->hooks, clean, sender);
}

struct lag {
    int64_t now_ms, most_ms;
};

/* The first in a lane has waited the longest; if it was tried before, since it was due again. */
static void look_at_lag(struct idmap_node *node, void *arg)
{
    struct lag *lag = arg;
    const struct hook *hook = of_node(node);
    const struct delivery *first = (const struct delivery *)(void *)hook->lane.waiting.first;

    if (!first || hook->state != HOOK_READY)
        return;
    int64_t due = first->retry.at_ms > first->queued_ms ? first->retry.at_ms : first->queued_ms;

    if (lag->now_ms - due > lag->most_ms)
        lag->most_ms = lag->now_ms - due;
}

int64_t hooks_lag(struct sender *sender)
{
    struct lag lag = {.now_ms = sender->now_ms};

    idmap_each(&sender->hooks, look_at_lag, &lag);
    return lag.most_ms;
}

static void free_each(struct idmap_node *node, void *sender)
{
    hook_free(sender, of_node(node));
}

void hooks_free(struct sender *sender)
{
    idmap_each(&sender->hooks, free_each, sender);
    idmap_free(&sender->hooks);
}
