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

int extras_read(struct bb_request *rq, int64_t webhook, const char *headers, struct extras **extras)
{
    *extras = NULL;
    if (!headers)
        return SECRET_OPEN;
    struct extras *made = calloc(1, sizeof(*made));

    if (!made)
        return SECRET_NO_MEMORY;
    made->holders = 1;
    int opened = extras_add_headers(rq, made, webhook, headers);

    if (opened == SECRET_OPEN)
        *extras = made;
    else
        extras_release(made);
    return opened;
}
