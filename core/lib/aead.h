/*
 * Encrypts secrets for storage with AES-256-GCM and the first of several keys. Decrypts with any of
 * them, so that keys can be rotated. Decryption needs the same purpose ("auth.key") as encryption.
 *
 * Format: version 1 (1 byte), key id (4: start of the key's SHA-256), nonce (12), the encrypted
 * bytes, tag (16). Keys never change. Any thread may use them. arena_free() wipes them.
 */
#ifndef CORE_AEAD_H
#define CORE_AEAD_H

#include <stddef.h>

#include "core/lib/arena.h"

#define AEAD_KEYS_MAX 16
#define AEAD_OVERHEAD (1 + 4 + 12 + 16)

struct aead_keys;

/*
 * Creates a set of keys with 64 hexadecimal digits each. Returns NULL with the reason in `why`,
 * which never contains a key. With an empty set, aead_close() and aead_open() fail.
 */
struct aead_keys *aead_keys_new(struct arena *arena, const char *const *hex, size_t count,
                                char *why, size_t why_size);

/* Encrypts. The caller frees *out with free(). Returns 0 or -1. */
int aead_close(const struct aead_keys *keys, const void *plain, size_t length, const char *purpose,
               unsigned char **out, size_t *out_length);

enum { AEAD_NO_MEMORY = -2 };

/*
 * Decrypts. *out ends with a NUL; the caller frees it with free(). Returns 0; -1 if the text was
 * forged, truncated, or encrypted with another purpose or key; AEAD_NO_MEMORY if memory ran out
 * before the text could be checked.
 */
int aead_open(const struct aead_keys *keys, const void *sealed, size_t length, const char *purpose,
              unsigned char **out, size_t *out_length);

#endif
