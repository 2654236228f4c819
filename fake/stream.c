/* Streams: what is sent is kept as text, until the client leaves. */
#include <stdlib.h>
#include <string.h>

#include <busbar/stream.h>

#include "fake/api.h"

/* A topic that a stream has joined. */
struct joined {
    struct joined *next;
    const char *topic;
};

struct bb_stream {
    struct bb_stream *next;
    struct bb_fake *fake;
    struct bb_stream_options options;
    struct joined *joined;
    bool open;
};

/* The bytes behind it are the module's; the count of holders stands before it. */
struct counted {
    size_t holders;
    struct bb_chunk chunk;
};

static struct counted *counted_of(struct bb_chunk *chunk)
{
    return BB_CONTAINER_OF(chunk, struct counted, chunk);
}

int fake_stream_open(struct bb_request *rq, const struct bb_stream_options *options,
                     struct bb_stream **stream)
{
    struct bb_fake *fake = run_of(rq)->fake;

    *stream = fake_pool_alloc(&fake->pool, sizeof **stream);
    **stream = (struct bb_stream){.next = fake->streams, .fake = fake, .open = true};
    memcpy(&(*stream)->options, options,
           options->size < sizeof *options ? options->size : sizeof *options);
    fake->streams = *stream;
    return fake_request_reply(rq, 200, NULL);
}

int fake_stream_send(struct bb_stream *stream, struct bb_chunk *chunk)
{
    char *text = fake_pool_alloc(&stream->fake->pool, chunk->length + 1);

    if (!stream->open)
        return -1;
    memcpy(text, chunk->bytes, chunk->length);
    fake_text_append(&stream->fake->streamed, text);
    return 0;
}

static bool has_joined(const struct bb_stream *stream, const char *topic)
{
    const struct joined *joined = stream->joined;

    while (joined && strcmp(joined->topic, topic) != 0)
        joined = joined->next;
    return joined != NULL;
}

int fake_stream_join(struct bb_host *host, struct bb_stream *stream, const char *topic)
{
    struct joined *joined = fake_pool_alloc(&stream->fake->pool, sizeof *joined);

    (void)host;
    *joined = (struct joined){.next = stream->joined,
                              .topic = fake_pool_text(&stream->fake->pool, topic)};
    if (!has_joined(stream, topic))
        stream->joined = joined;
    return 0;
}

size_t fake_stream_publish(struct bb_host *host, const char *topic, struct bb_chunk *chunk)
{
    size_t count = 0;

    for (struct bb_stream *at = fake_of(host)->streams; at; at = at->next)
        count += has_joined(at, topic) && fake_stream_send(at, chunk) == 0;
    return count;
}

size_t fake_stream_waiting(struct bb_stream *stream)
{
    (void)stream;
    return 0;
}

void fake_stream_end(struct bb_stream *stream)
{
    if (!stream->open)
        return;
    stream->open = false;
    if (stream->options.closed)
        stream->options.closed(stream, stream->options.arg);
}

struct bb_chunk *fake_chunk_new(size_t length)
{
    struct counted *counted = calloc(1, sizeof *counted + length);

    if (!counted)
        fake_die("out of memory");
    counted->holders = 1;
    counted->chunk.length = length;
    return &counted->chunk;
}

/* A stream takes no hold here: it has copied what it was sent. */
void fake_chunk_release(struct bb_chunk *chunk)
{
    if (chunk && !--counted_of(chunk)->holders)
        free(counted_of(chunk));
}

void bb_fake_leave(struct bb_fake *fake)
{
    for (struct bb_stream *at = fake->streams; at; at = at->next)
        fake_stream_end(at);
}

const char *bb_fake_streamed(const struct bb_fake *fake)
{
    return fake->streamed ? fake->streamed : "";
}
