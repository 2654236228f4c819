/* The sender's worker thread, its database tasks, and the functions that other threads call. */
#include <busbar/lock.h>
#include <inttypes.h>
#include <stdlib.h>

#include "modules/webhook/sender/internal.h"

#define CLEAN_MS 30000
#define STOP_TASKS_MS 5000 /* limit for the database tasks of the last attempts */
#define LINGER_MS 250      /* how long to send signals of transactions begun before a reload */
#define IDLE_MS 2000
#define IDLE_LEAVING_MS 50
#define SIGNAL_MS 20       /* between two signals to other hosts */
#define SIGNALS_MAX 10000  /* maximum number of pairs in a list; look_on() finds the others */
#define SIGNAL_PAIRS "150" /* in a signal: PostgreSQL allows less than 8,000 bytes */

/* ---- database tasks -------------------------------------------------------------------------- */

static void db_task_run(struct bb_request *rq, void *arg)
{
    struct db_task *db_task = arg;

    db_task->work(rq, db_task);
}

/*
 * The sender still exists, because it is freed after the generation's last request. A task that
 * ended early (out of memory) has failed, even if `work` has reported success.
 */
static void db_task_ended(void *arg, bool whole)
{
    struct db_task *db_task = arg;
    struct sender *sender = db_task->sender;
    struct bb_host *host = sender->host;

    db_task->ok = db_task->ok && whole;
    pthread_mutex_lock(&sender->lock);
    db_task->next = sender->db_tasks;
    sender->db_tasks = db_task;
    pthread_mutex_unlock(&sender->lock);
    bb_wake(host, "sender");
}

void db_task_send(struct sender *sender, struct db_task *db_task,
                  void (*work)(struct bb_request *rq, struct db_task *db_task),
                  void (*back)(struct sender *sender, struct db_task *db_task))
{
    db_task->sender = sender;
    db_task->me = sender->me;
    db_task->work = work;
    db_task->back = back;
    db_task->ok = false;
    db_task->busy = true;
    sender->tasks_pending++;
    if (bb_run_then(sender->host, db_task_run, db_task_ended, db_task))
        db_task_ended(db_task, false);
}

struct bb_value db_task_shards(struct bb_request *rq, const struct db_task *db_task)
{
    int64_t *list = bb_alloc(rq, SENDER_SHARDS * sizeof(*list));
    size_t count = 0;

    for (int64_t i = 0; i < SENDER_SHARDS; i++)
        if (db_task->shards & sender_shard(i))
            list[count++] = i;
    return bb_ints(list, count);
}

void db_task_read(struct bb_request *rq, struct db_task *db_task, const struct bb_rows *rows)
{
    for (size_t row = 0; rows && row < bb_count(rq, rows); row++)
        if (pairs_add(&db_task->pairs, bb_cell_int(rq, rows, row, 0),
                      bb_cell_int(rq, rows, row, 1)))
            bb_alloc(rq, SIZE_MAX); /* fails, which ends the request */
    db_task->ok = rows != NULL;
}

int pairs_add(struct pairs *pairs, int64_t webhook, int64_t id)
{
    if (pairs->count == pairs->room) {
        size_t room = pairs->room ? 2 * pairs->room : 64;
        int64_t *webhooks = realloc(pairs->webhooks, room * sizeof(*webhooks));
        int64_t *ids = webhooks ? realloc(pairs->ids, room * sizeof(*ids)) : NULL;

        if (webhooks)
            pairs->webhooks = webhooks;
        if (!ids)
            return -1;
        pairs->ids = ids;
        pairs->room = room;
    }
    pairs->webhooks[pairs->count] = webhook;
    pairs->ids[pairs->count++] = id;
    return 0;
}

void pairs_free(struct pairs *pairs)
{
    free(pairs->webhooks);
    free(pairs->ids);
    *pairs = (struct pairs){0};
}

/* ---- functions for other threads ------------------------------------------------------------- */

struct sender *sender_new(const struct webhook *webhook)
{
    struct sender *sender = calloc(1, sizeof(*sender));

    if (!sender)
        return NULL;
    sender->host = webhook->host;
    sender->webhook = webhook;
    sender->settings = webhook->settings;
    sender->hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    STAILQ_INIT(&sender->handoffs);
    STAILQ_INIT(&sender->results[false]);
    STAILQ_INIT(&sender->results[true]);
    STAILQ_INIT(&sender->reading.list);
    TAILQ_INIT(&sender->to_read);
    if (sender->hmac && pthread_mutex_init(&sender->lock, NULL) == 0)
        return sender;
    EVP_MAC_free(sender->hmac);
    free(sender);
    return NULL;
}

