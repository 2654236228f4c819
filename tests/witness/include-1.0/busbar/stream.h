#ifndef BUSBAR_STREAM_H
#define BUSBAR_STREAM_H 
#include <busbar/request.h>
struct bb_stream;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
struct bb_chunk {
    size_t length;
    char bytes[];
};
#pragma GCC diagnostic pop
struct bb_stream_options {
    size_t size;
    const char *type;
    size_t limit;
    const char *goodbye;
    void (*closed)(struct bb_stream *stream, void *arg);
    void *arg;
    bool whole;
    const char *heartbeat;
    int64_t heartbeat_ms;
};
static inline int bb_stream_open(struct bb_request *rq, const struct bb_stream_options *options,
                                 struct bb_stream **stream)
{
    return rq->api->stream_open(rq, options, stream);
}
static inline struct bb_chunk *bb_chunk_new(struct bb_host *host, size_t length)
{
    return host->api->chunk_new(length);
}
static inline void bb_chunk_release(struct bb_host *host, struct bb_chunk *chunk)
{
    host->api->chunk_release(chunk);
}
static inline int bb_stream_send(struct bb_host *host, struct bb_stream *stream,
                                 struct bb_chunk *chunk)
{
    return host->api->stream_send(stream, chunk);
}
static inline size_t bb_stream_waiting(struct bb_host *host, struct bb_stream *stream)
{
    return host->api->stream_waiting(stream);
}
static inline void bb_stream_cut(struct bb_host *host, struct bb_stream *stream)
{
    host->api->stream_cut(stream);
}
static inline int bb_stream_join(struct bb_host *host, struct bb_stream *stream, const char *topic)
{
    return host->api->stream_join(host, stream, topic);
}
static inline size_t bb_stream_publish(struct bb_host *host, const char *topic,
                                       struct bb_chunk *chunk)
{
    return host->api->stream_publish(host, topic, chunk);
}
static inline void bb_stream_end(struct bb_host *host, struct bb_stream *stream)
{
    host->api->stream_end(stream);
}
#endif
