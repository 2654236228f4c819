/* Deliveries in memory: from a hand-off or a claim into their flows, and out again. */
#include "modules/webhook/sender/internal.h"

struct delivery *delivery_new(int64_t id, struct body *body)
{
    struct delivery *delivery = calloc(1, sizeof(*delivery));

    if (!delivery)
        return NULL;
    delivery->node.id = id;
    delivery->body = body;
    body_hold(body);
    return delivery;
}

void delivery_free(struct delivery *delivery)
{
    if (delivery->outcome)
        webhook_outcome_say(delivery->outcome, false, 0, 0, "the attempt was put off");
    body_let_go(delivery->body);
    free(delivery->error);
    free(delivery->answer);
    free(delivery);
}

/* Gives a delivery back without taking it into memory; it will be claimed when there is room. */
void delivery_refuse(struct sender *sender, int64_t webhook, struct delivery *delivery)
{
    struct subscription *subscription = subscription_get(sender, webhook);

    pairs_add(&sender->release, webhook, delivery->node.id); /* if this fails, the scan finds it */
    if (subscription)
        subscription_set_overflow(sender, subscription, true);
    delivery_free(delivery);
}

/* Adds it to its flow; a shared body counts as memory once. */
static void enter(struct sender *sender, struct subscription *subscription,
                  struct delivery *delivery)
{
    if (!delivery->body->admitted++)
        queue_hold(&sender->queue, delivery->body->length);
    queue_admit(&sender->queue, &subscription->flow, &delivery->item);
}

static void leave(struct sender *sender, struct delivery *delivery)
{
    queue_release(&sender->queue, &delivery->item);
    if (!--delivery->body->admitted)
        queue_let_go(&sender->queue, delivery->body->length);
}

static void put_off(struct sender *sender, struct delivery *delivery, int64_t delay_ms)
{
    delivery->retry.at_ms = sender->now_ms + delay_ms;
    if (retry_add(&sender->retries, &delivery->retry))
        queue_again(&sender->queue, &delivery->item); /* better too early than never */
}

/*
 * Returns false if there is no room, or it may not be sent now. If it is already in memory, frees
 * it and returns true.
 */
bool delivery_admit(struct sender *sender, struct subscription *subscription,
                    struct delivery *delivery, int64_t delay_ms)
{
    if (idmap_find(&sender->deliveries, delivery->node.id)) {
        delivery_free(delivery);
        return true;
    }
    delivery->item.size = (uint32_t)(delivery->body->length + sizeof(*delivery));
    delivery->item.shared = (uint32_t)delivery->body->length;
    if (subscription->state >= SUBSCRIPTION_OFF ||
        !queue_room(&sender->queue, &subscription->flow, delivery->item.size) ||
        idmap_add(&sender->deliveries, &delivery->node))
        return false;
    delivery->subscription = subscription;
    delivery->queued_ms = sender->now_ms;
    subscription->used_ms = sender->now_ms;
    enter(sender, subscription, delivery);
    if (delay_ms > 0) {
        queue_rest(&sender->queue, &delivery->item);
        put_off(sender, delivery, delay_ms);
    }
    return true;
}

void delivery_end(struct sender *sender, struct delivery *delivery)
{
    struct subscription *subscription = delivery->subscription;

    retry_remove(&sender->retries, &delivery->retry);
    leave(sender, delivery);
    idmap_remove(&sender->deliveries, &delivery->node);
    subscription->used_ms = sender->now_ms;
    subscription_update(sender, subscription);
    delivery_free(delivery);
}

/* It is flying or being recorded, and is removed after that. */
static bool busy(const struct delivery *delivery)
{
    return delivery->item.place == QUEUE_FLYING ||
           (delivery->item.place == QUEUE_RESTING && !delivery->retry.place);
}

static struct delivery *of_node(struct idmap_node *node)
{
    return BB_CONTAINER_OF(node, struct delivery, node);
}

