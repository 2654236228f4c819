/*
 * The members of a webhook that its owner sets: each has a row in a table. Members with their own
 * routes or jobs have their functions in other files; `signature` has its functions here.
 */
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "modules/webhook/api/api.h"
#include "modules/webhook/http/sign.h"

/* ---- headers that a webhook's owner adds to each request ---- */

enum { HEADERS_MAX = 20, HEADERS_BYTES = 8192, HEADER_NAME_MAX = 128, SEPARATORS = 4 };

/* Headers that the sender or libcurl sets, and those that belong to a connection. */
static bool option_header_is_reserved(const char *name)
{
    static const char *const names[] = {"Host",       "Connection", "Keep-Alive", "TE",
                                        "Trailer",    "Upgrade",    "Expect",     "HTTP2-Settings",
                                        "User-Agent", "traceparent"};
    static const char *const beginnings[] = {"Content-", "Transfer-", "Proxy-", "webhook-",
                                             "X-Webhook-"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcasecmp(name, names[i]))
            return true;
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
        if (!strncasecmp(name, beginnings[i], strlen(beginnings[i])))
            return true;
    return false;
}

static bool option_header_is_name(const char *name)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t length = strlen(name);

    return length && length <= HEADER_NAME_MAX && strspn(name, token) == length;
}

/* Returns what is wrong with a value, or NULL. */
static const char *option_header_problem(const json_t *value)
{
    const char *text = json_string_value(value);

    if (!text)
        return "must be a string";
    if (!text[strspn(text, " \t")])
        return "must not be empty";
    if (!strncmp(text, "****", 4))
        return "must be the value itself, not its masked form";
    for (size_t i = 0; i < json_string_length(value); i++)
        if ((text[i] < ' ' && text[i] != '\t') || text[i] > '~')
            return "must have printable ASCII characters only";
    return NULL;
}

static void option_headers_take(struct bb_request *rq, int64_t webhook, json_t *value,
                                json_t *columns)
{
    const char *name;
    json_t *text;
    size_t bytes = 0, count = json_object_size(value);

    if (count > HEADERS_MAX)
        bb_end(rq, bb_invalid(rq, "headers", "must have at most %d members", HEADERS_MAX));
    json_object_foreach(value, name, text)
    {
        if (!option_header_is_name(name))
            bb_end(rq, bb_invalid(rq, "headers",
                                  "must have names of headers (RFC 9110), up to %d bytes",
                                  HEADER_NAME_MAX));
        const char *problem =
            option_header_is_reserved(name) ? "is reserved" : option_header_problem(text);

        if (problem)
            bb_end(rq, bb_invalid(rq, bb_format(rq, "headers.%s", name), "%s", problem));
        bytes += strlen(name) + json_string_length(text) + SEPARATORS;
    }
    if (bytes > HEADERS_BYTES)
        bb_end(rq, bb_invalid(rq, "headers", "must have at most %d bytes", HEADERS_BYTES));
    option_seal(rq, webhook, WEBHOOK_PART_HEADERS, count ? bb_json(rq, value, NULL) : NULL,
                columns);
}

json_t *option_headers_show(struct bb_request *rq, int64_t webhook, const char *cell)
{
    json_t *headers = option_open(rq, webhook, WEBHOOK_PART_HEADERS, cell), *value;
    const char *name;

    json_object_foreach(headers, name, value)
    {
        json_t *masked = json_string(webhook_masked(rq, json_string_value(value)));

        if (json_object_set_new(headers, name, masked)) {
            json_decref(headers);
            return NULL;
        }
    }
    return headers;
}

/* ---- retryPolicy and disablePolicy ---- */

enum { DAY_S = 86400, SUM_MAX_S = 7 * DAY_S, AFTER_MIN_S = 3600, AFTER_MAX_S = 30 * DAY_S };

static const struct bb_field delay[] = {
    {.name = "item", .type = BB_INT, .min = 1, .max = DAY_S},
};
static const struct bb_field delays[] = {
    {.name = "delays",
     .type = BB_LIST,
     .flags = BB_REQUIRED,
     .min = 1,
     .max = RETRY_DELAYS_MAX,
     .fields = BB_TABLE(delay)},
};
static const struct bb_field retry[] = {
    {.name = "retryPolicy", .type = BB_OBJECT, .fields = BB_TABLE(delays)},
};

