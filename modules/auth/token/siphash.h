/*
 * SipHash-1-3: a keyed hash for tables whose keys strangers choose; without the seed nobody can
 * aim at a bucket. Pure, any thread.
 */
#ifndef AUTH_SIPHASH_H
#define AUTH_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t siphash(const uint64_t seed[2], const void *bytes, size_t length);

#endif