void sender_free(struct sender *sender)
{
    if (!sender)
        return;
    for (struct db_task *db_task = sender->db_tasks; db_task; db_task = db_task->next)
        pairs_free(&db_task->pairs); /* these tasks ended after the worker */
    for (size_t i = 0; i < sender->reading_rows.count; i++)
        parts_release(sender->reading_rows.parts[i]);
    delivery_free_list(&sender->reading.list);
    pairs_free(&sender->saving.held);
    json_decref(sender->recording.details);
    pairs_free(&sender->heard);
    pairs_free(&sender->signals);
    pairs_free(&sender->changed);
    pthread_mutex_destroy(&sender->lock);
    EVP_MAC_free(sender->hmac);
    free(sender);
}

bool sender_ready(struct sender *sender)
{
    return sender->running && sender->ready;
}

void sender_note(struct sender *sender, int64_t webhook, int64_t id, bool all)
{
    pthread_mutex_lock(&sender->lock);
    struct pairs *pairs =
        !all && sender->owned & sender_shard(webhook) ? &sender->heard : &sender->signals;
    size_t last = pairs->count - 1;
    bool noted = pairs->count && pairs->webhooks[last] == webhook && pairs->ids[last] == id;
    bool news = !noted && !pairs->count;

    if (!noted && (pairs->count >= SIGNALS_MAX || pairs_add(pairs, webhook, id)))
        sender->heard_all = news = true;
    pthread_mutex_unlock(&sender->lock);
    if (news)
        bb_wake(sender->host, "sender");
}

void sender_committed(struct sender *sender, const struct sender_event *event,
                      const struct sender_item *items, size_t count, bool test)
{
    struct delivery_list list = STAILQ_HEAD_INITIALIZER(list);
    struct waiters *waiters = sender->webhook->waiters;
    struct body *body = body_new(event);

    uint64_t owned = sender->running ? sender->owned : 0;

    for (size_t i = 0; i < count; i++) {
        bool takes = body && (test || owned & sender_shard(items[i].webhook));
        struct delivery *delivery =
            takes ? delivery_new(items[i].webhook, items[i].id, body) : NULL;

        if (delivery) {
            delivery->test = test ? waiters : NULL;
            delivery->kept = test;
            STAILQ_INSERT_TAIL(&list, delivery, next);
        } else if (test) {
            waiters_report(waiters, items[i].id, false, 0, 0, "out of memory");
        } else { /* another host's shard, or out of memory: the owner reads the log */
            sender_note(sender, items[i].webhook, items[i].id, false);
        }
    }
    if (body)
        body_release(NULL, body);
    if (STAILQ_EMPTY(&list))
        return;
    pthread_mutex_lock(&sender->lock);
    bool first = sender->running && STAILQ_EMPTY(&sender->handoffs);

    if (sender->running)
        STAILQ_CONCAT(&sender->handoffs, &list);
    pthread_mutex_unlock(&sender->lock);
    delivery_free_list(&list); /* STAILQ_CONCAT() has emptied it if the worker runs */
    if (first)
        bb_wake(sender->host, "sender");
}

void sender_queued(struct sender *sender, int64_t webhook, bool ordered)
{
    sender_note(sender, webhook, ordered ? -1 : 0, false);
}

void sender_heard(struct sender *sender, const char *payload)
{
    bool pairs = payload && !strncmp(payload, "queued:", 7);
    const char *at = pairs ? payload + 7 : "";

    while (*at) {
        char *end;
        int64_t webhook = strtoll(at, &end, 10);
        int64_t id = *end == ':' ? strtoll(end + 1, &end, 10) : 0;

        if (webhook > 0 && sender->owned & sender_shard(webhook))
            sender_note(sender, webhook, id, false);
        waiters_wake(sender->webhook->waiters, webhook);
        pairs = pairs && webhook > 0;
        at = *end == ',' ? end + 1 : "";
    }
    if (pairs)
        return;
    sender->heard_all = true;
    if (payload && !strcmp(payload, "shards"))
        sender->heard_shards = true;
    bb_wake(sender->host, "sender");
}

void sender_changed(struct sender *sender, int64_t webhook)
{
    pthread_mutex_lock(&sender->lock);
    if (!webhook || pairs_add(&sender->changed, webhook, 0))
        sender->changed_all = true;
    pthread_mutex_unlock(&sender->lock);
    waiters_wake(sender->webhook->waiters, webhook);
    bb_wake(sender->host, "sender");
}

void sender_expand(struct sender *sender)
{
    if (!atomic_exchange(&sender->events_wait, true))
        bb_wake(sender->host, "sender");
}

void sender_pause(struct sender *sender, bool paused)
{
    pthread_mutex_lock(&sender->lock);
    sender->paused = paused;
    sender->pauses++;
    pthread_mutex_unlock(&sender->lock);
    bb_wake(sender->host, "sender");
}

void sender_count(struct sender *sender, struct sender_counters *counters)
{
    BB_LOCKED(&sender->lock);
    *counters = sender->counters;
}

