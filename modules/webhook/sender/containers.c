#include "modules/webhook/sender/containers.h"

#include <stdlib.h>

/* ---- the hash table ---- */

static struct idmap_node **idmap_bucket(const struct idmap *map, int64_t id)
{
    uint64_t hash = (uint64_t)id * UINT64_C(0x9E3779B97F4A7C15);

    return &map->list[(hash >> 32) & (map->room - 1)];
}

void idmap_free(struct idmap *map)
{
    free(map->list);
    *map = (struct idmap){0};
}

struct idmap_node *idmap_find(const struct idmap *map, int64_t id)
{
    struct idmap_node *node = map->room ? *idmap_bucket(map, id) : NULL;

    while (node && node->id != id)
        node = node->next;
    return node;
}

static void idmap_link(struct idmap *map, struct idmap_node *node)
{
    struct idmap_node **at = idmap_bucket(map, node->id);

    node->next = *at;
    *at = node;
}

static int idmap_grow(struct idmap *map)
{
    struct idmap old = *map;
    size_t room = old.room ? 2 * old.room : 256;
    struct idmap_node **list = calloc(room, sizeof(*list));

    if (!list)
        return -1;
    map->list = list;
    map->room = room;
    for (size_t i = 0; i < old.room; i++) {
        while (old.list[i]) {
            struct idmap_node *node = old.list[i];

            old.list[i] = node->next;
            idmap_link(map, node);
        }
    }
    free(old.list);
    return 0;
}

int idmap_add(struct idmap *map, struct idmap_node *node)
{
    if (map->count == map->room && idmap_grow(map))
        return -1;
    idmap_link(map, node);
    map->count++;
    return 0;
}

void idmap_remove(struct idmap *map, struct idmap_node *node)
{
    struct idmap_node **at = idmap_bucket(map, node->id);

    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    map->count--;
}

struct idmap_node *idmap_next(const struct idmap *map, const struct idmap_node *node)
{
    size_t bucket = 0;

    if (node && node->next)
        return node->next;
    if (node)
        bucket = (size_t)(idmap_bucket(map, node->id) - map->list) + 1;
    while (bucket < map->room && !map->list[bucket])
        bucket++;
    return bucket < map->room ? map->list[bucket] : NULL;
}

/* ---- the heap ---- */

void timer_heap_free(struct timers *timers)
{
    free(timers->list);
    *timers = (struct timers){0};
}

static void timer_heap_put(struct timers *timers, struct timer *timer, size_t place)
{
    timers->list[place] = timer;
    timer->place = place;
}

static void timer_heap_rise(struct timers *timers, struct timer *timer, size_t place)
{
    for (; place > 1 && timers->list[place / 2]->at_ms > timer->at_ms; place /= 2)
        timer_heap_put(timers, timers->list[place / 2], place);
    timer_heap_put(timers, timer, place);
}

static void timer_heap_sink(struct timers *timers, struct timer *timer, size_t place)
{
    for (;;) {
        size_t child = 2 * place;

        if (child < timers->count && timers->list[child + 1]->at_ms < timers->list[child]->at_ms)
            child++;
        if (child > timers->count || timers->list[child]->at_ms >= timer->at_ms)
            break;
        timer_heap_put(timers, timers->list[child], place);
        place = child;
    }
    timer_heap_put(timers, timer, place);
}

int timer_heap_add(struct timers *timers, struct timer *timer)
{
    if (timers->count + 1 >= timers->room) {
        size_t room = timers->room ? 2 * timers->room : 64;
        struct timer **list = realloc(timers->list, room * sizeof(*list));

        if (!list)
            return -1;
        timers->list = list;
        timers->room = room;
    }
    timer_heap_rise(timers, timer, ++timers->count);
    return 0;
}

void timer_heap_remove(struct timers *timers, struct timer *timer)
{
    size_t place = timer->place;

    if (!place)
        return;
    struct timer *last = timers->list[timers->count--];

    timer->place = 0;
    if (last == timer)
        return;
    if (place > 1 && timers->list[place / 2]->at_ms > last->at_ms)
        timer_heap_rise(timers, last, place);
    else
        timer_heap_sink(timers, last, place);
}

void timer_heap_run(struct timers *timers, struct sender *sender, int64_t now_ms)
{
    while (timers->count && timers->list[1]->at_ms <= now_ms) {
        struct timer *first = timers->list[1];

        timer_heap_remove(timers, first);
        first->due(sender, first);
    }
}
