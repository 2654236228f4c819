/*
 * Signatures of deliveries.
 *
 * X-Webhook-Signature is the HMAC-SHA256 of the exact bytes of the body, in hexadecimal; the key is
 * the secret's text. webhook-signature (Standard Webhooks) is "v1," and the base64 of the
 * HMAC-SHA256 of "id.timestamp.body". The key is the decoded base64 after "whsec_"; a secret
 * without this prefix is used as text. The base64 has the standard alphabet, padded or not. While a
 * secret is being replaced, both secrets sign, the new one first.
 *
 * Ed25519 (Standard Webhooks v1a) signs the same text with a private key that never leaves busbar.
 * The signature is "v1a," and base64. A private key is written as "whsk_" and the base64 of its 32
 * bytes, a public key as "whpk_" and base64.
 *
 * `algorithm` is HMAC, which the caller fetches once. Each secret has a keyed context. Each
 * signature resets this context, so only one thread at a time may use a key.
 */
#ifndef WEBHOOK_SIGN_H
#define WEBHOOK_SIGN_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIGN_HEX 65      /* characters, with the NUL */
#define SIGN_STANDARD 96 /* two signatures, a space and the NUL */
#define SIGN_ED25519 186 /* two signatures, a space and the NUL */
#define SIGN_KEYS_MAX 2
#define SIGN_PAIR 50 /* a private or public key with the NUL */

struct sign_key; /* a secret, prepared for HMAC */

/* Returns false if the secret begins with "whsec_", but the rest is not base64. */
bool sign_secret_good(const char *secret);

/*
 * Returns a key that the caller owns, or NULL if out of memory. The key does not refer to `secret`.
 * If sign_secret_good() refuses the secret, the whole text is the key.
 */
struct sign_key *sign_key_new(EVP_MAC *algorithm, const char *secret);
void sign_key_free(struct sign_key *key);

/* Returns 0, or -1 if out of memory. */
int sign_body(const struct sign_key *key, const void *body, size_t length, char out[SIGN_HEX]);

/* `timestamp` in seconds since 1970; 1 or 2 keys. Returns 0, or -1 if out of memory. */
int sign_standard(const struct sign_key *const *keys, size_t count, const char *id,
                  int64_t timestamp, const void *body, size_t length, char out[SIGN_STANDARD]);

/* Generates a pair of keys. Returns 0, or -1 if memory or random numbers are unavailable. */
int sign_pair_make(char private_key[SIGN_PAIR], char public_key[SIGN_PAIR]);

/* Parses a private key. The caller frees it with EVP_PKEY_free(). NULL: invalid, or no memory. */
EVP_PKEY *sign_pair_read(const char *private_key);

/* Like sign_standard(), with 1 or 2 private keys. */
int sign_ed25519(EVP_PKEY *const *keys, size_t count, const char *id, int64_t timestamp,
                 const void *body, size_t length, char out[SIGN_ED25519]);

#endif
