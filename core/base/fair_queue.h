/*
 * Fair queues: what waits is served owner by owner, one entry of each at a time, so that a crowd of
 * one owner delays another by one entry only. An owner's entries of one queue are a flow; a queue
 * serves its flows round robin. A table holds the owners that have entries, waiting or under way,
 * and may belong to several queues. Nothing is locked; memory comes only with an owner that is new.
 */
#ifndef CORE_FAIR_QUEUE_H
#define CORE_FAIR_QUEUE_H

#include <stddef.h>

#include "core/base/quota_table.h"

/* Part of what waits. */
struct fair_entry {
    struct fair_entry *next;
    struct fair_owner *owner; /* of fair_enter() */
};

/* What waits of one owner in one queue. */
struct fair_flow {
    struct fair_flow *next; /* of the queue */
    struct fair_entry *first, *last;
    unsigned round, taken; /* for who takes: how much it took of this flow in its last round */
};

struct fair_owner {
    struct fair_owner *next; /* of its row of the table, or of the spares */
    struct quota_owner owner;
    size_t count;   /* entered and not left */
    size_t running; /* of it, for who counts it: begun */
    struct fair_flow flows[];
};

struct fair_table {
    unsigned queues; /* that use the table */
    struct fair_owner *spares;
    struct fair_owner *rows[64];
};

struct fair_queue {
    unsigned index; /* among the queues of the table */
    unsigned flows; /* in which something waits */
    struct fair_flow *first, *last;
};

/* For tables that are zeroed. */
void fair_init(struct fair_table *table, unsigned queues);
void fair_free(struct fair_table *table);

/* Counts one entry more of this owner, if it has less than `each`; NULL with the reason else. */
struct fair_owner *fair_enter(struct fair_table *table, const struct quota_owner *owner,
                              size_t each, enum quota_result *why);
void fair_leave(struct fair_table *table, struct fair_owner *owner);

/* Puts an entry at the end of its owner's flow. */
void fair_wait(struct fair_queue *queue, struct fair_entry *entry);

/* Which entry is served next; NULL: nothing waits. */
struct fair_entry *fair_first(const struct fair_queue *queue);
struct fair_flow *fair_flow(const struct fair_queue *queue, const struct fair_entry *entry);

/* Takes the next entry out; another owner's flow comes first then. */
struct fair_entry *fair_take(struct fair_queue *queue);

/* Passes the first flow by, for this round. */
void fair_skip(struct fair_queue *queue);

/* Takes out an entry that waits, wherever it stands. */
void fair_cancel(struct fair_queue *queue, struct fair_entry *entry);

#endif
