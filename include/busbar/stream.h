/*
 * Streams: answers that stay open and are written to piece by piece, for as long as the client
 * listens (Server-Sent Events). A stream has no fiber and no thread: what is sent waits in a
 * bounded queue, and the loop of its connection writes it as fast as the client reads.
 *
 * bb_stream_open() in a handler makes the answer one; it begins when the handler has returned. From
 * then on the stream may be used from any thread, until `closed` has been called: that is the
 * module's last sight of it, and the place to forget the pointer.
 *
 * Streams that hear the same join a topic, and bb_stream_publish() sends to all of them.
 *
 * A stream ends when the client leaves, when the client reads so slowly that the queue is full or
 * http.write_timeout passes, when its token is not good any more or stands for other rights than at
 * its beginning (the host looks about twice a second), when the host stops, when the generation
 * that opened it is superseded, and by bb_stream_end(). A stream holds its generation.
 *
 * Since minor 1.
 */
#ifndef BUSBAR_STREAM_H
#define BUSBAR_STREAM_H

#include <busbar/request.h>

struct bb_stream;

/* Bytes that many streams may share; counted holders. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" /* C++ has no such arrays */
struct bb_chunk {
    size_t length;
    char bytes[];
};
#pragma GCC diagnostic pop

struct bb_stream_options {
    size_t size;
    const char *type;    /* Content-Type; static */
    size_t limit;        /* bytes that may wait; a chunk that finds the queue empty always may */
    const char *goodbye; /* the last bytes where the host ends the stream; static, or NULL */
    /* Called once for every stream that was opened, on a thread of the host; must not wait. */
    void (*closed)(struct bb_stream *stream, void *arg);
    void *arg;
    /* The end means that the answer is whole: where the host ends the stream, it is cut instead;
     * after a reload not before reload.drain seconds have passed. */
    bool whole;
    /* What is sent when nothing has been for so long, give or take half a second, so that the
     * client and proxies see that it goes on: ":\n\n". Static; NULL, or 0 ms: nothing. Since
     * minor 11. */
    const char *heartbeat;
    int64_t heartbeat_ms;
};

/*
 * Makes the answer a stream. 200 with *stream: return it, and answer nothing else. Else the status
 * of the answer given, and `closed` is not called: 503 when http.max_streams are open, when the
 * host is stopping, or without memory.
 */
static inline int bb_stream_open(struct bb_request *rq, const struct bb_stream_options *options,
                                 struct bb_stream **stream)
{
    return rq->api->stream_open(rq, options, stream);
}

/* A chunk of `length` bytes, to be filled by the caller, its one holder; NULL: out of memory. */
static inline struct bb_chunk *bb_chunk_new(struct bb_host *host, size_t length)
{
    return host->api->chunk_new(length);
}

/* Gives a hold back; the last one frees. NULL is fine. Any thread. */
static inline void bb_chunk_release(struct bb_host *host, struct bb_chunk *chunk)
{
    host->api->chunk_release(chunk);
}

/*
 * Queues a chunk, which the stream then holds as well and which must not change any more. 0, an
 * empty chunk included, which does nothing; or -1 when the queue is full or memory ran out: the
 * stream is cut then. Any thread; does not wait.
 */
static inline int bb_stream_send(struct bb_host *host, struct bb_stream *stream,
                                 struct bb_chunk *chunk)
{
    return host->api->stream_send(stream, chunk);
}

/* Bytes that wait in the queue. Any thread. */
static inline size_t bb_stream_waiting(struct bb_host *host, struct bb_stream *stream)
{
    return host->api->stream_waiting(stream);
}

/* Ends it at once, so that the client sees that something is missing. Any thread. */
static inline void bb_stream_cut(struct bb_host *host, struct bb_stream *stream)
{
    host->api->stream_cut(stream);
}

/*
 * Joins a stream of the module to one of its topics, which has any name: until the stream has
 * closed it is sent what is published there. A stream may join several; to join one again does
 * nothing. Topics are the module's own, in one generation and on one host: where all hosts are to
 * hear something, tell a channel (bb_notify()) and publish when it is heard. 0; or -1 without
 * memory. Any thread. Since minor 11.
 */
static inline int bb_stream_join(struct bb_host *host, struct bb_stream *stream, const char *topic)
{
    return host->api->stream_join(host, stream, topic);
}

/*
 * Queues a chunk on every stream that has joined the topic, as bb_stream_send() does: one that has
 * no room for it is cut, and the others do not wait. The caller keeps its own hold. Returns how
 * many streams have queued it. Any thread; does not wait. Since minor 11.
 */
static inline size_t bb_stream_publish(struct bb_host *host, const char *topic,
                                       struct bb_chunk *chunk)
{
    return host->api->stream_publish(host, topic, chunk);
}

/* Ends it after what waits and the goodbye. Any thread. */
static inline void bb_stream_end(struct bb_host *host, struct bb_stream *stream)
{
    host->api->stream_end(stream);
}

#endif
