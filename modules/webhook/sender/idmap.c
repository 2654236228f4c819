#include "modules/webhook/sender/idmap.h"

#include <stdlib.h>

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

void idmap_each(struct idmap *map, void (*each)(struct idmap_node *, void *), void *arg)
{
    for (size_t i = 0; i < map->room; i++) {
        for (struct idmap_node *node = map->list[i], *next; node; node = next) {
            next = node->next;
            each(node, arg);
        }
    }
}
