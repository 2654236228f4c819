/* The sender's thread: runs one turn after the other until the host stops. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "modules/webhook/sender/internal.h"

#define NICENESS 10
#define CLEAN_MS 30000
#define STOP_TASKS_MS 5000 /* for the database tasks that follow the last attempts, at the end */
#define LINGER_MS 250      /* for hand-offs of transactions that began before a reload */
#define IDLE_MS 3000
#define IDLE_LEAVING_MS 50

/* Work from other threads, taken out under one lock. */
struct inbox {
    struct handoff *handoffs;
    struct db_task *db_tasks;
    int64_t scans[SENDER_CHANGES];
    size_t scan_count;
};

static void open_inbox(struct sender *sender, struct inbox *inbox)
{
    pthread_mutex_lock(&sender->lock);
    inbox->handoffs = sender->handoffs;
    inbox->db_tasks = sender->db_tasks;
    inbox->scan_count = sender->scan_count;
    memcpy(inbox->scans, sender->scans, sizeof(inbox->scans));
    sender->handoffs = NULL;
    sender->handoffs_end = &sender->handoffs;
    sender->db_tasks = NULL;
    sender->scan_count = 0;
    if (sender->events_wait && sender->expand_at == INT64_MAX)
        sender->expand_at = sender->now_ms;
    sender->events_wait = false;
    sender->counters.waiting = (int64_t)(sender->deliveries.count - queue_flying(&sender->queue));
    sender->counters.in_flight = (int64_t)queue_flying(&sender->queue);
    pthread_mutex_unlock(&sender->lock);
}

static void take_db_tasks(struct sender *sender, struct db_task *db_tasks)
{
    while (db_tasks) {
        struct db_task *db_task = db_tasks;

        db_tasks = db_task->next;
        sender->away--;
        db_task->back(sender, db_task);
        db_task->drop(db_task);
    }
}

static void take_looks(struct sender *sender, const struct inbox *inbox)
{
    if (inbox->scan_count > SENDER_CHANGES)
        sender->scan_unowned_at = sender->now_ms;
    for (size_t i = 0; i < inbox->scan_count && inbox->scan_count <= SENDER_CHANGES; i++) {
        struct subscription *subscription = subscription_get(sender, inbox->scans[i]);

        if (subscription && subscription->state != SUBSCRIPTION_GONE)
            subscription_set_overflow(sender, subscription, true);
    }
}

static void take_inbox(struct sender *sender)
{
    struct inbox inbox;

    open_inbox(sender, &inbox);
    take_db_tasks(sender, inbox.db_tasks);
    delivery_take_handoffs(sender, inbox.handoffs);
    take_looks(sender, &inbox);
}

static void clean(struct sender *sender)
{
    if (sender->now_ms < sender->clean_at)
        return;
    sender->clean_at = sender->now_ms + CLEAN_MS;
    subscriptions_clean(sender);
}

static int64_t sooner(int64_t wait, int64_t at, int64_t now)
{
    int64_t left = at > now ? at - now : 0;

    return left < wait ? left : wait;
}

/* Returns how long the thread may sleep unless an event wakes it. */
static int64_t idle_for(struct sender *sender, int64_t tick)
{
    const struct retry_entry *first = retry_first(&sender->retries);
    int64_t most = sender->stopping ? IDLE_LEAVING_MS : IDLE_MS, now = sender->now_ms;
    int64_t wait = tick >= 0 && tick < most ? tick : most;

    if (first)
        wait = sooner(wait, first->at_ms, now);
    if (sender->results && !sender->recording)
        wait = sooner(wait, record_at(sender), now);
    if (!sender->tending && !sender->leaving)
        wait = sooner(wait, sender->tend_at, now);
    if (sender->scan_unowned_at > now)
        wait = sooner(wait, sender->scan_unowned_at, now);
    if (sender->scan_own_at > now)
        wait = sooner(wait, sender->scan_own_at, now);
    if (sender->expand_at > now)
        wait = sooner(wait, sender->expand_at, now);
    if (sender->retry_db_at > now)
        wait = sooner(wait, sender->retry_db_at, now);
    return wait;
}

static void turn(struct sender *sender)
{
    sender->now_ms = bb_now_ms(sender->host);
    take_inbox(sender);
    record_results(sender); /* results that arrived while a statement was running */
    lease_tend(sender);
    scan_unowned(sender);
    scan_own(sender);
    claim_release(sender);
    claim_overflow(sender);
    expand_events(sender);
    subscriptions_read(sender);
    delivery_retries_due(sender);
    int64_t tick = queue_tick(&sender->queue, sender->now_ms);

    attempts_start(sender);
    clean(sender);
    transfers_turn(sender->transfers, sender->context->wake_fd, idle_for(sender, tick));
    sender->now_ms = bb_now_ms(sender->host);
    record_results(sender);
}

