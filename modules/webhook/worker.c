/* The sender's thread: one turn after the other until the host stops. */
#include "engine.h"

#define CLEAN_MS 30000
#define STOP_MS 3000         /* for what is in flight when the host stops */
#define STOP_ERRANDS_MS 5000 /* and for the errands then */
#define IDLE_MS 500

/* What other threads left, taken out of the lock in one go. */
struct inbox {
    struct offer *offers;
    struct errand *errands;
    int64_t looks[ENGINE_CHANGES];
    size_t look_count;
};

static void open_inbox(struct sender *sender, struct inbox *inbox)
{
    pthread_mutex_lock(&sender->lock);
    inbox->offers = sender->offers;
    inbox->errands = sender->errands;
    inbox->look_count = sender->look_count;
    memcpy(inbox->looks, sender->looks, sizeof(inbox->looks));
    sender->offers = NULL;
    sender->offers_end = &sender->offers;
    sender->errands = NULL;
    sender->look_count = 0;
    sender->counters.waiting = (int64_t)(sender->deliveries.count - queue_flying(&sender->queue));
    sender->counters.in_flight = (int64_t)queue_flying(&sender->queue);
    pthread_mutex_unlock(&sender->lock);
}

static void take_errands(struct sender *sender, struct errand *errands)
{
    while (errands) {
        struct errand *errand = errands;

        errands = errand->next;
        sender->away--;
        errand->back(sender, errand);
        errand->drop(errand);
    }
}

static void take_looks(struct sender *sender, const struct inbox *inbox)
{
    if (inbox->look_count > ENGINE_CHANGES)
        sender->look_at = sender->now_ms;
    for (size_t i = 0; i < inbox->look_count && inbox->look_count <= ENGINE_CHANGES; i++) {
        struct hook *hook = hook_get(sender, inbox->looks[i]);

        if (hook && hook->state != HOOK_GONE)
            hook_spill(sender, hook, true);
    }
}

static void take_inbox(struct sender *sender)
{
    struct inbox inbox;

    open_inbox(sender, &inbox);
    take_errands(sender, inbox.errands);
    delivery_offers(sender, inbox.offers);
    take_looks(sender, &inbox);
}

static void clean(struct sender *sender)
{
    if (sender->now_ms < sender->clean_at)
        return;
    sender->clean_at = sender->now_ms + CLEAN_MS;
    hooks_clean(sender);
}

static int64_t sooner(int64_t wait, int64_t at, int64_t now)
{
    int64_t left = at > now ? at - now : 0;

    return left < wait ? left : wait;
}

/* How long nothing is to be done but by an event. */
static int64_t idle_for(struct sender *sender, int64_t tick)
{
    const struct retry_entry *first = retry_first(&sender->retries);
    int64_t wait = tick >= 0 && tick < IDLE_MS ? tick : IDLE_MS, now = sender->now_ms;

    if (first)
        wait = sooner(wait, first->at_ms, now);
    if (!sender->tending && !sender->stopping)
        wait = sooner(wait, sender->tend_at, now);
    if (sender->retry_db_at > now)
        wait = sooner(wait, sender->retry_db_at, now);
    return wait;
}

static void turn(struct sender *sender)
{
    sender->now_ms = bb_now_ms(sender->host);
    take_inbox(sender);
    lease_tend(sender);
    look_unowned(sender);
    look_own(sender);
    claim_release(sender);
    claim_spilled(sender);
    hooks_read(sender);
    delivery_retries_due(sender);
    int64_t tick = queue_tick(&sender->queue, sender->now_ms);

    attempts_start(sender);
    clean(sender);
    transfers_turn(sender->transfers, sender->seat->wake_fd, idle_for(sender, tick));
    sender->now_ms = bb_now_ms(sender->host);
    record_results(sender);
}

/* ---- the beginning and the end
 * ------------------------------------------------------------------------ */

static void set_running(struct sender *sender, bool running)
{
    pthread_mutex_lock(&sender->lock);
    sender->running = running;
    if (!running)
        sender->host_id = 0;
    pthread_mutex_unlock(&sender->lock);
}

static void finish(struct sender *sender)
{
    int64_t until = bb_now_ms(sender->host) + STOP_MS;

    sender->stopping = true;
    set_running(sender, false);
    do
        turn(sender);
    while ((queue_flying(&sender->queue) || sender->results || sender->away) &&
           sender->now_ms < until);
    until = sender->now_ms + STOP_ERRANDS_MS;
    lease_end(sender);
    while (sender->away && sender->now_ms < until)
        turn(sender);
}

static void free_delivery(struct idmap_node *node, void *arg)
{
    (void)arg;
    delivery_free((struct delivery *)(void *)((char *)node - offsetof(struct delivery, node)));
}

static void free_all(struct sender *sender)
{
    take_inbox(sender);
    transfers_free(sender->transfers);
    sender->transfers = NULL;
    idmap_each(&sender->deliveries, free_delivery, NULL);
    idmap_free(&sender->deliveries);
    hooks_free(sender);
    retry_free(&sender->retries);
    pairs_free(&sender->release);
    pairs_free(&sender->suspects);
}

static bool begin(struct sender *sender, struct bb_seat *seat)
{
    const struct webhook_settings *settings = sender->settings;
    struct queue_limits limits = {.slots = settings->slots,
                                  .lane_flying = settings->slots_per_webhook,
                                  .lane_items = settings->queue_per_webhook,
                                  .lane_bytes = settings->memory / 4,
                                  .bytes = settings->memory};

    sender->seat = seat;
    sender->now_ms = bb_now_ms(sender->host);
    sender->tend_at = sender->now_ms;
    sender->clean_at = sender->now_ms + CLEAN_MS;
    queue_init(&sender->queue, &limits);
    sender->transfers = transfers_new(&settings->targets, 2 * settings->slots, settings->timeout_ms,
                                      attempt_landed, sender);
    return sender->transfers != NULL;
}

void sender_run(struct bb_seat *seat)
{
    struct sender *sender = ((struct webhook *)seat->host->state)->sender;

    if (!begin(sender, seat)) {
        bb_host_log(seat->host, BB_ERROR, "webhooks are not sent: out of memory");
        return;
    }
    set_running(sender, true);
    while (!bb_stopping(seat))
        turn(sender);
    finish(sender);
    free_all(sender);
}
