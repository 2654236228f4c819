/* Signatures of webhook deliveries, checked with published vectors. */
#include <jansson.h>

#include "modules/webhook/http/sign.h"
#include "suite.h"
#include "support/process.h"

static EVP_MAC *algorithm;

static void setup(void)
{
    algorithm = EVP_MAC_fetch(NULL, "HMAC", NULL);
    ck_assert_ptr_nonnull(algorithm);
}

static void teardown(void)
{
    EVP_MAC_free(algorithm);
}

/* Returns a member as bytes with a terminating NUL: given as text, or in hexadecimal as
 * <name>_hex. */
static char *bytes(const json_t *row, const char *name, size_t *length)
{
    char hex_name[32];
    const char *text = json_string_value(json_object_get(row, name));

    snprintf(hex_name, sizeof(hex_name), "%s_hex", name);
    const char *hex = json_string_value(json_object_get(row, hex_name));
    char *out = calloc(1, strlen(text ? text : hex) + 1);

    ck_assert_ptr_nonnull(out);
    *length = text ? strlen(text) : strlen(hex) / 2;
    for (size_t i = 0; !text && i < *length; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};

        out[i] = (char)strtol(pair, NULL, 16);
    }
    return text ? strcpy(out, text) : out;
}

static void check(const json_t *row)
{
    size_t length, secret_length;
    char *secret = bytes(row, "secret", &secret_length);
    char *payload = bytes(row, "payload", &length);
    const char *expected = json_string_value(json_object_get(row, "expected"));
    const char *id = json_string_value(json_object_get(row, "id"));
    struct sign_key *key = sign_key_new(algorithm, secret);
    char out[SIGN_STANDARD] = "";

    ck_assert_ptr_nonnull(key);
    if (id) {
        const struct sign_key *keys[] = {key};
        int64_t timestamp = json_integer_value(json_object_get(row, "timestamp"));

        ck_assert_int_eq(sign_standard(keys, 1, id, timestamp, payload, length, out), 0);
    } else {
        ck_assert_int_eq(sign_body(key, payload, length, out), 0);
    }
    ck_assert_str_eq(out, expected);
    sign_key_free(key);
    free(secret);
    free(payload);
}

TEST(signatures_equal_published_test_vectors)
{
    const char *path = shared_cases("webhook-signature-vectors/vectors.json");

    if (!path)
        return;
    json_t *cases = json_load_file(path, 0, NULL);

    ck_assert_uint_gt(json_array_size(cases), 0);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check(json_array_get(cases, i));
    json_decref(cases);
}

/* "whsec_" without valid base64 after it is a secret like any other. */
TEST(a_secret_that_is_not_valid_base64_is_used_as_text)
{
    EACH_TEXT (secret, "whsec_", "whsec_a", "whsec_!!!!", "whsec_====", "x") {
        struct sign_key *key = sign_key_new(algorithm, secret);

        ck_assert_ptr_nonnull(key);
        sign_key_free(key);
    }
}

SUITE(webhook_sign, .before_each = setup, .after_each = teardown)
