#include "core/server/reader_parts.h"

#include <string.h>

void reader_init(struct reader *reader, struct reader_pool *pool)
{
    *reader = (struct reader){.pool = pool};
}

void reader_free(struct reader *reader)
{
    reader_drop_buffer(reader);
}

/* ---- for libmicrohttpd ---- */

void reader_out(struct reader *reader, const char *text)
{
    size_t length = strlen(text);

    if (reader->out_at == reader->out_end)
        reader->out_at = reader->out_end = 0;
    memcpy(reader->out + reader->out_end, text, length);
    reader->out_end = (uint8_t)(reader->out_end + length);
}

static size_t give_out(struct reader *reader, char *into, size_t size)
{
    size_t length = (size_t)(reader->out_end - reader->out_at);

    if (length > size)
        length = size;
    memcpy(into, reader->out + reader->out_at, length);
    reader->out_at = (uint8_t)(reader->out_at + length);
    return length;
}

/* The client has shut down its side. Returns whether that is the end for libmicrohttpd, too. */
static bool ends(struct reader *reader)
{
    if (reader->state == READER_HEAD)
        return true;
    return !reader_stop(reader, 400, "The body ends too early");
}

/* Returns bytes for libmicrohttpd, or 0 if only the state has changed; -1 with errno. */
static ssize_t step(struct reader *reader, int fd, char *into, size_t size, bool *ended)
{
    ssize_t got;

    switch (reader->state) {
    case READER_HEAD:
        got = reader_read_head(reader, fd);
        break;
    case READER_PAD:
        return reader_give_padding(reader, into, size);
    case READER_DONE:
        return reader_nothing_yet();
    default:
        if (reader->late) {
            reader_stop(reader, 408, "The body took too long to come");
            return 0;
        }
        if (!reader->left) {
            got = reader_read_frame(reader, fd);
            break;
        }
        got = reader_read_body(reader, fd, into, size);
        *ended = !got && ends(reader);
        return got;
    }
    *ended = !got && ends(reader);
    return got > 0 ? 0 : got;
}

ssize_t reader_recv(struct reader *reader, int fd, char *into, size_t size)
{
    size_t given = 0;
    ssize_t got = 0;
    bool ended = false;

    reader->drained = reader->drained && reader->state == READER_DONE; /* in this state the socket
                                                                        * is not read */
    while (given < size && got >= 0 && !ended) {
        if (reader->out_at < reader->out_end)
            got = (ssize_t)give_out(reader, into + given, size - given);
        else
            got = step(reader, fd, into + given, size - given, &ended);
        given += got > 0 ? (size_t)got : 0;
    }
    return given ? (ssize_t)given : got;
}

/* ---- for the host ---- */

int reader_take(struct reader *reader, struct arena *arena, struct head *into)
{
    struct reader_buffer *buffer = reader->buffer;

    if (!reader->untaken)
        return -1;
    reader->untaken = false;
    int status = head_keep(&buffer->reading, buffer->bytes + reader->taken_at, arena, into);

    if (reader->start == reader->end)
        reader_drop_buffer(reader);
    return status;
}

int reader_problem(const struct reader *reader, const char **reason)
{
    *reason = reader->reason;
    return reader->status;
}

void reader_next(struct reader *reader)
{
    if (reader->state != READER_DONE || reader->status || reader->untaken)
        return; /* the connection is closed */
    reader->state = READER_HEAD;
    if (reader->start == reader->end)
        reader_drop_buffer(reader);
    else
        head_begin(&reader->buffer->reading);
}

bool reader_waits(const struct reader *reader)
{
    return reader->state == READER_DONE && (reader->start < reader->end || !reader->drained);
}

bool reader_in_body(const struct reader *reader)
{
    return reader->state != READER_HEAD && reader->state != READER_DONE &&
           reader->state != READER_PAD;
}

bool reader_lacks(const struct reader *reader)
{
    return reader_in_body(reader) && reader->start == reader->end;
}

bool reader_gives(const struct reader *reader)
{
    return reader->out_at < reader->out_end || reader->state == READER_PAD;
}

bool reader_began(const struct reader *reader)
{
    return reader->began;
}

bool reader_unread(const struct reader *reader)
{
    return reader->refused || reader->start < reader->end ||
           (reader->state != READER_HEAD && reader->state != READER_DONE);
}
