#include "core/lib/aead.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/text.h"

#define VERSION 1
#define KEY_SIZE 32
#define ID_SIZE 4
#define NONCE_SIZE 12
#define TAG_SIZE 16
#define HEAD_SIZE (1 + ID_SIZE + NONCE_SIZE)

struct key {
    unsigned char bytes[KEY_SIZE], id[ID_SIZE];
};

struct aead_keys {
    EVP_CIPHER *cipher; /* fetched once, because fetching takes locks */
    size_t count;
    struct key keys[AEAD_KEYS_MAX];
};

static void aead_forget(void *arg)
{
    struct aead_keys *keys = arg;

    EVP_CIPHER_free(keys->cipher);
    OPENSSL_cleanse(keys, sizeof(*keys));
}

static struct aead_keys *aead_refuse(char *why, size_t size, const char *reason)
{
    ERR_clear_error();
    snprintf(why, size, "%s", reason);
    return NULL;
}

struct aead_keys *aead_keys_new(struct arena *arena, const char *const *hex, size_t count,
                                char *why, size_t why_size)
{
    struct aead_keys *keys = arena_alloc(arena, sizeof(*keys));

    if (!keys || arena_defer(arena, aead_forget, keys))
        return aead_refuse(why, why_size, "out of memory");
    if (count > AEAD_KEYS_MAX)
        return aead_refuse(why, why_size, "too many keys");
    keys->cipher = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
    if (!keys->cipher)
        return aead_refuse(why, why_size, "AES-256-GCM is not available");
    for (; keys->count < count; keys->count++) {
        struct key *key = &keys->keys[keys->count];
        unsigned char digest[SHA256_DIGEST_LENGTH];
        bool read = !text_hex_decode(hex[keys->count], key->bytes, KEY_SIZE);

        if (!read || EVP_Digest(key->bytes, KEY_SIZE, digest, NULL, EVP_sha256(), NULL) != 1) {
            ERR_clear_error();
            snprintf(why, why_size, "key %zu %s", keys->count + 1,
                     read ? "cannot be hashed" : "is not 64 hexadecimal digits");
            return NULL;
        }
        memcpy(key->id, digest, ID_SIZE);
    }
    return keys;
}

/*
 * Encrypts `length` bytes and writes the tag. With `sealing` 0, decrypts and checks the tag.
 * Returns 0; -1 if the tag does not match; AEAD_NO_MEMORY if the cipher cannot be initialized.
 */
static int aead_run(const struct aead_keys *keys, const struct key *key, int sealing,
                    const unsigned char *nonce, const char *purpose, const void *in, size_t length,
                    unsigned char *out, unsigned char *tag)
{
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    size_t named = strlen(purpose);
    int status = AEAD_NO_MEMORY, wrote, rest;

    if (context && named <= INT_MAX &&
        EVP_CipherInit_ex2(context, keys->cipher, key->bytes, nonce, sealing, NULL) == 1 &&
        EVP_CipherUpdate(context, NULL, &wrote, (const unsigned char *)purpose, (int)named) == 1) {
        bool done =
            EVP_CipherUpdate(context, out, &wrote, length ? in : "", (int)length) == 1 &&
            (sealing || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, TAG_SIZE, tag) == 1) &&
            EVP_CipherFinal_ex(context, out + wrote, &rest) == 1 &&
            (!sealing || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, TAG_SIZE, tag) == 1);

        status = done ? 0 : -1;
    }
    EVP_CIPHER_CTX_free(context);
    if (status)
        ERR_clear_error();
    return status;
}

int aead_close(const struct aead_keys *keys, const void *plain, size_t length, const char *purpose,
               unsigned char **out, size_t *out_length)
{
    if (!keys->count || length > INT_MAX - AEAD_OVERHEAD)
        return -1;
    unsigned char *sealed = malloc(length + AEAD_OVERHEAD);

    if (!sealed)
        return -1;
    unsigned char *nonce = sealed + 1 + ID_SIZE, *body = sealed + HEAD_SIZE;

    sealed[0] = VERSION;
    memcpy(sealed + 1, keys->keys[0].id, ID_SIZE);
    if (RAND_bytes(nonce, NONCE_SIZE) != 1 ||
        aead_run(keys, &keys->keys[0], 1, nonce, purpose, plain, length, body, body + length)) {
        ERR_clear_error();
        free(sealed);
        return -1;
    }
    *out = sealed;
    *out_length = length + AEAD_OVERHEAD;
    return 0;
}

int aead_open(const struct aead_keys *keys, const void *sealed, size_t length, const char *purpose,
              unsigned char **out, size_t *out_length)
{
    const unsigned char *bytes = sealed;
    unsigned char tag[TAG_SIZE];
    int status = -1;

    if (length < AEAD_OVERHEAD || length > INT_MAX || bytes[0] != VERSION)
        return -1;
    size_t plain_length = length - AEAD_OVERHEAD;
    unsigned char *plain = malloc(plain_length + 1);

    if (!plain)
        return AEAD_NO_MEMORY;
    memcpy(tag, bytes + length - TAG_SIZE, TAG_SIZE);
    for (size_t i = 0; status == -1 && i < keys->count; i++) {
        if (memcmp(keys->keys[i].id, bytes + 1, ID_SIZE) == 0)
            status = aead_run(keys, &keys->keys[i], 0, bytes + 1 + ID_SIZE, purpose,
                              bytes + HEAD_SIZE, plain_length, plain, tag);
    }
    if (status) {
        OPENSSL_cleanse(plain, plain_length + 1);
        free(plain);
        return status;
    }
    plain[plain_length] = '\0';
    *out = plain;
    *out_length = plain_length;
    return 0;
}
