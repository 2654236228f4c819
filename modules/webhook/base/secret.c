/*
 * Secrets: made, sealed under the webhook's id, opened, masked. Never in a log. A secret in the
 * clear is wiped where this module holds it itself; the answer that shows it once is the host's.
 */
#include "modules/webhook/base/webhook.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define NEW_BYTES 32
#define SHOWN 4

static void purpose_of(int64_t webhook, char purpose[32])
{
    snprintf(purpose, 32, "webhook:%lld", (long long)webhook);
}

int webhook_secret_seal(struct bb_host *host, int64_t webhook, const char *secret,
                        unsigned char **sealed, size_t *length)
{
    char purpose[32];

    purpose_of(webhook, purpose);
    return bb_seal(host, secret, strlen(secret), purpose, sealed, length);
}

static int nibble(char digit)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = digit ? strchr(digits, digit) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* The bytes of "\x…", given; NULL: no memory, or not that form. */
static unsigned char *bytes_of(const char *cell, size_t *length)
{
    size_t digits = cell && cell[0] == '\\' && cell[1] == 'x' ? strlen(cell + 2) : 0;
    unsigned char *bytes = digits > 0 ? malloc(digits / 2 + 1) : NULL;

    *length = digits / 2;
    for (size_t i = 0; bytes && i < *length; i++) {
        int high = nibble(cell[2 + 2 * i]), low = nibble(cell[3 + 2 * i]);

        if (high < 0 || low < 0) {
            free(bytes);
            return NULL;
        }
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    return bytes;
}

char *webhook_secret_open(struct bb_host *host, int64_t webhook, const char *cell)
{
    size_t length, plain_length;
    unsigned char *sealed = bytes_of(cell, &length);
    unsigned char *plain = NULL;
    char purpose[32];

    if (!sealed)
        return NULL;
    purpose_of(webhook, purpose);
    int failed = bb_unseal(host, sealed, length, purpose, &plain, &plain_length);

    free(sealed);
    return failed ? NULL : (char *)plain;
}

char *webhook_secret_new(struct bb_request *rq)
{
    unsigned char bytes[NEW_BYTES];
    char *secret = bb_alloc(rq, 2 * sizeof(bytes) + 1);

    if (bb_random(rq->host, bytes, sizeof(bytes)))
        return NULL;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(secret + 2 * i, 3, "%02x", bytes[i]);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return secret;
}

static bool begins_character(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

size_t webhook_characters(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += begins_character(*text);
    return count;
}

char *webhook_secret_mask(struct bb_request *rq, const char *secret)
{
    size_t hidden = webhook_characters(secret);

    if (hidden <= SHOWN)
        return bb_format(rq, "****");
    for (hidden -= SHOWN; hidden > 0 || !begins_character(*secret); secret++)
        hidden -= begins_character(*secret);
    return bb_format(rq, "****%s", secret);
}
