/* Whether bytes that come in pieces are UTF-8 without NUL. Pure. */
#ifndef BULK_UTF8_H
#define BULK_UTF8_H

#include <stddef.h>

struct utf8 {
    unsigned left;           /* bytes that the character yet needs */
    unsigned char low, high; /* what the next one may be */
};

enum utf8_state { UTF8_FINE, UTF8_NUL, UTF8_WRONG };

/* Begin with a struct of zeros. At the end of the text `left` must be 0. */
enum utf8_state utf8_feed(struct utf8 *utf8, const char *bytes, size_t length);

#endif
