#include "modules/webhook/http/sign.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/common/hmac.h"

#define PREFIX "whsec_"
enum { HEAD = 128, RAW_KEY = 32, RAW_SIGNATURE = 64, KEY_PREFIX = 5 };

struct sign_key {
    EVP_MAC_CTX *body;
    EVP_MAC_CTX *standard;
};

static bool sign_is_encoded(const char *secret)
{
    return !strncmp(secret, PREFIX, strlen(PREFIX));
}

/* Returns the number of base64 digits after "whsec_", or 0 if the text is not base64. */
static size_t sign_digits(const char *secret)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *text = secret + strlen(PREFIX);
    size_t digits = sign_is_encoded(secret) ? strspn(text, alphabet) : 0;
    size_t padding = digits ? strspn(text + digits, "=") : 0;

    if (!digits || text[digits + padding] || digits % 4 == 1)
        return 0;
    return !padding || (padding <= 2 && (digits + padding) % 4 == 0) ? digits : 0;
}

bool sign_secret_good(const char *secret)
{
    return !sign_is_encoded(secret) || sign_digits(secret) > 0;
}

/* Returns a context whose key is the base64 after "whsec_", or else the secret's text. */
static EVP_MAC_CTX *sign_standard_key(EVP_MAC *algorithm, const char *secret)
{
    size_t digits = sign_digits(secret), padded = (digits + 3) / 4 * 4;
    unsigned char *text = malloc(2 * padded + 1);

    if (!text)
        return NULL;
    unsigned char *bytes = text + padded;

    memset(text, '=', padded);
    memcpy(text, secret + strlen(PREFIX), digits);
    EVP_DecodeBlock(bytes, text, (int)padded);
    EVP_MAC_CTX *context = digits ? hmac_context(algorithm, bytes, digits * 3 / 4)
                                  : hmac_context(algorithm, secret, strlen(secret));

    OPENSSL_cleanse(text, 2 * padded);
    free(text);
    return context;
}

struct sign_key *sign_key_new(EVP_MAC *algorithm, const char *secret)
{
    struct sign_key *key = calloc(1, sizeof(*key));

    if (!key)
        return NULL;
    key->body = hmac_context(algorithm, secret, strlen(secret));
    key->standard = sign_standard_key(algorithm, secret);
    if (key->body && key->standard)
        return key;
    sign_key_free(key);
    return NULL;
}

void sign_key_free(struct sign_key *key)
{
    if (!key)
        return;
    EVP_MAC_CTX_free(key->body);
    EVP_MAC_CTX_free(key->standard);
    free(key);
}

int sign_body(const struct sign_key *key, const void *body, size_t length, char out[SIGN_HEX])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char made[HMAC_BYTES];

    if (hmac_sign(key->body, "", 0, body, length, made))
        return -1;
    for (size_t i = 0; i < HMAC_BYTES; i++) {
        out[2 * i] = digits[made[i] >> 4];
        out[2 * i + 1] = digits[made[i] & 15];
    }
    out[2 * HMAC_BYTES] = '\0';
    return 0;
}

/* Writes the beginning of the text that is signed. Returns its length, or -1 if it is too long. */
static int sign_head(char head[HEAD], const char *id, int64_t timestamp)
{
    int length = snprintf(head, HEAD, "%s.%" PRId64 ".", id, timestamp);

    return length < HEAD ? length : -1;
}

/* Appends a signature to a list, and returns the new length. */
static size_t sign_append(char *out, size_t at, const char *version, const unsigned char *signature,
                          size_t length)
{
    char *to = stpcpy(stpcpy(out + at, at ? " " : ""), version);

    return (size_t)(to - out) +
           (size_t)EVP_EncodeBlock((unsigned char *)to, signature, (int)length);
}

int sign_standard(const struct sign_key *const *keys, size_t count, const char *id,
                  int64_t timestamp, const void *body, size_t length, char out[SIGN_STANDARD])
{
    char head[HEAD];
    int head_length = sign_head(head, id, timestamp);
    size_t at = 0;

    if (head_length < 0 || count > SIGN_KEYS_MAX)
        return -1;
    for (size_t i = 0; i < count; i++) {
        unsigned char made[HMAC_BYTES];

        if (hmac_sign(keys[i]->standard, head, (size_t)head_length, body, length, made))
            return -1;
        at = sign_append(out, at, "v1,", made, HMAC_BYTES);
    }
    return 0;
}

/* ---- Ed25519 ---- */

int sign_pair_make(char private_key[SIGN_PAIR], char public_key[SIGN_PAIR])
{
    EVP_PKEY *pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    unsigned char bytes[2][RAW_KEY];
    size_t lengths[] = {RAW_KEY, RAW_KEY};
    bool made = pair && EVP_PKEY_get_raw_private_key(pair, bytes[0], &lengths[0]) == 1 &&
                EVP_PKEY_get_raw_public_key(pair, bytes[1], &lengths[1]) == 1;

    EVP_PKEY_free(pair);
    if (!made)
        return -1;
    memcpy(private_key, "whsk_", KEY_PREFIX);
    memcpy(public_key, "whpk_", KEY_PREFIX);
    EVP_EncodeBlock((unsigned char *)private_key + KEY_PREFIX, bytes[0], RAW_KEY);
    EVP_EncodeBlock((unsigned char *)public_key + KEY_PREFIX, bytes[1], RAW_KEY);
    OPENSSL_cleanse(bytes[0], RAW_KEY);
    return 0;
}

EVP_PKEY *sign_pair_read(const char *private_key)
{
    unsigned char bytes[RAW_KEY + 1]; /* EVP_DecodeBlock() also decodes the padding */
    EVP_PKEY *key = NULL;

    if (strlen(private_key) == SIGN_PAIR - 1 &&
        EVP_DecodeBlock(bytes, (const unsigned char *)private_key + KEY_PREFIX,
                        SIGN_PAIR - 1 - KEY_PREFIX) == RAW_KEY + 1)
        key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, bytes, RAW_KEY);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return key;
}

/* Ed25519 reads its input twice, so head and body are copied into one buffer. */
int sign_ed25519(EVP_PKEY *const *keys, size_t count, const char *id, int64_t timestamp,
                 const void *body, size_t length, char out[SIGN_ED25519])
{
    char head[HEAD];
    int head_length = sign_head(head, id, timestamp);
    unsigned char *text = head_length < 0 ? NULL : malloc((size_t)head_length + length);
    size_t at = 0;
    int failed = text ? 0 : -1;

    if (text) {
        memcpy(text, head, (size_t)head_length);
        memcpy(text + head_length, body, length);
    }
    for (size_t i = 0; i < count && i < SIGN_KEYS_MAX && !failed; i++) {
        unsigned char signature[RAW_SIGNATURE];
        size_t written = RAW_SIGNATURE;
        EVP_MD_CTX *context = EVP_MD_CTX_new();

        if (context && EVP_DigestSignInit(context, NULL, NULL, NULL, keys[i]) == 1 &&
            EVP_DigestSign(context, signature, &written, text, (size_t)head_length + length) == 1)
            at = sign_append(out, at, "v1a,", signature, written);
        else
            failed = -1;
        EVP_MD_CTX_free(context);
    }
    free(text);
    return failed;
}
