/* The bytes of a body. */
#include <string.h>

#include "core/reader_parts.h"

static size_t give_waiting(struct reader *reader, char *into, size_t size)
{
    size_t length = reader->end - reader->start;

    if (length > size)
        length = size;
    if ((int64_t)length > reader->left)
        length = (size_t)reader->left;
    memcpy(into, reader->buffer->bytes + reader->start, length);
    reader->start += length;
    return length;
}

/*
 * The bytes of a body. The last ones are read by way of the buffer, with room behind them: so it is
 * seen whether something follows.
 */
ssize_t reader_read_body(struct reader *reader, int fd, char *into, size_t size)
{
    ssize_t got = 1;

    if (reader->start == reader->end) {
        if (reader->drained)
            return reader_nothing_yet();
        if ((int64_t)size < reader->left)
            got = reader_ask(reader, fd, into, size);
        else
            got = reader_fill(reader, fd);
        if (got <= 0)
            return got;
    }
    if (reader->start < reader->end)
        got = (ssize_t)give_waiting(reader, into, size);
    reader->left -= got;
    if (!reader->left)
        reader->state = reader->state == READER_BODY ? READER_DONE : READER_END;
    return got;
}

ssize_t reader_read_frame(struct reader *reader, int fd)
{
    while (reader->start == reader->end || !reader_frame(reader, reader->buffer->bytes)) {
        if (reader->drained)
            return reader_nothing_yet();
        ssize_t got = reader_fill(reader, fd);

        if (got <= 0)
            return got;
    }
    return 1;
}

ssize_t reader_give_padding(struct reader *reader, char *into, size_t size)
{
    size_t length = (int64_t)size < reader->left ? size : (size_t)reader->left;

    memset(into, 0, length);
    reader->left -= (int64_t)length;
    if (reader->left)
        return (ssize_t)length;
    if (reader->framed)
        reader_out(reader, "\r\n0\r\n\r\n");
    reader->state = READER_DONE;
    return (ssize_t)length;
}
