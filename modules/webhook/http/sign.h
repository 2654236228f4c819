/*
 * Signatures of deliveries.
 *
 * X-Webhook-Signature is the HMAC-SHA256 of the exact bytes of the body, in hexadecimal; its key is
 * the secret's text. webhook-signature (Standard Webhooks) is "v1," and the base64 of the
 * HMAC-SHA256 of "id.timestamp.body". Its key is the decoded base64 after "whsec_"; a secret
 * without this prefix is used as text. The base64 has the standard alphabet, padded or not. While a
 * secret is being replaced, both secrets sign, the new one first.
 *
 * The OpenSSL algorithm is looked up once. Each secret has a keyed context, which every signature
 * starts again, so only one thread at a time may use a key.
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

/* Returns whether the text after "whsec_" is base64, or the secret does not have this prefix. */
bool sign_secret_good(const char *secret);

/*
 * Returns a key that the caller owns; NULL: out of memory. The secret is not kept. A stored secret
 * that sign_secret_good() refuses (older versions accepted it) is used as text.
 */
struct sign_key *sign_key_new(EVP_MAC *algorithm, const char *secret);
void sign_key_free(struct sign_key *key);

/* Returns 0, or -1 if out of memory. */
int sign_body(const struct sign_key *key, const void *body, size_t length, char out[SIGN_HEX]);

/* `timestamp` in seconds since 1970; 1 or 2 keys. Returns 0, or -1 if out of memory. */
int sign_standard(const struct sign_key *const *keys, size_t count, const char *id,
                  int64_t timestamp, const void *body, size_t length, char out[SIGN_STANDARD]);

#endif
