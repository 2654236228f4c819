/* Harnesses for libFuzzer, a program each: `./test fuzz [name]`. Each looks for crashes, and stops
 * where what it was told of an input does not hold. Inputs that are kept: corpus/<name>. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Like assert(), and always there. */
static inline void must(int holds)
{
    if (!holds)
        abort();
}

#endif
