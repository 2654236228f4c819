/*
 * What the parts of the reader share, and nobody else includes. All as reader.h says; a function
 * that reads gives bytes, or 1 where it came on, 0 at the end of what comes, -1 with errno.
 */
#ifndef CORE_READER_PARTS_H
#define CORE_READER_PARTS_H

#include "core/wire/reader.h"

struct reader_buffer {
    struct reader_buffer *next;
    struct head_reading reading; /* of the head that begins at `start` */
    size_t room;
    char bytes[];
};

/* reader_buffer.c. From the socket, to its place or into the buffer, behind what waits there. */
ssize_t reader_ask(struct reader *reader, int fd, char *into, size_t size);
ssize_t reader_fill(struct reader *reader, int fd);
ssize_t reader_nothing_yet(void);
void reader_drop_buffer(struct reader *reader);

/* reader_head.c. 1: the head is there, or refused. */
ssize_t reader_read_head(struct reader *reader, int fd);

/*
 * reader_body.c. A body begins of which so many bytes come, or as many as its chunks say (-1). The
 * next piece of it begins, of which a part has come: 1.
 */
void reader_begin_body(struct reader *reader, int64_t length);
int reader_begin_piece(struct reader *reader);
/* Bytes of a piece, or the framing around them, or what nobody reads. */
ssize_t reader_read_body(struct reader *reader, int fd, char *into, size_t size);
ssize_t reader_read_frame(struct reader *reader, int fd);
ssize_t reader_give_padding(struct reader *reader, char *into, size_t size);

/* reader.c. What libmicrohttpd gets next; there is always room for a head, or a line of chunks. */
void reader_out(struct reader *reader, const char *text);

/* reader_chunks.c. Goes on in the framing of chunks, with what is in the buffer. 1: it came on; 0:
 * more must come. */
int reader_frame(struct reader *reader, const char *bytes);
/* reader_body.c. The body is malformed: to libmicrohttpd it ends here, between two pieces. */
void reader_fail(struct reader *reader, int status, const char *reason);

#endif
