#include "modules/webhook/sender/retry_heap.h"

#include <stdlib.h>

void retry_free(struct retry_heap *heap)
{
    free(heap->list);
    *heap = (struct retry_heap){0};
}

static void retry_put(struct retry_heap *heap, struct retry_entry *entry, size_t place)
{
    heap->list[place] = entry;
    entry->place = place;
}

static void retry_rise(struct retry_heap *heap, struct retry_entry *entry, size_t place)
{
    for (; place > 1 && heap->list[place / 2]->at_ms > entry->at_ms; place /= 2)
        retry_put(heap, heap->list[place / 2], place);
    retry_put(heap, entry, place);
}

static void retry_sink(struct retry_heap *heap, struct retry_entry *entry, size_t place)
{
    for (;;) {
        size_t child = 2 * place;

        if (child < heap->count && heap->list[child + 1]->at_ms < heap->list[child]->at_ms)
            child++;
        if (child > heap->count || heap->list[child]->at_ms >= entry->at_ms)
            break;
        retry_put(heap, heap->list[child], place);
        place = child;
    }
    retry_put(heap, entry, place);
}

int retry_add(struct retry_heap *heap, struct retry_entry *entry)
{
    if (heap->count + 1 >= heap->room) {
        size_t room = heap->room ? 2 * heap->room : 64;
        struct retry_entry **list = realloc(heap->list, room * sizeof(*list));

        if (!list)
            return -1;
        heap->list = list;
        heap->room = room;
    }
    retry_rise(heap, entry, ++heap->count);
    return 0;
}

void retry_remove(struct retry_heap *heap, struct retry_entry *entry)
{
    size_t place = entry->place;

    if (!place)
        return;
    struct retry_entry *last = heap->list[heap->count--];

    entry->place = 0;
    if (last == entry)
        return;
    if (place > 1 && heap->list[place / 2]->at_ms > last->at_ms)
        retry_rise(heap, last, place);
    else
        retry_sink(heap, last, place);
}

struct retry_entry *retry_first(const struct retry_heap *heap)
{
    return heap->count ? heap->list[1] : NULL;
}
