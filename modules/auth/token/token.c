#include "modules/auth/token/token.h"

#include <inttypes.h>
#include <jansson.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/auth/token/base64.h"

/* Decoded bytes of a header or payload: several times what make() writes. */
#define SEGMENT_MAX 512
#define SECONDS_MAX ((int64_t)1 << 40)

EVP_MAC_CTX *token_key(EVP_MAC *hmac, const unsigned char secret[TOKEN_MAC])
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC_CTX *key = EVP_MAC_CTX_new(hmac);

    if (key && EVP_MAC_init(key, secret, TOKEN_MAC, params))
        return key;
    EVP_MAC_CTX_free(key);
    return NULL;
}

/* The keyed context is copied for each use: keying anew costs more than the HMAC itself. */
static int sign(const EVP_MAC_CTX *key, const char *text, size_t length,
                unsigned char mac[TOKEN_MAC])
{
    EVP_MAC_CTX *once = EVP_MAC_CTX_dup(key);
    size_t made = 0;
    int good = once && EVP_MAC_update(once, (const unsigned char *)text, length) &&
               EVP_MAC_final(once, mac, &made, TOKEN_MAC) && made == TOKEN_MAC;

    EVP_MAC_CTX_free(once);
    return good ? 0 : -1;
}

size_t token_make(const EVP_MAC_CTX *key, const char *kid, const struct token_claims *claims,
                  char text[TOKEN_MADE_MAX])
{
    char header[96], payload[320];
    unsigned char mac[TOKEN_MAC];
    int header_length =
        snprintf(header, sizeof(header), "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"%s\"}", kid);
    int payload_length = snprintf(payload, sizeof(payload),
                                  "{\"sub\":\"%" PRId64 "\",\"jti\":\"%s\",\"iat\":%" PRId64
                                  ",\"exp\":%" PRId64 ",\"role\":\"%s\",\"kind\":\"%s\"}",
                                  claims->account, claims->jti, claims->issued_s, claims->expires_s,
                                  claims->role, claims->client ? "client" : "session");

    if (header_length < 0 || (size_t)header_length >= sizeof(header) || payload_length < 0 ||
        (size_t)payload_length >= sizeof(payload))
        return 0;

    size_t used = base64_encode(BASE64_URL, header, (size_t)header_length, text);

    text[used++] = '.';
    used += base64_encode(BASE64_URL, payload, (size_t)payload_length, text + used);
    if (sign(key, text, used, mac))
        return 0;
    text[used++] = '.';
    return used + base64_encode(BASE64_URL, mac, sizeof(mac), text + used);
}

/*
 * A flat JSON object. Braces and brackets are counted before parsing: jansson recurses, and this
 * runs on a fiber's small stack on text that anybody may have sent.
 */
static json_t *flat_object(const char *text, size_t length, size_t members)
{
    unsigned char bytes[SEGMENT_MAX];
    ptrdiff_t count = base64_decode(BASE64_URL, text, length, bytes, sizeof(bytes));

    if (count < 2 || bytes[0] != '{' || memchr(bytes, 0, (size_t)count) ||
        memchr(bytes, '[', (size_t)count) || memchr(bytes + 1, '{', (size_t)count - 1))
        return NULL;

    json_t *object = json_loadb((const char *)bytes, (size_t)count, JSON_REJECT_DUPLICATES, NULL);

    if (object && json_object_size(object) == members)
        return object;
    json_decref(object);
    return NULL;
}

static bool is_text(const json_t *object, const char *name, const char *expected)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text && strcmp(text, expected) == 0;
}

static int read_header(struct token *token, const char *text, size_t length)
{
    json_t *header = flat_object(text, length, 3);
    const char *kid = json_string_value(json_object_get(header, "kid"));
    bool good = is_text(header, "alg", "HS256") && is_text(header, "typ", "JWT") && kid &&
                strlen(kid) == TOKEN_KID && strspn(kid, "0123456789abcdef") == TOKEN_KID;

    if (good)
        memcpy(token->kid, kid, TOKEN_KID + 1);
    json_decref(header);
    return good ? 0 : -1;
}

