/*
 * The option `authentication`: how requests authenticate to the receiver. The job
 * webhook.certificates warns before client certificates expire.
 */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>
#include <time.h>

#include "modules/webhook/api/api.h"

enum { STRONG_BITS = 112, RSA_MOST_BITS = 4096 };
#define WARN_DAYS 14
#define DAY_MS INT64_C(86400000)

/* ---- the members of each type ---- */

enum { SECRET = 1, OPTIONAL = 2, TOKEN = 4, URL = 8 };

struct member {
    const char *type, *name;
    unsigned flags;
};

static const struct member members[] = {
    {"basic", "username", 0},
    {"basic", "password", SECRET},
    {"bearer", "token", SECRET | TOKEN},
    {"oauth2", "tokenUrl", URL},
    {"oauth2", "clientId", 0},
    {"oauth2", "clientSecret", SECRET},
    {"oauth2", "scope", OPTIONAL},
    {"oauth2", "audience", OPTIONAL},
    {"mtls", "certificate", 0},
    {"mtls", "key", SECRET},
};
enum { MEMBERS = sizeof(members) / sizeof(members[0]) };

/* Returns what is wrong with a member, or NULL. */
static const char *authentication_problem(const struct member *member, const char *text)
{
    bool pem = !strcmp(member->type, "mtls");

    if (!text)
        return member->flags & OPTIONAL ? NULL : "is required";
    if (member->flags & SECRET && !strncmp(text, "****", 4))
        return "must be the value itself, not its masked form";
    if (!strcmp(member->name, "username") && strchr(text, ':'))
        return "must not have a colon";
    for (; *text && !pem; text++) {
        unsigned char byte = (unsigned char)*text;

        if (byte < ' ' || byte == 0x7f)
            return "must not have control characters";
        if (member->flags & TOKEN && (byte == ' ' || byte > '~'))
            return "must have printable ASCII characters only";
    }
    return NULL;
}

/* ---- certificates ---- */

/* Without this function, OpenSSL would ask the terminal for the password of a key. */
static int authentication_no_password(char *buffer, int size, int writes, void *arg)
{
    (void)buffer, (void)size, (void)writes, (void)arg;
    return -1;
}

/* Checks a certificate and its key. Adds the time at which it expires to `stored` and `columns`. */
static void authentication_check_pair(struct bb_request *rq, json_t *stored, json_t *columns)
{
    const char *certificate_text = json_string_value(json_object_get(stored, "certificate"));
    const char *key_text = json_string_value(json_object_get(stored, "key"));
    BIO *in = BIO_new_mem_buf(certificate_text, -1), *key_in = BIO_new_mem_buf(key_text, -1);
    X509 *certificate = in ? PEM_read_bio_X509(in, NULL, authentication_no_password, NULL) : NULL;
    EVP_PKEY *key =
        key_in ? PEM_read_bio_PrivateKey(key_in, NULL, authentication_no_password, NULL) : NULL;
    int type = key ? EVP_PKEY_get_base_id(key) : EVP_PKEY_NONE;
    /* Handshakes run on the sender's thread, so large keys would delay other webhooks. */
    bool fit = key && EVP_PKEY_get_security_bits(key) >= STRONG_BITS &&
               (type == EVP_PKEY_EC || type == EVP_PKEY_ED25519 ||
                (type == EVP_PKEY_RSA && EVP_PKEY_get_bits(key) <= RSA_MOST_BITS));
    struct tm at = {.tm_year = 0};
    int refused = 0;

    if (certificate && ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &at) != 1)
        at = (struct tm){.tm_year = 0}; /* a time that cannot be read counts as expired */
    int64_t until_ms = (int64_t)timegm(&at) * 1000;

    if (!certificate)
        refused = bb_invalid(rq, "authentication.certificate", "must be a certificate in PEM");
    else if (until_ms <= bb_wall_ms(rq->host))
        refused = bb_invalid(rq, "authentication.certificate", "has expired");
    else if (!key || X509_check_private_key(certificate, key) != 1)
        refused = bb_invalid(rq, "authentication.key",
                             "must be the certificate's private key in PEM, without a password");
    else if (!fit)
        refused = bb_invalid(rq, "authentication.key",
                             "must be an RSA key of 2,048 to 4,096 bits, or an EC or Ed25519 key");
    EVP_PKEY_free(key);
    X509_free(certificate);
    BIO_free(key_in);
    BIO_free(in);
    ERR_clear_error();
    if (refused)
        bb_end(rq, refused);
    bb_set(rq, stored, "expiresAt", json_string(bb_time_text(rq, until_ms)));
    bb_set(rq, columns, "certificate_until", json_string(bb_time_text(rq, until_ms)));
}

