/*
 * The deliveries to attempt again, by time: a binary heap of pointers, the earliest first. An entry
 * stores its place, so that it can be removed early (its webhook was deleted). One thread.
 */
#ifndef WEBHOOK_RETRY_HEAP_H
#define WEBHOOK_RETRY_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct retry_entry {
    int64_t at_ms;
    size_t place; /* from 1; 0: not in the heap */
};

struct retry_heap {
    struct retry_entry **list; /* from 1 */
    size_t count;
    size_t room;
};

void retry_free(struct retry_heap *heap); /* the caller owns the entries */

/* Returns 0, or -1 if out of memory. */
int retry_add(struct retry_heap *heap, struct retry_entry *entry);
void retry_remove(struct retry_heap *heap, struct retry_entry *entry);

/* Returns the earliest entry, or NULL. */
struct retry_entry *retry_first(const struct retry_heap *heap);

#endif
