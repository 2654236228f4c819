#include "modules/webhook/sender/extras.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
    oauth_free(extras->oauth);
    free(extras->certificate.data);
    if (extras->key.data)
        OPENSSL_cleanse(extras->key.data, extras->key.len);
    free(extras->key.data);
    free(extras);
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

/* `authorized`: the credentials have the header Authorization. */
static int extras_add_headers(struct bb_request *rq, struct extras *extras, int64_t webhook,
                              const char *cell, bool authorized)
{
    json_t *headers, *value;
    const char *name;
    int opened = webhook_secret_json(rq, webhook, WEBHOOK_PART_HEADERS, cell, &headers);

    if (opened != SECRET_OPEN)
        return opened;
    json_object_foreach(headers, name, value)
    {
        if (opened == SECRET_OPEN && !(authorized && !strcasecmp(name, "Authorization")))
            opened = extras_add_header(rq, extras, name, json_string_value(value));
    }
    json_decref(headers);
    return opened;
}

static const char *extras_text(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* Returns the value of the header Authorization, in the request's memory. */
static const char *extras_basic(struct bb_request *rq, const char *user, const char *password)
{
    const char *pair = bb_format(rq, "%s:%s", user, password);
    char *encoded = bb_alloc(rq, (strlen(pair) + 2) / 3 * 4 + 1);

    EVP_EncodeBlock((unsigned char *)encoded, (const unsigned char *)pair, (int)strlen(pair));
    return bb_format(rq, "Basic %s", encoded);
}

/* Returns a text form-encoded, with `before` before it; "" if there is no text. */
static const char *extras_form(struct bb_request *rq, const char *before, const char *text)
{
    char *encoded = text ? curl_easy_escape(NULL, text, 0) : NULL;

    if (encoded)
        bb_defer(rq, curl_free, encoded);
    return encoded ? bb_format(rq, "%s%s", before, encoded) : text ? NULL : "";
}

/* NULL: out of memory. */
static struct oauth *extras_oauth(struct bb_request *rq, const json_t *given)
{
    const char *client = extras_form(rq, "", extras_text(given, "clientId"));
    const char *secret = extras_form(rq, "", extras_text(given, "clientSecret"));
    const char *scope = extras_form(rq, "&scope=", extras_text(given, "scope"));
    const char *audience = extras_form(rq, "&audience=", extras_text(given, "audience"));

    if (!client || !secret || !scope || !audience)
        return NULL;
    return oauth_new(extras_text(given, "tokenUrl"),
                     bb_format(rq, "Authorization: %s", extras_basic(rq, client, secret)),
                     bb_format(rq, "grant_type=client_credentials%s%s", scope, audience));
}

static int extras_add_blob(struct curl_blob *blob, const char *pem)
{
    blob->data = strdup(pem);
    blob->len = strlen(pem);
    blob->flags = CURL_BLOB_COPY;
    return blob->data ? SECRET_OPEN : SECRET_NO_MEMORY;
}

/* Sets *authorized if the requests get the header Authorization. */
static int extras_add_authentication(struct bb_request *rq, struct extras *extras, int64_t webhook,
                                     const char *cell, bool *authorized)
{
    json_t *given;
    int opened = webhook_secret_json(rq, webhook, WEBHOOK_PART_AUTHENTICATION, cell, &given);

    if (opened != SECRET_OPEN)
        return opened;
    const char *type = extras_text(given, "type");

    *authorized = strcmp(type, "mtls") != 0;
    if (!strcmp(type, "basic")) {
        opened = extras_add_header(
            rq, extras, "Authorization",
            extras_basic(rq, extras_text(given, "username"), extras_text(given, "password")));
    } else if (!strcmp(type, "bearer")) {
        opened = extras_add_header(rq, extras, "Authorization",
                                   bb_format(rq, "Bearer %s", extras_text(given, "token")));
    } else if (!strcmp(type, "oauth2")) {
        extras->oauth = extras_oauth(rq, given);
        opened = extras->oauth ? SECRET_OPEN : SECRET_NO_MEMORY;
    } else {
        opened = extras_add_blob(&extras->certificate, extras_text(given, "certificate")) |
                 extras_add_blob(&extras->key, extras_text(given, "key"));
    }
    json_decref(given);
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
    webhook_secret_free(text);
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
    enum { HEADERS, SIGNATURE, KEY, PREVIOUS, AUTHENTICATION, CELLS };
    const char *cells[CELLS];
    bool any = false, authorized = false;

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
    int opened = SECRET_OPEN;

    if (cells[AUTHENTICATION])
        opened = extras_add_authentication(rq, made, webhook, cells[AUTHENTICATION], &authorized);
    if (opened == SECRET_OPEN && cells[HEADERS])
        opened = extras_add_headers(rq, made, webhook, cells[HEADERS], authorized);
    if (opened == SECRET_OPEN)
        opened = extras_add_pairs(rq, made, webhook, cells[SIGNATURE], cells[KEY], cells[PREVIOUS]);
    if (opened == SECRET_OPEN)
        *extras = made;
    else
        extras_release(made);
    return opened;
}
