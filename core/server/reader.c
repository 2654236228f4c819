/* The functions that read return a positive number, 0 at the end of the input, or -1 with errno. */
#include "core/server/reader.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/lib/text.h"

enum {
    SMALL = 4 * 1024,      /* initial size of a buffer, sufficient for nearly every head */
    PIECE = 64 * 1024,     /* maximum size of the chunks that libmicrohttpd gets */
    LINE_MAX_BYTES = 1024, /* maximum of a line with a chunk's size and extensions, or a trailer */
    SPENT_MAX = 16 * 1024, /* maximum bytes of extensions and trailers of a body */
    DIGITS_MAX = 15        /* maximum digits of a chunk's size, without leading zeros */
};

struct reader_buffer {
    struct head_reading reading; /* for the head that begins at `start` */
    size_t room;
    char bytes[];
};

/* ---- the socket and the buffer ---- */

void reader_free(struct reader *reader)
{
    free(reader->buffer);
    reader->buffer = NULL;
    reader->start = reader->end = 0;
}

static ssize_t reader_nothing_yet(void)
{
    errno = EAGAIN;
    return -1;
}

static ssize_t reader_ask(struct reader *reader, int fd, char *into, size_t size)
{
    ssize_t got = recvfrom(fd, into, size, 0, NULL, NULL);

    reader->drained = got < (ssize_t)size;
    return got;
}

/* Reads from the socket into the buffer, after the waiting bytes. */
static ssize_t reader_fill(struct reader *reader, int fd)
{
    struct reader_buffer *buffer = reader->buffer;

    if (!buffer) {
        buffer = malloc(sizeof *buffer + SMALL);
        if (buffer) {
            buffer->room = SMALL;
            head_begin(&buffer->reading);
        }
    } else if (reader->end == buffer->room && reader->start && !reader->untaken) {
        memmove(buffer->bytes, buffer->bytes + reader->start, reader->end - reader->start);
        reader->end -= reader->start;
        reader->start = 0;
    } else if (reader->end == buffer->room) {
        size_t room = buffer->room * 2;

        buffer = realloc(buffer, sizeof *buffer + room);
        if (buffer)
            buffer->room = room;
    }
    if (!buffer) {
        errno = ENOBUFS;
        return -1;
    }
    reader->buffer = buffer;
    ssize_t got = reader_ask(reader, fd, buffer->bytes + reader->end, buffer->room - reader->end);

    if (got > 0)
        reader->end += (size_t)got;
    else if (reader->start == reader->end && !reader->untaken)
        reader_free(reader);
    return got;
}

/* ---- the head ---- */

/* Appends to `out`, which has room for the longest head or chunk size. */
static void reader_out(struct reader *reader, const char *text)
{
    size_t length = strlen(text);

    if (reader->out_at == reader->out_end)
        reader->out_at = reader->out_end = 0;
    memcpy(reader->out + reader->out_end, text, length);
    reader->out_end = (uint8_t)(reader->out_end + length);
}

/* Starts the body after a complete or refused head, and writes a head for libmicrohttpd. */
static void reader_begin_request(struct reader *reader)
{
    const struct head_reading *reading = &reader->buffer->reading;
    const struct head *head = &reading->head;
    const char *text = reader->buffer->bytes + reader->start;
    int64_t length = head->chunked ? -1 : head->length;
    char line[48];

    if (head->status || (length < 0 && !head->chunked))
        length = 0;
    reader->taken_at = reader->start;
    reader->start = head->status ? reader->end : reader->start + reading->at;
    reader->began = false;
    reader->untaken = true;
    reader->refused = head->status != 0;
    reader->framed = length < 0 || length > PIECE;
    reader->left = reader->framed ? 0 : length;
    reader->rest = reader->framed && length > 0 ? length : 0;
    reader->spent = 0;
    if (length < 0)
        reader->state = READER_SIZE;
    else
        reader->state = length > 0 ? READER_BODY : READER_DONE;
    /* chunks need HTTP/1.1; so Connection:close is added for HTTP/1.0 clients, as their default */
    bool newer = head->minor || reader->framed;

    /* libmicrohttpd needs the method only to decide whether the response has a body */
    reader_out(reader, head->split && !strcmp(text + head->method, "HEAD") ? "HEAD / HTTP/1."
                                                                           : "POST / HTTP/1.");
    reader_out(reader, newer ? "1\r\nHost:h\r\n" : "0\r\nHost:h\r\n");
    if (head->status || head->closes || (newer && !head->minor && !head->keeps))
        reader_out(reader, "Connection:close\r\n");
    else if (head->keeps)
        reader_out(reader, "Connection:keep-alive\r\n");
    if (reader->framed) {
        reader_out(reader, "Transfer-Encoding:chunked\r\n");
    } else if (length > 0) {
        snprintf(line, sizeof line, "Content-Length:%lld\r\n", (long long)length);
        reader_out(reader, line);
    }
    if (!head->status && head->expects && reader->start == reader->end)
        reader_out(reader, "Expect:100-continue\r\n");
    reader_out(reader, "\r\n");
}

