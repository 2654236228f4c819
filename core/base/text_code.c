/* Encodings of bytes: base64url and random UUIDs. */
#include <openssl/err.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/shared_clock.h"
#include "core/base/text.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

char *text_base64url(struct arena *arena, const void *bytes, size_t length)
{
    const unsigned char *in = bytes;

    if (length > SIZE_MAX / 4)
        return NULL;
    char *text = arena_alloc(arena, (length * 4 + 2) / 3 + 1), *out = text;

    if (!text)
        return NULL;
    uint32_t held = 0; /* bits not written yet, the oldest on top */
    unsigned bits = 0;

    for (size_t i = 0; i < length; i++) {
        held = held << 8 | in[i];
        for (bits += 8; bits >= 6; bits -= 6)
            *out++ = alphabet[held >> (bits - 6) & 63];
    }
    if (bits)
        *out = alphabet[held << (6 - bits) & 63];
    return text;
}

static int sextet(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

int text_base64url_decode(struct arena *arena, const char *text, size_t text_length,
                          unsigned char **out, size_t *length)
{
    if (text_length % 4 == 1)
        return -1;
    unsigned char *bytes = arena_alloc(arena, text_length / 4 * 3 + 3);
    size_t used = 0;
    uint32_t held = 0;
    unsigned bits = 0;

    if (!bytes)
        return -1;
    for (size_t i = 0; i < text_length; i++) {
        int value = sextet(text[i]);

        if (value < 0)
            return -1;
        held = held << 6 | (uint32_t)value;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes[used++] = (unsigned char)(held >> bits);
        }
    }
    /* If two texts decoded to the same bytes, a token could be used as two different ones. */
    if (held & ((1U << bits) - 1))
        return -1;
    *out = bytes;
    *length = used;
    return 0;
}

/* Without randomness the server cannot create ids, so it must not continue. */
static void fill_random(unsigned char *bytes, size_t length)
{
    if (RAND_bytes(bytes, (int)length) == 1)
        return;
    ERR_clear_error();
    if (getrandom(bytes, length, 0) != (ssize_t)length)
        abort();
}

void text_random(unsigned char *out, size_t length)
{
    static _Thread_local unsigned char buffer[TEXT_RANDOM_MAX * 32];
    static _Thread_local size_t left;

    if (left < length) {
        fill_random(buffer, sizeof(buffer));
        left = sizeof(buffer);
    }
    left -= length;
    memcpy(out, buffer + left, length);
}

void text_uuid7(char out[TEXT_UUID_SIZE])
{
    unsigned char bytes[16];
    uint64_t now = (uint64_t)shared_clock_ms();

    for (int i = 0; i < 6; i++)
        bytes[i] = (unsigned char)(now >> (40 - 8 * i));
    text_random(bytes + 6, 10);
    bytes[6] = (unsigned char)((bytes[6] & 0x0F) | 0x70);
    bytes[8] = (unsigned char)((bytes[8] & 0x3F) | 0x80);

    char digits[33];

    text_hex(bytes, sizeof(bytes), digits);
    for (int i = 0; i < 32; i++) {
        if (i == 8 || i == 12 || i == 16 || i == 20)
            *out++ = '-';
        *out++ = digits[i];
    }
    *out = '\0';
}
