/* Internals of streams: stream.c, stream_check.c, stream_topics.c. */
#ifndef CORE_STREAM_PARTS_H
#define CORE_STREAM_PARTS_H

#include "core/lib/chunk.h"
#include "core/server/http_txn.h"
#include "core/server/stream.h"

/* A stream's membership in a topic. */
struct topic_place {
    struct topic_place *next_of_stream;
    struct topic_place *next, **at; /* in the topic's list */
    struct bb_stream *stream;
    struct topic *topic;
};

struct bb_stream {
    struct watch watch;     /* first member; watches for the client closing the connection */
    struct message message; /* posted to the loop when there is something to write */
    struct loop *loop;
    struct http_txn *txn;
    struct bb_stream *next, *before; /* in the loop's list */
    struct bb_stream_options options;
    bool suspended; /* the connection is suspended; loop's thread only */
    pthread_mutex_t lock;
    /* protected by the lock: */
    struct chunks queue;
    int64_t sent_ms;            /* when a chunk was last queued */
    struct topic_place *places; /* its topics */
    bool beating;               /* the queue contains only a heartbeat, which must not reduce the
                                 * room for data */
    bool posted;                /* the message is on its way */
    bool ending;                /* ends after the queued data */
    bool cut;                   /* ends at once */
    bool over;                  /* the HTTP transaction has ended; the message frees the stream */
};

/* Whether the queue is empty and nothing was sent for the heartbeat interval. Under the lock. */
static inline bool stream_is_silent(const struct bb_stream *stream, int64_t now_ms)
{
    return !stream->queue.bytes && !stream->ending && !stream->cut &&
           now_ms - stream->sent_ms >= stream->options.heartbeat_ms;
}

/* Queues a heartbeat if the stream is silent. If memory runs out, the next round tries again. */
void stream_beat(struct bb_stream *stream, struct bb_chunk *heartbeat, int64_t now_ms);

/* Removes a closing stream from its topics. */
void topics_leave(struct bb_stream *stream);

#endif