/* ---- signals to the owners of other shards --------------------------------------------------- */

/* NOTIFY runs after the transactions of events, because in them it would serialize commits. */
static void signal_work(struct bb_request *rq, struct db_task *db_task)
{
    static const struct bb_sql notify = {
        "SELECT pg_notify('" WEBHOOK_CHANNEL "', 'queued:' || string_agg(webhook || ':' || id, ','"
        " ORDER BY n)) FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS p(webhook, id, n)"
        " GROUP BY n / " SIGNAL_PAIRS,
        BB_SQL_WRITE};
    const struct pairs *pairs = &db_task->pairs;

    db_task->ok = bb_query(rq, &notify,
                           BB_ARGS(bb_ints(pairs->webhooks, pairs->count),
                                   bb_ints(pairs->ids, pairs->count))) != NULL;
}

static void signal_back(struct sender *sender, struct db_task *db_task)
{
    const struct pairs *pairs = &db_task->pairs;

    for (size_t i = 0; i < pairs->count && !db_task->ok; i++)
        sender_note(sender, pairs->webhooks[i], pairs->ids[i], false);
    if (!db_task->ok)
        sender->signal_at = sender->now_ms + SENDER_AGAIN_MS;
}

static void signal_owners(struct sender *sender)
{
    struct db_task *signaling = &sender->signaling;

    if (signaling->busy || sender->now_ms < sender->signal_at)
        return;
    pthread_mutex_lock(&sender->lock);
    signaling->pairs = sender->signals;
    sender->signals = (struct pairs){0};
    pthread_mutex_unlock(&sender->lock);
    if (!signaling->pairs.count) {
        pairs_free(&signaling->pairs);
        return;
    }
    sender->signal_at = sender->now_ms + SIGNAL_MS;
    db_task_send(sender, signaling, signal_work, signal_back);
}

/* ---- turns of the worker --------------------------------------------------------------------- */

/* Empties the inbox under one lock, and then handles its contents. */
static void sender_take_inbox(struct sender *sender)
{
    struct delivery_list handoffs = STAILQ_HEAD_INITIALIZER(handoffs);
    struct pairs heard;
    struct db_task *db_tasks;

    if (sender->now_ms >= sender->retry_db_at && atomic_exchange(&sender->heard_all, false))
        sender->look_wanted = true;
    if (atomic_exchange(&sender->heard_shards, false))
        sender->tend_at = sender->now_ms;
    if (atomic_exchange(&sender->events_wait, false) && sender->expand_at == INT64_MAX)
        sender->expand_at = sender->now_ms;
    pthread_mutex_lock(&sender->lock);
    STAILQ_CONCAT(&handoffs, &sender->handoffs);
    db_tasks = sender->db_tasks;
    sender->db_tasks = NULL;
    heard = sender->heard;
    sender->heard = (struct pairs){0};
    sender->totals.waiting = (int64_t)(sender->deliveries.count - queue_flying(&sender->queue));
    sender->totals.in_flight = (int64_t)queue_flying(&sender->queue);
    sender->counters = sender->totals;
    pthread_mutex_unlock(&sender->lock);
    while (db_tasks) {
        struct db_task *db_task = db_tasks;

        db_tasks = db_task->next;
        sender->tasks_pending--;
        db_task->busy = false;
        if (!db_task->ok)
            sender->retry_db_at = sender->now_ms + SENDER_AGAIN_MS;
        if (db_task->back)
            db_task->back(sender, db_task);
        pairs_free(&db_task->pairs);
    }
    delivery_take_handoffs(sender, &handoffs);
    for (size_t i = 0; i < heard.count; i++) {
        int64_t webhook = heard.webhooks[i], id = heard.ids[i];
        struct subscription *subscription = id > 0 ? NULL : subscription_get(sender, webhook);

        if (!(sender->mine & sender_shard(webhook)))
            continue;
        if (id > 0)
            look_found(sender, webhook, id);
        else if (subscription)
            subscription_due(sender, subscription, sender->now_ms);
        if (!id)
            sender->replay_at = sender->now_ms;
    }
    pairs_free(&heard);
}

static int64_t sender_sooner(int64_t wait, int64_t at, int64_t now)
{
    int64_t left = at > now ? at - now : 0;

    return left < wait ? left : wait;
}

