/*
 * Secrets: generated, sealed under the webhook's id, opened, masked. They are never logged. A plain
 * secret is wiped from memory that this module owns; the host owns the response that shows it once.
 */
#include "modules/webhook/base/webhook.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define SHOWN 4
#define SEALED_MAX (4 * WEBHOOK_SECRET_MAX + 256) /* bytes of a sealed secret */

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

int webhook_secret_open(struct bb_host *host, int64_t webhook, const char *cell, char **secret)
{
    unsigned char sealed[SEALED_MAX], *plain = NULL;
    char purpose[32];
    size_t plain_length;

    *secret = NULL;
    if (!cell || strlen(cell) / 2 > sizeof sealed)
        return SECRET_LOCKED;
    purpose_of(webhook, purpose);
    int64_t length = bb_cell_bytes(cell, sealed, sizeof sealed);
    int failed =
        length < 0 ? -1 : bb_unseal(host, sealed, (size_t)length, purpose, &plain, &plain_length);

    if (failed)
        return failed == -2 ? SECRET_NO_MEMORY : SECRET_LOCKED;
    *secret = (char *)plain;
    return SECRET_OPEN;
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
