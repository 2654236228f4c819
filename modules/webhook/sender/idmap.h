/*
 * Things by their 64-bit id: a hash table of nodes that lie inside the things. It owns none of
 * them. One thread.
 */
#ifndef WEBHOOK_IDMAP_H
#define WEBHOOK_IDMAP_H

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

/* Adds a node whose id is set and not in the map. 0, or -1 when memory ran out. */
int idmap_add(struct idmap *map, struct idmap_node *node);
void idmap_remove(struct idmap *map, struct idmap_node *node);

/* Calls each(node, arg) for all; it may remove and free its node, and nothing else. */
void idmap_each(struct idmap *map, void (*each)(struct idmap_node *, void *), void *arg);

#endif
