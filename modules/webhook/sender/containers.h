/*
 * The containers of the sender: a hash table from 64-bit ids to structs, and a heap of timers.
 * Their nodes are members of the structs, which the containers do not own, so adding a node needs
 * no memory. A container of zeros is empty. One thread.
 */
#ifndef WEBHOOK_CONTAINERS_H
#define WEBHOOK_CONTAINERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum { IDMAP_LISTS = 1 << 15 };

struct idmap_node {
    int64_t id;
    LIST_ENTRY(idmap_node) next, all;
};

LIST_HEAD(idmap_list, idmap_node);

struct idmap {
    struct idmap_list lists[IDMAP_LISTS], all;
    size_t count;
};

struct idmap_node *idmap_find(const struct idmap *map, int64_t id); /* or NULL */

/* Adds a node whose id is set and not in the map. */
void idmap_add(struct idmap *map, struct idmap_node *node);
void idmap_remove(struct idmap *map, struct idmap_node *node);

/*
 * Loops over the structs of a type whose first member is the node. The loop may remove and free its
 * current struct, but no other.
 */
// NOLINTBEGIN(bugprone-macro-parentheses)
#define IDMAP_FOREACH(type, at, map)                                                               \
    for (struct type *at = (struct type *)(void *)LIST_FIRST(&(map)->all), *next_##at;             \
         at && (next_##at = (struct type *)(void *)LIST_NEXT(&at->node, all), true);               \
         at = next_##at)
// NOLINTEND(bugprone-macro-parentheses)

struct sender;
struct timer;

/* A pairing heap: a list of timers, each of which has a list of later timers. */
LIST_HEAD(timer_heap, timer);

/* Something that the sender does at a time. */
struct timer {
    int64_t at_ms;
    bool set; /* it is in the heap */
    LIST_ENTRY(timer) next;
    struct timer_heap later;
    void (*due)(struct sender *sender, struct timer *timer);
};

/* Adds a timer, or changes its time. */
void timer_heap_set(struct timer_heap *timers, struct timer *timer, int64_t at_ms,
                    void (*due)(struct sender *sender, struct timer *timer));
void timer_heap_remove(struct timer_heap *timers, struct timer *timer); /* if it is in the heap */
struct timer *timer_heap_first(struct timer_heap *timers);              /* or NULL */

/* Calls `due` of the timers up to now_ms, which have been removed. */
void timer_heap_run(struct timer_heap *timers, struct sender *sender, int64_t now_ms);

#endif
