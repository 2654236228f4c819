#include "modules/auth/token.h"

#include <busbar/field.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "modules/common/hmac.h"

#define SECONDS_MAX ((int64_t)1 << 40)

enum { HEADER_MAX = 96, PAYLOAD_MAX = 320, DECODED_MAX = 512 };

/* ---- base64 ---- */

size_t base64_encode(enum base64_alphabet alphabet, const void *bytes, size_t length, char *text)
{
    size_t used = (size_t)EVP_EncodeBlock((unsigned char *)text, bytes, (int)length);

    while (used && text[used - 1] == '=')
        text[--used] = '\0';
    for (char *at = text; alphabet == BASE64_URL && *at; at++)
        *at = *at == '+' ? '-' : *at == '/' ? '_' : *at;
    return used;
}

ptrdiff_t base64_decode(enum base64_alphabet alphabet, const char *text, size_t length, void *bytes,
                        size_t room)
{
    unsigned char padded[BASE64_ROOM(DECODED_MAX)], decoded[BASE64_ROOM(DECODED_MAX)];
    char again[BASE64_ROOM(DECODED_MAX)];
    size_t count = length / 4 * 3 + (length % 4 ? length % 4 - 1 : 0), whole = (length + 3) / 4 * 4;

    if (length % 4 == 1 || count > room || count > DECODED_MAX)
        return -1;
    for (size_t i = 0; i < whole; i++) {
        char c = i < length ? text[i] : '=';

        if (alphabet == BASE64_URL && i < length)
            c = c == '-' ? '+' : c == '_' ? '/' : c;
        padded[i] = (unsigned char)c;
    }
    if (whole && EVP_DecodeBlock(decoded, padded, (int)whole) != (int)(whole / 4 * 3))
        return -1;
    /* Encodes and compares, because OpenSSL ignores unused bits, and both alphabets are decoded. */
    if (base64_encode(alphabet, decoded, count, again) != length || memcmp(again, text, length))
        return -1;
    memcpy(bytes, decoded, count);
    return (ptrdiff_t)count;
}

/* ---- making tokens ---- */

/* token_header() and token_payload() return the length of the text, or 0 if it is too long. */
static size_t token_header(const char *kid, char text[HEADER_MAX])
{
    int length =
        snprintf(text, HEADER_MAX, "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"%s\"}", kid);

    return length > 0 && length < HEADER_MAX ? (size_t)length : 0;
}

static size_t token_payload(const struct token_claims *claims, char text[PAYLOAD_MAX])
{
    int length = snprintf(text, PAYLOAD_MAX,
                          "{\"sub\":\"%" PRId64 "\",\"jti\":\"%s\",\"iat\":%" PRId64
                          ",\"exp\":%" PRId64 ",\"role\":\"%s\",\"kind\":\"%s\"}",
                          claims->account, claims->jti, claims->issued_s, claims->expires_s,
                          claims->role, claims->client ? "client" : "session");

    return length > 0 && length < PAYLOAD_MAX ? (size_t)length : 0;
}

size_t token_make(EVP_MAC_CTX *key, const char *kid, const struct token_claims *claims,
                  char text[TOKEN_MADE_MAX])
{
    char header[HEADER_MAX], payload[PAYLOAD_MAX];
    unsigned char mac[TOKEN_MAC];
    size_t header_length = token_header(kid, header),
           payload_length = token_payload(claims, payload);

    if (!header_length || !payload_length)
        return 0;
    size_t used = base64_encode(BASE64_URL, header, header_length, text);

    text[used++] = '.';
    used += base64_encode(BASE64_URL, payload, payload_length, text + used);
    if (hmac_sign(key, text, used, "", 0, mac))
        return 0;
    text[used++] = '.';
    return used + base64_encode(BASE64_URL, mac, sizeof(mac), text + used);
}

/* ---- reading tokens ---- */

/* Decodes a part of a token to a string. Returns 0, or -1 if the part is invalid or too long. */
static int token_decode(const char *text, size_t length, char into[PAYLOAD_MAX])
{
    ptrdiff_t count = base64_decode(BASE64_URL, text, length, into, PAYLOAD_MAX - 1);

    if (count < 0)
        return -1;
    into[count] = '\0';
    return strlen(into) == (size_t)count ? 0 : -1;
}

int token_open(struct token *token, const char *text, size_t length)
{
    const char *first = length <= TOKEN_MAX ? memchr(text, '.', length) : NULL;
    const char *end = text + length;
    const char *second = first ? memchr(first + 1, '.', (size_t)(end - first) - 1) : NULL;
    char header[PAYLOAD_MAX], again[HEADER_MAX];

    /* A third dot would be in the signature, and decoding fails, because a dot is not base64url. */
    if (!second)
        return -1;
    *token = (struct token){.text = text,
                            .signed_length = (size_t)(second - text),
                            .payload_at = (size_t)(first - text) + 1};
    if (base64_decode(BASE64_URL, second + 1, (size_t)(end - second) - 1, token->signature,
                      TOKEN_MAC) != TOKEN_MAC ||
        token_decode(text, (size_t)(first - text), header))
        return -1;
    /* sscanf() accepts more than busbar writes, so the header is written again and compared. */
    return sscanf(header, "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"%16[0-9a-f]", token->kid) ==
                       1 &&
                   strlen(token->kid) == TOKEN_KID && token_header(token->kid, again) &&
                   !strcmp(header, again)
               ? 0
               : -1;
}

int token_verify(const struct token *token, EVP_MAC_CTX *key)
{
    unsigned char mac[TOKEN_MAC];

    if (hmac_sign(key, token->text, token->signed_length, "", 0, mac))
        return -1;
    return CRYPTO_memcmp(mac, token->signature, TOKEN_MAC) ? 1 : 0;
}

int token_claims(const struct token *token, int64_t now_s, struct token_claims *claims)
{
    char payload[PAYLOAD_MAX], again[PAYLOAD_MAX], kind[8];

    if (token_decode(token->text + token->payload_at, token->signed_length - token->payload_at,
                     payload))
        return -1;
    /* sscanf() accepts more than busbar writes, so the payload is written again and compared. */
    if (sscanf(payload,
               "{\"sub\":\"%18" SCNd64 "\",\"jti\":\"%36[0-9a-f-]\",\"iat\":%18" SCNd64
               ",\"exp\":%18" SCNd64 ",\"role\":\"%23[A-Za-z]\",\"kind\":\"%7[a-z]",
               &claims->account, claims->jti, &claims->issued_s, &claims->expires_s, claims->role,
               kind) != 6)
        return -1;
    claims->client = !strcmp(kind, "client");
    bool good = token_payload(claims, again) && !strcmp(payload, again) &&
                bb_is_uuid(claims->jti) && claims->account > 0 && claims->issued_s >= 0 &&
                claims->issued_s <= now_s + TOKEN_SKEW_S && claims->expires_s > now_s &&
                claims->expires_s > claims->issued_s && claims->expires_s <= SECONDS_MAX;

    return good ? 0 : -1;
}
