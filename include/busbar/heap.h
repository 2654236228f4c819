/*
 * A pairing heap of nodes sorted by time. A node is a member of another struct, which the heap does
 * not own; adding it allocates no memory. A node is in at most one heap. Heaps and nodes are
 * initialized with zeros. Only one thread may use a heap at a time.
 */
#ifndef BUSBAR_HEAP_H
#define BUSBAR_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* A list of nodes. Each node has a list `later` of nodes with later times. */
LIST_HEAD(bb_heap, bb_heap_node);

struct bb_heap_node {
    int64_t at_ms;
    bool set; /* the node is in a heap */
    LIST_ENTRY(bb_heap_node) next;
    struct bb_heap later;
};

static inline struct bb_heap_node *bb_heap_pop(struct bb_heap *list)
{
    struct bb_heap_node *node = LIST_FIRST(list);

    if (node)
        LIST_REMOVE(node, next);
    return node;
}

/* Makes the later node a child of the earlier node, and returns the earlier node. */
static inline struct bb_heap_node *bb_heap_join(struct bb_heap_node *a, struct bb_heap_node *b)
{
    struct bb_heap_node *first = a->at_ms <= b->at_ms ? a : b, *later = first == a ? b : a;

    LIST_INSERT_HEAD(&first->later, later, next);
    return first;
}

/* Removes the node if it is in the heap. */
static inline void bb_heap_remove(struct bb_heap *heap, struct bb_heap_node *node)
{
    struct bb_heap_node *later;

    if (!node->set)
        return;
    node->set = false;
    LIST_REMOVE(node, next);
    while ((later = bb_heap_pop(&node->later)))
        LIST_INSERT_HEAD(heap, later, next);
}

/* Adds the node, or changes its time. */
static inline void bb_heap_set(struct bb_heap *heap, struct bb_heap_node *node, int64_t at_ms)
{
    bb_heap_remove(heap, node);
    node->at_ms = at_ms;
    node->set = true;
    LIST_INSERT_HEAD(heap, node, next);
}

/*
 * Returns the first node, or NULL. Joins the nodes of the list in pairs, and then the pairs, so
 * that the amortized cost is logarithmic.
 */
static inline struct bb_heap_node *bb_heap_first(struct bb_heap *heap)
{
    struct bb_heap pairs = {NULL};
    struct bb_heap_node *first, *other;

    while ((first = bb_heap_pop(heap)) && (other = bb_heap_pop(heap))) {
        first = bb_heap_join(first, other);
        LIST_INSERT_HEAD(&pairs, first, next);
    }
    while ((other = bb_heap_pop(&pairs)))
        first = first ? bb_heap_join(first, other) : other;
    if (first)
        LIST_INSERT_HEAD(heap, first, next);
    return first;
}

#endif
