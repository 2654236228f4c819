/*
 * Signatures of deliveries.
 *
 * X-Webhook-Signature is the HMAC-SHA256 of the exact bytes of the body, in hexadecimal; its key is
 * the secret's text. webhook-signature (Standard Webhooks) is "v1," and the base64 of the
 * HMAC-SHA256 of "id.timestamp.body". Its key is the base64 text after "whsec_", or the text of any
 * other secret. The base64 is the standard alphabet, padded or not. While a secret is being
 * replaced, both secrets sign, the new one first.
 *
 * The OpenSSL algorithm is looked up once, and a context is keyed once per secret, which is begun
 * again for each signature: a key belongs to one thread at a time.
 */
#ifndef WEBHOOK_SIGN_H
#define WEBHOOK_SIGN_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIGN_HEX 65      /* characters, with the NUL */
#define SIGN_STANDARD 96 /* two signatures, a space and the NUL */
#define SIGN_KEYS_MAX 2

struct sign_key; /* for one secret */

/* Returns the algorithm, to be freed with EVP_MAC_free(). NULL: OpenSSL does not have it. */
EVP_MAC *sign_algorithm(void);

/* Returns whether the text after "whsec_" is base64; any secret without that prefix is valid. */
bool sign_secret_good(const char *secret);

/*
 * The caller owns the key; NULL: out of memory. The secret is not kept. An invalid secret, stored
 * before this was checked, is used as text.
 */
struct sign_key *sign_key_new(EVP_MAC *algorithm, const char *secret);
void sign_key_free(struct sign_key *key);

/* Returns 0, or -1 if out of memory. */
int sign_body(const struct sign_key *key, const void *body, size_t length, char out[SIGN_HEX]);

/* `timestamp` in seconds since 1970; 1 or 2 keys. Returns 0, or -1 if out of memory. */
int sign_standard(const struct sign_key *const *keys, size_t count, const char *id,
                  int64_t timestamp, const void *body, size_t length, char out[SIGN_STANDARD]);

#endif
