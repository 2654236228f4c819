/* Converts attributes from the database's text to JSON. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "modules/device/record/device.h"

/* Returns the position after a string's closing quote. */
static const char *string_end(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        at += *at == '\\' && at[1];
    return *at ? at + 1 : at;
}

static bool is_huge(const char *number, size_t length)
{
    if (memchr(number, '.', length))
        return false;
    errno = 0;
    strtoll(number, NULL, 10);
    return errno == ERANGE;
}

/*
 * Adds an exponent to each whole number that exceeds 64 bits. The caller must free() the result;
 * NULL: out of memory.
 */
static char *with_exponents(const char *text)
{
    char *copy = malloc(2 * strlen(text) + 1), *out = copy;

    while (copy && *text) {
        size_t length = strspn(text, "-0123456789.");
        bool huge = length && is_huge(text, length);

        if (!length)
            length = *text == '"' ? (size_t)(string_end(text) - text) : 1;
        memcpy(out, text, length);
        out += length;
        text += length;
        if (huge) {
            memcpy(out, "e0", 2);
            out += 2;
        }
    }
    if (copy)
        *out = '\0';
    return copy;
}

/* The number of digits of 2^63, 9223372036854775808, the lowest number that exceeds an integer. */
enum { HUGE_DIGITS = 19 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/*
 * Returns whether the text has that many consecutive digits. Looks at one of every HUGE_DIGITS
 * characters.
 */
static bool may_be_huge(const char *text, size_t length)
{
    for (size_t i = HUGE_DIGITS - 1; i < length; i += HUGE_DIGITS) {
        size_t from = i, to = i;

        while (is_digit(text[to]))
            to++;
        while (to > i && from > 0 && is_digit(text[from - 1]))
            from--;
        if (to - from >= HUGE_DIGITS)
            return true;
    }
    return false;
}

const char *device_attributes_text(struct bb_request *rq, const char *text)
{
    if (!may_be_huge(text, strlen(text)))
        return text;
    char *real = with_exponents(text);

    if (real)
        bb_defer(rq, free, real);
    return real;
}

/* jsonb prints a number such as 1e30 with all its digits; only such numbers become reals again. */
json_t *device_parsed(struct bb_request *rq, const char *text)
{
    const char *real = device_attributes_text(rq, text);

    return real ? bb_json_read(rq, real) : NULL;
}

/* The database's text has blanks, which do not count. */
int device_attributes_check(struct bb_request *rq, const char *attributes)
{
    size_t length = strlen(attributes);

    if (length <= DEVICE_ATTRIBUTES_MAX)
        return 0;
    json_t *json = device_parsed(rq, attributes);
    const char *text = json ? bb_json(rq, json, &length) : NULL;

    json_decref(json);
    if (!text)
        return bb_no_memory(rq);
    return length <= DEVICE_ATTRIBUTES_MAX ? 0
                                           : bb_invalid(rq, "attributes", DEVICE_ATTRIBUTES_LONG);
}
