/*
 * The members of a webhook that its owner sets. Each has a row in the table `options`. This file
 * has the functions of headers, retryPolicy, disablePolicy and signature.
 */
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "modules/webhook/api/api.h"
#include "modules/webhook/http/sign.h"

/* ---- headers that a webhook's owner adds to each request ---- */

enum { HEADERS_MAX = 20, HEADERS_BYTES = 8192, HEADER_NAME_MAX = 128, SEPARATORS = 4 };

/*
 * Returns whether an owner may not set the header, because the sender or libcurl sets it, or it is
 * hop-by-hop. In the list, a name that ends with a hyphen is a prefix.
 */
static bool option_header_is_reserved(const char *name)
{
    static const char *const names[] = {"Host",        "Connection",     "Keep-Alive", "TE",
                                        "Trailer",     "Upgrade",        "Expect",     "User-Agent",
                                        "traceparent", "HTTP2-Settings", "Content-",   "Transfer-",
                                        "Proxy-",      "webhook-",       "X-Webhook-"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t length = strlen(names[i]);

        if (!strncasecmp(name, names[i], length) && (names[i][length - 1] == '-' || !name[length]))
            return true;
    }
    return false;
}

/* Returns what is wrong with a value, or NULL. */
static const char *option_header_problem(const json_t *value)
{
    const char *text = json_string_value(value);

    if (!text)
        return "must be a string";
    if (!text[strspn(text, " \t")])
        return "must not be blank";
    if (!strncmp(text, "****", 4))
        return "must be the value itself, not its masked form";
    for (size_t i = 0; i < json_string_length(value); i++)
        if ((text[i] < ' ' && text[i] != '\t') || text[i] > '~')
            return "must have printable ASCII characters only";
    return NULL;
}

static void option_headers_take(struct bb_request *rq, json_t *value, json_t *columns)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *name;
    json_t *text;
    size_t bytes = 0, count = json_object_size(value);

    if (count > HEADERS_MAX)
        bb_end(rq, bb_invalid(rq, "headers", "must have at most %d items", HEADERS_MAX));
    json_object_foreach (value, name, text) {
        size_t length = strlen(name);

        if (!length || length > HEADER_NAME_MAX || strspn(name, token) != length)
            bb_end(rq, bb_invalid(rq, "headers",
                                  "must have names of headers (RFC 9110), up to %d bytes",
                                  HEADER_NAME_MAX));
        const char *problem =
            option_header_is_reserved(name) ? "is reserved" : option_header_problem(text);

        if (problem)
            bb_end(rq, bb_invalid(rq, bb_format(rq, "headers.%s", name), "%s", problem));
        bytes += length + json_string_length(text) + SEPARATORS;
    }
    if (bytes > HEADERS_BYTES)
        bb_end(rq, bb_invalid(rq, "headers", "must be at most %d bytes", HEADERS_BYTES));
    option_seal(rq, WEBHOOK_PART_HEADERS, count ? bb_json(rq, value, NULL) : NULL, columns);
}

json_t *option_headers_show(struct bb_request *rq, int64_t webhook, const char *cell)
{
    json_t *headers = option_open(rq, webhook, WEBHOOK_PART_HEADERS, cell), *value;
    const char *name;

    json_object_foreach (headers, name, value)
        bb_set(rq, headers, name, json_string(webhook_masked(rq, json_string_value(value))));
    return headers;
}

/* ---- retryPolicy and disablePolicy ---- */

enum { DAY_S = 86400, SUM_MAX_S = 7 * DAY_S, AFTER_MIN_S = 3600, AFTER_MAX_S = 30 * DAY_S };

/* clang-format off */
static const struct bb_field delay[] = {{.name = "item", .type = BB_INT, .min = 1, .max = DAY_S}};
static const struct bb_field delays[] = {
    {.name = "delays", .type = BB_LIST, .flags = BB_REQUIRED, .min = 1, .max = RETRY_DELAYS_MAX,
     .fields = BB_TABLE(delay)},
};
static const struct bb_field retry[] = {
    {.name = "retryPolicy", .type = BB_OBJECT, .fields = BB_TABLE(delays)},
};
/* clang-format on */

