/*
 * Streams: responses that stay open and are written piece by piece for as long as the client reads
 * (Server-Sent Events). A stream uses no fiber and no thread: data waits in a bounded queue, and
 * the loop of the connection writes it as fast as the client reads.
 *
 * bb_stream_open() in a handler turns the response into a stream, which begins when the handler has
 * returned. From then on any thread may use the stream until `closed` is called. The module must
 * not use the pointer after the call of `closed`.
 *
 * Streams that get the same data can join a topic; bb_stream_publish() sends to all of them, and
 * bb_stream_publish_to() to the streams of several topics.
 *
 * A stream ends:
 * - when the client closes the connection;
 * - when the client reads so slowly that the queue is full (see `full`) or http.write_timeout
 *   passes;
 * - when the client's token is no longer valid, or the rights of the account have changed (both are
 *   checked about twice a second);
 * - when the host stops, or the generation that opened it is superseded;
 * - when the module calls bb_stream_end() or bb_stream_cut().
 *
 * A stream keeps its generation loaded.
 */
#ifndef BUSBAR_STREAM_H
#define BUSBAR_STREAM_H

#include <busbar/request.h>

struct bb_stream;

/* Bytes with a reference count, so that many streams can share them. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" /* C++ has no flexible array members */
struct bb_chunk {
    size_t length;
    char bytes[];
};
#pragma GCC diagnostic pop

struct bb_stream_options {
    size_t size;
    const char *type; /* Content-Type; static */
    /* maximum bytes in the queue; an empty queue accepts a chunk of any size */
    size_t limit;
    const char *goodbye; /* the last bytes if the host ends the stream; static, or NULL */
    /* Called once for every stream that was opened, on a host thread; must not wait. */
    void (*closed)(struct bb_stream *stream, void *arg);
    void *arg;
    /* Whether the response is complete only if the module ends the stream. If the host must end
     * such a stream, it cuts the connection, so that the client notices. After a reload the host
     * first waits reload.drain seconds. */
    bool whole;
    /* A text such as ":\n\n" that is sent if nothing else was sent for heartbeat_ms (checked every
     * half second), so that the client and proxies see that the stream is alive. Static; NULL or 0
     * ms disables it. */
    const char *heartbeat;
    int64_t heartbeat_ms;
    /*
     * Called if a published chunk does not fit in the queue; NULL: the host cuts the stream
     * instead. For modules that can send missed data later: when the call returns, the stream
     * leaves all its topics, and the module joins it again after it has sent the missed data,
     * including this chunk. Runs inside bb_stream_publish(), so it must not wait, join or publish.
     */
    void (*full)(struct bb_stream *stream, void *arg);
};

/*
 * Turns the response into a stream. Sets *stream and returns 200, which the handler must return
 * without answering. If http.max_streams are open, the host is stopping, or memory ran out, answers
 * 503 and returns this status; `closed` is not called then.
 */
static inline int bb_stream_open(struct bb_request *rq, const struct bb_stream_options *options,
                                 struct bb_stream **stream)
{
    return rq->api->stream_open(rq, options, stream);
}

/* Creates a chunk of `length` bytes to fill, with one reference. NULL: out of memory. */
static inline struct bb_chunk *bb_chunk_new(struct bb_host *host, size_t length)
{
    return host->api->chunk_new(length);
}

/* Drops a reference; the last one frees the chunk. NULL is allowed. Any thread. */
static inline void bb_chunk_release(struct bb_host *host, struct bb_chunk *chunk)
{
    host->api->chunk_release(chunk);
}

/*
 * Queues a chunk, which must not change afterwards. The caller keeps its reference. An empty chunk
 * has no effect. Returns 0. If the queue is full or memory ran out, cuts the stream and returns -1.
 * Any thread; does not wait.
 */
static inline int bb_stream_send(struct bb_host *host, struct bb_stream *stream,
                                 struct bb_chunk *chunk)
{
    return host->api->stream_send(stream, chunk);
}

/* Returns the number of bytes in the queue. Any thread. */
static inline size_t bb_stream_waiting(struct bb_host *host, struct bb_stream *stream)
{
    return host->api->stream_waiting(stream);
}

/* Ends the stream at once, in a way that the client recognizes as incomplete. Any thread. */
static inline void bb_stream_cut(struct bb_host *host, struct bb_stream *stream)
{
    host->api->stream_cut(stream);
}

/*
 * Adds a stream of the module to a topic with any name: until it closes, the stream gets everything
 * published to the topic. A stream may join several topics; joining a topic twice has no effect.
 * Topics belong to one module in one generation on one host: to reach the streams of all hosts,
 * notify a channel (bb_notify()) and publish when the notification arrives. Returns 0, or -1 if
 * memory ran out. Any thread.
 */
static inline int bb_stream_join(struct bb_host *host, struct bb_stream *stream, const char *topic)
{
    return host->api->stream_join(host, stream, topic);
}

/*
 * Queues a chunk on every stream of the topic, as bb_stream_send() does. If a stream has no room
 * for the chunk, the host calls `full` or cuts this stream, and continues with the other streams.
 * The caller keeps its reference. Returns the number of streams that queued the chunk. Any thread;
 * does not wait.
 */
static inline size_t bb_stream_publish(struct bb_host *host, const char *topic,
                                       struct bb_chunk *chunk)
{
    return host->api->stream_publish(host, topic, chunk);
}

/* Like bb_stream_publish() for several topics; a stream in several topics gets the chunk once. */
static inline size_t bb_stream_publish_to(struct bb_host *host, const char *const *topics,
                                          size_t count, struct bb_chunk *chunk)
{
    return host->api->stream_publish_to(host, topics, count, chunk);
}

/* Ends the stream after the queued data and `goodbye` were sent. Any thread. */
static inline void bb_stream_end(struct bb_host *host, struct bb_stream *stream)
{
    host->api->stream_end(stream);
}

#endif
