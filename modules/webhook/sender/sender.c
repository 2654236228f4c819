/* The sender's functions for other threads; creating and freeing it. */
#include "modules/webhook/sender/internal.h"

struct sender *sender_new(struct bb_host *host, const struct webhook_settings *settings)
{
    struct sender *sender = calloc(1, sizeof(*sender));

    if (!sender)
        return NULL;
    sender->host = host;
    sender->settings = settings;
    sender->hmac = sign_algorithm();
    sender->handoffs_end = &sender->handoffs;
    sender->results_end = &sender->results;
    if (sender->hmac && pthread_mutex_init(&sender->lock, NULL) == 0)
        return sender;
    EVP_MAC_free(sender->hmac);
    free(sender);
    return NULL;
}

static void drop_db_tasks(struct sender *sender)
{
    while (sender->db_tasks) {
        struct db_task *db_task = sender->db_tasks;

        sender->db_tasks = db_task->next;
        db_task->drop(db_task);
    }
}

void sender_free(struct sender *sender)
{
    if (!sender)
        return;
    drop_db_tasks(sender);
    idmap_free(&sender->bodies);
    pthread_mutex_destroy(&sender->lock);
    EVP_MAC_free(sender->hmac);
    free(sender);
}

int64_t sender_host(struct sender *sender)
{
    pthread_mutex_lock(&sender->lock);
    int64_t id = sender->host_id;
    pthread_mutex_unlock(&sender->lock);
    return id;
}

size_t sender_full(struct sender *sender, int64_t webhooks[SENDER_FULL_MAX])
{
    pthread_mutex_lock(&sender->lock);
    size_t count = sender->full_count;
    memcpy(webhooks, sender->full, count * sizeof(*webhooks));
    pthread_mutex_unlock(&sender->lock);
    return count;
}

/* Returns a body with a reference for the caller; NULL: out of memory. */
static struct body *body_of(struct sender *sender, const struct sender_event *event)
{
    struct body *body = event->body_id ? body_find(sender, event->body_id) : NULL;

    if (body)
        return body;
    body = body_new(event);
    return body && event->body_id ? body_share(sender, event->body_id, body) : body;
}

void sender_hand_off(struct sender *sender, int64_t host, const struct sender_event *event,
                     const struct sender_item *items, size_t count, struct webhook_outcome *outcome)
{
    struct handoff *handoff = calloc(1, sizeof(*handoff) + count * sizeof(*items));
    bool first = false;

    if (handoff)
        handoff->body = body_of(sender, event);
    if (!handoff || !handoff->body) {
        free(handoff); /* the deliveries are found in the table later */
        if (outcome)
            webhook_outcome_say(outcome, false, 0, 0, "out of memory");
        return;
    }
    handoff->outcome = outcome;
    handoff->count = count;
    memcpy(handoff->items, items, count * sizeof(*items));
    pthread_mutex_lock(&sender->lock);
    if (sender->running && host && host == sender->host_id) {
        first = !sender->handoffs;
        *sender->handoffs_end = handoff;
        sender->handoffs_end = &handoff->next;
        handoff = NULL;
    }
    pthread_mutex_unlock(&sender->lock);
    if (handoff)
        delivery_handoff_free(handoff);
    if (first)
        bb_wake(sender->host, "sender");
}

/*
 * Adds an id to the list; if it overflows, or the id is 0, the list means all. Returns true if this
 * is new, so the worker must be woken.
 */
static bool note(int64_t *list, size_t *count, int64_t id)
{
    for (size_t i = 0; id && i < *count && *count <= SENDER_CHANGES; i++)
        if (list[i] == id)
            return false;
    if (*count > SENDER_CHANGES)
        return false;
    if (!id || *count == SENDER_CHANGES)
        *count = SENDER_CHANGES + 1;
    else
        list[(*count)++] = id;
    return true;
}

void sender_changed(struct sender *sender, int64_t webhook)
{
    pthread_mutex_lock(&sender->lock);
    bool news = note(sender->changed, &sender->changed_count, webhook);
    pthread_mutex_unlock(&sender->lock);
    if (news)
        bb_wake(sender->host, "sender");
}

static bool is_full(const struct sender *sender, int64_t webhook)
{
    for (size_t i = 0; i < sender->full_count; i++)
        if (sender->full[i] == webhook)
            return true;
    return false;
}

/* A full webhook has enough deliveries: the worker reads the note in its next turn. */
void sender_scan(struct sender *sender, int64_t webhook)
{
    pthread_mutex_lock(&sender->lock);
    bool news = note(sender->scans, &sender->scan_count, webhook) && !is_full(sender, webhook);
    pthread_mutex_unlock(&sender->lock);
    if (news)
        bb_wake(sender->host, "sender");
}

void sender_expand(struct sender *sender)
{
    pthread_mutex_lock(&sender->lock);
    bool news = !sender->events_wait;

    sender->events_wait = true;
    pthread_mutex_unlock(&sender->lock);
    if (news)
        bb_wake(sender->host, "sender");
}

int64_t sender_active(struct sender *sender)
{
    struct sender_counters counters;

    sender_count(sender, &counters);
    return counters.webhooks[WEBHOOK_ACTIVE];
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
    pthread_mutex_lock(&sender->lock);
    *counters = sender->counters;
    pthread_mutex_unlock(&sender->lock);
}
