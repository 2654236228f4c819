/* Checks that bytes arriving in pieces are UTF-8 without NUL. Pure. */
#ifndef BULK_UTF8_H
#define BULK_UTF8_H

#include <stddef.h>

struct utf8 {
    unsigned left;           /* bytes still missing in the current character */
    unsigned char low, high; /* range of the next byte */
};

enum utf8_state { UTF8_FINE, UTF8_NUL, UTF8_WRONG };

/* Start with a zeroed struct. At the end of the text `left` must be 0. */
enum utf8_state utf8_feed(struct utf8 *utf8, const char *bytes, size_t length);

#endif
