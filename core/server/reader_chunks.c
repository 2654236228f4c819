/* The framing of a chunked body (RFC 9112, 7.1): sizes, extensions, ends of line, trailers. */
#include <string.h>

#include "core/server/reader_parts.h"

enum {
    LINE_MAX_BYTES = 1024, /* maximum for a size with its extensions, or a trailer */
    SPENT_MAX = 16 * 1024, /* maximum for extensions and trailers of one body */
    DIGITS_MAX = 15        /* of a size, without leading zeros */
};

static int fail(struct reader *reader, const char *reason)
{
    reader_fail(reader, 400, reason);
    return 1;
}

/*
 * Returns the length of the line that begins at `start`, without its end; -1: it is incomplete, or
 * the body has failed.
 */
static long line_length(struct reader *reader, const char *bytes)
{
    const char *line = bytes + reader->start;
    size_t there = reader->end - reader->start;
    size_t at = head_value_run(line, there < LINE_MAX_BYTES + 1 ? there : LINE_MAX_BYTES + 1);

    if (at > LINE_MAX_BYTES)
        fail(reader, "A line between the chunks of the body is too long");
    else if (at < there && (line[at] != '\r' || (at + 1 < there && line[at + 1] != '\n')))
        fail(reader, "A line between the chunks of the body is malformed");
    else if (at + 1 < there)
        return (long)at;
    return -1;
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

static const char *skip_token(const char *at, const char *end)
{
    size_t length = head_token_run(at, (size_t)(end - at));

    return length ? at + length : NULL;
}

/* After the first quote. The line contains no control characters. */
static const char *skip_quoted(const char *at, const char *end)
{
    for (; at < end && *at != '"'; at++) {
        if (*at == '\\' && ++at == end)
            return NULL;
    }
    return at < end ? at + 1 : NULL;
}

/* *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] ) */
static bool extensions_valid(const char *at, const char *end)
{
    while (at < end) {
        at = skip_blanks(at, end);
        if (at == end || *at++ != ';')
            return false;
        at = skip_token(skip_blanks(at, end), end);
        if (!at)
            return false;
        const char *equals = skip_blanks(at, end);

        if (equals == end || *equals != '=')
            continue;
        at = skip_blanks(equals + 1, end);
        at = at < end && *at == '"' ? skip_quoted(at + 1, end) : skip_token(at, end);
        if (!at)
            return false;
    }
    return true;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int take_size(struct reader *reader, const char *line, size_t length)
{
    const char *at = line, *end = line + length;
    int64_t size = 0;

    for (; at < end && hex_value(*at) >= 0; at++) {
        if (size >> 4 * (DIGITS_MAX - 1)) {
            reader_fail(reader, 413, "The body is too large");
            return 1;
        }
        size = size * 16 + hex_value(*at);
    }
    reader->spent += (size_t)(end - at);
    if (at == line || !extensions_valid(at, end))
        return fail(reader, "The size of a chunk of the body is malformed");
    if (reader->spent > SPENT_MAX)
        return fail(reader, "The chunks of the body have too many extensions");
    reader->rest = size;
    reader->state = size ? READER_CHUNK : READER_TRAILER;
    return 1;
}

static int take_trailer(struct reader *reader, const char *line, size_t length)
{
    struct head_field field;

    if (!length) {
        reader_out(reader, "0\r\n\r\n");
        reader->state = READER_DONE;
        return 1;
    }
    reader->spent += length;
    if (reader->spent > SPENT_MAX)
        return fail(reader, "The trailers of the body are too large");
    if (head_field_split(line, 0, length, &field))
        return fail(reader, "A trailer of the body is malformed");
    return 1;
}

static int take_end(struct reader *reader, const char *bytes)
{
    size_t there = reader->end - reader->start;

    if (bytes[reader->start] != '\r' || (there > 1 && bytes[reader->start + 1] != '\n'))
        return fail(reader, "A chunk of the body does not end where it should");
    if (there < 2)
        return 0;
    reader->start += 2;
    reader->state = READER_SIZE;
    return 1;
}

int reader_frame(struct reader *reader, const char *bytes)
{
    if (reader->state == READER_BODY || reader->state == READER_CHUNK)
        return reader_begin_piece(reader);
    if (reader->state == READER_END)
        return take_end(reader, bytes);
    long length = line_length(reader, bytes);

    if (length < 0)
        return reader->state == READER_DONE;
    const char *line = bytes + reader->start;

    reader->start += (size_t)length + 2;
    return reader->state == READER_SIZE ? take_size(reader, line, (size_t)length)
                                        : take_trailer(reader, line, (size_t)length);
}
