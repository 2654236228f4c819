#include "modules/webhook/sender/containers.h"

/* ---- the hash table ---- */

static size_t idmap_place(int64_t id)
{
    uint64_t hash = (uint64_t)id * UINT64_C(0x9E3779B97F4A7C15);

    return (hash >> 32) % IDMAP_LISTS;
}

struct idmap_node *idmap_find(const struct idmap *map, int64_t id)
{
    struct idmap_node *node = LIST_FIRST(&map->lists[idmap_place(id)]);

    while (node && node->id != id)
        node = LIST_NEXT(node, next);
    return node;
}

void idmap_add(struct idmap *map, struct idmap_node *node)
{
    LIST_INSERT_HEAD(&map->lists[idmap_place(node->id)], node, next);
    LIST_INSERT_HEAD(&map->all, node, all);
    map->count++;
}

void idmap_remove(struct idmap *map, struct idmap_node *node)
{
    LIST_REMOVE(node, next);
    LIST_REMOVE(node, all);
    map->count--;
}

/* ---- the heap ---- */

static struct timer *timer_heap_pop(struct timer_heap *list)
{
    struct timer *timer = LIST_FIRST(list);

    if (timer)
        LIST_REMOVE(timer, next);
    return timer;
}

/* Puts the later timer below the other one, which is returned; neither is in a list. */
static struct timer *timer_heap_join(struct timer *a, struct timer *b)
{
    struct timer *first = a->at_ms <= b->at_ms ? a : b, *later = first == a ? b : a;

    LIST_INSERT_HEAD(&first->later, later, next);
    return first;
}

void timer_heap_set(struct timer_heap *timers, struct timer *timer, int64_t at_ms,
                    void (*due)(struct sender *sender, struct timer *timer))
{
    timer_heap_remove(timers, timer);
    timer->at_ms = at_ms;
    timer->due = due;
    timer->set = true;
    LIST_INSERT_HEAD(timers, timer, next);
}

void timer_heap_remove(struct timer_heap *timers, struct timer *timer)
{
    struct timer *later;

    if (!timer->set)
        return;
    timer->set = false;
    LIST_REMOVE(timer, next);
    while ((later = timer_heap_pop(&timer->later)))
        LIST_INSERT_HEAD(timers, later, next);
}

/* Joins the timers of the list in pairs, and then the pairs: the amortized cost is logarithmic. */
struct timer *timer_heap_first(struct timer_heap *timers)
{
    struct timer_heap pairs = LIST_HEAD_INITIALIZER(pairs);
    struct timer *first, *other;

    while ((first = timer_heap_pop(timers)) && (other = timer_heap_pop(timers))) {
        first = timer_heap_join(first, other);
        LIST_INSERT_HEAD(&pairs, first, next);
    }
    while ((other = timer_heap_pop(&pairs)))
        first = first ? timer_heap_join(first, other) : other;
    if (first)
        LIST_INSERT_HEAD(timers, first, next);
    return first;
}

void timer_heap_run(struct timer_heap *timers, struct sender *sender, int64_t now_ms)
{
    struct timer *first;

    while ((first = timer_heap_first(timers)) && first->at_ms <= now_ms) {
        timer_heap_remove(timers, first);
        first->due(sender, first);
    }
}