/* Reads a head; stops when it is complete, or when the socket (edge-triggered) has no more data. */
static ssize_t reader_read_head(struct reader *reader, int fd)
{
    enum head_state found = HEAD_PARTIAL;

    while (found == HEAD_PARTIAL) {
        if (reader->end > reader->start)
            found = head_read(&reader->buffer->reading, reader->buffer->bytes + reader->start,
                              reader->end - reader->start);
        if (found != HEAD_PARTIAL)
            break;
        reader->began = reader->end > reader->start;
        ssize_t got = reader_fill(reader, fd);

        if (got < 0 || (!got && !reader->buffer))
            return got;
        if (got)
            continue;
        struct head_reading *reading = &reader->buffer->reading;

        if (!reading->head.split && reading->at == reading->line) /* only empty lines */
            return 0;
        found = reader->late ? head_refuse(reading, 408, "The head did not arrive in time")
                             : head_refuse(reading, 400, "The head ends too early");
    }
    reader_begin_request(reader);
    return 1;
}

/* ---- the bytes of a body, and its end ---- */

static void reader_end_piece(struct reader *reader)
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

/* Reads bytes of a piece. If more than the piece may arrive, reads into the buffer first. */
static ssize_t reader_read_piece(struct reader *reader, int fd, char *into, size_t size)
{
    bool past = (int64_t)size < reader->left; /* the piece exceeds `into`: bypass the buffer */
    ssize_t got = 1;

    if (reader->start == reader->end) {
        if (reader->drained)
            return reader_nothing_yet();
        if (past && !reader->untaken)
            reader_free(reader);
        got = past ? reader_ask(reader, fd, into, size) : reader_fill(reader, fd);
        if (got <= 0)
            return got;
    }
    if (reader->start < reader->end) {
        size_t length = reader->end - reader->start, most = past ? size : (size_t)reader->left;

        length = length < most ? length : most;
        memcpy(into, reader->buffer->bytes + reader->start, length);
        reader->start += length;
        got = (ssize_t)length;
    }
    reader->left -= got;
    if (!reader->left)
        reader_end_piece(reader);
    return got;
}

static void reader_refuse_rest(struct reader *reader, int status, const char *reason)
{
    reader->status = status;
    reader->reason = reason;
    reader->start = reader->end;
    reader->rest = 0;
}

/* Ends the body for libmicrohttpd; call only between two pieces. Returns 1. */
static int reader_fail(struct reader *reader, int status, const char *reason)
{
    reader_refuse_rest(reader, status, reason);
    reader_out(reader, "0\r\n\r\n");
    reader->state = READER_DONE;
    return 1;
}

bool reader_stop(struct reader *reader, int status, const char *reason)
{
    if (reader->state == READER_HEAD || reader->state == READER_PAD || reader->state == READER_DONE)
        return false;
    reader->refused = true;
    if (!reader->left)
        return reader_fail(reader, status, reason);
    reader_refuse_rest(reader, status, reason);
    reader->state = READER_PAD;
    return true;
}

/* ---- the framing of a chunked body (RFC 9112, 7.1): sizes, extensions, trailers ---- */

static const char *reader_skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

/*
 * Returns whether the text is *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] ). The
 * caller has refused control characters.
 */
static bool reader_are_extensions(const char *at, const char *end)
{
    while (at < end) {
        at = reader_skip_blanks(at, end);
        if (at == end || *at++ != ';')
            return false;
        at = reader_skip_blanks(at, end);
        size_t length = head_token_run(at, (size_t)(end - at));
        const char *equals = reader_skip_blanks(at + length, end);

        if (!length)
            return false;
        at += length;
        if (equals == end || *equals != '=')
            continue;
        at = reader_skip_blanks(equals + 1, end);
        if (at < end && *at == '"') {
            for (at++; at < end && *at != '"'; at++) {
                if (*at == '\\' && ++at == end)
                    return false;
            }
            length = at < end;
        } else {
            length = head_token_run(at, (size_t)(end - at));
        }
        if (!length)
            return false;
        at += length;
    }
    return true;
}

static int reader_take_size(struct reader *reader, const char *line, size_t length)
{
    const char *at = line, *end = line + length;
    int64_t size = 0;

    for (; at < end && OPENSSL_hexchar2int((unsigned char)*at) >= 0; at++) {
        if (size >> 4 * (DIGITS_MAX - 1))
            return reader_fail(reader, 413, "The body is too large");
        size = size * 16 + OPENSSL_hexchar2int((unsigned char)*at);
    }
    reader->spent += (size_t)(end - at);
    if (at == line || !reader_are_extensions(at, end))
        return reader_fail(reader, 400, "The size of a chunk of the body is malformed");
    if (reader->spent > SPENT_MAX)
        return reader_fail(reader, 400, "The chunks of the body have too many extensions");
    reader->rest = size;
    reader->state = size ? READER_CHUNK : READER_TRAILER;
    return 1;
}

