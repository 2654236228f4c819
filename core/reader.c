#include "core/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    SMALL = 4 * 1024, /* the room of a buffer in which nearly every head finds place */
    POOL_MAX = 32     /* that are kept */
};

struct reader_buffer {
    struct reader_buffer *next;
    struct head_reading reading; /* of the head that begins at `start` */
    size_t room;
    char bytes[];
};

void reader_init(struct reader *reader, struct reader_pool *pool)
{
    *reader = (struct reader){.pool = pool};
}

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

static void drop_buffer(struct reader *reader)
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

void reader_free(struct reader *reader)
{
    drop_buffer(reader);
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

/* ---- from the socket ---- */

/* Room behind what waits; -1 without memory. */
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

static ssize_t ask(struct reader *reader, int fd, char *into, size_t size)
{
    ssize_t got = recvfrom(fd, into, size, 0, NULL, NULL);

    reader->drained = got < (ssize_t)size;
    return got;
}

/* Into the buffer, behind what waits there. Bytes, 0 at the end, -1 with errno. */
static ssize_t fill(struct reader *reader, int fd)
{
    if (make_room(reader)) {
        errno = ENOBUFS;
        return -1;
    }
    struct reader_buffer *buffer = reader->buffer;
    ssize_t got = ask(reader, fd, buffer->bytes + reader->end, buffer->room - reader->end);

    if (got > 0)
        reader->end += (size_t)got;
    else if (reader->start == reader->end && !reader->untaken)
        drop_buffer(reader);
    return got;
}

static ssize_t nothing_yet(void)
{
    errno = EAGAIN;
    return -1;
}

/* ---- to libmicrohttpd ---- */

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

static void begin_body(struct reader *reader, const struct head *head)
{
    if (head->status)
        reader->state = READER_DONE;
    else if (head->chunked)
        reader->state = READER_SIZE;
    else
        reader->state = head->length > 0 ? READER_BODY : READER_DONE;
    reader->left = head->length;
    reader->spent = 0;
}

/* Of a method libmicrohttpd has to know whether the answer has a body. */
static bool is_head(const struct reader *reader, const struct head *head)
{
    const char *text = reader->buffer->bytes + reader->taken_at;

    return head->split && !strcmp(text + head->method, "HEAD");
}

static void out_length(struct reader *reader, const struct head *head)
{
    char length[48];

    if (head->chunked) {
        reader_out(reader, "Transfer-Encoding:chunked\r\n");
    } else if (head->length > 0) {
        snprintf(length, sizeof length, "Content-Length:%lld\r\n", (long long)head->length);
        reader_out(reader, length);
    }
    if (head->expects && reader->start == reader->end)
        reader_out(reader, "Expect:100-continue\r\n");
}

/* The head of the host's own. */
static void begin_request(struct reader *reader)
{
    const struct head_reading *reading = &reader->buffer->reading;
    const struct head *head = &reading->head;

    reader->taken_at = reader->start;
    reader->start = head->status ? reader->end : reader->start + reading->at;
    reader->began = false;
    reader->untaken = true;
    reader->refused = head->status != 0;
    reader_out(reader, is_head(reader, head) ? "HEAD / HTTP/1." : "POST / HTTP/1.");
    reader_out(reader, head->minor ? "1\r\nHost:h\r\n" : "0\r\nHost:h\r\n");
    if (head->status || head->closes)
        reader_out(reader, "Connection:close\r\n");
    else if (head->keeps)
        reader_out(reader, "Connection:keep-alive\r\n");
    if (!head->status)
        out_length(reader, head);
    reader_out(reader, "\r\n");
    begin_body(reader, head);
}

static bool only_empty_lines(const struct head_reading *reading)
{
    return !reading->head.split && reading->at == reading->line;
}

/* The rest of the head does not come. */
static enum head_state refuse_part(struct reader *reader)
{
    struct head_reading *reading = &reader->buffer->reading;

    return reader->late ? head_refuse(reading, 408, "The head took too long to come")
                        : head_refuse(reading, 400, "The head ends too early");
}

/*
 * 1: the head is there, or refused; else what fill() gave. The socket is asked until it has nothing
 * more: of the end of a connection that comes with bytes nothing else would tell.
 */
static ssize_t read_head(struct reader *reader, int fd)
{
    enum head_state found = HEAD_PARTIAL;

    while (found == HEAD_PARTIAL) {
        if (reader->end > reader->start)
            found = head_read(&reader->buffer->reading, reader->buffer->bytes + reader->start,
                              reader->end - reader->start);
        if (found != HEAD_PARTIAL)
            break;
        reader->began = reader->end > reader->start;
        ssize_t got = fill(reader, fd);

        if (got < 0 || (!got && (!reader->buffer || only_empty_lines(&reader->buffer->reading))))
            return got;
        if (!got)
            found = refuse_part(reader);
    }
    begin_request(reader);
    return 1;
}

/*
 * The bytes of a body. The last ones are read by way of the buffer, with room behind them: so it is
 * seen whether something follows.
 */
static ssize_t read_body(struct reader *reader, int fd, char *into, size_t size)
{
    ssize_t got = 1;

    if (reader->start == reader->end) {
        if (reader->drained)
            return nothing_yet();
        if ((int64_t)size < reader->left)
            got = ask(reader, fd, into, size);
        else
            got = fill(reader, fd);
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

/* The framing of chunks. 1: it came on; else what fill() gave. */
static ssize_t read_frame(struct reader *reader, int fd)
{
    while (reader->start == reader->end || !reader_frame(reader, reader->buffer->bytes)) {
        if (reader->drained)
            return nothing_yet();
        ssize_t got = fill(reader, fd);

        if (got <= 0)
            return got;
    }
    return 1;
}

static ssize_t give_padding(struct reader *reader, char *into, size_t size)
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

/* The client says that nothing more comes. Whether that is the end for libmicrohttpd, too. */
static bool ends(struct reader *reader)
{
    return reader->state == READER_HEAD || !reader_stop(reader, 400, "The body ends too early");
}

/* Bytes for libmicrohttpd, or 0 where the state has only come on; -1 with errno. */
static ssize_t step(struct reader *reader, int fd, char *into, size_t size, bool *ended)
{
    ssize_t got;

    switch (reader->state) {
    case READER_HEAD:
        got = read_head(reader, fd);
        *ended = !got;
        return got > 0 ? 0 : got;
    case READER_BODY:
    case READER_CHUNK:
        got = read_body(reader, fd, into, size);
        *ended = !got && ends(reader);
        return got;
    case READER_PAD:
        return give_padding(reader, into, size);
    case READER_DONE:
        return nothing_yet();
    default:
        got = read_frame(reader, fd);
        *ended = !got && ends(reader);
        return got > 0 ? 0 : got;
    }
}

ssize_t reader_recv(struct reader *reader, int fd, char *into, size_t size)
{
    size_t given = 0;
    ssize_t got = 0;
    bool ended = false;

    reader->drained = reader->drained && reader->state == READER_DONE; /* then it is not asked */
    while (given < size && got >= 0 && !ended) {
        if (reader->out_at < reader->out_end)
            got = (ssize_t)give_out(reader, into + given, size - given);
        else
            got = step(reader, fd, into + given, size - given, &ended);
        given += got > 0 ? (size_t)got : 0;
    }
    return given ? (ssize_t)given : got;
}

/* ---- to the host ---- */

int reader_take(struct reader *reader, struct arena *arena, struct head *into)
{
    struct reader_buffer *buffer = reader->buffer;

    if (!reader->untaken)
        return -1;
    reader->untaken = false;
    int status = head_keep(&buffer->reading, buffer->bytes + reader->taken_at, arena, into);

    if (reader->start == reader->end)
        drop_buffer(reader);
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
        return; /* the connection ends */
    reader->state = READER_HEAD;
    if (reader->start == reader->end)
        drop_buffer(reader);
    else
        head_begin(&reader->buffer->reading);
}

bool reader_waits(const struct reader *reader)
{
    return reader->state == READER_DONE && (reader->start < reader->end || !reader->drained);
}

bool reader_lacks(const struct reader *reader)
{
    return reader->state != READER_DONE && reader->state != READER_PAD &&
           reader->start == reader->end;
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