static void option_retry_take(struct bb_request *rq, int64_t webhook, json_t *value,
                              json_t *columns)
{
    static const struct bb_table table = BB_TABLE(retry);
    const char *name = json_string_value(value);
    json_int_t sum = 0;

    (void)webhook;
    if (json_is_object(value)) {
        json_t *object = bb_json_hold(rq, json_pack("{s:O}", "retryPolicy", value));
        json_t *errors = json_array();
        json_t *checked = bb_json_hold(rq, object ? bb_check(rq, &table, object, errors) : NULL);

        if (json_array_size(errors))
            bb_end(rq, bb_refuse(rq, errors));
        json_decref(errors);
        value = json_object_get(checked, "retryPolicy");
    } else if (!json_is_null(value) &&
               (!name || (strcmp(name, "default") != 0 && strcmp(name, "standard") != 0))) {
        bb_end(rq, bb_invalid(rq, "retryPolicy",
                              "must be \"default\", \"standard\" or an object with delays"));
    }
    const json_t *list = json_object_get(value, "delays");

    for (size_t i = 0; i < json_array_size(list); i++)
        sum += json_integer_value(json_array_get(list, i));
    if (sum > SUM_MAX_S)
        bb_end(rq, bb_invalid(rq, "retryPolicy.delays", "must add up to at most 7 days (604800)"));
    option_set(rq, columns, "retry_policy", json_incref(value));
}

/* Returns the seconds of a duration such as 90m, 36h or 5d, or 0 if the text is invalid. */
static int64_t option_duration_s(const char *text)
{
    enum { DIGITS = 6, MINUTE_S = 60, HOUR_S = 3600 };
    size_t digits = strspn(text, "0123456789");
    char unit = text[digits];
    int64_t unit_s = unit == 'd' ? DAY_S : unit == 'h' ? HOUR_S : unit == 'm' ? MINUTE_S : 0;

    return digits && digits <= DIGITS && unit_s && !text[digits + 1]
               ? unit_s * strtoll(text, NULL, 10)
               : 0;
}

static void option_disable_take(struct bb_request *rq, int64_t webhook, json_t *value,
                                json_t *columns)
{
    const char *after = json_string_value(json_object_get(value, "after"));
    int64_t after_s = after ? option_duration_s(after) : 0;

    (void)webhook;
    if (after && (after_s < AFTER_MIN_S || after_s > AFTER_MAX_S))
        bb_end(rq, bb_invalid(rq, "disablePolicy.after",
                              "must be a duration from 1h to 30d, such as 5d or 36h"));
    option_set(rq, columns, "disable_policy", json_incref(value));
}

/* ---- signature ---- */

void signature_make_pair(struct bb_request *rq, int64_t webhook, json_t *columns)
{
    char private_key[SIGN_PAIR], public_key[SIGN_PAIR];

    if (sign_pair_make(private_key, public_key))
        bb_end(rq, bb_fail(rq, 503, "No key could be made for the signatures"));
    option_set(rq, columns, "public_key", json_string(public_key));
    option_seal(rq, webhook, WEBHOOK_PART_SIGNING_KEY, private_key, columns);
    OPENSSL_cleanse(private_key, sizeof(private_key));
}

static void option_signature_take(struct bb_request *rq, int64_t webhook, json_t *value,
                                  json_t *columns)
{
    const char *signature = json_string_value(value);

    option_set(rq, columns, "signature", json_incref(value));
    if (signature && strcmp(signature, "hmac") != 0)
        signature_make_pair(rq, webhook, columns);
}

/*
 * GET /api/chat/webhooks/:id/jwks: the public keys as JSON Web Keys (RFC 8037) with thumbprints as
 * ids (RFC 7638). Receivers call this without a token. A webhook without Ed25519 signatures has the
 * same response as an unknown one, so the route shows nothing about other webhooks.
 */
