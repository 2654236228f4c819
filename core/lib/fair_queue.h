/*
 * Fair queues: entries are served round robin by owner, one entry of each owner at a time, so that
 * many entries of one owner delay another owner by only one entry. A flow consists of an owner's
 * entries in one queue. A table contains the owners that have entries, waiting or in progress, and
 * can be shared by several queues. No locks; memory is allocated only for a new owner.
 */
#ifndef CORE_FAIR_QUEUE_H
#define CORE_FAIR_QUEUE_H

#include <stddef.h>

#include "core/lib/quota_table.h"

/* Embedded in the object that waits. */
struct fair_entry {
    struct fair_entry *next;
    struct fair_owner *owner; /* result of fair_enter() */
};

/* The waiting entries of one owner in one queue. */
struct fair_flow {
    struct fair_flow *next; /* of the queue */
    struct fair_entry *first, *last;
    unsigned round, taken; /* for callers that limit entries per round: number taken from this
                            * flow in its last round */
};

struct fair_owner {
    struct fair_owner *next; /* next in its row of the table, or among the spares */
    struct quota_owner owner;
    size_t count;   /* entered and not yet left */
    size_t running; /* of these, the entries in progress, for callers that count them */
    struct fair_flow flows[];
};

struct fair_table {
    unsigned queues; /* number of queues that use the table */
    struct fair_owner *spares;
    struct fair_owner *rows[64];
};

struct fair_queue {
    unsigned index; /* its index among the queues of the table */
    unsigned flows; /* number of flows with waiting entries */
    struct fair_flow *first, *last;
};

/* The table must be zeroed before. */
void fair_init(struct fair_table *table, unsigned queues);
void fair_free(struct fair_table *table);

/*
 * Counts another entry of this owner if it has fewer than `each`; otherwise returns NULL with the
 * reason.
 */
struct fair_owner *fair_enter(struct fair_table *table, const struct quota_owner *owner,
                              size_t each, enum quota_result *why);
void fair_leave(struct fair_table *table, struct fair_owner *owner);

/* Appends an entry to its owner's flow. */
void fair_wait(struct fair_queue *queue, struct fair_entry *entry);

/* Returns the entry that is served next; NULL if none waits. */
struct fair_entry *fair_first(const struct fair_queue *queue);
struct fair_flow *fair_flow(const struct fair_queue *queue, const struct fair_entry *entry);

/* Removes and returns the next entry; the flow of the next owner is first afterwards. */
struct fair_entry *fair_take(struct fair_queue *queue);

/* Moves the first flow to the end of the round. */
void fair_skip(struct fair_queue *queue);

/* Removes a waiting entry from any position. */
void fair_cancel(struct fair_queue *queue, struct fair_entry *entry);

#endif
