/*
 * Secrets at rest: AES-256-GCM under the first of several keys; any of them opens, so that keys can
 * be changed one after the other. The purpose ("auth.key") is bound to what is sealed.
 *
 * Sealed: version 1 (1 byte), key id (4: start of the key's SHA-256), nonce (12), the encrypted
 * bytes, tag (16). The keys are only read once built, from any thread; the arena wipes them.
 */
#ifndef CORE_AEAD_H
#define CORE_AEAD_H

#include <stddef.h>

#include "core/base/arena.h"

#define AEAD_KEYS_MAX 16
#define AEAD_OVERHEAD (1 + 4 + 12 + 16)

struct aead_keys;

/*
 * Keys of 64 hexadecimal digits each. NULL with the reason in `why`, which never holds a key.
 * No keys at all give a set with which both functions below fail.
 */
struct aead_keys *aead_keys_new(struct arena *arena, const char *const *hex, size_t count,
                                char *why, size_t why_size);

/* *out is given, to be freed by free(). 0, or -1. */
int aead_close(const struct aead_keys *keys, const void *plain, size_t length, const char *purpose,
               unsigned char **out, size_t *out_length);

enum { AEAD_NO_MEMORY = -2 };

/* The reverse. *out ends with a NUL. -1: forged, cut, or of another purpose or key; AEAD_NO_MEMORY:
 * out of memory, so the text may be valid. */
int aead_open(const struct aead_keys *keys, const void *sealed, size_t length, const char *purpose,
              unsigned char **out, size_t *out_length);

#endif
