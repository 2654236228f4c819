/* Sealing: round trips, rotation, and rejection of changed data. */
#include "core/lib/aead.h"
#include "fixture.h"
#include "suite.h"

#define KEY_A "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define KEY_B "F00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static char why[160];

static struct aead_keys *keys_of(const char *first, const char *second)
{
    const char *hex[] = {first, second};

    return aead_keys_new(arena, hex, (size_t)(first != NULL) + (second != NULL), why, sizeof(why));
}

TEST(encrypted_data_can_be_decrypted)
{
    struct aead_keys *keys = keys_of(KEY_A, NULL);
    unsigned char *sealed, *again, *plain;
    size_t length, plain_length;

    for (size_t n = 0; n < 100; n += 9) {
        static const char text[100] = "the secret of a webhook";

        ck_assert_int_eq(aead_close(keys, text, n, "p", &sealed, &length), 0);
        ck_assert_uint_eq(length, n + AEAD_OVERHEAD);
        ck_assert_int_eq(sealed[0], 1);
        ck_assert_int_eq(aead_open(keys, sealed, length, "p", &plain, &plain_length), 0);
        ck_assert_uint_eq(plain_length, n);
        ck_assert_mem_eq(plain, text, n);
        ck_assert_int_eq(plain[n], 0);
        ck_assert_int_eq(aead_close(keys, text, n, "p", &again, &length), 0);
        ck_assert_mem_ne(sealed, again, length);
        free(plain);
        free(again);
        free(sealed);
    }
}

TEST(the_first_key_encrypts_and_old_keys_decrypt)
{
    struct aead_keys *old = keys_of(KEY_A, NULL), *both = keys_of(KEY_B, KEY_A),
                     *new = keys_of(KEY_B, NULL);
    unsigned char *sealed, *plain;
    size_t length, plain_length;

    ck_assert_int_eq(aead_close(old, "abc", 3, "p", &sealed, &length), 0);
    ck_assert_int_eq(aead_open(both, sealed, length, "p", &plain, &plain_length), 0);
    ck_assert_str_eq((char *)plain, "abc");
    free(plain);
    ck_assert_int_eq(aead_open(new, sealed, length, "p", &plain, &plain_length), -1);
    free(sealed);
    ck_assert_int_eq(aead_close(both, "abc", 3, "p", &sealed, &length), 0);
    ck_assert_int_eq(aead_open(old, sealed, length, "p", &plain, &plain_length), -1);
    ck_assert_int_eq(aead_open(new, sealed, length, "p", &plain, &plain_length), 0);
    free(plain);
    free(sealed);
}

TEST(changed_data_cannot_be_decrypted)
{
    struct aead_keys *keys = keys_of(KEY_A, KEY_B);
    unsigned char *sealed, *plain;
    size_t length, plain_length;

    ck_assert_int_eq(aead_close(keys, "abc", 3, "purpose", &sealed, &length), 0);
    for (size_t bit = 0; bit < length * 8; bit++) {
        sealed[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ck_assert_msg(aead_open(keys, sealed, length, "purpose", &plain, &plain_length) == -1,
                      "bit %zu", bit);
        sealed[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t cut = 0; cut < length; cut++)
        ck_assert_int_eq(aead_open(keys, sealed, cut, "purpose", &plain, &plain_length), -1);
    ck_assert_int_eq(aead_open(keys, sealed, length, "purpos", &plain, &plain_length), -1);
    ck_assert_int_eq(aead_open(keys, sealed, length, "", &plain, &plain_length), -1);
    ck_assert_int_eq(aead_open(keys, sealed, length, "purpose", &plain, &plain_length), 0);
    free(plain);
    free(sealed);
}

TEST(bad_keys_are_refused_without_being_shown)
{
    EACH_TEXT (bad, "", "00", KEY_A "0",
               "zz0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f") {
        ck_assert_ptr_null(keys_of(KEY_A, bad));
        ck_assert_str_eq(why, "key 2 is not 64 hexadecimal digits");
    }
}

TEST(encryption_fails_without_keys)
{
    struct aead_keys *none = keys_of(NULL, NULL);
    unsigned char *out, bytes[AEAD_OVERHEAD] = {1};
    size_t length;

    ck_assert_ptr_nonnull(none);
    ck_assert_int_eq(aead_close(none, "a", 1, "p", &out, &length), -1);
    ck_assert_int_eq(aead_open(none, bytes, sizeof(bytes), "p", &out, &length), -1);
}

SUITE(aead, .before_each = arena_setup, .after_each = arena_teardown)
