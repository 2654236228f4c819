/*
 * One mutex guards a cache. Most functions hold it for less than a microsecond. cache_drop() holds
 * it longer, because it compares the tags of all entries.
 */
#include "modules/common/cache.h"

#include <busbar/lock.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "modules/common/hash.h"

enum { WAYS = 8, TAIL = 16 };

struct entry {
    uint64_t hash;
    uint64_t used; /* value of `uses` at the last use; 0: the entry is free */
    size_t length, size;
    char *bytes; /* the key, then the value */
};

struct cache {
    pthread_mutex_t lock;
    uint64_t seed, epoch, uses;
    size_t sets;
    struct entry *entries;
    uint64_t *tags; /* of the entries; a separate array, so that cache_drop() scans less memory */
};

struct cache *cache_new(size_t entries, uint64_t seed)
{
    struct cache *cache = calloc(1, sizeof(*cache));

    if (!cache || pthread_mutex_init(&cache->lock, NULL)) {
        free(cache);
        return NULL;
    }
    cache->seed = seed;
    cache->sets = entries / WAYS;
    cache->entries = calloc(cache->sets * WAYS + 1, sizeof(*cache->entries));
    cache->tags = calloc(cache->sets * WAYS + 1, sizeof(*cache->tags));
    if (cache->entries && cache->tags)
        return cache;
    cache_free(cache);
    return NULL;
}

void cache_free(struct cache *cache)
{
    if (!cache)
        return;
    for (size_t i = 0; cache->entries && i < cache->sets * WAYS; i++)
        free(cache->entries[i].bytes);
    free(cache->entries);
    free(cache->tags);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/* Hashes the end of the key, because clients cannot choose the signature that ends a token. */
static uint64_t cache_hash(const struct cache *cache, const char *key, size_t length)
{
    size_t tail = length < TAIL ? length : TAIL;

    return hash_bytes(cache->seed, key + length - tail, tail);
}

/* Compares the whole keys, in a time that does not depend on where they differ. */
static bool is_equal(const char *one, const char *other, size_t length)
{
    unsigned char differs = 0;

    for (size_t i = 0; i < length; i++)
        differs |= (unsigned char)(one[i] ^ other[i]);
    return !differs;
}

/* Returns the entry of a key. Returns NULL if there is none; *oldest is the entry to replace. */
static struct entry *cache_find(struct cache *cache, uint64_t hash, const void *key, size_t length,
                                struct entry **oldest)
{
    struct entry *set = cache->entries + hash % cache->sets * WAYS;

    *oldest = set;
    for (struct entry *at = set; at < set + WAYS; at++) {
        if (at->used && at->hash == hash && at->length == length &&
            is_equal(at->bytes, key, length))
            return at;
        if (at->used < (*oldest)->used)
            *oldest = at;
    }
    return NULL;
}

size_t cache_get(struct cache *cache, const void *key, size_t length, void *into, size_t room,
                 uint64_t *epoch)
{
    uint64_t hash = cache_hash(cache, key, length);
    struct entry *oldest;

    BB_LOCKED(&cache->lock);
    struct entry *entry = cache->sets ? cache_find(cache, hash, key, length, &oldest) : NULL;

    *epoch = cache->epoch;
    if (!entry)
        return 0;
    entry->used = ++cache->uses;
    if (entry->size <= room)
        memcpy(into, entry->bytes + length, entry->size);
    return entry->size;
}

void cache_put(struct cache *cache, const void *key, size_t length, const void *value, size_t size,
               uint64_t tag, uint64_t epoch)
{
    uint64_t hash = cache_hash(cache, key, length);
    char *bytes = cache->sets ? malloc(length + size) : NULL;
    struct entry *oldest;

    if (!bytes)
        return;
    memcpy(bytes, key, length);
    memcpy(bytes + length, value, size);
    pthread_mutex_lock(&cache->lock);
    if (epoch == cache->epoch) {
        struct entry *entry = cache_find(cache, hash, key, length, &oldest);
        char *old;

        entry = entry ? entry : oldest;
        old = entry->bytes;
        *entry = (struct entry){hash, ++cache->uses, length, size, bytes};
        cache->tags[entry - cache->entries] = tag;
        bytes = old;
    }
    pthread_mutex_unlock(&cache->lock);
    free(bytes);
}

static void entry_clear(struct entry *entry)
{
    free(entry->bytes);
    *entry = (struct entry){0};
}

void cache_remove(struct cache *cache, const void *key, size_t length)
{
    uint64_t hash = cache_hash(cache, key, length);
    struct entry *oldest;

    BB_LOCKED(&cache->lock);
    struct entry *entry = cache->sets ? cache_find(cache, hash, key, length, &oldest) : NULL;

    cache->epoch++;
    if (entry)
        entry_clear(entry);
}

void cache_drop(struct cache *cache, uint64_t tag)
{
    BB_LOCKED(&cache->lock);
    cache->epoch++;
    for (size_t i = 0; i < cache->sets * WAYS; i++)
        if (!tag || cache->tags[i] == tag)
            entry_clear(&cache->entries[i]);
}