/* ---- the option ---- */

void authentication_take(struct bb_request *rq, json_t *value, json_t *columns)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    json_t *stored = bb_hold(rq, json_object());

    bb_set(rq, columns, "certificate_until", json_null());
    bb_set(rq, columns, "certificate_warned", json_null());
    if (type)
        bb_set(rq, stored, "type", json_string(type));
    for (const struct member *member = members; type && member < members + MEMBERS; member++) {
        const char *text = json_string_value(json_object_get(value, member->name));
        const char *field = bb_format(rq, "authentication.%s", member->name);
        bool own = !strcmp(member->type, type);
        const char *problem = own ? authentication_problem(member, text) : NULL;

        if (problem)
            bb_end(rq, bb_invalid(rq, field, "%s", problem));
        if (own && text && member->flags & URL)
            text = webhook_check_url(rq, field, text);
        if (own && text)
            bb_set(rq, stored, member->name, json_string(text));
    }
    if (type && !strcmp(type, "mtls"))
        authentication_check_pair(rq, stored, columns);
    option_seal(rq, WEBHOOK_PART_AUTHENTICATION, type ? bb_json(rq, stored, NULL) : NULL, columns);
}

json_t *authentication_show(struct bb_request *rq, int64_t webhook, const char *cell)
{
    json_t *json = option_open(rq, webhook, WEBHOOK_PART_AUTHENTICATION, cell);
    const char *until = json_string_value(json_object_get(json, "expiresAt"));

    for (size_t i = 0; i < MEMBERS; i++) {
        const char *secret = json_string_value(json_object_get(json, members[i].name));
        bool hidden = !strcmp(members[i].name, "key"); /* every PEM ends with the same characters */

        if (secret && members[i].flags & SECRET)
            bb_set(rq, json, members[i].name,
                   json_string(hidden ? "****" : webhook_masked(rq, secret)));
    }
    /* Times in this form can be compared as texts. */
    if (until && strcmp(until, bb_time_text(rq, bb_wall_ms(rq->host) + WARN_DAYS * DAY_MS)) < 0)
        bb_warn(rq, "authentication: the certificate expires at %s", until);
    return json;
}

/* ---- webhook.certificates ---- */

enum { BATCH = 100 };
#define BATCH_TEXT "100"
#define WARN_DAYS_TEXT "14"
#define UNTIL BB_SQL_TIME("certificate_until")

/* Raises one event for each certificate that expires soon. */
static int authentication_warn(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql sql = {
        "UPDATE webhook_hook SET certificate_warned = true WHERE id IN (SELECT id FROM webhook_hook"
        " WHERE certificate_until < now() + interval '" WARN_DAYS_TEXT " days'"
        " AND certificate_warned IS NULL ORDER BY certificate_until LIMIT " BATCH_TEXT
        " FOR UPDATE SKIP LOCKED) RETURNING id, email, " UNTIL
        ", json_build_object('webhookId', id, 'url', url, 'expiresAt', " UNTIL ")",
        0};
    const struct bb_rows *rows = bb_tx_query_or_end(rq, tx, &sql, NULL, 0);

    *(size_t *)arg = bb_count(rq, rows);
    for (size_t row = 0; row < bb_count(rq, rows); row++) {
        const char *emails[] = {bb_cell(rq, rows, row, 1), NULL};
        struct bb_audience audience = {.size = sizeof(audience), .emails = emails};

        bb_log(rq, BB_WARN, "the client certificate of webhook %s expires at %s",
               bb_cell(rq, rows, row, 0), bb_cell(rq, rows, row, 2));
        if (bb_emit(rq, tx, WEBHOOK_EXPIRING, bb_json_read(rq, bb_cell(rq, rows, row, 3)),
                    &audience))
            return bb_failed(rq);
    }
    return bb_reply(rq, 204, NULL);
}

void webhook_certificates(struct bb_request *rq)
{
    size_t count = 0;
    int status = bb_transaction(rq, authentication_warn, &count);

    if (status >= 400)
        bb_log(rq, BB_WARN, "cannot check client certificates: %s", bb_sqlstate(rq));
    else if (count == BATCH)
        bb_again(rq);
}
