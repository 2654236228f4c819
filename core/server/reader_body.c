/* The bytes of a body, piece by piece, and every kind of end. */
#include <stdio.h>
#include <string.h>

#include "core/server/reader_parts.h"

enum { PIECE = 64 * 1024, SIZE_LINE = 16 /* room for a size as text */ };

void reader_begin_body(struct reader *reader, int64_t length)
{
    reader->framed = length < 0 || length > PIECE;
    reader->left = reader->framed ? 0 : length;
    reader->rest = reader->framed && length > 0 ? length : 0;
    reader->spent = 0;
    if (length < 0)
        reader->state = READER_SIZE;
    else
        reader->state = length > 0 ? READER_BODY : READER_DONE;
}

/*
 * Only after a part of it has arrived: a client that waits for 100 (Continue) has sent nothing yet.
 */
int reader_begin_piece(struct reader *reader)
{
    char line[SIZE_LINE];

    reader->left = reader->rest < PIECE ? reader->rest : PIECE;
    reader->rest -= reader->left;
    snprintf(line, sizeof line, "%x\r\n", (unsigned)reader->left);
    reader_out(reader, line);
    return 1;
}

static void end_piece(struct reader *reader)
{
    if (reader->framed)
        reader_out(reader, "\r\n");
    if (reader->rest)
        return;
    if (reader->state == READER_CHUNK) {
        reader->state = READER_END;
        return;
    }
    if (reader->framed)
        reader_out(reader, "0\r\n\r\n");
    reader->state = READER_DONE;
}

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

/* Reads past the buffer, which is not needed. */
static ssize_t ask_past(struct reader *reader, int fd, char *into, size_t size)
{
    if (!reader->untaken)
        reader_drop_buffer(reader);
    return reader_ask(reader, fd, into, size);
}

/*
 * Reads the bytes of a piece. The last ones are read through the buffer, with room for more, in
 * order to find out whether data follows.
 */
ssize_t reader_read_body(struct reader *reader, int fd, char *into, size_t size)
{
    ssize_t got = 1;

    if (reader->start == reader->end) {
        if (reader->drained)
            return reader_nothing_yet();
        got = (int64_t)size < reader->left ? ask_past(reader, fd, into, size)
                                           : reader_fill(reader, fd);
        if (got <= 0)
            return got;
    }
    if (reader->start < reader->end)
        got = (ssize_t)give_waiting(reader, into, size);
    reader->left -= got;
    if (!reader->left)
        end_piece(reader);
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
    if (!reader->left)
        end_piece(reader);
    return (ssize_t)length;
}

static void stop(struct reader *reader, int status, const char *reason)
{
    reader->status = status;
    reader->reason = reason;
    reader->start = reader->end;
    reader->rest = 0;
}

void reader_fail(struct reader *reader, int status, const char *reason)
{
    stop(reader, status, reason);
    reader_out(reader, "0\r\n\r\n");
    reader->state = READER_DONE;
}

bool reader_stop(struct reader *reader, int status, const char *reason)
{
    if (reader->state == READER_HEAD || reader->state == READER_PAD || reader->state == READER_DONE)
        return false;
    reader->refused = true;
    if (reader->left) {
        stop(reader, status, reason);
        reader->state = READER_PAD;
    } else {
        reader_fail(reader, status, reason);
    }
    return true;
}
