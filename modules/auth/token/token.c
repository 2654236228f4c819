#include "modules/auth/token/token.h"

#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/auth/token/base64.h"

/* Maximum size of a decoded header or payload: several times the size that token_make() writes. */
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

/*
 * The keyed context is copied for each use, because setting the key costs more than the HMAC
 * itself.
 */
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
 * Decodes a part of a token into `room` bytes. Returns false if it is not base64url, is too long,
 * or has a NUL.
 */
static bool decode(const char *text, size_t length, char *into, size_t room)
{
    ptrdiff_t count = base64_decode(BASE64_URL, text, length, (unsigned char *)into, room - 1);

    if (count < 0 || memchr(into, 0, (size_t)count))
        return false;
    into[count] = '\0';
    return true;
}

/* Advances *at past exactly this text. */
static bool literal(const char **at, const char *expected)
{
    size_t length = strlen(expected);

    if (strncmp(*at, expected, length) != 0)
        return false;
    *at += length;
    return true;
}

/* Advances *at past 1 to room - 1 of these characters, and copies them. */
static bool word(const char **at, const char *characters, char *into, size_t room)
{
    size_t length = strspn(*at, characters);

    if (length == 0 || length >= room)
        return false;
    memcpy(into, *at, length);
    into[length] = '\0';
    *at += length;
    return true;
}

#define DIGITS "0123456789"
#define HEX DIGITS "abcdef"
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static bool number(const char **at, int64_t *into)
{
    char digits[19];

    if (!word(at, DIGITS, digits, sizeof(digits)) || (digits[0] == '0' && digits[1]))
        return false;
    *into = strtoll(digits, NULL, 10);
    return true;
}

static int read_header(struct token *token, const char *text, size_t length)
{
    char header[SEGMENT_MAX];
    const char *at = header;
    bool good = decode(text, length, header, sizeof(header)) &&
                literal(&at, "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"") &&
                word(&at, HEX, token->kid, sizeof(token->kid)) && strlen(token->kid) == TOKEN_KID &&
                strcmp(at, "\"}") == 0;

    return good ? 0 : -1;
}

int token_open(struct token *token, const char *text, size_t length)
{
    const char *first = length <= TOKEN_MAX ? memchr(text, '.', length) : NULL;
    const char *end = text + length;
    const char *second = first ? memchr(first + 1, '.', (size_t)(end - first) - 1) : NULL;

    /* A third dot is not a base64url digit, so decoding the signature fails. */
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

/*
 * The uuid must be valid for PostgreSQL; otherwise a signed token without a uuid would cause a
 * database error.
 */
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

static bool read_claims(const char *at, struct token_claims *claims)
{
    char kind[8];
    bool good =
        literal(&at, "{\"sub\":\"") && number(&at, &claims->account) &&
        literal(&at, "\",\"jti\":\"") && word(&at, HEX "-", claims->jti, sizeof(claims->jti)) &&
        is_uuid(claims->jti) && literal(&at, "\",\"iat\":") && number(&at, &claims->issued_s) &&
        literal(&at, ",\"exp\":") && number(&at, &claims->expires_s) &&
        literal(&at, ",\"role\":\"") && word(&at, LETTERS, claims->role, sizeof(claims->role)) &&
        literal(&at, "\",\"kind\":\"") && word(&at, LETTERS, kind, sizeof(kind)) &&
        strcmp(at, "\"}") == 0;

    claims->client = good && strcmp(kind, "client") == 0;
    return good && claims->account > 0 && (claims->client || strcmp(kind, "session") == 0);
}

int token_claims(const struct token *token, int64_t now_s, struct token_claims *claims)
{
    char payload[SEGMENT_MAX];
    bool good = decode(token->text + token->payload_at, token->signed_length - token->payload_at,
                       payload, sizeof(payload)) &&
                read_claims(payload, claims);

    if (!good || claims->issued_s > now_s + TOKEN_SKEW_S || claims->expires_s <= now_s)
        return -1;
    return claims->expires_s <= claims->issued_s || claims->expires_s > SECONDS_MAX ? -1 : 0;
}
