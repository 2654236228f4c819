/*
 * The bodies of events in memory. Deliveries of one event share its body. A large body is stored in
 * webhook_body; while anyone holds it, it is found by its id there.
 */
#include "modules/webhook/sender/internal.h"

struct body *body_new(const struct sender_event *event)
{
    size_t length = event->length, name_length = strlen(event->name);
    struct body *body = malloc(sizeof(*body) + length + name_length + 2);

    if (!body || strlen(event->id) >= sizeof(body->id)) {
        free(body);
        return NULL;
    }
    *body = (struct body){.holders = 1, .length = length};
    body->bytes = (char *)(body + 1);
    body->event = body->bytes + length + 1;
    memcpy(body->bytes, event->body, length);
    body->bytes[length] = '\0';
    memcpy(body->event, event->name, name_length + 1);
    memcpy(body->id, event->id, strlen(event->id) + 1);
    if (event->trace && strlen(event->trace) < sizeof(body->trace))
        memcpy(body->trace, event->trace, strlen(event->trace) + 1);
    return body;
}

/* Call with the lock held. */
static struct body *find(const struct sender *sender, int64_t id)
{
    struct body *body = (struct body *)(void *)idmap_find(&sender->bodies, id);

    if (body)
        body->holders++;
    return body;
}

struct body *body_find(struct sender *sender, int64_t id)
{
    pthread_mutex_lock(&sender->lock);
    struct body *body = find(sender, id);
    pthread_mutex_unlock(&sender->lock);
    return body;
}

struct body *body_share(struct sender *sender, int64_t id, struct body *body)
{
    pthread_mutex_lock(&sender->lock);
    struct body *there = find(sender, id);

    body->node.id = id;
    if (!there && !idmap_add(&sender->bodies, &body->node)) /* if out of memory, it is not found */
        body->sender = sender;
    pthread_mutex_unlock(&sender->lock);
    if (there)
        body_let_go(body);
    return there ? there : body;
}

void body_hold(struct body *body)
{
    if (!body->sender) {
        body->holders++;
        return;
    }
    pthread_mutex_lock(&body->sender->lock);
    body->holders++;
    pthread_mutex_unlock(&body->sender->lock);
}

/* Returns whether that was the last reference; then the body cannot be found any more. */
static bool let_go(struct body *body)
{
    struct sender *sender = body->sender;

    if (!sender)
        return --body->holders == 0;
    pthread_mutex_lock(&sender->lock);
    bool last = --body->holders == 0;

    if (last)
        idmap_remove(&sender->bodies, &body->node);
    pthread_mutex_unlock(&sender->lock);
    return last;
}

void body_let_go(struct body *body)
{
    if (!body || !let_go(body))
        return;
#ifndef __clang_analyzer__ /* it does not understand the reference count */
    free(body);
#endif
}
