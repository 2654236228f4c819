/*
 * Signatures of deliveries.
 *
 * X-Webhook-Signature: HMAC-SHA256 over the exact bytes of the body, hexadecimal, keyed with the
 * secret's text. webhook-signature (Standard Webhooks): "v1," and the base64 of HMAC-SHA256 over
 * "id.timestamp.body"; its key is what follows "whsec_" in base64, and for any other secret the
 * secret's text. The base64 is the standard one, padded or not. While a secret is being replaced,
 * both sign, the new one first.
 *
 * OpenSSL looks an algorithm up once, and keys a context once for each secret; a signature
 * duplicates that context. Both are only read once made: any thread.
 */
#ifndef WEBHOOK_SIGN_H
#define WEBHOOK_SIGN_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIGN_HEX 65      /* characters with the NUL */
#define SIGN_STANDARD 96 /* two signatures, a space and the NUL */
#define SIGN_KEYS_MAX 2

struct sign_key; /* of one secret */

/* The algorithm, given: EVP_MAC_free(). NULL: OpenSSL has none. */
EVP_MAC *sign_algorithm(void);

/* Whether what stands behind "whsec_", if that is how it begins, is base64. */
bool sign_secret_good(const char *secret);

/*
 * Given; NULL when memory ran out. The secret is not kept. One that is not good, and was stored
 * before that was looked at, is taken as text.
 */
struct sign_key *sign_key_new(EVP_MAC *algorithm, const char *secret);
void sign_key_free(struct sign_key *key);

/* 0, or -1 when memory ran out. */
int sign_body(const struct sign_key *key, const void *body, size_t length, char out[SIGN_HEX]);

/* `timestamp` in seconds since 1970; 1 or 2 keys. 0, or -1 when memory ran out. */
int sign_standard(const struct sign_key *const *keys, size_t count, const char *id,
                  int64_t timestamp, const void *body, size_t length, char out[SIGN_STANDARD]);

#endif