/* Processes framing from the buffer. Returns 1 after progress, 0 if it needs more bytes. */
static int reader_take_frame(struct reader *reader)
{
    const char *line = reader->buffer->bytes + reader->start;
    size_t there = reader->end - reader->start;
    struct head_field field;
    char text[16];

    if (reader->state == READER_BODY || reader->state == READER_CHUNK) {
        /* begins a piece, but only when data has arrived: else libmicrohttpd would not send 100 */
        reader->left = reader->rest < PIECE ? reader->rest : PIECE;
        reader->rest -= reader->left;
        snprintf(text, sizeof text, "%x\r\n", (unsigned)reader->left);
        reader_out(reader, text);
        return 1;
    }
    if (reader->state == READER_END) {
        if (line[0] != '\r' || (there > 1 && line[1] != '\n'))
            return reader_fail(reader, 400, "A chunk of the body does not end with CR LF");
        if (there < 2)
            return 0;
        reader->start += 2;
        reader->state = READER_SIZE;
        return 1;
    }
    size_t at = head_value_run(line, there < LINE_MAX_BYTES + 1 ? there : LINE_MAX_BYTES + 1);

    if (at > LINE_MAX_BYTES)
        return reader_fail(reader, 400, "A line between the chunks of the body is too long");
    if (at < there && (line[at] != '\r' || (at + 1 < there && line[at + 1] != '\n')))
        return reader_fail(reader, 400, "A line between the chunks of the body is malformed");
    if (at + 1 >= there)
        return 0;
    reader->start += at + 2;
    if (reader->state == READER_SIZE)
        return reader_take_size(reader, line, at);
    if (!at) { /* an empty line ends the trailers */
        reader_out(reader, "0\r\n\r\n");
        reader->state = READER_DONE;
        return 1;
    }
    reader->spent += at;
    if (reader->spent > SPENT_MAX)
        return reader_fail(reader, 400, "The trailers of the body are too large");
    if (head_field_split(line, 0, at, &field))
        return reader_fail(reader, 400, "A trailer of the body is malformed");
    return 1;
}

static ssize_t reader_read_frame(struct reader *reader, int fd)
{
    while (reader->start == reader->end || !reader_take_frame(reader)) {
        ssize_t got = reader->drained ? reader_nothing_yet() : reader_fill(reader, fd);

        if (got <= 0)
            return got;
    }
    return 1;
}

/* ---- for libmicrohttpd ---- */

/* Gives libmicrohttpd bytes of the reader: a head, framing, or zeros that fill up a piece. */
static size_t reader_give(struct reader *reader, char *into, size_t size)
{
    size_t length = (size_t)(reader->out_end - reader->out_at);

    if (length) {
        length = length < size ? length : size;
        memcpy(into, reader->out + reader->out_at, length);
        reader->out_at = (uint8_t)(reader->out_at + length);
        return length;
    }
    length = (int64_t)size < reader->left ? size : (size_t)reader->left;
    memset(into, 0, length);
    reader->left -= (int64_t)length;
    if (!reader->left)
        reader_end_piece(reader);
    return length;
}

ssize_t reader_recv(struct reader *reader, int fd, char *into, size_t size)
{
    size_t given = 0;
    ssize_t got = 1;

    reader->drained =
        reader->drained && reader->state == READER_DONE; /* in other states this call reads again */
    while (given < size && got > 0) {
        bool piece = reader->left > 0;

        if (reader_gives(reader)) {
            given += reader_give(reader, into + given, size - given);
        } else if (reader->state == READER_HEAD) {
            got = reader_read_head(reader, fd);
        } else if (reader->state == READER_DONE) {
            got = reader_nothing_yet();
        } else if (reader->late) {
            reader_stop(reader, 408, "The body did not arrive in time");
        } else {
            got = piece ? reader_read_piece(reader, fd, into + given, size - given)
                        : reader_read_frame(reader, fd);
            given += piece && got > 0 ? (size_t)got : 0;
            if (!got && reader_stop(reader, 400, "The body ends too early"))
                got = 1; /* libmicrohttpd must first get what reader_stop() added */
        }
    }
    return given || got > 0 ? (ssize_t)given : got;
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
        reader_free(reader);
    return status;
}

void reader_next(struct reader *reader)
{
    if (reader->state != READER_DONE || reader->status || reader->untaken)
        return; /* the connection will be closed */
    reader->state = READER_HEAD;
    if (reader->start == reader->end)
        reader_free(reader);
    else
        head_begin(&reader->buffer->reading);
}

bool reader_waits(const struct reader *reader)
{
    return reader_gives(reader) || reader->start < reader->end || !reader->drained;
}

bool reader_in_body(const struct reader *reader)
{
    return reader->state != READER_HEAD && reader->state != READER_DONE &&
           reader->state != READER_PAD;
}

bool reader_gives(const struct reader *reader)
{
    return reader->out_at < reader->out_end || reader->state == READER_PAD;
}

bool reader_unread(const struct reader *reader)
{
    return reader->refused || reader->start < reader->end ||
           (reader->state != READER_HEAD && reader->state != READER_DONE);
}