static void drop(struct idmap_node *node, void *sender)
{
    struct delivery *delivery = of_node(node);

    if (busy(delivery))
        delivery->dropped = true;
    else
        delivery_end(sender, delivery);
}

void delivery_drop_all(struct sender *sender)
{
    idmap_each(&sender->deliveries, drop, sender);
}

/* delivery_end() removes it from the flow, which the analyzer does not see. */
static struct delivery *first_waiting(const struct subscription *subscription)
{
    return (struct delivery *)(void *)subscription->flow.waiting.first; // NOLINT
}

void delivery_drop_waiting(struct sender *sender, struct subscription *subscription)
{
    struct delivery *delivery;

    while ((delivery = first_waiting(subscription)))
        delivery_end(sender, delivery);
}

void delivery_put_back(struct sender *sender, struct subscription *subscription)
{
    struct delivery *delivery;

    while ((delivery = first_waiting(subscription))) {
        if (pairs_add(&sender->release, subscription_webhook(subscription), delivery->node.id))
            return; /* out of memory: it stays */
        delivery_end(sender, delivery);
    }
}

#define HAND_OVER_MAX 512 /* per statement */

static void hand_over(struct idmap_node *node, void *arg)
{
    struct sender *sender = arg;
    struct delivery *delivery = of_node(node);

    if (busy(delivery) || delivery->outcome || sender->release.count >= HAND_OVER_MAX)
        return; /* somebody waits for this attempt here */
    if (!pairs_add(&sender->release, subscription_webhook(delivery->subscription),
                   delivery->node.id))
        delivery_end(sender, delivery);
}

void delivery_hand_over(struct sender *sender)
{
    if (sender->release.count < HAND_OVER_MAX)
        idmap_each(&sender->deliveries, hand_over, sender);
}

void delivery_retry(struct sender *sender, struct delivery *delivery)
{
    put_off(sender, delivery, delivery->delay_ms - (sender->now_ms - delivery->retry.at_ms));
}

void delivery_retries_due(struct sender *sender)
{
    struct retry_entry *first;

    while ((first = retry_first(&sender->retries)) && first->at_ms <= sender->now_ms) {
        struct delivery *delivery = BB_CONTAINER_OF(first, struct delivery, retry);

        struct subscription *subscription = delivery->subscription;

        retry_remove(&sender->retries, first);
        if (subscription->state == SUBSCRIPTION_GONE)
            delivery_end(sender, delivery);
        else
            queue_again(&sender->queue, &delivery->item);
        if (subscription->state == SUBSCRIPTION_OFF)
            delivery_put_back(sender, subscription);
    }
}

/* ---- hand-offs ---- */

void delivery_handoff_free(struct handoff *handoff)
{
    if (handoff->outcome)
        webhook_outcome_say(handoff->outcome, false, 0, 0, "the attempt was put off");
    body_let_go(handoff->body);
    free(handoff);
}

static void take(struct sender *sender, struct handoff *handoff, const struct sender_item *item)
{
    struct subscription *subscription =
        subscription_get(sender, handoff->outcome ? -item->webhook : item->webhook);
    struct delivery *delivery = subscription ? delivery_new(item->id, handoff->body) : NULL;

    if (!delivery)
        return; /* out of memory: the scan finds it */
    delivery->outcome = handoff->outcome;
    handoff->outcome = NULL;
    if (!delivery_admit(sender, subscription, delivery, 0))
        delivery_refuse(sender, item->webhook, delivery);
    else
        subscription_update(sender, subscription);
}

void delivery_take_handoffs(struct sender *sender, struct handoff *handoffs)
{
    while (handoffs) {
        struct handoff *handoff = handoffs;

        handoffs = handoff->next;
        for (size_t i = 0; i < handoff->count; i++)
            take(sender, handoff, &handoff->items[i]);
        delivery_handoff_free(handoff);
    }
}
