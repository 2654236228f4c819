/*
 * A hash table from 64-bit ids to structs; its nodes are members of the structs, which it does not
 * own. One thread.
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

/* Adds a node whose id is set and not in the map. Returns 0, or -1 if out of memory. */
int idmap_add(struct idmap *map, struct idmap_node *node);
void idmap_remove(struct idmap *map, struct idmap_node *node);

/*
 * Calls each(node, arg) for every node; the callback may remove and free its own node, but no
 * other.
 */
void idmap_each(struct idmap *map, void (*each)(struct idmap_node *, void *), void *arg);

#endif
