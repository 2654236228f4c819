/*
 * The reader stands between a connection's socket and libmicrohttpd. It judges the bytes that come
 * (head.h, and the framing of a body of chunks), and what libmicrohttpd gets in their place is a
 * small head of the host's own that says no more than how long the body is and whether the
 * connection stays open. So libmicrohttpd never parses what a stranger wrote, and its memory always
 * suffices. The bytes of a body pass through unchanged, straight from the socket where they can.
 * libmicrohttpd takes an answer before a body or behind it, so it must never await more than can be
 * made up where the client stops: a body that is not small reaches it in chunks of a bounded size.
 *
 * A request that is refused becomes one without a body whose head has a status (head.h); the host
 * answers it as any other, and nothing behind it is read. A body whose framing is malformed ends
 * early, with a status in reader_problem(), which the answer must be.
 *
 * One request at a time: what has come behind it waits until reader_next(). libmicrohttpd is told
 * by its epoll set, edge-triggered, when to read; where something waits it has to be made to read
 * once more, see reader_waits().
 *
 * A buffer is held only while there is a part of a head, or bytes behind a request, in it. One
 * thread at a time.
 */
#ifndef CORE_READER_H
#define CORE_READER_H

#include <sys/types.h>

#include "core/wire/head.h"

enum { READER_OUT_MAX = 160 };

enum reader_state {
    READER_HEAD,
    READER_BODY,  /* `left` and `rest` bytes of a body of a known length */
    READER_SIZE,  /* the line before a chunk */
    READER_CHUNK, /* `left` and `rest` bytes of a chunk */
    READER_END,   /* the end of line behind it */
    READER_TRAILER,
    READER_PAD, /* `left` bytes that libmicrohttpd was promised and that nobody reads */
    READER_DONE /* nothing more of this request */
};

struct reader_buffer;

/* Buffers that are free, of a loop. */
struct reader_pool {
    struct reader_buffer *free;
    size_t count;
};

struct reader {
    struct reader_pool *pool;
    struct reader_buffer *buffer; /* NULL: nothing is kept */
    size_t start, end;            /* of the bytes in the buffer that wait */
    size_t taken_at;              /* where the head begins that is still to be taken */
    enum reader_state state;
    bool drained; /* the socket gave less than was asked for */
    bool began;   /* a part of a head is there */
    bool untaken; /* the head in the buffer has not been taken */
    bool refused; /* it was refused: the rest is not read */
    bool late;    /* set by the host: the rest of the head, or body, is not read, or waited for */
    bool framed;  /* libmicrohttpd gets the body in chunks */
    int64_t left; /* bytes of the piece of the body that libmicrohttpd has been promised */
    int64_t rest; /* bytes behind it */
    size_t spent; /* bytes of extensions and trailers of this body */
    int status;   /* see reader_problem() */
    const char *reason;
    uint8_t out_at, out_end;
    char out[READER_OUT_MAX]; /* what libmicrohttpd gets next, out[out_at..out_end) */
};

void reader_init(struct reader *reader, struct reader_pool *pool);
void reader_free(struct reader *reader);
void reader_pool_free(struct reader_pool *pool);

/* In the place of recv(fd, into, size, 0). */
ssize_t reader_recv(struct reader *reader, int fd, char *into, size_t size);

/* Takes the head that libmicrohttpd was given the last; once for each. 0, or -1: none, no memory.
 */
int reader_take(struct reader *reader, struct arena *arena, struct head *into);

/* The status of the answer to a request whose body is malformed, and the reason; 0: it is not. */
int reader_problem(const struct reader *reader, const char **reason);

/*
 * No more of the body is read, or comes: to libmicrohttpd it ends here, with zeros for what is left
 * of the piece that it was promised. The status is that of the answer, see reader_problem(), and
 * the connection ends with it. False: the body has ended already, or there is none.
 */
bool reader_stop(struct reader *reader, int status, const char *reason);

/* Whether there is something for libmicrohttpd that does not come from the socket. */
bool reader_gives(const struct reader *reader);

/* The request has been answered: the next one may follow. */
void reader_next(struct reader *reader);

/*
 * Whether libmicrohttpd would wait for something to come while there is something already. To be
 * asked when the request has been read whole.
 */
bool reader_waits(const struct reader *reader);

/* Whether a part of a body has not been handed on. */
bool reader_in_body(const struct reader *reader);

/* Whether, besides, all that has come of it was: the rest must come from the socket. */
bool reader_lacks(const struct reader *reader);

/* Whether a part of a head is there. */
bool reader_began(const struct reader *reader);

/* Whether something of what the client sent, or sends, is not read: the connection is to end with
 * care, or the answer is lost. */
bool reader_unread(const struct reader *reader);

#endif
