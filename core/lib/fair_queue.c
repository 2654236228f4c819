#include "core/lib/fair_queue.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = sizeof((struct fair_table *)0)->rows / sizeof(struct fair_owner *) };

void fair_init(struct fair_table *table, unsigned queues)
{
    table->queues = queues;
}

static void free_list(struct fair_owner *owner)
{
    while (owner) {
        struct fair_owner *next = owner->next;

        free(owner);
        owner = next;
    }
}

void fair_free(struct fair_table *table)
{
    free_list(table->spares);
    for (size_t i = 0; i < ROWS; i++)
        free_list(table->rows[i]);
}

static struct fair_owner **row_of(struct fair_table *table, const struct quota_owner *owner)
{
    return &table->rows[quota_owner_hash(owner) % ROWS];
}

static struct fair_owner *begin(struct fair_table *table, const struct quota_owner *owner)
{
    struct fair_owner *new = table->spares, **row = row_of(table, owner);

    if (new)
        table->spares = new->next;
    else
        new = calloc(1, sizeof *new + table->queues * sizeof new->flows[0]);
    if (!new)
        return NULL;
    new->owner = *owner;
    new->next = *row;
    *row = new;
    return new;
}

struct fair_owner *fair_enter(struct fair_table *table, const struct quota_owner *owner,
                              size_t each, enum quota_result *why)
{
    struct fair_owner *at = *row_of(table, owner);

    while (at && !quota_owner_same(&at->owner, owner))
        at = at->next;
    *why = QUOTA_OWN_FULL;
    if ((at ? at->count : 0) >= each)
        return NULL;
    *why = QUOTA_NO_MEMORY;
    if (!at)
        at = begin(table, owner);
    if (!at)
        return NULL;
    *why = QUOTA_TAKEN;
    at->count++;
    return at;
}

void fair_leave(struct fair_table *table, struct fair_owner *owner)
{
    struct fair_owner **at = row_of(table, &owner->owner);

    if (--owner->count)
        return;
    while (*at != owner)
        at = &(*at)->next;
    *at = owner->next;
    owner->next = table->spares;
    table->spares = owner;
}

struct fair_flow *fair_flow(const struct fair_queue *queue, const struct fair_entry *entry)
{
    return &entry->owner->flows[queue->index];
}

static void flow_add(struct fair_queue *queue, struct fair_flow *flow)
{
    flow->next = NULL;
    if (queue->last)
        queue->last->next = flow;
    else
        queue->first = flow;
    queue->last = flow;
}

static struct fair_flow *flow_take(struct fair_queue *queue)
{
    struct fair_flow *flow = queue->first;

    queue->first = flow->next;
    if (!queue->first)
        queue->last = NULL;
    return flow;
}

void fair_wait(struct fair_queue *queue, struct fair_entry *entry)
{
    struct fair_flow *flow = fair_flow(queue, entry);

    entry->next = NULL;
    if (flow->first) {
        flow->last->next = entry;
    } else {
        flow->first = entry;
        flow_add(queue, flow);
        queue->flows++;
    }
    flow->last = entry;
}

struct fair_entry *fair_first(const struct fair_queue *queue)
{
    return queue->first ? queue->first->first : NULL;
}

struct fair_entry *fair_take(struct fair_queue *queue)
{
    struct fair_flow *flow = queue->first;

    if (!flow)
        return NULL;
    struct fair_entry *entry = flow->first;

    flow->first = entry->next;
    flow_take(queue);
    if (flow->first)
        flow_add(queue, flow);
    else
        queue->flows--;
    return entry;
}

void fair_skip(struct fair_queue *queue)
{
    if (queue->flows > 1)
        flow_add(queue, flow_take(queue));
}

static void flow_drop(struct fair_queue *queue, struct fair_flow *flow)
{
    struct fair_flow *before = NULL, *at = queue->first;

    for (; at != flow; at = at->next)
        before = at;
    if (before)
        before->next = flow->next;
    else
        queue->first = flow->next;
    if (queue->last == flow)
        queue->last = before;
    queue->flows--;
}

void fair_cancel(struct fair_queue *queue, struct fair_entry *entry)
{
    struct fair_flow *flow = fair_flow(queue, entry);
    struct fair_entry *before = NULL, *at = flow->first;

    for (; at != entry; at = at->next)
        before = at;
    if (before)
        before->next = entry->next;
    else
        flow->first = entry->next;
    if (flow->last == entry)
        flow->last = before;
    if (!flow->first)
        flow_drop(queue, flow);
}
