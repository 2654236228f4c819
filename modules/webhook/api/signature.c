/* The option `signature`, and the public keys of Ed25519 signatures as a JSON Web Key Set. */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include "modules/webhook/api/api.h"
#include "modules/webhook/http/sign.h"

int signature_make_pair(struct bb_request *rq, int64_t webhook, json_t *columns)
{
    char private_key[SIGN_PAIR], public_key[SIGN_PAIR];

    if (sign_pair_make(private_key, public_key))
        return bb_fail(rq, 503, "No key could be made for the signatures");
    int refused = option_seal(rq, webhook, WEBHOOK_PART_SIGNING_KEY, private_key, columns);

    OPENSSL_cleanse(private_key, sizeof(private_key));
    return refused ? refused : option_text(rq, columns, "public_key", public_key);
}

int signature_take(struct bb_request *rq, int64_t webhook, json_t *value, json_t *columns)
{
    const char *signature = json_string_value(value);
    int refused = option_text(rq, columns, "signature", signature);

    if (refused || !signature || !strcmp(signature, "hmac"))
        return refused;
    return signature_make_pair(rq, webhook, columns);
}

/* ---- GET /api/chat/webhooks/:id/jwks ---- */

enum { DIGEST = 32, URL_BASE64 = 45 };

/* Makes base64 of 32 bytes base64url without padding (RFC 4648). */
static void signature_to_url(char base64[URL_BASE64])
{
    base64[strcspn(base64, "=")] = '\0';
    for (char *at = base64; *at; at++)
        *at = (char)(*at == '+' ? '-' : *at == '/' ? '_' : *at);
}

/* Returns a JSON Web Key (RFC 8037). Its id is the thumbprint of RFC 7638. */
static json_t *signature_jwk(struct bb_request *rq, const char *public_key)
{
    char x[URL_BASE64] = "", id[URL_BASE64];
    unsigned char digest[DIGEST];

    strncat(x, public_key + strlen("whpk_"), URL_BASE64 - 1);
    signature_to_url(x);
    const char *canonical = bb_format(rq, "{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"%s\"}", x);

    if (!EVP_Q_digest(NULL, "SHA256", NULL, canonical, strlen(canonical), digest, NULL))
        return NULL;
    EVP_EncodeBlock((unsigned char *)id, digest, DIGEST);
    signature_to_url(id);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "kty", "OKP", "crv", "Ed25519", "use", "sig",
                     "alg", "EdDSA", "kid", id, "x", x);
}

/*
 * Receivers call this without a token. A webhook without Ed25519 signatures has the same response
 * as an unknown one, so the route shows nothing about other webhooks.
 */
int webhook_jwks(struct bb_request *rq)
{
    static const struct bb_sql find = {
        "SELECT public_key, CASE WHEN previous_until > now() THEN previous_public_key END"
        " FROM webhook_hook WHERE id = $1::bigint AND public_key IS NOT NULL",
        0};
    const struct bb_rows *rows = bb_query(rq, &find, BB_ARGS(bb_i(bb_segment_int(rq, "id"))));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return webhook_unknown(rq);
    json_t *keys = json_array();

    for (size_t i = 0; i < SIGN_KEYS_MAX && keys; i++) {
        const char *public_key = bb_cell(rq, rows, 0, i);

        if (public_key && json_array_append_new(keys, signature_jwk(rq, public_key))) {
            json_decref(keys);
            keys = NULL;
        }
    }
    return bb_reply(rq, 200, keys ? json_pack("{s:o}", "keys", keys) : NULL);
}