static void option_retry_take(struct bb_request *rq, json_t *value, json_t *columns)
{
    static const struct bb_table table = BB_TABLE(retry);
    const char *name = json_string_value(value);
    json_int_t sum = 0;

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
    bb_set(rq, columns, "retry_policy", json_incref(value));
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

static void option_disable_take(struct bb_request *rq, json_t *value, json_t *columns)
{
    const char *after = json_string_value(json_object_get(value, "after"));
    int64_t after_s = after ? option_duration_s(after) : 0;

    if (after && (after_s < AFTER_MIN_S || after_s > AFTER_MAX_S))
        bb_end(rq, bb_invalid(rq, "disablePolicy.after",
                              "must be a duration from 1h to 30d, such as 5d or 36h"));
    bb_set(rq, columns, "disable_policy", json_incref(value));
}

/* ---- signature ---- */

void signature_make_pair(struct bb_request *rq, json_t *columns)
{
    char private_key[SIGN_PAIR], public_key[SIGN_PAIR];

    if (sign_pair_make(private_key, public_key))
        bb_end(rq, bb_fail(rq, 503, "No key could be made for the signatures"));
    bb_set(rq, columns, "public_key", json_string(public_key));
    option_seal(rq, WEBHOOK_PART_SIGNING_KEY, private_key, columns);
    OPENSSL_cleanse(private_key, sizeof(private_key));
}

static void option_signature_take(struct bb_request *rq, json_t *value, json_t *columns)
{
    const char *signature = json_string_value(value);

    bb_set(rq, columns, "signature", json_incref(value));
    if (signature && strcmp(signature, "hmac") != 0)
        signature_make_pair(rq, columns);
}

/*
 * GET /api/chat/webhooks/:id/jwks: the public keys as JSON Web Keys (RFC 8037) with thumbprints as
 * ids (RFC 7638). Receivers call this without a token. A webhook without Ed25519 signatures gets
 * the response of an unknown webhook, so the route shows nothing about other webhooks.
 */
int webhook_jwks(struct bb_request *rq)
{
    /* clang-format off */
#define BASE64_TO_URL(of) "translate(rtrim(" of ", '='), '+/', '-_')"
    static const struct bb_sql find = {
        "SELECT json_build_object('keys', json_agg(json_build_object('kty', 'OKP',"
        " 'crv', 'Ed25519', 'use', 'sig', 'alg', 'EdDSA', 'kid', "
        BASE64_TO_URL("encode(sha256(convert_to('{\"crv\":\"Ed25519\",\"kty\":\"OKP\","
                      "\"x\":\"' || x || '\"}', 'UTF8')), 'base64')")
        ", 'x', x) ORDER BY n))::text FROM webhook_hook h, LATERAL (VALUES (1, h.public_key),"
        " (2, CASE WHEN h.previous_until > now() THEN h.previous_public_key END)) k(n, key),"
        " LATERAL (SELECT " BASE64_TO_URL("substr(key, length('whpk_') + 1)") " AS x) x"
        " WHERE h.id = $1::bigint AND h.public_key IS NOT NULL AND key IS NOT NULL"
        " HAVING count(*) > 0",
        0};
    /* clang-format on */
    const struct bb_rows *rows =
        bb_find_or_end(rq, &find, BB_ARGS(bb_i(bb_segment_int(rq, "id"))), "Webhook");

    return bb_reply(rq, 200, bb_json_read(rq, bb_cell(rq, rows, 0, 0)));
}

/* ---- the table ---- */

static const struct option {
    const char *name; /* of the member */
    /*
     * Checks the member's value, which may be JSON null, and adds the new values of the member's
     * columns (texts, JSON or null) to `columns`, or refuses the request (bb_end()). NULL: the host
     * has already checked the value as a field of the body, and the value is stored in `column`.
     */
    void (*take)(struct bb_request *rq, json_t *value, json_t *columns);
    const char *column; /* set only if `take` is NULL */
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
    {"kind", NULL, "kind"},
    {"destination", destination_take, NULL},
};

json_t *options_new(struct bb_request *rq, int64_t webhook)
{
    return bb_hold(rq, json_pack("{s:I}", "id", (json_int_t)webhook));
}

json_t *options_take(struct bb_request *rq, int64_t webhook)
{
    json_t *columns = options_new(rq, webhook);

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        json_t *value = json_object_get(bb_body(rq), options[i].name);

        if (value && options[i].take)
            options[i].take(rq, value, columns);
        else if (value)
            bb_set(rq, columns, options[i].column, json_incref(value));
    }
    return columns;
}

void option_seal(struct bb_request *rq, const char *part, const char *text, json_t *columns)
{
    unsigned char *sealed;
    size_t length;
    char purpose[64];

    if (!text) {
        bb_set(rq, columns, part, json_null());
        return;
    }
    webhook_purpose(json_integer_value(json_object_get(columns, "id")), part, purpose);
    if (bb_seal(rq->host, text, strlen(text), purpose, &sealed, &length))
        bb_end(rq, bb_fail(rq, 503, "The field %s could not be stored", part));
    bb_defer(rq, free, sealed);
    char *cell = bb_alloc(rq, 2 * length + 3), *hexadecimal = stpcpy(cell, "\\x");

    OPENSSL_buf2hexstr_ex(hexadecimal, 2 * length + 1, NULL, sealed, length, '\0');
    bb_set(rq, columns, part, json_string(cell));
}

json_t *option_open(struct bb_request *rq, int64_t webhook, const char *part, const char *cell)
{
    char *text = webhook_secret_open(rq, webhook, part, cell);
    json_t *json = text ? bb_json_read(rq, text) : json_object();

    if (!text)
        bb_log(rq, BB_ERROR, "the field %s of webhook %lld cannot be opened with secrets.keys",
               part, (long long)webhook);
    webhook_secret_free(text);
    return bb_hold(rq, json);
}