/* ---- start and end -------------------------------------------------------------------------- */

static void set_running(struct sender *sender, bool running)
{
    pthread_mutex_lock(&sender->lock);
    sender->running = running;
    if (!running)
        sender->host_id = 0;
    pthread_mutex_unlock(&sender->lock);
}

static void begin_to_leave(struct sender *sender)
{
    sender->stopping = true;
    sender->successor = bb_superseded(sender->host);
    if (!sender->successor)
        set_running(sender, false);
}

/*
 * Returns whether something is in flight, being recorded or handed over, or might still be handed
 * over to a successor.
 */
static bool unfinished(const struct sender *sender, int64_t linger_until)
{
    if (queue_flying(&sender->queue) || sender->results || sender->away)
        return true;
    return sender->successor &&
           (sender->deliveries.count || sender->release.count || sender->now_ms < linger_until);
}

/* Returns the time left for attempts in flight, without the database tasks that follow them. */
static int64_t time_left(const struct sender *sender)
{
    int64_t leave = bb_leave_ms(sender->context);

    return leave - (leave / 2 < STOP_TASKS_MS ? leave / 2 : STOP_TASKS_MS);
}

/*
 * A stopping host ends the attempts in flight and leaves the rest to other hosts. A sender with a
 * successor hands the waiting deliveries over at once. It finishes the attempts that are in flight
 * or waited for, however long they take: an attempt that was cut off would be made a second time.
 * For a moment, transactions that began before the reload may still hand deliveries to it.
 */
static void finish(struct sender *sender)
{
    int64_t linger_until = sender->now_ms + LINGER_MS;

    begin_to_leave(sender);
    do {
        if (sender->successor)
            delivery_hand_over(sender);
        turn(sender);
    } while (unfinished(sender, linger_until) && time_left(sender) > 0);
    set_running(sender, false);
    int64_t until = sender->now_ms + STOP_TASKS_MS;

    sender->leaving = true;
    lease_end(sender);
    while (sender->away && sender->now_ms < until)
        turn(sender);
}

static void free_delivery(struct idmap_node *node, void *arg)
{
    (void)arg;
    delivery_free(BB_CONTAINER_OF(node, struct delivery, node));
}

static void free_all(struct sender *sender)
{
    take_inbox(sender);
    transfers_free(sender->transfers);
    sender->transfers = NULL;
    idmap_each(&sender->deliveries, free_delivery, NULL);
    idmap_free(&sender->deliveries);
    subscriptions_free(sender);
    retry_free(&sender->retries);
    pairs_free(&sender->release);
    pairs_free(&sender->suspects);
}

static bool begin(struct sender *sender, struct bb_worker_context *context)
{
    const struct webhook_settings *settings = sender->settings;
    struct queue_limits limits = {.slots = settings->slots,
                                  .flow_flying = settings->slots_per_webhook,
                                  .flow_items = settings->queue_per_webhook,
                                  .flow_bytes = settings->memory / 4,
                                  .bytes = settings->memory};

    sender->context = context;
    sender->now_ms = bb_now_ms(sender->host);
    sender->tend_at = sender->now_ms;
    sender->expand_at = INT64_MAX;
    sender->clean_at = sender->now_ms + CLEAN_MS;
    queue_init(&sender->queue, &limits);
    sender->transfers =
        transfers_new(&settings->targets, &settings->transfers, attempt_landed, sender);
    return sender->transfers != NULL;
}

/*
 * Lowers the thread's priority: if processors are busy, the loops that answer requests come before
 * deliveries.
 */
static void become_nicer(const struct bb_worker_context *context)
{
    id_t self = (id_t)gettid(); /* on Linux the priority of the thread, not the process */

    errno = 0;
    int now = getpriority(PRIO_PROCESS, self); /* -1 may be a valid value */

    if (errno || setpriority(PRIO_PROCESS, self, now + NICENESS))
        bb_host_log(context->host, BB_WARN, "deliveries keep the priority of requests: %s",
                    strerror(errno));
}

void sender_run(struct bb_worker_context *context)
{
    struct sender *sender = ((struct webhook *)context->host->state)->sender;

    become_nicer(context);
    if (!begin(sender, context)) {
        bb_host_log(context->host, BB_ERROR, "webhooks are not sent: out of memory");
        return;
    }
    set_running(sender, true);
    while (!bb_stopping(context))
        turn(sender);
    finish(sender);
    free_all(sender);
}
