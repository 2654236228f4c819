#include "modules/auth/token/siphash.h"

#include <string.h>

static inline uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void mix(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static inline void take(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v);
    v[0] ^= word;
}

uint64_t siphash(const uint64_t seed[2], const void *bytes, size_t length)
{
    const unsigned char *in = bytes;
    uint64_t last = (uint64_t)length << 56;
    uint64_t v[4] = {seed[0] ^ UINT64_C(0x736f6d6570736575), seed[1] ^ UINT64_C(0x646f72616e646f6d),
                     seed[0] ^ UINT64_C(0x6c7967656e657261),
                     seed[1] ^ UINT64_C(0x7465646279746573)};

    for (; length >= 8; in += 8, length -= 8) {
        uint64_t word;

        memcpy(&word, in, 8);
        take(v, word);
    }
    for (size_t i = 0; i < length; i++)
        last |= (uint64_t)in[i] << (8 * i);
    take(v, last);
    v[2] ^= 0xff;
    mix(v);
    mix(v);
    mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
