/* Adds bodies and deliveries to memory and to the flows of their webhooks, and removes them. */
#include "modules/webhook/sender/internal.h"

struct body *body_new(const struct sender_event *event)
{
    size_t length = event->body ? event->length : 0, name_length = strlen(event->name);
    struct body *body = malloc(sizeof(*body) + length + name_length + 2);

    if (!body || strlen(event->id) >= sizeof(body->id)) {
        free(body);
        return NULL;
    }
    *body = (struct body){
        .node.id = event->body_id, .holders = 1, .length = length, .missing = !event->body};
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

void body_release(struct sender *sender, struct body *body)
{
    if (--body->holders)
        return;
    if (sender && body->shared) { /* it is in sender->bodies */
        idmap_remove(&sender->bodies, &body->node);
        sender->queue.held_bytes -= body->length;
    }
    free(body);
}

/*
 * Releases the oldest bodies in sender->kept until at most `bytes` are left. These bodies are kept
 * even if no delivery in memory needs them. The deliveries of an event to many webhooks are read
 * one after the other, and without these bodies PostgreSQL would send the same body each time.
 */
void bodies_keep(struct sender *sender, size_t bytes)
{
    while (sender->kept_bytes > bytes) {
        struct body *body = STAILQ_FIRST(&sender->kept);

        STAILQ_REMOVE_HEAD(&sender->kept, next);
        sender->kept_bytes -= body->length;
        body_release(sender, body);
    }
}

struct delivery *delivery_new(int64_t webhook, int64_t id, struct body *body)
{
    struct delivery *delivery = calloc(1, sizeof(*delivery));

    if (!delivery)
        return NULL;
    delivery->node.id = id;
    delivery->webhook = webhook;
    delivery->body = body;
    body->holders++;
    return delivery;
}

void delivery_free(struct sender *sender, struct delivery *delivery)
{
    if (delivery->test) /* no effect if an attempt was reported before */
        waiters_report(delivery->test, delivery->node.id, false, 0, 0, "the attempt was postponed");
    body_release(sender, delivery->body);
    json_decref(delivery->details);
    free(delivery);
}

void delivery_free_list(struct delivery_list *list)
{
    struct delivery *delivery;

    while ((delivery = STAILQ_FIRST(list))) {
        STAILQ_REMOVE_HEAD(list, next);
        delivery_free(NULL, delivery);
    }
}

static void delivery_due(struct sender *sender, struct timer *timer)
{
    struct delivery *delivery = BB_CONTAINER_OF(timer, struct delivery, retry);
    enum subscription_state state = delivery->subscription->state;

    if (state == SUBSCRIPTION_GONE || (state == SUBSCRIPTION_OFF && !delivery->test))
        delivery_unsettled(sender, delivery);
    else
        queue_again(&sender->queue, &delivery->item);
}

void delivery_rest(struct sender *sender, struct delivery *delivery, int64_t delay_ms)
{
    delivery->retry.due = delivery_due;
    bb_heap_set(&sender->timers, &delivery->retry.node, sender->now_ms + delay_ms);
}

/* Adds a delivery. Returns false if it has no body, the flow is full or the webhook is off. */
bool delivery_admit(struct sender *sender, struct subscription *subscription,
                    struct delivery *delivery)
{
    struct queue_flow *flow = delivery->test ? &subscription->tests : &subscription->flow;
    struct body *body = delivery->body;
    struct idmap_node *node = body->node.id ? idmap_find(&sender->bodies, body->node.id) : NULL;

