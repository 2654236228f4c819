/*
 * HMAC-SHA256 with a context that keeps its key, because setting the key costs more than the HMAC.
 * Only one thread at a time may use a context.
 */
#ifndef COMMON_HMAC_H
#define COMMON_HMAC_H

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

enum { HMAC_BYTES = 32 };

/* Returns a context, to be freed with EVP_MAC_CTX_free(). NULL: out of memory. */
static inline EVP_MAC_CTX *hmac_context(EVP_MAC *algorithm, const void *key, size_t length)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(algorithm);

    if (context && EVP_MAC_init(context, key, length, params))
        return context;
    EVP_MAC_CTX_free(context);
    return NULL;
}

/* Computes the HMAC of head (may be empty) and body. Returns 0, or -1 if out of memory. */
static inline int hmac_sign(EVP_MAC_CTX *context, const char *head, size_t head_length,
                            const void *body, size_t length, unsigned char out[HMAC_BYTES])
{
    size_t written = 0;
    int made = EVP_MAC_init(context, NULL, 0, NULL) &&
               EVP_MAC_update(context, (const unsigned char *)head, head_length) &&
               EVP_MAC_update(context, body, length) &&
               EVP_MAC_final(context, out, &written, HMAC_BYTES) && written == HMAC_BYTES;

    return made ? 0 : -1;
}

#endif
