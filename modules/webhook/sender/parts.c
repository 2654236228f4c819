/* Reads the rows of webhooks, opens their secrets and prepares their keys. */
#include "modules/webhook/sender/internal.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <strings.h>

/* The milliseconds of a time, or of an interval; 0: null. */
#define MS(of) "coalesce(" BB_SQL_MS(of) ", 0)"

// clang-format off
static const struct bb_sql read_hooks = {
    "SELECT n - 1, id, kind IS NOT NULL, active AND admitted, account,"
    " (rate_limit ->> 'limit')::bigint,"
    " CASE rate_limit ->> 'per' WHEN 'minute' THEN 60000 ELSE 1000 END, " MS("failing_since") ","
    " " MS("last_success_at") ", " MS("(disable_policy ->> 'after')::interval") ","
    " " MS("previous_until") ", url, secret, CASE WHEN previous_until > now() THEN previous END,"
    " retry_policy::text, headers, authentication, signature, signing_key,"
    " CASE WHEN previous_until > now() THEN previous_signing_key END"
    " FROM unnest($1::bigint[]) WITH ORDINALITY AS asked(id, n) JOIN webhook_hook USING (id)",
    0,
};
enum { PLACE, ID, POLLED, ACTIVE, ACCOUNT, RATE, RATE_MS, FAILS_SINCE, SUCCESS, DISABLE_AFTER,
       UNTIL, URL, SECRET, PREVIOUS, RETRY, HEADERS, AUTHENTICATION, SIGNATURE, PAIR, OLD_PAIR };
// clang-format on

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

/* A row of webhook_hook that is being read. */
struct parts_row {
    struct bb_request *rq;
    struct parts *parts;
    int64_t webhook;
    bool locked;     /* a sealed text could not be opened */
    bool authorized; /* requests get the header Authorization from `authentication` */
};

/* Returns `made`. If this is NULL because memory ran out, ends the request. */
static void *parts_made(struct bb_request *rq, void *made)
{
    return made ? made : bb_alloc(rq, SIZE_MAX); /* fails, which ends the request */
}

/* Opens a sealed text, which lives as long as the request. NULL: no text, or no key opens it. */
static char *parts_open(struct parts_row *row, const char *part, const char *cell)
{
    char *text = cell ? webhook_secret_open(row->rq, row->webhook, part, cell) : NULL;

    row->locked |= cell && !text;
    if (text)
        bb_defer(row->rq, webhook_secret_free, text);
    return text;
}

/* Opens a sealed JSON object; otherwise like parts_open(). */
static json_t *parts_open_json(struct parts_row *row, const char *part, const char *cell)
{
    const char *text = parts_open(row, part, cell);

    return text ? bb_hold(row->rq, bb_json_read(row->rq, text)) : NULL;
}

static void parts_read_key(struct parts_row *row, EVP_MAC *hmac, size_t which, const char *cell)
{
    const char *secret = parts_open(row, WEBHOOK_PART_SECRET, cell);

    if (secret)
        row->parts->keys[which] = parts_made(row->rq, sign_key_new(hmac, secret));
}

static void parts_read_pair(struct parts_row *row, size_t which, const char *cell)
{
    const char *text = parts_open(row, WEBHOOK_PART_SIGNING_KEY, cell);

    if (text)
        row->parts->pairs[which] = parts_made(row->rq, sign_pair_read(text));
}

static void parts_add_header(struct parts_row *row, const char *name, const char *value)
{
    const char *line = bb_format(row->rq, "%s: %s", name, value);

    row->parts->headers = parts_made(row->rq, curl_slist_append(row->parts->headers, line));
}

