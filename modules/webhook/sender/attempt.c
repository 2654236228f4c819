/* Attempts: selects the next delivery, prepares its request, and handles the response. */
#include "modules/webhook/sender/internal.h"

#define PUT_OFF_MS 500

bool attempt_allowed(const void *arg)
{
    const struct sender *sender = arg;

    return sender->me && lease_clock_ms() < sender->lease_until;
}

/*
 * Prepares and signs the request; signing a large body takes a while. Returns NULL if the attempt
 * cannot start.
 */
static struct transfer *attempt_prepare(struct sender *sender, struct delivery *delivery)
{
    const struct subscription *subscription = delivery->subscription;
    int64_t wall = bb_wall_ms(sender->host);
    bool both = subscription->keys[1] && wall < subscription->previous_until;
    struct transfer_request request = {
        .url = subscription->url,
        .keys = (const struct sign_key *const *)subscription->keys,
        .key_count = both ? 2 : 1,
        .event = delivery->body->event,
        .event_id = delivery->body->id,
        .traceparent = delivery->body->trace,
        .attempt = delivery->tries + 1,
        .body = delivery->body->bytes,
        .length = delivery->body->length,
        .wall_ms = wall,
    };

    if (sender->now_ms - delivery->queued_ms > sender->settings->max_age_ms)
        return NULL;
    delivery->at_wall_ms = wall;
    return transfer_prepare(sender->transfers, &request, delivery);
}

static void attempt_count(struct sender *sender, enum retry_verdict verdict)
{
    pthread_mutex_lock(&sender->lock);
    sender->counters.delivered += verdict == RETRY_DELIVERED;
    sender->counters.retried += verdict == RETRY_LATER;
    sender->counters.abandoned += verdict == RETRY_ABANDON;
    pthread_mutex_unlock(&sender->lock);
}

/* The attempt could not start: the delivery waits, or is abandoned if it is too old. */
static void attempt_put_off(struct sender *sender, struct delivery *delivery)
{
    bool old = sender->now_ms - delivery->queued_ms > sender->settings->max_age_ms;

    queue_finished(&sender->queue, &delivery->item, false, sender->now_ms);
    if (!old) {
        delivery_rest(sender, delivery, PUT_OFF_MS);
        return;
    }
    delivery->at_wall_ms = bb_wall_ms(sender->host);
    delivery->took_ms = delivery->status = 0;
    delivery->kind = "it waited too long";
    delivery->error = strdup("\"given up without an attempt: it waited too long\"");
    delivery->verdict = RETRY_ABANDON;
    attempt_count(sender, delivery->verdict);
    record_add(sender, delivery);
}

static bool is_paused(struct sender *sender)
{
    pthread_mutex_lock(&sender->lock);
    bool paused = sender->paused;
    pthread_mutex_unlock(&sender->lock);
    return paused;
}

/* Reads the changed webhooks again. */
static void attempt_heed(struct sender *sender)
{
    int64_t changed[SENDER_CHANGES];

    pthread_mutex_lock(&sender->lock);
    size_t count = sender->changed_count;
    memcpy(changed, sender->changed, sizeof(changed));
    sender->changed_count = 0;
    pthread_mutex_unlock(&sender->lock);
    if (count > SENDER_CHANGES)
        subscriptions_changed(sender, 0);
    for (size_t i = 0; i < count && count <= SENDER_CHANGES; i++)
        subscriptions_changed(sender, changed[i]);
}

enum start { STARTED, FAILED, PAUSED, CHANGED };

/*
 * Starts an attempt under the lock. So a change of the webhook or a pause that was reported before
 * is respected; one that is reported now waits until this attempt is in flight. Threads of requests
 * wait for the lock, so nothing else is done under it.
 */
static enum start attempt_start(struct sender *sender, struct transfer *transfer)
{
    enum start result = STARTED;

    pthread_mutex_lock(&sender->lock);
    if (sender->paused)
        result = PAUSED;
    else if (sender->changed_count)
        result = CHANGED;
    else if (transfer_start(transfer))
        result = FAILED;
    pthread_mutex_unlock(&sender->lock);
    return result;
}

/* Returns false if no delivery may be sent now. */
static bool attempt_start_next(struct sender *sender)
{
    struct queue_item *item = queue_take(&sender->queue, sender->now_ms);
    struct delivery *delivery = (struct delivery *)(void *)item;

    if (!item)
        return false;
    struct transfer *transfer = attempt_prepare(sender, delivery);
    enum start result = transfer ? attempt_start(sender, transfer) : FAILED;

    if (result == STARTED) {
        delivery->tries++;
    } else if (result == FAILED) {
        attempt_put_off(sender, delivery);
    } else {
        transfer_drop(transfer);
        queue_put_back(&sender->queue, item);
        attempt_heed(sender);
    }
    return result != PAUSED;
}

void attempts_start(struct sender *sender)
{
    bool starts = !sender->stopping || (sender->successor && !sender->leaving);

    attempt_heed(sender);
    if (!starts || is_paused(sender))
        return;
    while (attempt_allowed(sender) && attempt_start_next(sender))
        ;
}

/* ---- responses ------------------------------------------------------------------------------ */

/* Replaces control characters and bytes above `most` by '?'. */
static void scrub(char *text, size_t length, unsigned char most)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        bool space = byte == '\t' || byte == '\r' || byte == '\n';

        if ((byte < ' ' && !space) || byte == 0x7F || byte > most)
            text[i] = '?';
    }
}

/*
 * Converts external text to JSON; if it is not UTF-8, all non-ASCII bytes are replaced. The caller
 * owns the result; NULL: out of memory.
 */
static char *json_text(const char *text, size_t length)
{
    char *clean = calloc(1, length + 1);
    json_t *json = NULL;

    if (!clean)
        return NULL;
    memcpy(clean, text, length);
    scrub(clean, length, 0xFF);
    for (size_t cut = 0; !json && cut < 4 && cut <= length; cut++) /* may end within a character */
        json = json_stringn(clean, length - cut);
    if (!json) {
        scrub(clean, length, '~');
        json = json_stringn(clean, length);
    }
    free(clean);
    char *dumped = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;

    json_decref(json);
    return dumped;
}

static void note_failure(struct delivery *delivery, const struct transfer_result *result)
{
    if (result->error)
        delivery->error = json_text(result->error, strlen(result->error));
    if (result->answer_length)
        delivery->answer = json_text(result->answer, result->answer_length);
}

void attempt_finished(void *arg, struct transfer_result *result)
{
    struct sender *sender = arg;
    struct delivery *delivery = result->arg;
    bool delivered = result->status / 100 == 2;

    sender->now_ms = bb_now_ms(sender->host);
    if (result->unsent) { /* the lease ended before libcurl could send the request */
        delivery->tries--;
        attempt_put_off(sender, delivery);
        return;
    }
    delivery->took_ms = sender->now_ms - delivery->item.started_ms;
    delivery->status = result->status;
    delivery->kind = result->kind;
    delivery->retry.at_ms = sender->now_ms;
    delivery->verdict = retry_time_next(&sender->settings->retry_delays, delivery->tries,
                                        result->status, result->retry_after_s, &delivery->delay_ms);
    queue_finished(&sender->queue, &delivery->item, delivered, sender->now_ms);
    if (delivery->outcome) {
        webhook_outcome_say(delivery->outcome, delivered, result->status, delivery->took_ms,
                            result->error);
        delivery->outcome = NULL;
    }
    if (!delivered)
        note_failure(delivery, result);
    attempt_count(sender, delivery->verdict);
    record_add(sender, delivery);
}