int token_open(struct token *token, const char *text, size_t length)
{
    const char *first = length <= TOKEN_MAX ? memchr(text, '.', length) : NULL;
    const char *end = text + length;
    const char *second = first ? memchr(first + 1, '.', (size_t)(end - first) - 1) : NULL;

    /* A third dot is no digit of base64url, so the signature's decoding refuses it. */
    if (!second)
        return -1;
    *token = (struct token){.text = text,
                            .signed_length = (size_t)(second - text),
                            .payload_at = (size_t)(first - text) + 1};
    if (base64_decode(BASE64_URL, second + 1, (size_t)(end - second) - 1, token->signature,
                      TOKEN_MAC) != TOKEN_MAC)
        return -1;
    return read_header(token, text, (size_t)(first - text));
}

int token_verify(const struct token *token, const EVP_MAC_CTX *key)
{
    unsigned char mac[TOKEN_MAC];

    if (sign(key, token->text, token->signed_length, mac))
        return -1;
    return CRYPTO_memcmp(mac, token->signature, TOKEN_MAC) ? 1 : 0;
}

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static int read_account(const json_t *payload, int64_t *account)
{
    const char *sub = json_string_value(json_object_get(payload, "sub"));

    if (!sub || sub[0] < '1' || sub[0] > '9' || strspn(sub, "0123456789") != strlen(sub) ||
        strlen(sub) > 18)
        return -1;
    *account = strtoll(sub, NULL, 10);
    return 0;
}

static int read_text(const json_t *payload, const char *name, char *into, size_t room)
{
    const char *text = json_string_value(json_object_get(payload, name));
    size_t length = text ? strlen(text) : 0;

    if (length == 0 || length >= room)
        return -1;
    memcpy(into, text, length + 1);
    return 0;
}

static int read_times(const json_t *payload, int64_t now_s, struct token_claims *claims)
{
    const json_t *issued = json_object_get(payload, "iat");
    const json_t *expires = json_object_get(payload, "exp");

    if (!json_is_integer(issued) || !json_is_integer(expires))
        return -1;
    claims->issued_s = json_integer_value(issued);
    claims->expires_s = json_integer_value(expires);
    if (claims->issued_s < 0 || claims->issued_s > now_s + TOKEN_SKEW_S)
        return -1;
    return claims->expires_s <= now_s || claims->expires_s <= claims->issued_s ||
                   claims->expires_s > SECONDS_MAX
               ? -1
               : 0;
}

/* As PostgreSQL reads a uuid: else what is signed by us and yet none would be its error. */
static bool is_uuid(const char *text)
{
    static const char form[] = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";

    for (size_t i = 0; i < sizeof(form); i++) {
        bool hex = text[i] && strchr("0123456789abcdef", text[i]);

        if (form[i] == 'h' ? !hex : text[i] != form[i])
            return false;
    }
    return true;
}

int token_claims(const struct token *token, int64_t now_s, struct token_claims *claims)
{
    json_t *payload =
        flat_object(token->text + token->payload_at, token->signed_length - token->payload_at, 6);

    *claims = (struct token_claims){.client = is_text(payload, "kind", "client")};

    bool good = payload && (claims->client || is_text(payload, "kind", "session")) &&
                read_account(payload, &claims->account) == 0 &&
                read_text(payload, "jti", claims->jti, sizeof(claims->jti)) == 0 &&
                strlen(claims->jti) == sizeof(claims->jti) - 1 && is_uuid(claims->jti) &&
                read_text(payload, "role", claims->role, sizeof(claims->role)) == 0 &&
                strspn(claims->role, LETTERS) == strlen(claims->role) &&
                read_times(payload, now_s, claims) == 0;

    json_decref(payload);
    return good ? 0 : -1;
}