static const char *parts_text(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* Returns the value of a Basic Authorization header, in the request's memory. */
static const char *parts_basic(struct bb_request *rq, const char *user, const char *password)
{
    const char *pair = bb_format(rq, "%s:%s", user, password);
    char *encoded = bb_alloc(rq, (strlen(pair) + 2) / 3 * 4 + 1);

    EVP_EncodeBlock((unsigned char *)encoded, (const unsigned char *)pair, (int)strlen(pair));
    return bb_format(rq, "Basic %s", encoded);
}

/* Returns `before` followed by the form-encoded text, or "" if `text` is NULL. */
static const char *parts_form(struct bb_request *rq, const char *before, const char *text)
{
    if (!text)
        return "";
    char *encoded = parts_made(rq, curl_easy_escape(NULL, text, 0));

    bb_defer(rq, curl_free, encoded);
    return bb_format(rq, "%s%s", before, encoded);
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
        const char *basic = parts_basic(rq, parts_form(rq, "", parts_text(given, "clientId")),
                                        parts_form(rq, "", parts_text(given, "clientSecret")));
        const char *form = bb_format(rq, "grant_type=client_credentials%s%s",
                                     parts_form(rq, "&scope=", parts_text(given, "scope")),
                                     parts_form(rq, "&audience=", parts_text(given, "audience")));

        parts->oauth = parts_made(rq, oauth_new(parts_text(given, "tokenUrl"),
                                                bb_format(rq, "Authorization: %s", basic), form));
    } else {
        const char *certificate = parts_text(given, "certificate"), *key = parts_text(given, "key");

        parts->certificate = (struct curl_blob){parts_made(rq, strdup(certificate)),
                                                strlen(certificate), CURL_BLOB_COPY};
        parts->key = (struct curl_blob){parts_made(rq, strdup(key)), strlen(key), CURL_BLOB_COPY};
    }
}

/* Reads a row into a new *parts, which the caller owns, even if the request ends meanwhile. */
static void parts_read_row(struct bb_request *rq, EVP_MAC *hmac, const struct bb_rows *rows,
                           size_t at, struct parts **parts)
{
    struct parts *read = *parts = parts_made(rq, calloc(1, sizeof(*read)));
    struct parts_row row = {.rq = rq, .parts = read, .webhook = bb_cell_int(rq, rows, at, ID)};
    const char *name, *signature = bb_cell(rq, rows, at, SIGNATURE);
    const char *retry = bb_cell(rq, rows, at, RETRY);
    json_t *value;

    read->holders = 1;
    read->polled = bb_cell_int(rq, rows, at, POLLED);
    if (read->polled)
        return;
    read->active = bb_cell_int(rq, rows, at, ACTIVE);
    read->account = bb_cell_int(rq, rows, at, ACCOUNT);
    read->rate = bb_cell_int(rq, rows, at, RATE);
    read->rate_ms = bb_cell_int(rq, rows, at, RATE_MS);
    read->fails_since_ms = bb_cell_int(rq, rows, at, FAILS_SINCE);
    read->success_ms = bb_cell_int(rq, rows, at, SUCCESS);
    read->disable_after_ms = bb_cell_int(rq, rows, at, DISABLE_AFTER);
    read->previous_until = bb_cell_int(rq, rows, at, UNTIL);
    read->url = parts_made(rq, strdup(bb_cell(rq, rows, at, URL)));
    parts_read_key(&row, hmac, 0, bb_cell(rq, rows, at, SECRET));
    if (retry) /* "default" has no delays */
        (void)retry_time_policy(bb_hold(rq, bb_json_read(rq, retry)), &read->retry);
    parts_read_authentication(&row, bb_cell(rq, rows, at, AUTHENTICATION));
    json_t *headers = parts_open_json(&row, WEBHOOK_PART_HEADERS, bb_cell(rq, rows, at, HEADERS));

    json_object_foreach (headers, name, value) {
        if (!row.authorized || strcasecmp(name, "Authorization") != 0)
            parts_add_header(&row, name, json_string_value(value));
    }
    /* A webhook must not send without the signatures that it promises. */
    if (signature && strcmp(signature, "hmac") != 0) {
        read->no_hmac = !strcmp(signature, "ed25519");
        parts_read_pair(&row, 0, bb_cell(rq, rows, at, PAIR));
        parts_read_pair(&row, 1, bb_cell(rq, rows, at, OLD_PAIR));
    }
    read->unreadable = row.locked;
    if (row.locked) {
        bb_log(rq, BB_ERROR, "webhook %lld cannot send: its secrets cannot be opened",
               (long long)row.webhook);
        return;
    }
    parts_read_key(&row, hmac, 1, bb_cell(rq, rows, at, PREVIOUS));
    if (row.locked)
        bb_log(rq, BB_ERROR,
               "webhook %lld does not sign with its previous secret, which cannot be opened",
               (long long)row.webhook);
}

void parts_read(struct bb_request *rq, struct db_task *db_task)
{
    struct reading_rows *reading = (struct reading_rows *)db_task;
    const struct bb_rows *rows =
        bb_query(rq, &read_hooks, BB_ARGS(bb_ints(reading->ids, reading->count)));

    for (size_t row = 0; rows && row < bb_count(rq, rows); row++)
        parts_read_row(rq, db_task->sender->hmac, rows, row,
                       &reading->parts[bb_cell_int(rq, rows, row, PLACE)]);
    db_task->ok = rows != NULL;
}
