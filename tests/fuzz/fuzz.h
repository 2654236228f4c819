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

#endif
