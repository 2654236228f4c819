/* Harnesses for libFuzzer, each a separate program: `./test fuzz [name]`. A harness looks for
 * crashes and aborts if a property of an input does not hold. Saved inputs: corpus/<name>. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Like assert(), but never compiled out. */
static inline void must(int holds)
{
    if (!holds)
        abort();
}

/* Adds bytes to an FNV-1a hash. HASH is the hash of no bytes. */
#define HASH UINT64_C(14695981039346656037)
static inline void hash_add(uint64_t *hash, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < length; i++)
        *hash = (*hash ^ at[i]) * UINT64_C(1099511628211);
}

#endif
