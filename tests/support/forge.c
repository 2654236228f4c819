#include "forge.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "harness.h"

struct parts token_parts(const char *token)
{
    const char *first = strchr(token, '.');
    const char *second = first ? strchr(first + 1, '.') : NULL;

    ck_assert_msg(second != NULL, "not a token: %s", token);
    return (struct parts){text("%.*s", (int)(first - token), token),
                          text("%.*s", (int)(second - first - 1), first + 1),
                          text("%s", second + 1)};
}

char *url64(const void *bytes, size_t length)
{
    char *coded = kept(malloc(length * 4 / 3 + 8));

    EVP_EncodeBlock((unsigned char *)coded, bytes, (int)length);
    coded[strcspn(coded, "=")] = '\0';
    for (char *c = coded; *c; c++)
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    return coded;
}

char *url64_text(const char *coded)
{
    size_t length = strlen(coded), padded = (length + 3) / 4 * 4;
    char *plain = kept(calloc(1, padded + 1));
    char *decoded = kept(calloc(1, padded + 1));

    for (size_t i = 0; i < padded; i++)
        plain[i] = i >= length ? '=' : coded[i] == '-' ? '+' : coded[i] == '_' ? '/' : coded[i];
    int count = EVP_DecodeBlock((unsigned char *)decoded, (unsigned char *)plain, (int)padded);

    ck_assert_int_ge(count, 0);
    decoded[length * 3 / 4] = '\0';
    return decoded;
}

char *assembled(const char *header, const char *payload, const char *signature)
{
    return text("%s.%s.%s", url64(header, strlen(header)), url64(payload, strlen(payload)),
                signature);
}

char *forged(const char *header, const char *payload, const char *digest, const char *secret)
{
    char *head = text("%s.%s", url64(header, strlen(header)), url64(payload, strlen(payload)));
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned length = 0;

    ck_assert_ptr_nonnull(HMAC(EVP_get_digestbyname(digest), secret, (int)strlen(secret),
                               (unsigned char *)head, strlen(head), mac, &length));
    return text("%s.%s", head, url64(mac, length));
}

char *with_member(const char *object, const char *key, const char *value)
{
    json_t *json = json_loads(object, 0, NULL);
    json_t *member = json_loads(value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

    ck_assert_msg(json && member, "%s or %s is not JSON", object, value);
    json_object_set_new(json, key, member);
    char *out = kept(json_dumps(json, JSON_COMPACT));

    json_decref(json);
    return out;
}
