#include "core/lib/trace.h"

#include <string.h>

#include "core/lib/text.h"

#define HEX "0123456789abcdef"

/* Offsets in "00-", the trace, "-", the span, "-", the flags. */
enum { TRACE_AT = 3, TRACE_DIGITS = 32, SPAN_AT = 36, SPAN_DIGITS = 16, FLAGS_AT = 53, WHOLE = 55 };

/* Returns whether `count` lower-case hexadecimal digits follow, and then a dash or the end. */
static bool trace_digits(const char *at, size_t count)
{
    return strspn(at, HEX) == count && (at[count] == '-' || !at[count]);
}

static bool trace_zero(const char *at, size_t count)
{
    return strspn(at, "0") >= count;
}

/* Accepts later versions, which may have more fields after the flags, except ff. */
static bool trace_well_formed(const char *given)
{
    size_t length = strlen(given);

    if (length < WHOLE || !trace_digits(given, 2) || !strncmp(given, "ff", 2))
        return false;
    if (length > WHOLE && (!strncmp(given, "00", 2) || given[WHOLE] != '-'))
        return false;
    return trace_digits(given + TRACE_AT, TRACE_DIGITS) &&
           !trace_zero(given + TRACE_AT, TRACE_DIGITS) &&
           trace_digits(given + SPAN_AT, SPAN_DIGITS) &&
           !trace_zero(given + SPAN_AT, SPAN_DIGITS) && trace_digits(given + FLAGS_AT, 2);
}

static void trace_random_digits(char *out, size_t count)
{
    unsigned char bytes[TRACE_DIGITS / 2];
    char hex[TRACE_DIGITS + 1];

    do {
        text_random(bytes, count / 2);
        text_hex(bytes, count / 2, hex);
    } while (strspn(hex, "0") >= count);
    memcpy(out, hex, count);
}

/* Keeps only the flags "sampled" and "random". */
void trace_parent(const char *given, char out[TRACE_PARENT_SIZE])
{
    memcpy(out, "00-00000000000000000000000000000000-0000000000000000-00", TRACE_PARENT_SIZE);
    if (given && trace_well_formed(given)) {
        memcpy(out + TRACE_AT, given + TRACE_AT, TRACE_DIGITS);
        out[FLAGS_AT + 1] = HEX[(strchr(HEX, given[FLAGS_AT + 1]) - HEX) & 3];
    } else {
        trace_random_digits(out + TRACE_AT, TRACE_DIGITS);
        out[FLAGS_AT + 1] = '2';
    }
    trace_random_digits(out + SPAN_AT, SPAN_DIGITS);
}

void trace_id(const char parent[TRACE_PARENT_SIZE], char out[TRACE_ID_SIZE])
{
    memcpy(out, parent + TRACE_AT, TRACE_DIGITS);
    out[TRACE_DIGITS] = '\0';
}
