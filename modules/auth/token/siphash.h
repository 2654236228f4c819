/*
 * SipHash-1-3: a keyed hash for tables whose keys come from strangers; without the seed nobody can
 * choose keys that collide. Pure, any thread.
 */
#ifndef AUTH_SIPHASH_H
#define AUTH_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t siphash(const uint64_t seed[2], const void *bytes, size_t length);

#endif
