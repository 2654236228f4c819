/* A stream's inside: stream.c, stream_check.c, stream_topics.c. */
#ifndef CORE_STREAM_PARTS_H
#define CORE_STREAM_PARTS_H

#include "core/base/chunk.h"
#include "core/http/http_txn.h"
#include "core/http/stream.h"

/* A stream's place in a topic. */
struct topic_place {
    struct topic_place *next_of_stream;
    struct topic_place *next, **at; /* of the topic */
    struct bb_stream *stream;
    struct topic *topic;
};

struct bb_stream {
    struct watch watch;     /* first; the client's leaving */
    struct message message; /* to the loop: there is something to write */
    struct loop *loop;
    struct http_txn *txn;
    struct bb_stream *next, *before; /* of the loop */
    struct bb_stream_options options;
    bool suspended; /* the connection; loop's thread only */
    pthread_mutex_t lock;
    /* under the lock */
    struct chunks queue;
    int64_t sent_ms;            /* when something was last queued */
    struct topic_place *places; /* in topics */
    bool beating;               /* what waits is a heartbeat, of which nobody must have less room */
    bool posted;                /* the message is on its way */
    bool ending;                /* after what waits */
    bool cut;                   /* at once */
    bool over;                  /* the HTTP transaction has gone; the message frees */
};

/* Whether nothing waits, and nothing was sent for as long as a heartbeat wants. Under the lock. */
static inline bool stream_is_silent(const struct bb_stream *stream, int64_t now_ms)
{
    return !stream->queue.bytes && !stream->ending && !stream->cut &&
           now_ms - stream->sent_ms >= stream->options.heartbeat_ms;
}

/* Queues a heartbeat where the stream is silent; without memory the next round tries again. */
void stream_beat(struct bb_stream *stream, struct bb_chunk *heartbeat, int64_t now_ms);

/* The stream closes. */
void topics_leave(struct bb_stream *stream);

#endif
