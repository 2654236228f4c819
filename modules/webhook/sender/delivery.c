/* Bodies and deliveries in memory: from a hand-off or a read into their flows, and out again. */
#include "modules/webhook/sender/internal.h"

struct body *body_new(const struct sender_event *event)
{
    size_t length = event->body ? event->length : 0, name_length = strlen(event->name);
    struct body *body = malloc(sizeof(*body) + length + name_length + 2);

    if (!body || strlen(event->id) >= sizeof(body->id)) {
        free(body);
        return NULL;
    }
    *body = (struct body){.node.id = event->body_id, .length = length, .missing = !event->body};
    body->bytes = (char *)(body + 1);
    body->event = body->bytes + length + 1;
    if (length)
        memcpy(body->bytes, event->body, length);
    body->bytes[length] = '\0';
    memcpy(body->event, event->name, name_length + 1);
    memcpy(body->id, event->id, strlen(event->id) + 1);
    if (event->trace && strlen(event->trace) < sizeof(body->trace))
        memcpy(body->trace, event->trace, strlen(event->trace) + 1);
    return body;
}

struct body *body_share(struct sender *sender, struct body *body)
{
    struct idmap_node *node = body->node.id ? idmap_find(&sender->bodies, body->node.id) : NULL;

    if (node && node != &body->node) {
        free(body);
        return BB_CONTAINER_OF(node, struct body, node);
    }
    if (body->missing) {
        free(body);
        return NULL;
    }
    if (!node && body->node.id && !idmap_add(&sender->bodies, &body->node)) {
        body->shared = true;
        queue_hold(&sender->queue, body->length);
    }
    return body;
}

static void body_let_go(struct sender *sender, struct body *body)
{
    if (--body->holders)
        return;
    if (body->shared) {
        idmap_remove(&sender->bodies, &body->node);
        queue_let_go(&sender->queue, body->length);
    }
    free(body);
}

struct delivery *delivery_new(int64_t webhook, int64_t id, struct body *body)
{
    struct delivery *delivery = calloc(1, sizeof(*delivery));

    if (!delivery)
        return NULL;
    delivery->node.id = id;
    delivery->webhook = webhook;
    delivery->body = body;
    return delivery;
}

void delivery_free(struct sender *sender, struct delivery *delivery)
{
    if (delivery->outcome)
        webhook_outcome_say(delivery->outcome, false, 0, 0, "the attempt was put off");
    if (delivery->subscription)
        body_let_go(sender, delivery->body);
    free(delivery->error);
    free(delivery->answer);
    free(delivery);
}

void delivery_rest(struct sender *sender, struct delivery *delivery, int64_t delay_ms)
{
    delivery->retry.at_ms = sender->now_ms + delay_ms;
    if (delay_ms <= 0 || retry_add(&sender->retries, &delivery->retry))
        queue_again(&sender->queue, &delivery->item); /* better too early than never */
}

/* Returns false, with the delivery unchanged, if there is no room or it may not be sent now. */
bool delivery_admit(struct sender *sender, struct subscription *subscription,
                    struct delivery *delivery)
{
    struct queue_flow *flow = delivery->test ? &subscription->tests : &subscription->flow;
    struct body *body = delivery->body;

    delivery->item.size = (uint32_t)(body->length + sizeof(*delivery));
    delivery->item.shared = body->shared ? (uint32_t)body->length : 0;
    if ((subscription->state >= SUBSCRIPTION_OFF && !delivery->test) ||
        !queue_room(&sender->queue, flow, delivery->item.size) ||
        idmap_add(&sender->deliveries, &delivery->node))
        return false;
    body->holders++;
    delivery->subscription = subscription;
    subscription->used_ms = sender->now_ms;
    queue_admit(&sender->queue, flow, &delivery->item);
    subscription_need(sender, subscription);
    return true;
}

void delivery_end(struct sender *sender, struct delivery *delivery)
{
    struct subscription *subscription = delivery->subscription;

    retry_remove(&sender->retries, &delivery->retry);
    queue_release(&sender->queue, &delivery->item);
    idmap_remove(&sender->deliveries, &delivery->node);
    if (sender->recent)
        sender->recent[delivery->node.id % SENDER_RECENT] = delivery->node.id;
    if (sender->reading && pairs_add(&sender->ended, delivery->webhook, delivery->node.id))
        sender->look_wanted = true;
    subscription->used_ms = sender->now_ms;
    delivery_free(sender, delivery);
}

