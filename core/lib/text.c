#include "core/lib/text.h"

#include <string.h>

static bool continues(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/* The ranges of the second byte are from table 3-7 of the Unicode standard. */
static int32_t multibyte(const unsigned char *s, size_t length, size_t *size)
{
    if (s[0] >= 0xC2 && s[0] <= 0xDF && length >= 2 && continues(s[1])) {
        *size = 2;
        return (s[0] & 0x1F) << 6 | (s[1] & 0x3F);
    }
    if ((s[0] & 0xF0) == 0xE0 && length >= 3 && continues(s[1]) && continues(s[2])) {
        if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F))
            return -1;
        *size = 3;
        return (s[0] & 0x0F) << 12 | (s[1] & 0x3F) << 6 | (s[2] & 0x3F);
    }
    if (s[0] >= 0xF0 && s[0] <= 0xF4 && length >= 4 && continues(s[1]) && continues(s[2]) &&
        continues(s[3])) {
        if ((s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
            return -1;
        *size = 4;
        return (s[0] & 0x07) << 18 | (s[1] & 0x3F) << 12 | (s[2] & 0x3F) << 6 | (s[3] & 0x3F);
    }
    return -1;
}

int32_t text_code_point(const char *text, size_t length, size_t *size)
{
    const unsigned char *bytes = (const unsigned char *)text;

    *size = 1;
    return bytes[0] < 0x80 ? bytes[0] : multibyte(bytes, length, size);
}

/* Number of ASCII bytes at the start. Checks eight at a time. */
static size_t ascii_run(const char *text, size_t length)
{
    size_t at = 0;

    while (at + sizeof(uint64_t) <= length) {
        uint64_t word;

        memcpy(&word, text + at, sizeof(word));
        if (word & UINT64_C(0x8080808080808080))
            break;
        at += sizeof(word);
    }
    while (at < length && (unsigned char)text[at] < 0x80)
        at++;
    return at;
}

bool text_utf8(const char *text, size_t length)
{
    size_t at = 0;

    while ((at += ascii_run(text + at, length - at)) < length) {
        size_t size;

        if (text_code_point(text + at, length - at, &size) < 0)
            return false;
        at += size;
    }
    return true;
}

size_t text_characters(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += !continues((unsigned char)*text);
    return count;
}

bool text_space(int32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000 || c == 0xFEFF;
}

size_t text_valid(const char *text)
{
    size_t left = strlen(text), all = left, size;

    while (left && text_code_point(text + (all - left), left, &size) >= 0)
        left -= size;
    return all - left;
}

void text_trim(const char **text, size_t *length)
{
    size_t size;

    while (*length && text_space(text_code_point(*text, *length, &size))) {
        *text += size;
        *length -= size;
    }
    while (*length) {
        size_t last = *length - 1;

        while (last && ((unsigned char)(*text)[last] & 0xC0) == 0x80)
            last--;
        if (!text_space(text_code_point(*text + last, *length - last, &size)))
            return;
        *length = last;
    }
}

bool text_blank(const char *text)
{
    size_t length = strlen(text);

    while (length) {
        size_t size;

        if (!text_space(text_code_point(text, length, &size)))
            return false;
        text += size;
        length -= size;
    }
    return true;
}

static bool is_control(unsigned char byte)
{
    return byte < 0x20 || byte == 0x7F;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool text_is_uuid(const char *text)
{
    for (int i = 0; i < 36; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (dash ? text[i] != '-' : hex_digit(text[i]) < 0)
            return false;
    }
    return text[36] == '\0';
}

/* Returns the byte that "%XX" encodes, or -1. */
static int escaped(const char *in, size_t length)
{
    if (length < 3)
        return -1;
    int high = hex_digit(in[1]), low = hex_digit(in[2]);

    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

int text_percent(const char *in, size_t length, bool plus_is_space, struct arena *arena, char **out,
                 size_t *out_length)
{
    char *text = arena_text(arena, in, length);
    size_t used = 0;

    if (!text)
        return -1;
    for (size_t at = 0; at < length; at++) {
        int byte = (unsigned char)in[at];

        if (byte == '%') {
            byte = escaped(in + at, length - at);
            at += 2;
        } else if (byte == '+' && plus_is_space) {
            byte = ' ';
        }
        if (byte < 0 || is_control((unsigned char)byte))
            return -1;
        text[used++] = (char)byte;
    }
    if (!text_utf8(text, used))
        return -1;
    text[used] = '\0';
    *out = text;
    if (out_length)
        *out_length = used;
    return 0;
}

void text_hex(const void *bytes, size_t length, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *in = bytes;

    for (size_t i = 0; i < length; i++) {
        *out++ = digits[in[i] >> 4];
        *out++ = digits[in[i] & 15];
    }
    *out = '\0';
}

int text_hex_decode(const char *text, unsigned char *out, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        int high = hex_digit(text[2 * i]);
        int low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);

        if (low < 0)
            return -1;
        out[i] = (unsigned char)(high << 4 | low);
    }
    return text[2 * length] ? -1 : 0;
}

size_t text_integer(int64_t number, char out[TEXT_INTEGER_SIZE])
{
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    char digits[TEXT_INTEGER_SIZE];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        digits[--at] = '-';
    memcpy(out, digits + at, sizeof digits - at);
    out[sizeof digits - at] = '\0';
    return sizeof digits - at;
}

void text_ms(int64_t us, char out[TEXT_MS_SIZE])
{
    char *at = out + text_integer(us / 1000, out);
    int rest = (int)(us % 1000);

    *at++ = '.';
    *at++ = (char)('0' + rest / 100);
    *at++ = (char)('0' + rest / 10 % 10);
    *at++ = (char)('0' + rest % 10);
    *at = '\0';
}
