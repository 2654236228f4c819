/*
 * The reader is placed between a connection's socket and libmicrohttpd. It checks incoming bytes
 * (head.h, and the framing of chunked bodies), and gives libmicrohttpd a small head instead, which
 * only contains the length of the body and whether the connection stays open. So libmicrohttpd
 * never parses untrusted input, and its memory is always sufficient. Body data passes through
 * unchanged, directly from the socket where possible. libmicrohttpd accepts an answer only before
 * or after a body, so if a client stops sending, the reader must be able to fill up the data that
 * libmicrohttpd expects: a body that is not small is passed to it in chunks of limited size.
 *
 * A refused request becomes a request without a body whose head has a status (head.h); the host
 * answers it like any other, and reads nothing after it. A body with malformed framing ends early,
 * and `status` must be answered.
 *
 * One request is processed at a time: bytes after it wait until reader_next(). libmicrohttpd's
 * epoll set is edge-triggered; if bytes wait, libmicrohttpd must be made to read once more, see
 * reader_waits().
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
    READER_SIZE,  /* in the line before a chunk */
    READER_CHUNK, /* in a chunk; `left` and `rest` bytes follow */
    READER_END,   /* in the CR LF after a chunk */
    READER_TRAILER,
    READER_PAD, /* `left` filler bytes that libmicrohttpd expects; their content is ignored */
    READER_DONE /* the request is complete */
};

struct reader_buffer;

/* Zero at the beginning. */
struct reader {
    struct reader_buffer *buffer; /* NULL: no bytes are stored */
    size_t start, end;            /* range of waiting bytes in the buffer */
    size_t taken_at;              /* start of the head that the host has not taken yet */
    enum reader_state state;
    bool drained; /* the socket returned less than requested */
    bool began;   /* a part of a head has arrived */
    bool untaken; /* the host has not taken the head in the buffer */
    bool refused; /* refused: the rest is not read */
    bool late;    /* set by the host: the rest of the head or body is not read or waited for */
    bool framed;  /* libmicrohttpd gets the body in chunks */
    int64_t left; /* bytes of the current piece of the body that libmicrohttpd still expects */
    int64_t rest; /* bytes after that piece */
    size_t spent; /* bytes used by extensions and trailers of this body */
    int status;   /* of the answer to a malformed body, with the reason; 0: the body is fine */
    const char *reason;
    uint8_t out_at, out_end;
    char out[READER_OUT_MAX]; /* out[out_at..out_end) is passed to libmicrohttpd next */
};

/* Frees the buffer. */
void reader_free(struct reader *reader);

/* Replaces recv(fd, into, size, 0). */
ssize_t reader_recv(struct reader *reader, int fd, char *into, size_t size);

/* Takes the head that libmicrohttpd got. Returns 0, or -1: no new head, or out of memory. */
int reader_take(struct reader *reader, struct arena *arena, struct head *into);

/*
 * Ends the body for libmicrohttpd, because the rest will not be read or will not arrive; the
 * current piece is filled up with zeros. The request must be answered with `status`, and
 * the connection is closed after that. False: the body has ended already, or
 * there is none.
 */
bool reader_stop(struct reader *reader, int status, const char *reason);

/* Whether there is data for libmicrohttpd that does not come from the socket. */
bool reader_gives(const struct reader *reader);

/* The request has been answered, so the next request may follow. */
void reader_next(struct reader *reader);

/*
 * Whether libmicrohttpd would wait for an event although data is already there, or may be. Call
 * this when the request has been read completely, or when libmicrohttpd begins to wait.
 */
bool reader_waits(const struct reader *reader);

/* Whether a part of a body has not been passed on. */
bool reader_in_body(const struct reader *reader);

/*
 * Whether some data from the client is not read, now or later: the connection must be closed with
 * linger(), or the client may lose the answer.
 */
bool reader_unread(const struct reader *reader);

#endif
