/*
 * A cache in memory, shared by all event loops. Keys and values are copied in and out, so that an
 * eviction never frees a value in use. The table has sets of eight entries. A full set evicts its
 * least recently used entry. Any thread. Each module that uses this has its own copy compiled in.
 */
#ifndef COMMON_CACHE_H
#define COMMON_CACHE_H

#include <stddef.h>
#include <stdint.h>

struct cache;

/*
 * Creates a cache for up to `entries` values (0: for none). Returns NULL if out of memory. `seed`
 * must be random, so that clients cannot choose keys with the same hash, which share few entries.
 */
struct cache *cache_new(size_t entries, uint64_t seed);
void cache_free(struct cache *cache);

/*
 * Copies a key's value to `into` if it fits in `room` bytes. Returns its size, or 0 if not found.
 * If not found, query the value and pass it to cache_put() with *epoch. Each removal changes the
 * epoch. If the epoch has changed, cache_put() stores nothing, because the value may be outdated.
 */
size_t cache_get(struct cache *cache, const void *key, size_t length, void *into, size_t room,
                 uint64_t *epoch);
void cache_put(struct cache *cache, const void *key, size_t length, const void *value, size_t size,
               uint64_t tag, uint64_t epoch);

/* cache_remove() removes a key's value, cache_drop() all values with a tag (0: with any tag). */
void cache_remove(struct cache *cache, const void *key, size_t length);
void cache_drop(struct cache *cache, uint64_t tag);

#endif