    /* Deliveries share a body that has an id. */
    if (node && node != &body->node) {
        delivery->body = BB_CONTAINER_OF(node, struct body, node);
        delivery->body->holders++;
        body_release(sender, body);
    } else if (body->missing) {
        return false;
    } else if (!node && body->node.id) {
        idmap_add(&sender->bodies, &body->node);
        body->shared = true;
        sender->queue.held_bytes += body->length;
        body->holders++;
        STAILQ_INSERT_TAIL(&sender->kept, body, next);
        sender->kept_bytes += body->length;
        bodies_keep(sender, sender->queue.limits.bytes / 2);
    }
    body = delivery->body;
    delivery->item.low = delivery->replay;
    delivery->item.size = (uint32_t)(body->length + sizeof(*delivery));
    delivery->item.shared = body->shared ? (uint32_t)body->length : 0;
    if ((subscription->state >= SUBSCRIPTION_OFF && !delivery->test) ||
        !queue_admit(&sender->queue, flow, &delivery->item))
        return false;
    idmap_add(&sender->deliveries, &delivery->node);
    delivery->subscription = subscription;
    delivery->queued_ms = sender->now_ms - delivery->queued_ms;
    subscription->used_ms = sender->now_ms;
    if (subscription->state == SUBSCRIPTION_IDLE)
        subscription_want(sender, subscription);
    return true;
}

void delivery_end(struct sender *sender, struct delivery *delivery)
{
    struct subscription *subscription = delivery->subscription;

    bb_heap_remove(&sender->timers, &delivery->retry.node);
    queue_release(&sender->queue, &delivery->item);
    idmap_remove(&sender->deliveries, &delivery->node);
    sender->recent[delivery->node.id % SENDER_RECENT] = (struct recent){
        delivery->lease_lost ? -delivery->node.id : delivery->node.id, sender->reads};
    if (delivery->lease_lost && !--sender->lost_count)
        sender->look_wanted = true; /* see lease_lost() */
    subscription->used_ms = sender->now_ms;
    delivery_free(sender, delivery);
}

bool delivery_is_old(const struct sender *sender, const struct delivery *delivery)
{
    return sender->now_ms - delivery->queued_ms > webhook_max_age_ms(sender->settings);
}

/*
 * Removes from memory a delivery that may be unfinished in the database. If this host owns the
 * shard now, it reads the delivery again later.
 */
void delivery_unsettled(struct sender *sender, struct delivery *delivery)
{
    struct subscription *subscription = delivery->subscription;
    bool mine = sender->mine & sender_shard(delivery->webhook);

    if (mine && delivery->kept)
        subscription_due(sender, subscription, sender->now_ms);
    if (mine && (!delivery->kept || delivery->lease_lost))
        subscription_backlog(sender, subscription, delivery->node.id);
    delivery_end(sender, delivery);
}

/* Removes a flow's waiting deliveries from memory. The webhook may stay inactive for days. */
void delivery_put_back(struct sender *sender, struct queue_flow *flow)
{
    for (struct queue_item *item = TAILQ_FIRST(&flow->waiting), *next; item; item = next) {
        next = TAILQ_NEXT(item, next);
        delivery_unsettled(sender, BB_CONTAINER_OF(item, struct delivery, item));
    }
}

/* Adds deliveries of committed events to memory. Refused deliveries are read from the log. */
void delivery_take_handoffs(struct sender *sender, struct delivery_list *handoffs)
{
    struct delivery *delivery;

    while ((delivery = STAILQ_FIRST(handoffs))) {
        int64_t webhook = delivery->webhook, id = delivery->node.id;
        bool test = delivery->test;
        bool takes = test || (sender->mine & ~sender->to_give & sender_shard(webhook));
        struct subscription *subscription = takes ? subscription_get(sender, webhook) : NULL;

        STAILQ_REMOVE_HEAD(handoffs, next);
        if (subscription && subscription->parts && subscription->parts->polled)
            sender_note(sender, webhook, id, true);
        if (takes && id > sender->newest)
            sender->newest = id;
        takes = subscription && id > sender->joined && (test || !subscription->backlog) &&
                !idmap_find(&sender->deliveries, id) &&
                delivery_admit(sender, subscription, delivery);
        if (!takes)
            delivery_free(sender, delivery);
        if (!takes && !test)
            look_found(sender, webhook, id);
        else if (!test && id > subscription->read_to)
            subscription->read_to = id;
    }
}
