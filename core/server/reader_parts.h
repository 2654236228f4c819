/*
 * Internals shared by the parts of the reader, see reader.h. Functions that read return a number of
 * bytes, or 1 if they made progress; 0 at the end of the input; -1 with errno.
 */
#ifndef CORE_READER_PARTS_H
#define CORE_READER_PARTS_H

#include "core/server/reader.h"

struct reader_buffer {
    struct reader_buffer *next;
    struct head_reading reading; /* for the head that begins at `start` */
    size_t room;
    char bytes[];
};

/* reader_buffer.c. Read from the socket, to `into` or into the buffer after the waiting bytes. */
ssize_t reader_ask(struct reader *reader, int fd, char *into, size_t size);
ssize_t reader_fill(struct reader *reader, int fd);
ssize_t reader_nothing_yet(void);
void reader_drop_buffer(struct reader *reader);

/* reader_head.c. Returns 1 when the head is complete, or refused. */
ssize_t reader_read_head(struct reader *reader, int fd);

/*
 * reader_body.c. reader_begin_body() starts a body of `length` bytes, or in chunks (-1).
 * reader_begin_piece() starts its next piece, of which a part has arrived; it returns 1.
 */
void reader_begin_body(struct reader *reader, int64_t length);
int reader_begin_piece(struct reader *reader);
/* Read bytes of a piece, the framing around pieces, or filler bytes. */
ssize_t reader_read_body(struct reader *reader, int fd, char *into, size_t size);
ssize_t reader_read_frame(struct reader *reader, int fd);
ssize_t reader_give_padding(struct reader *reader, char *into, size_t size);

/*
 * reader.c. Appends data for libmicrohttpd; there is always room for a head, or a line before a
 * chunk.
 */
void reader_out(struct reader *reader, const char *text);

/*
 * reader_chunks.c. Continues parsing the framing of chunks in the buffer. Returns 1 after progress;
 * 0 if more bytes are needed.
 */
int reader_frame(struct reader *reader, const char *bytes);
/* reader_body.c. The body is malformed: ends it for libmicrohttpd, between two pieces. */
void reader_fail(struct reader *reader, int status, const char *reason);

#endif
