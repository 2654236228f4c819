/*
 * The containers of the sender: a hash table from 64-bit ids to structs, and a heap of timers.
 * Their nodes are members of the structs, which the containers do not own. One thread.
 */
#ifndef WEBHOOK_CONTAINERS_H
#define WEBHOOK_CONTAINERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct idmap_node {
    int64_t id;
    struct idmap_node *next;
};

struct idmap {
    struct idmap_node **list;
    size_t room; /* a power of two, or 0 */
    size_t count;
};

void idmap_free(struct idmap *map);
struct idmap_node *idmap_find(const struct idmap *map, int64_t id); /* or NULL */

/* Adds a node whose id is set and not in the map. Returns 0, or -1 if out of memory. */
int idmap_add(struct idmap *map, struct idmap_node *node);
void idmap_remove(struct idmap *map, struct idmap_node *node);

/* Returns the node after this one; NULL: the first one. */
struct idmap_node *idmap_next(const struct idmap *map, const struct idmap_node *node);

/* Loops over the nodes. The loop may remove and free its current node, but no other. */
// NOLINTBEGIN(bugprone-macro-parentheses)
#define IDMAP_FOREACH(node, map)                                                                   \
    for (struct idmap_node *node = idmap_next(map, NULL), *next_##node;                            \
         node && (next_##node = idmap_next(map, node), true); node = next_##node)
// NOLINTEND(bugprone-macro-parentheses)

struct sender;

/* Something that the sender does at a time. It stores its place, so that it can be removed early.
 */
struct timer {
    int64_t at_ms;
    size_t place; /* from 1; 0: not in the heap */
    void (*due)(struct sender *sender, struct timer *timer);
};

struct timers {
    struct timer **list; /* a binary heap from 1 on, the earliest first */
    size_t count;
    size_t room;
};

void timer_heap_free(struct timers *timers);

/* Returns 0, or -1 if out of memory. */
int timer_heap_add(struct timers *timers, struct timer *timer);
void timer_heap_remove(struct timers *timers, struct timer *timer); /* if it is in the heap */

/* Calls `due` of the timers up to now_ms, which have been removed. */
void timer_heap_run(struct timers *timers, struct sender *sender, int64_t now_ms);

#endif
