#include "modules/bulk/csv/utf8.h"

#include <stdint.h>
#include <string.h>

/* Handles the first byte of a character: sets the bytes left, and the range of the next one. */
static int begin(struct utf8 *utf8, unsigned char byte)
{
    utf8->low = 0x80;
    utf8->high = 0xbf;
    if (byte >= 0xc2 && byte <= 0xdf)
        utf8->left = 1;
    else if (byte >= 0xe0 && byte <= 0xef)
        utf8->left = 2;
    else if (byte >= 0xf0 && byte <= 0xf4)
        utf8->left = 3;
    else
        return -1;
    if (byte == 0xe0)
        utf8->low = 0xa0;
    else if (byte == 0xed)
        utf8->high = 0x9f;
    else if (byte == 0xf0)
        utf8->low = 0x90;
    else if (byte == 0xf4)
        utf8->high = 0x8f;
    return 0;
}

static int go_on(struct utf8 *utf8, unsigned char byte)
{
    if (byte < utf8->low || byte > utf8->high)
        return -1;
    utf8->left--;
    utf8->low = 0x80;
    utf8->high = 0xbf;
    return 0;
}

enum utf8_state utf8_feed(struct utf8 *utf8, const char *bytes, size_t length)
{
    if (memchr(bytes, 0, length))
        return UTF8_NUL;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];

        if (utf8->left ? go_on(utf8, byte) : byte >= 0x80 && begin(utf8, byte))
            return UTF8_WRONG;
    }
    return UTF8_FINE;
}
