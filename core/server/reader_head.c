/* The head that libmicrohttpd gets instead of the client's. */
#include <stdio.h>
#include <string.h>

#include "core/server/reader_parts.h"

/* libmicrohttpd only needs to know whether the method allows the answer to have a body. */
static bool is_head(const struct reader *reader, const struct head *head)
{
    const char *text = reader->buffer->bytes + reader->taken_at;

    return head->split && !strcmp(text + head->method, "HEAD");
}

static void out_length(struct reader *reader, const struct head *head)
{
    char length[48];

    if (reader->framed) {
        reader_out(reader, "Transfer-Encoding:chunked\r\n");
    } else if (head->length > 0) {
        snprintf(length, sizeof length, "Content-Length:%lld\r\n", (long long)head->length);
        reader_out(reader, length);
    }
    if (head->expects && reader->start == reader->end)
        reader_out(reader, "Expect:100-continue\r\n");
}

/*
 * HTTP/1.0 has no chunks: if libmicrohttpd gets chunks, it gets HTTP/1.1 with explicit fields for
 * the differences.
 */
static void out_version(struct reader *reader, const struct head *head)
{
    bool newer = head->minor || reader->framed;

    reader_out(reader, newer ? "1\r\nHost:h\r\n" : "0\r\nHost:h\r\n");
    if (head->status || head->closes || (newer && !head->minor && !head->keeps))
        reader_out(reader, "Connection:close\r\n");
    else if (head->keeps)
        reader_out(reader, "Connection:keep-alive\r\n");
}

/* Writes the host's own head. */
static void begin_request(struct reader *reader)
{
    const struct head_reading *reading = &reader->buffer->reading;
    const struct head *head = &reading->head;

    reader->taken_at = reader->start;
    reader->start = head->status ? reader->end : reader->start + reading->at;
    reader->began = false;
    reader->untaken = true;
    reader->refused = head->status != 0;
    if (head->status)
        reader_begin_body(reader, 0);
    else if (head->chunked)
        reader_begin_body(reader, -1);
    else
        reader_begin_body(reader, head->length > 0 ? head->length : 0);
    reader_out(reader, is_head(reader, head) ? "HEAD / HTTP/1." : "POST / HTTP/1.");
    out_version(reader, head);
    if (!head->status)
        out_length(reader, head);
    reader_out(reader, "\r\n");
}

static bool only_empty_lines(const struct head_reading *reading)
{
    return !reading->head.split && reading->at == reading->line;
}

/* The rest of the head will not arrive. */
static enum head_state refuse_part(struct reader *reader)
{
    struct head_reading *reading = &reader->buffer->reading;

    return reader->late ? head_refuse(reading, 408, "The head took too long to come")
                        : head_refuse(reading, 400, "The head ends too early");
}

/*
 * Reads the socket until it is empty: the end of a connection that arrives together with data
 * causes no further event.
 */
ssize_t reader_read_head(struct reader *reader, int fd)
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

        if (got < 0 || (!got && (!reader->buffer || only_empty_lines(&reader->buffer->reading))))
            return got;
        if (!got)
            found = refuse_part(reader);
    }
    begin_request(reader);
    return 1;
}
