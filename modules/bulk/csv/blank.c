#include "modules/bulk/csv/blank.h"

#include <stdint.h>
#include <string.h>

struct range {
    uint32_t first, last;
};

static const struct range spaces[] = {
    {0x0001, 0x0020}, {0x007f, 0x00a0}, {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029},
    {0x202f, 0x202f}, {0x205f, 0x205f}, {0x2800, 0x2800}, {0x3000, 0x3000},
};

/* Unicode's Default_Ignorable_Code_Point. */
static const struct range invisible[] = {
    {0x00ad, 0x00ad},   {0x034f, 0x034f},   {0x061c, 0x061c}, {0x115f, 0x1160}, {0x17b4, 0x17b5},
    {0x180b, 0x180f},   {0x200b, 0x200f},   {0x202a, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164},
    {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0}, {0xfff0, 0xfff8}, {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

#define COUNT(ranges) (sizeof(ranges) / sizeof((ranges)[0]))

static bool is_in(uint32_t code, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

/*
 * Returns the character at `text`, which must not be at its end, and the character's length in
 * *size. Bytes that are not UTF-8 count as visible characters.
 */
static uint32_t character_at(const char *text, size_t *size)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t more = *at < 0xc0 ? 0 : *at < 0xe0 ? 1 : *at < 0xf0 ? 2 : 3;
    uint32_t code = more ? *at & (0x3fU >> more) : *at;

    *size = 1;
    if (*at >= 0x80 && !more)
        return '?';
    for (size_t i = 1; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return '?';
        code = code << 6 | (at[i] & 0x3fU);
    }
    *size = 1 + more;
    return code;
}

/* Fast path for the most frequent characters, which are neither. */
static bool is_plain(char c)
{
    return (unsigned char)c > ' ' && (unsigned char)c < 0x7f;
}

bool blank_is(const char *text)
{
    for (size_t size; *text; text += size) {
        uint32_t code;

        if (is_plain(*text))
            return false;
        code = character_at(text, &size);
        if (!is_in(code, spaces, COUNT(spaces)) && !is_in(code, invisible, COUNT(invisible)))
            return false;
    }
    return true;
}

void blank_strip(char *text)
{
    char *out = text, *end = text; /* end: after the last visible character */
    size_t size;

    for (const char *at = text; *at; at += size) {
        uint32_t code = character_at(at, &size);
        bool space = is_in(code, spaces, COUNT(spaces));

        if ((space && out == text) || is_in(code, invisible, COUNT(invisible)))
            continue;
        memmove(out, at, size);
        out += size;
        if (!space)
            end = out;
    }
    *end = '\0';
}

size_t blank_cut(const char *text, size_t most)
{
    size_t length = strnlen(text, most + 1);

    if (length <= most)
        return length;
    for (length = most; length && ((unsigned char)text[length] & 0xc0) == 0x80;)
        length--;
    return length;
}
