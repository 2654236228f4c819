/*
 * A hash table from 64-bit ids to structs. Its nodes are members of the structs, which the table
 * does not own, so adding a node needs no memory. A table of zeros is empty. Not thread-safe.
 */
#ifndef WEBHOOK_IDMAP_H
#define WEBHOOK_IDMAP_H

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

static inline size_t idmap_place(int64_t id)
{
    uint64_t hash = (uint64_t)id * UINT64_C(0x9E3779B97F4A7C15);

    return (hash >> 32) % IDMAP_LISTS;
}

/* Returns the node, or NULL. */
static inline struct idmap_node *idmap_find(const struct idmap *map, int64_t id)
{
    struct idmap_node *node = LIST_FIRST(&map->lists[idmap_place(id)]);

    while (node && node->id != id)
        node = LIST_NEXT(node, next);
    return node;
}

/* Adds a node whose id is set and not in the map. */
static inline void idmap_add(struct idmap *map, struct idmap_node *node)
{
    LIST_INSERT_HEAD(&map->lists[idmap_place(node->id)], node, next);
    LIST_INSERT_HEAD(&map->all, node, all);
    map->count++;
}

static inline void idmap_remove(struct idmap *map, struct idmap_node *node)
{
    LIST_REMOVE(node, next);
    LIST_REMOVE(node, all);
    map->count--;
}

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

#endif
