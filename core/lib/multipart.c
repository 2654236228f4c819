#include "core/lib/multipart.h"

#include <stdlib.h>
#include <string.h>

enum state {
    DATA,      /* inside a part or the preamble */
    DELIMITER, /* `matched` bytes of the delimiter were seen */
    BEHIND,    /* the whole delimiter was seen */
    DASH,      /* followed by a '-' */
    PADDING,   /* followed by white space */
    LINE_END,  /* followed by a CR */
    HEADERS,
    EPILOGUE
};

/* The first boundary can be at the very beginning, without a preceding CR LF. */
int multipart_init(struct multipart *multipart, const char *boundary,
                   const struct multipart_calls *calls, void *arg)
{
    size_t length = strlen(boundary);

    *multipart = (struct multipart){.calls = calls, .arg = arg, .state = DELIMITER};
    multipart->matched = multipart->implied = 2;
    if (length > MULTIPART_BOUNDARY_MAX)
        return -1;
    memcpy(multipart->delimiter, "\r\n--", 4);
    memcpy(multipart->delimiter + 4, boundary, length);
    multipart->delimiter_length = length + 4;
    multipart->headers = malloc(MULTIPART_HEADERS_MAX);
    return multipart->headers ? 0 : -1;
}

void multipart_free(struct multipart *multipart)
{
    free(multipart->headers);
    multipart->headers = NULL;
}

bool multipart_complete(const struct multipart *multipart)
{
    return multipart->state == EPILOGUE;
}

static int refuse(struct multipart *multipart, const char *problem)
{
    multipart->problem = problem;
    return -1;
}

static int data(struct multipart *multipart, const char *bytes, size_t length)
{
    if (!multipart->in_part || !length)
        return 0;
    return multipart->calls->data(multipart->arg, bytes, length);
}

/* The bytes that looked like a delimiter, and those after it, are data. */
static int give_back(struct multipart *multipart)
{
    size_t implied = multipart->implied, matched = multipart->matched;
    size_t held = multipart->held_length;

    multipart->state = DATA;
    multipart->matched = multipart->implied = 0;
    multipart->held_length = 0;
    return data(multipart, multipart->delimiter + implied, matched - implied) ||
                   data(multipart, multipart->held, held)
               ? -1
               : 0;
}

/* A part ends only when its delimiter is confirmed. */
static int end_part(struct multipart *multipart)
{
    bool was = multipart->in_part;

    multipart->in_part = false;
    multipart->matched = multipart->implied = 0;
    multipart->held_length = 0;
    return was ? multipart->calls->end(multipart->arg) : 0;
}

static int begin_headers(struct multipart *multipart)
{
    multipart->state = HEADERS;
    multipart->headers_length = 0;
    multipart->line_start = 0;
    return end_part(multipart);
}

static int hold(struct multipart *multipart, char byte, enum state next)
{
    if (multipart->held_length == sizeof multipart->held)
        return refuse(multipart, "a boundary is followed by too much white space");
    multipart->held[multipart->held_length++] = byte;
    multipart->state = (int)next;
    return 0;
}

/*
 * Handles a byte after the delimiter, or after '-', white space or CR. *taken: the byte was
 * consumed.
 */
static int behind(struct multipart *multipart, char byte, bool *taken)
{
    bool blank = byte == ' ' || byte == '\t';

    *taken = true;
    if (multipart->state == LINE_END && byte == '\n')
        return begin_headers(multipart);
    if (multipart->state == DASH && byte == '-') {
        multipart->state = EPILOGUE;
        return multipart->has_part ? end_part(multipart) : refuse(multipart, "there is no part");
    }
    if (multipart->state == BEHIND && byte == '-')
        return hold(multipart, byte, DASH);
    if ((multipart->state == BEHIND || multipart->state == PADDING) && blank)
        return hold(multipart, byte, PADDING);
    if ((multipart->state == BEHIND || multipart->state == PADDING) && byte == '\r') {
        multipart->state = LINE_END;
        return 0;
    }
    bool carriage_return = multipart->state == LINE_END;

    *taken = false;
    if (give_back(multipart))
        return -1;
    if (carriage_return) { /* it may begin the delimiter */
        multipart->state = DELIMITER;
        multipart->matched = 1;
    }
    return 0;
}