int webhook_jwks(struct bb_request *rq)
{
#define BASE64_TO_URL(of) "translate(rtrim(" of ", '='), '+/', '-_')"
    static const struct bb_sql find = {
        "SELECT json_build_object('keys', json_agg(json_build_object('kty', 'OKP',"
        " 'crv', 'Ed25519', 'use', 'sig', 'alg', 'EdDSA', 'kid', " BASE64_TO_URL(
            "encode(sha256(convert_to('{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"' || x || "
            "'\"}',"
            " 'UTF8')), 'base64')") ", 'x', x) ORDER BY n))::text FROM webhook_hook h,"
                                    " LATERAL (VALUES (1, h.public_key), (2, CASE WHEN "
                                    "h.previous_until > now()"
                                    " THEN h.previous_public_key END)) k(n, key),"
                                    " LATERAL (SELECT " BASE64_TO_URL(
                                        "substr(key, length('whpk_') + 1)") " AS x) x"
                                                                            " WHERE h.id = "
                                                                            "$1::bigint AND "
                                                                            "h.public_key IS NOT "
                                                                            "NULL AND key IS NOT "
                                                                            "NULL"
                                                                            " HAVING count(*) > 0",
        0};
    const struct bb_rows *rows =
        webhook_rows(rq, &find, BB_ARGS(bb_i(bb_segment_int(rq, "id"))), "Webhook");

    return bb_reply(rq, 200, bb_json_read(rq, bb_cell(rq, rows, 0, 0)));
}

/* ---- the table ---- */

static const struct option {
    const char *name; /* of the member */
    /*
     * Checks the member of a request, which may be JSON's null, and adds the new values of its
     * columns, as texts, JSON or null, to `columns`, or refuses the request (bb_end()). NULL: the
     * table of the body checks it.
     */
    void (*take)(struct bb_request *rq, int64_t webhook, json_t *value, json_t *columns);
    const char *column; /* if `take` is NULL */
} options[] = {
    {"url", webhook_take_url, NULL},
    {"events", webhook_take_events, NULL},
    {"active", NULL, "active"},
    {"name", NULL, "name"},
    {"description", NULL, "description"},
    {"filter", filter_take, NULL},
    {"rateLimit", NULL, "rate_limit"},
    {"ordering", NULL, "ordering"},
    {"headers", option_headers_take, NULL},
    {"retryPolicy", option_retry_take, NULL},
    {"disablePolicy", option_disable_take, NULL},
    {"signature", option_signature_take, NULL},
    {"authentication", authentication_take, NULL},
    {"kind", poll_take, NULL},
    {"destination", destination_take, NULL},
};

json_t *options_take(struct bb_request *rq, int64_t webhook)
{
    json_t *columns = bb_json_hold(rq, json_object());

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        json_t *value = json_object_get(bb_body(rq), options[i].name);

        if (value && options[i].take)
            options[i].take(rq, webhook, value, columns);
        else if (value)
            option_set(rq, columns, options[i].column, json_incref(value));
    }
    return columns;
}

void option_set(struct bb_request *rq, json_t *object, const char *name, json_t *value)
{
    if (json_object_set_new(object, name, value))
        bb_end(rq, bb_no_memory(rq));
}

void option_seal(struct bb_request *rq, int64_t webhook, const char *part, const char *text,
                 json_t *columns)
{
    unsigned char *sealed;
    size_t length;

    if (!text) {
        option_set(rq, columns, part, json_null());
        return;
    }
    if (webhook_secret_seal(rq->host, webhook, part, text, &sealed, &length))
        bb_end(rq, bb_fail(rq, 503, "The field %s could not be stored", part));
    bb_defer(rq, free, sealed);
    char *cell = bb_alloc(rq, 2 * length + 3);

    cell[0] = '\\';
    cell[1] = 'x';
    for (size_t i = 0; i < length; i++)
        snprintf(cell + 2 + 2 * i, 3, "%02x", sealed[i]);
    option_set(rq, columns, part, json_string(cell));
}

json_t *option_open(struct bb_request *rq, int64_t webhook, const char *part, const char *cell)
{
    json_t *json;

    if (webhook_secret_json(rq, webhook, part, cell, &json) != SECRET_LOCKED)
        return json;
    bb_log(rq, BB_ERROR, "the field %s of webhook %lld cannot be opened with secrets.keys", part,
           (long long)webhook);
    return json_object();
}