bool delivery_is_busy(const struct delivery *delivery)
{
    return delivery->item.place == QUEUE_FLYING ||
           (delivery->item.place == QUEUE_RESTING && !delivery->retry.place);
}

bool delivery_is_old(const struct sender *sender, const struct delivery *delivery)
{
    return sender->now_ms - delivery->queued_ms > webhook_max_age_ms(sender->settings);
}

void delivery_drop(struct sender *sender, struct delivery *delivery)
{
    if (delivery_is_busy(delivery))
        delivery->dropped = true;
    else
        delivery_end(sender, delivery);
}

/* Removes waiting deliveries from memory: a webhook may be disabled for days. */
void delivery_put_back(struct sender *sender, struct subscription *subscription)
{
    /* delivery_end() removes it from the flow, which the analyzer does not see. */
    for (struct queue_item *item; (item = subscription->flow.waiting.first);) { // NOLINT
        struct delivery *delivery = (struct delivery *)(void *)item;

        if (delivery->kept)
            subscription_due(sender, subscription, sender->now_ms);
        else
            subscription_backlog(sender, subscription, delivery->node.id);
        delivery_end(sender, delivery);
    }
}

void delivery_retries_due(struct sender *sender)
{
    struct retry_entry *first;

    while ((first = retry_first(&sender->retries)) && first->at_ms <= sender->now_ms) {
        struct delivery *delivery = BB_CONTAINER_OF(first, struct delivery, retry);
        struct subscription *subscription = delivery->subscription;

        retry_remove(&sender->retries, first);
        queue_again(&sender->queue, &delivery->item);
        if (subscription->state == SUBSCRIPTION_GONE)
            delivery_end(sender, delivery);
        else if (subscription->state == SUBSCRIPTION_OFF)
            delivery_put_back(sender, subscription);
    }
}

/* ---- hand-offs ---- */

void delivery_handoff_free(struct sender *sender, struct handoff *handoff)
{
    if (handoff->outcome)
        webhook_outcome_say(handoff->outcome, false, 0, 0, "the attempt was put off");
    if (handoff->body && sender)
        body_let_go(sender, handoff->body);
    else
        free(handoff->body);
    free(handoff);
}

static void handoff_take(struct sender *sender, struct handoff *handoff,
                         const struct sender_item *item)
{
    struct subscription *subscription = NULL;
    struct delivery *delivery = NULL;

    if (!handoff->test && !(sender->mine & ~sender->to_give & sender_shard(item->webhook)))
        return; /* the new owner looks for it */
    if (item->id > sender->newest)
        sender->newest = item->id;
    subscription = subscription_get(sender, item->webhook);
    if (subscription && (handoff->test || !subscription->backlog) &&
        !idmap_find(&sender->deliveries, item->id))
        delivery = delivery_new(item->webhook, item->id, handoff->body);
    if (delivery) {
        delivery->test = delivery->kept = handoff->test;
        delivery->outcome = handoff->outcome;
        delivery->queued_ms = sender->now_ms;
        handoff->outcome = NULL;
        if (delivery_admit(sender, subscription, delivery)) {
            if (!handoff->test && item->id > subscription->read_to)
                subscription->read_to = item->id;
            return;
        }
        delivery_free(sender, delivery);
    }
    if (!handoff->test)
        look_found(sender, item->webhook, item->id);
}

void delivery_take_handoffs(struct sender *sender, struct handoff_list *handoffs)
{
    struct handoff *handoff;

    while ((handoff = STAILQ_FIRST(handoffs))) {
        STAILQ_REMOVE_HEAD(handoffs, next);
        handoff->body = body_share(sender, handoff->body);
        handoff->body->holders++;
        for (size_t i = 0; i < handoff->count; i++)
            handoff_take(sender, handoff, &handoff->items[i]);
        delivery_handoff_free(sender, handoff);
    }
}
