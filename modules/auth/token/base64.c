#include "modules/auth/token/base64.h"

#include <stdint.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

static char digit_of(enum base64_alphabet alphabet, unsigned value)
{
    if (value < 62)
        return letters[value];
    if (alphabet == BASE64_URL)
        return value == 62 ? '-' : '_';
    return value == 62 ? '+' : '/';
}

static int value_of(enum base64_alphabet alphabet, char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == digit_of(alphabet, 62))
        return 62;
    return c == digit_of(alphabet, 63) ? 63 : -1;
}

size_t base64_encode(enum base64_alphabet alphabet, const void *bytes, size_t length, char *text)
{
    const unsigned char *in = bytes;
    uint32_t held = 0;
    unsigned bits = 0;
    size_t used = 0;

    for (size_t i = 0; i < length; i++) {
        held = (held << 8 | in[i]) & 0xffff;
        for (bits += 8; bits >= 6; bits -= 6)
            text[used++] = digit_of(alphabet, held >> (bits - 6) & 63);
    }
    if (bits)
        text[used++] = digit_of(alphabet, held << (6 - bits) & 63);
    text[used] = '\0';
    return used;
}

ptrdiff_t base64_decode(enum base64_alphabet alphabet, const char *text, size_t length,
                        unsigned char *bytes, size_t room)
{
    uint32_t held = 0;
    unsigned bits = 0;
    size_t used = 0;

    if (length % 4 == 1 || length * 3 / 4 > room)
        return -1;
    for (size_t i = 0; i < length; i++) {
        int value = value_of(alphabet, text[i]);

        if (value < 0)
            return -1;
        held = (held << 6 | (uint32_t)value) & 0xffff;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes[used++] = (unsigned char)(held >> bits);
        }
    }
    /* Unused bits must be zero; otherwise several texts would mean the same bytes. */
    return held & ((1U << bits) - 1) ? -1 : (ptrdiff_t)used;
}
