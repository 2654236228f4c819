/* The parts of a webhook's row that its requests need: secrets are opened and keys are prepared. */
#include "modules/webhook/sender/internal.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <strings.h>

struct parts *parts_hold(struct parts *parts)
{
    parts->holders++;
    return parts;
}

void parts_release(struct parts *parts)
{
    if (!parts || --parts->holders)
        return;
    free(parts->url);
    for (size_t i = 0; i < SIGN_KEYS_MAX; i++) {
        sign_key_free(parts->keys[i]);
        EVP_PKEY_free(parts->pairs[i]);
    }
    for (struct curl_slist *header = parts->headers; header; header = header->next)
        OPENSSL_cleanse(header->data, strlen(header->data));
    curl_slist_free_all(parts->headers);
    oauth_free(parts->oauth);
    free(parts->certificate.data);
    webhook_secret_free(parts->key.data);
    free(parts);
}

/* A row that is read. `opened` is SECRET_OPEN, or the worst result for the row up to now. */
struct parts_row {
    struct bb_request *rq;
    struct parts *parts;
    int64_t webhook;
    int opened;
    bool authorized; /* requests get the header Authorization from `authentication` */
};

static void parts_note(struct parts_row *row, int opened)
{
    if (opened > row->opened)
        row->opened = opened;
}

static void *parts_made(struct parts_row *row, void *made)
{
    parts_note(row, made ? SECRET_OPEN : SECRET_NO_MEMORY);
    return made;
}

/* Opens a sealed text; NULL: there is none, or it cannot be opened. */
static char *parts_open(struct parts_row *row, const char *part, const char *cell)
{
    char *text = NULL;

    if (cell)
        parts_note(row, webhook_secret_open(row->rq->host, row->webhook, part, cell, &text));
    return text;
}

/* Opens a sealed object, which lives as long as the request. */
static json_t *parts_open_json(struct parts_row *row, const char *part, const char *cell)
{
    json_t *json = NULL;

    if (cell)
        parts_note(row, webhook_secret_json(row->rq, row->webhook, part, cell, &json));
    return bb_json_hold(row->rq, json);
}

static void parts_read_key(struct parts_row *row, EVP_MAC *hmac, size_t which, const char *cell)
{
    char *secret = parts_open(row, WEBHOOK_PART_SECRET, cell);

    if (secret)
        row->parts->keys[which] = parts_made(row, sign_key_new(hmac, secret));
    webhook_secret_free(secret);
}

static void parts_read_pair(struct parts_row *row, size_t which, const char *cell)
{
    char *text = parts_open(row, WEBHOOK_PART_SIGNING_KEY, cell);

    if (text)
        row->parts->pairs[which] = parts_made(row, sign_pair_read(text));
    webhook_secret_free(text);
}

static void parts_read_retry(struct parts_row *row, const char *cell)
{
    const json_t *policy = cell ? bb_json_hold(row->rq, bb_json_read(row->rq, cell)) : NULL;

    if (policy)
        (void)retry_time_policy(policy, &row->parts->retry); /* "default" has no delays */
    else if (cell)
        parts_note(row, SECRET_NO_MEMORY);
}

static void parts_add_header(struct parts_row *row, const char *name, const char *value)
{
    struct curl_slist *longer = parts_made(
        row, curl_slist_append(row->parts->headers, bb_format(row->rq, "%s: %s", name, value)));

    if (longer)
        row->parts->headers = longer;
}

