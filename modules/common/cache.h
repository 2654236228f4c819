/*
 * Values by key in memory, shared by all loops. Keys and values are copied in and out, so that an
 * eviction never frees a value in use. The table has sets of eight entries; a full set evicts the
 * entry not used for longest. Any thread. Each module that uses this has its own copy compiled in.
 */
#ifndef COMMON_CACHE_H
#define COMMON_CACHE_H

#include <stddef.h>
#include <stdint.h>

struct cache;

/*
 * Creates a cache with a number of entries; with 0 it keeps nothing. Places in the table depend
 * on a random seed, so that no client can fill one set. Returns NULL if out of memory.
 */
struct cache *cache_new(size_t entries, uint64_t seed);
void cache_free(struct cache *cache);

/*
 * Returns the size of a value, which is copied to `into` if it fits in `room` bytes; 0: not found.
 * Pass *epoch to cache_put() with the value queried after a miss: every removal changes the epoch,
 * so cache_put() keeps only values that no removal has made outdated.
 */
size_t cache_get(struct cache *cache, const void *key, size_t length, void *into, size_t room,
                 uint64_t *epoch);
void cache_put(struct cache *cache, const void *key, size_t length, const void *value, size_t size,
               uint64_t tag, uint64_t epoch);

/* Remove the value of a key, and all values with a tag; 0: all values. */
void cache_remove(struct cache *cache, const void *key, size_t length);
void cache_drop(struct cache *cache, uint64_t tag);

#endif
