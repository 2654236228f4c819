/* Waiting bytes: buffers, and input from the socket. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/server/reader_parts.h"

enum {
    SMALL = 4 * 1024, /* sufficient for nearly every head */
    POOL_MAX = 32     /* maximum number of unused buffers */
};

static struct reader_buffer *buffer_new(struct reader_pool *pool)
{
    struct reader_buffer *buffer = pool->free;

    if (buffer) {
        pool->free = buffer->next;
        pool->count--;
    } else {
        buffer = malloc(sizeof *buffer + SMALL);
        if (!buffer)
            return NULL;
        buffer->room = SMALL;
    }
    head_begin(&buffer->reading);
    return buffer;
}

void reader_drop_buffer(struct reader *reader)
{
    struct reader_buffer *buffer = reader->buffer;
    struct reader_pool *pool = reader->pool;

    reader->buffer = NULL;
    reader->start = reader->end = 0;
    if (!buffer)
        return;
    if (buffer->room > SMALL || pool->count == POOL_MAX) {
        free(buffer);
        return;
    }
    buffer->next = pool->free;
    pool->free = buffer;
    pool->count++;
}

void reader_pool_free(struct reader_pool *pool)
{
    while (pool->free) {
        struct reader_buffer *buffer = pool->free;

        pool->free = buffer->next;
        free(buffer);
    }
    pool->count = 0;
}

/* Makes room after the waiting bytes; -1: out of memory. */
static int make_room(struct reader *reader)
{
    struct reader_buffer *buffer = reader->buffer;

    if (!buffer) {
        reader->buffer = buffer_new(reader->pool);
        return reader->buffer ? 0 : -1;
    }
    if (reader->end < buffer->room)
        return 0;
    if (reader->start && !reader->untaken) {
        memmove(buffer->bytes, buffer->bytes + reader->start, reader->end - reader->start);
        reader->end -= reader->start;
        reader->start = 0;
        return 0;
    }
    size_t room = buffer->room * 2;
    struct reader_buffer *larger = realloc(buffer, sizeof *buffer + room);

    if (!larger)
        return -1;
    larger->room = room;
    reader->buffer = larger;
    return 0;
}

ssize_t reader_ask(struct reader *reader, int fd, char *into, size_t size)
{
    ssize_t got = recvfrom(fd, into, size, 0, NULL, NULL);

    reader->drained = got < (ssize_t)size;
    return got;
}

ssize_t reader_fill(struct reader *reader, int fd)
{
    if (make_room(reader)) {
        errno = ENOBUFS;
        return -1;
    }
    struct reader_buffer *buffer = reader->buffer;
    ssize_t got = reader_ask(reader, fd, buffer->bytes + reader->end, buffer->room - reader->end);

    if (got > 0)
        reader->end += (size_t)got;
    else if (reader->start == reader->end && !reader->untaken)
        reader_drop_buffer(reader);
    return got;
}

ssize_t reader_nothing_yet(void)
{
    errno = EAGAIN;
    return -1;
}