static const char *parts_text(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* Returns the value of the header Authorization, in the request's memory. */
static const char *parts_basic(struct bb_request *rq, const char *user, const char *password)
{
    const char *pair = bb_format(rq, "%s:%s", user, password);
    char *encoded = bb_alloc(rq, (strlen(pair) + 2) / 3 * 4 + 1);

    EVP_EncodeBlock((unsigned char *)encoded, (const unsigned char *)pair, (int)strlen(pair));
    return bb_format(rq, "Basic %s", encoded);
}

/* Returns a text form-encoded, with `before` before it; "" if there is no text, or no memory. */
static const char *parts_form(struct parts_row *row, const char *before, const char *text)
{
    char *encoded = text ? parts_made(row, curl_easy_escape(NULL, text, 0)) : NULL;

    if (!encoded)
        return "";
    bb_defer(row->rq, curl_free, encoded);
    return bb_format(row->rq, "%s%s", before, encoded);
}

static void parts_read_authentication(struct parts_row *row, const char *cell)
{
    struct bb_request *rq = row->rq;
    struct parts *parts = row->parts;
    const json_t *given = parts_open_json(row, WEBHOOK_PART_AUTHENTICATION, cell);
    const char *type = parts_text(given, "type");

    if (!type)
        return;
    row->authorized = strcmp(type, "mtls") != 0;
    if (!strcmp(type, "basic")) {
        parts_add_header(
            row, "Authorization",
            parts_basic(rq, parts_text(given, "username"), parts_text(given, "password")));
    } else if (!strcmp(type, "bearer")) {
        parts_add_header(row, "Authorization",
                         bb_format(rq, "Bearer %s", parts_text(given, "token")));
    } else if (!strcmp(type, "oauth2")) {
        const char *basic = parts_basic(rq, parts_form(row, "", parts_text(given, "clientId")),
                                        parts_form(row, "", parts_text(given, "clientSecret")));
        const char *form = bb_format(rq, "grant_type=client_credentials%s%s",
                                     parts_form(row, "&scope=", parts_text(given, "scope")),
                                     parts_form(row, "&audience=", parts_text(given, "audience")));

        parts->oauth = parts_made(row, oauth_new(parts_text(given, "tokenUrl"),
                                                 bb_format(rq, "Authorization: %s", basic), form));
    } else {
        const char *certificate = parts_text(given, "certificate"), *key = parts_text(given, "key");

        parts->certificate = (struct curl_blob){parts_made(row, strdup(certificate)),
                                                strlen(certificate), CURL_BLOB_COPY};
        parts->key = (struct curl_blob){parts_made(row, strdup(key)), strlen(key), CURL_BLOB_COPY};
    }
}

int parts_read(struct bb_request *rq, EVP_MAC *hmac, const struct bb_rows *rows, size_t at,
               size_t first, struct parts **parts)
{
    enum {
        URL,
        SECRET,
        PREVIOUS,
        PREVIOUS_UNTIL,
        RETRY,
        HEADERS,
        SIGNATURE,
        SIGNING_KEY,
        PREVIOUS_SIGNING_KEY,
        AUTHENTICATION,
        CELLS
    };
    struct parts_row row = {.rq = rq, .webhook = bb_cell_int(rq, rows, at, 0)};
    const char *cells[CELLS], *name;
    json_t *value;

    for (size_t i = 0; i < CELLS; i++)
        cells[i] = bb_cell(rq, rows, at, first + i);
    row.parts = *parts = calloc(1, sizeof(**parts));
    if (!row.parts)
        return SECRET_NO_MEMORY;
    row.parts->holders = 1;
    row.parts->url = parts_made(&row, strdup(cells[URL]));
    row.parts->previous_until = bb_cell_int(rq, rows, at, first + PREVIOUS_UNTIL);
    parts_read_key(&row, hmac, 0, cells[SECRET]);
    parts_read_retry(&row, cells[RETRY]);
    parts_read_authentication(&row, cells[AUTHENTICATION]);
    json_t *headers = parts_open_json(&row, WEBHOOK_PART_HEADERS, cells[HEADERS]);

    json_object_foreach(headers, name, value)
    {
        if (!row.authorized || strcasecmp(name, "Authorization") != 0)
            parts_add_header(&row, name, json_string_value(value));
    }
    /* A webhook must not send without the signatures that it promises. */
    if (cells[SIGNATURE] && strcmp(cells[SIGNATURE], "hmac") != 0) {
        row.parts->no_hmac = !strcmp(cells[SIGNATURE], "ed25519");
        parts_read_pair(&row, 0, cells[SIGNING_KEY]);
        parts_read_pair(&row, 1, cells[PREVIOUS_SIGNING_KEY]);
    }
    if (row.opened == SECRET_LOCKED)
        bb_log(rq, BB_ERROR, "webhook %lld cannot send: its secrets cannot be opened",
               (long long)row.webhook);
    if (row.opened != SECRET_OPEN)
        return row.opened;
    parts_read_key(&row, hmac, 1, cells[PREVIOUS]);
    if (row.opened == SECRET_LOCKED)
        bb_log(rq, BB_ERROR,
               "webhook %lld does not sign with its previous secret, which cannot be opened",
               (long long)row.webhook);
    return row.opened == SECRET_LOCKED ? SECRET_OPEN : row.opened;
}
