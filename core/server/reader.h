/*
 * The reader is placed between a connection's socket and libmicrohttpd. It checks the head (head.h)
 * and the framing of chunked bodies. Instead of the client's head, libmicrohttpd gets a small head
 * that the reader writes, which contains only the length of the body and whether the connection
 * stays open. So libmicrohttpd never parses untrusted input, and its memory is always sufficient.
 * Body data passes through unchanged, directly from the socket if possible. libmicrohttpd accepts a
 * response only before or after a body. So if a client stops sending, the reader must fill up the
 * data that libmicrohttpd expects. To limit this data, the reader passes large bodies in chunks.
 *
 * If a head is refused, it has a `status` (head.h), and its body counts as empty; the host answers
 * the request like any other, and reads nothing after it. If the framing of a body is malformed,
 * the body ends early, and the host must answer with `status`.
 *
 * One request is processed at a time: bytes after it wait until reader_next(). libmicrohttpd's
 * epoll set is edge-triggered, so the kernel reports no event for bytes that wait in the reader:
 * see reader_waits().
 *
 * A buffer is allocated only while it contains a part of a head, or bytes after a request. One
 * thread at a time.
 */
#ifndef CORE_READER_H
#define CORE_READER_H

#include <sys/types.h>

#include "core/server/head.h"

enum { READER_OUT_MAX = 160 };

enum reader_state {
    READER_HEAD,
    READER_BODY,  /* in a body of known length; `left` and `rest` bytes follow */
    READER_SIZE,  /* in the line with the size of a chunk */
    READER_CHUNK, /* in a chunk; `left` and `rest` bytes follow */
    READER_END,   /* in the CR LF after a chunk */
    READER_TRAILER,
    READER_PAD, /* `left` filler bytes that libmicrohttpd expects; their content is ignored */
    READER_DONE /* the request is complete */
};

struct reader_buffer;

/* Initialized with zeros. */
struct reader {
    struct reader_buffer *buffer; /* NULL: no bytes are stored */
    size_t start, end;            /* range of bytes in the buffer that are not processed yet */
    size_t taken_at;              /* start of the head that the host has not taken yet */
    enum reader_state state;
    bool drained; /* the last read returned less than requested, so the socket was empty */
    bool began;   /* a part of a head has arrived */
    bool untaken; /* reader_take() was not called yet for the head in the buffer */
    bool refused; /* the head was refused, or the body was stopped: the rest is not read */
    bool late;    /* set by the host: the reader no longer waits for the rest of the head or body */
    bool framed;  /* libmicrohttpd gets the body in chunks */
    int64_t left; /* bytes of the current piece of the body that libmicrohttpd still expects */
    int64_t rest; /* bytes of the body or of the client's chunk after this piece */
    size_t spent; /* bytes used by extensions and trailers of this body */
    int status;   /* status of the response to a malformed body; 0: not malformed */
    const char *reason;
    uint8_t out_at, out_end;
    char out[READER_OUT_MAX]; /* out[out_at..out_end) is passed to libmicrohttpd next */
};

void reader_free(struct reader *reader);

/* Replaces recv(fd, into, size, 0). */
ssize_t reader_recv(struct reader *reader, int fd, char *into, size_t size);

/* Copies the client's head to `into`. Returns 0, or -1 if there is none or memory ran out. */
int reader_take(struct reader *reader, struct arena *arena, struct head *into);

/*
 * Ends the body for libmicrohttpd, because the rest will not be read or will not arrive; fills up
 * the current piece with zeros. The host must answer with `status` and `reason` (static, or NULL),
 * and close the connection. Returns false if there is no body, or it has already ended.
 */
bool reader_stop(struct reader *reader, int status, const char *reason);

/* Returns whether there is data for libmicrohttpd that does not come from the socket. */
bool reader_gives(const struct reader *reader);

/* Begins to read the next request. Call when the previous request has been answered. */
void reader_next(struct reader *reader);

/*
 * Returns whether the reader or the socket may contain data for which the kernel reports no event.
 * Call when the request has been read completely, or when libmicrohttpd begins to wait.
 */
bool reader_waits(const struct reader *reader);

/* Returns whether the body of a request is being read. */
bool reader_in_body(const struct reader *reader);

/*
 * Returns whether some data from the client is or will be unread: then the connection must be
 * closed with connection_linger(), or the client may lose the response.
 */
bool reader_unread(const struct reader *reader);

#endif
