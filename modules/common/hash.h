/*
 * FNV-1a with 64 bits, for hash tables and entity tags. It does not protect against keys that are
 * chosen to collide: use it only where a collision costs time and nothing else. Any thread.
 */
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_SEED UINT64_C(0xcbf29ce484222325)

/* Returns `hash`, extended by the bytes. The first call for a hash passes HASH_SEED. */
static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
