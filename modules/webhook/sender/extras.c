#include "modules/webhook/sender/extras.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "modules/webhook/base/webhook.h"

struct extras *extras_hold(struct extras *extras)
{
    if (extras)
        extras->holders++;
    return extras;
}

void extras_release(struct extras *extras)
{
    if (!extras || --extras->holders)
        return;
    for (struct curl_slist *header = extras->headers; header; header = header->next)
        OPENSSL_cleanse(header->data, strlen(header->data));
    curl_slist_free_all(extras->headers);
    for (size_t i = 0; i < SIGN_KEYS_MAX; i++)
        EVP_PKEY_free(extras->pairs[i]);
    free(extras);
}

/* Opens a sealed JSON object. The result of SECRET_OPEN is owned by the caller. */
static int extras_open(struct bb_request *rq, int64_t webhook, const char *part, const char *cell,
                       json_t **json)
{
    char *text;
    int opened = webhook_secret_open(rq->host, webhook, part, cell, &text);

    if (opened != SECRET_OPEN)
        return opened;
    *json = bb_json_read(rq, text);
    OPENSSL_cleanse(text, strlen(text));
    free(text);
    return *json ? SECRET_OPEN : SECRET_NO_MEMORY;
}

static int extras_add_header(struct bb_request *rq, struct extras *extras, const char *name,
                             const char *value)
{
    struct curl_slist *longer =
        curl_slist_append(extras->headers, bb_format(rq, "%s: %s", name, value));

    if (!longer)
        return SECRET_NO_MEMORY;
    extras->headers = longer;
    return SECRET_OPEN;
}

static int extras_add_headers(struct bb_request *rq, struct extras *extras, int64_t webhook,
                              const char *cell)
{
    json_t *headers, *value;
    const char *name;
    int opened = extras_open(rq, webhook, WEBHOOK_PART_HEADERS, cell, &headers);

    if (opened != SECRET_OPEN)
        return opened;
    json_object_foreach(headers, name, value)
    {
        if (opened == SECRET_OPEN)
            opened = extras_add_header(rq, extras, name, json_string_value(value));
    }
    json_decref(headers);
    return opened;
}

static int extras_add_pair(struct bb_request *rq, struct extras *extras, size_t which,
                           int64_t webhook, const char *cell)
{
    char *text;
    int opened = webhook_secret_open(rq->host, webhook, WEBHOOK_PART_SIGNING_KEY, cell, &text);

    if (opened != SECRET_OPEN)
        return opened;
    extras->pairs[which] = sign_pair_read(text);
    OPENSSL_cleanse(text, strlen(text));
    free(text);
    return extras->pairs[which] ? SECRET_OPEN : SECRET_NO_MEMORY;
}

/* A webhook must not send without the signatures that it promises. */
static int extras_add_pairs(struct bb_request *rq, struct extras *extras, int64_t webhook,
                            const char *signature, const char *cell, const char *previous)
{
    if (!signature || !strcmp(signature, "hmac"))
        return SECRET_OPEN;
    extras->no_hmac = !strcmp(signature, "ed25519");
    int opened = extras_add_pair(rq, extras, 0, webhook, cell);

    if (opened == SECRET_OPEN && previous)
        opened = extras_add_pair(rq, extras, 1, webhook, previous);
    return opened;
}

int extras_read(struct bb_request *rq, int64_t webhook, const struct bb_rows *rows, size_t row,
                size_t first, struct extras **extras)
{
    enum { HEADERS, SIGNATURE, KEY, PREVIOUS, CELLS };
    const char *cells[CELLS];
    bool any = false;

    *extras = NULL;
    for (size_t i = 0; i < CELLS; i++) {
        cells[i] = bb_cell(rq, rows, row, first + i);
        any = any || cells[i];
    }
    if (!any)
        return SECRET_OPEN;
    struct extras *made = calloc(1, sizeof(*made));

    if (!made)
        return SECRET_NO_MEMORY;
    made->holders = 1;
    int opened =
        cells[HEADERS] ? extras_add_headers(rq, made, webhook, cells[HEADERS]) : SECRET_OPEN;

    if (opened == SECRET_OPEN)
        opened = extras_add_pairs(rq, made, webhook, cells[SIGNATURE], cells[KEY], cells[PREVIOUS]);
    if (opened == SECRET_OPEN)
        *extras = made;
    else
        extras_release(made);
    return opened;
}