/* Returns how long the thread may sleep unless an event wakes it. */
static int64_t sender_idle_ms(struct sender *sender, int64_t tick)
{
    int64_t most = sender->stopping ? IDLE_LEAVING_MS : IDLE_MS, now = sender->now_ms;
    int64_t wait = tick >= 0 && tick < most ? tick : most;
    const struct bb_heap_node *first = bb_heap_first(&sender->timers);

    /* A time that has passed is ignored: the work waits for an event, which wakes the thread. */
    const int64_t times[] = {sender->replay_at, sender->expand_at, sender->retry_db_at,
                             sender->signal_at};

    if (first)
        wait = sender_sooner(wait, first->at_ms, now);
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        if (times[i] > now)
            wait = sender_sooner(wait, times[i], now);
    if (sender->result_count && !sender->recording.db_task.busy && sender->me &&
        !sender->saving.gives)
        wait = sender_sooner(wait, record_at(sender), now);
    if (!sender->tending.db_task.busy && !sender->leaving)
        wait = sender_sooner(wait, sender->tend_at, now);
    return wait;
}

static void sender_turn(struct sender *sender)
{
    struct bb_heap_node *first;

    sender->now_ms = bb_now_ms(sender->host);
    sender_take_inbox(sender);
    record_results(sender); /* results that arrived while a statement was running */
    lease_tend(sender);
    lease_give(sender);
    look_on(sender);
    while ((first = bb_heap_first(&sender->timers)) && first->at_ms <= sender->now_ms) {
        struct timer *timer = BB_CONTAINER_OF(first, struct timer, node);

        bb_heap_remove(&sender->timers, first);
        timer->due(sender, timer);
    }
    read_deliveries(sender);
    expand_events(sender);
    replay_next(sender);
    subscriptions_read(sender);
    signal_owners(sender);
    int64_t tick = queue_tick(&sender->queue, sender->now_ms);

    attempts_start(sender);
    if (sender->now_ms >= sender->clean_at) {
        sender->clean_at = sender->now_ms + CLEAN_MS;
        subscriptions_clean(sender);
    }
    http_client_turn(sender->client, sender->context->wake_fd, sender_idle_ms(sender, tick));
    sender->now_ms = bb_now_ms(sender->host);
    record_results(sender);
}

/* ---- start and end --------------------------------------------------------------------------- */

static void sender_set_running(struct sender *sender, bool running)
{
    BB_LOCKED(&sender->lock);
    sender->running = running;
}

/*
 * A sender that stops gives its shards away at once. It lets the attempts in flight end, as long as
 * bb_leave_ms() allows, because an attempt that was cut off would be made a second time.
 */
static void sender_finish(struct sender *sender)
{
    waiters_end(sender->webhook->waiters);
    sender->stopping = true;
    sender->successor = bb_superseded(sender->host);
    sender->tend_at = sender->now_ms;
    if (!sender->successor)
        sender_set_running(sender, false);
    int64_t leave = bb_leave_ms(sender->context);
    int64_t last = leave / 2 < STOP_TASKS_MS ? leave / 2 : STOP_TASKS_MS;
    int64_t linger_until = sender->now_ms + (sender->successor ? LINGER_MS : 0);
    bool left = false;

    do {
        sender_turn(sender);
        left = !sender->deliveries.count && !sender->mine && !sender->tasks_pending &&
               !sender->signals.count && sender->now_ms >= linger_until;
    } while (!left && bb_leave_ms(sender->context) > last);
    sender_set_running(sender, false);
    int64_t until = sender->now_ms + STOP_TASKS_MS;

    sender->leaving = true;
    lease_end(sender);
    while (sender->tasks_pending && sender->now_ms < until)
        sender_turn(sender);
    delivery_free_list(&sender->handoffs);
    attempts_free(sender);
    /* Webhooks first, because subscription_free() uses a heap that has timers of deliveries. */
    IDMAP_FOREACH (subscription, subscription, &sender->subscriptions)
        subscription_free(sender, subscription);
    IDMAP_FOREACH (delivery, delivery, &sender->deliveries)
        delivery_free(sender, delivery);
    bodies_keep(sender, 0);
}

void sender_run(struct bb_worker_context *context)
{
    struct sender *sender = ((struct webhook *)context->host->state)->sender;
    const struct webhook_settings *settings = sender->settings;
    size_t memory = (size_t)settings->memory * 1024 * 1024;
    struct queue_limits limits = {.slots = (size_t)settings->slots,
                                  .flow_flying = (size_t)settings->slots_per_webhook,
                                  .flow_items = (size_t)settings->queue_per_webhook,
                                  .flow_bytes = memory / 4,
                                  .bytes = memory};

    sender->context = context;
    sender->now_ms = bb_now_ms(sender->host);
    sender->tend_at = sender->now_ms;
    sender->expand_at = sender->replay_at = INT64_MAX;
    sender->clean_at = sender->now_ms + CLEAN_MS;
    queue_init(&sender->queue, &limits);
    STAILQ_INIT(&sender->kept);
    if (attempts_init(sender)) {
        attempts_free(sender);
        bb_host_log(context->host, BB_ERROR, "webhooks are not sent: out of memory");
        return;
    }
    sender_set_running(sender, true);
    while (!bb_stopping(context))
        sender_turn(sender);
    sender_finish(sender);
}