/*
 * Only the first byte of a delimiter is CR, so a partial match that fails cannot contain the start
 * of another one.
 */
static int match(struct multipart *multipart, char byte, bool *taken)
{
    *taken = byte == multipart->delimiter[multipart->matched];
    if (!*taken)
        return give_back(multipart);
    if (++multipart->matched == multipart->delimiter_length)
        multipart->state = BEHIND;
    return 0;
}

/* Finds a possible delimiter; NULL if there is none. A CR alone is common in binary data. */
static const char *find_delimiter(const struct multipart *multipart, const char *at,
                                  const char *end)
{
    while (at < end && (at = memchr(at, '\r', (size_t)(end - at)))) {
        size_t left = (size_t)(end - at);
        size_t length = left < multipart->delimiter_length ? left : multipart->delimiter_length;

        if (!memcmp(at, multipart->delimiter, length))
            return at;
        at++;
    }
    return NULL;
}

/* Passes data up to a possible delimiter. Returns the number of bytes consumed, or -1. */
static ptrdiff_t scan(struct multipart *multipart, const char *bytes, size_t length)
{
    const char *found = find_delimiter(multipart, bytes, bytes + length);
    size_t plain = found ? (size_t)(found - bytes) : length;

    if (data(multipart, bytes, plain))
        return -1;
    if (!found)
        return (ptrdiff_t)plain;
    multipart->state = DELIMITER;
    multipart->matched = 1;
    return (ptrdiff_t)plain + 1;
}

static int begin_part(struct multipart *multipart)
{
    struct multipart_part part;

    multipart->headers[multipart->headers_length - 2] = '\0';
    multipart->problem = multipart_head(multipart->headers, &part);
    if (multipart->problem || multipart->calls->part(multipart->arg, &part))
        return -1;
    multipart->in_part = multipart->has_part = true;
    multipart->state = DELIMITER;
    multipart->matched = multipart->implied = 2;
    return 0;
}

/* The data of a part may be empty: its delimiter then begins with the CR LF of the empty line. */
static int header_byte(struct multipart *multipart, char byte)
{
    if (multipart->headers_length == MULTIPART_HEADERS_MAX)
        return refuse(multipart, "the headers of a part are too long");
    if (byte == '\0')
        return refuse(multipart, "a part has a NUL in its headers");
    multipart->headers[multipart->headers_length++] = byte;
    if (byte != '\n')
        return 0;
    size_t length = multipart->headers_length - multipart->line_start;

    if (length < 2 || multipart->headers[multipart->headers_length - 2] != '\r')
        return refuse(multipart, "a header line of a part does not end with CR LF");
    multipart->line_start = multipart->headers_length;
    return length == 2 ? begin_part(multipart) : 0;
}

/*
 * Processes a byte that can change the state. *taken: it was consumed; otherwise it must be
 * processed again.
 */
static int step(struct multipart *multipart, char byte, bool *taken)
{
    *taken = true;
    if (multipart->state == DELIMITER)
        return match(multipart, byte, taken);
    if (multipart->state == HEADERS)
        return header_byte(multipart, byte);
    return behind(multipart, byte, taken);
}

int multipart_feed(struct multipart *multipart, const char *bytes, size_t length)
{
    size_t at = 0;

    while (at < length) {
        if (multipart->state == EPILOGUE)
            return 0;
        if (multipart->state == DATA) {
            ptrdiff_t scanned = scan(multipart, bytes + at, length - at);

            if (scanned < 0)
                return -1;
            at += (size_t)scanned;
            continue;
        }
        bool taken;

        if (step(multipart, bytes[at], &taken))
            return -1;
        at += taken;
    }
    return 0;
}
