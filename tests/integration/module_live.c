/* Streams that join topics, and what is published there: on this host, or by a channel on all. */
#include <busbar/busbar.h>

#include <stdlib.h>
#include <string.h>

static struct bb_chunk *event_of(struct bb_host *host, const char *text)
{
    static const char begin[] = "data: ", end[] = "\n\n";
    size_t length = strlen(text);
    struct bb_chunk *chunk = bb_chunk_new(host, length + 8);

    if (!chunk)
        return NULL;
    memcpy(chunk->bytes, begin, 6);
    memcpy(chunk->bytes + 6, text, length);
    memcpy(chunk->bytes + 6 + length, end, 2);
    return chunk;
}

static int publish(struct bb_host *host, const char *topic, const char *text)
{
    struct bb_chunk *chunk = event_of(host, text);
    size_t count = chunk ? bb_stream_publish(host, topic, chunk) : 0;

    bb_chunk_release(host, chunk);
    return (int)count;
}

/* /live/a and /live/a?also=b */
static int listen_to(struct bb_request *rq)
{
    static const struct bb_stream_options options = {.size = sizeof(options),
                                                     .type = "text/event-stream; charset=utf-8",
                                                     .limit = 65536,
                                                     .goodbye = "event: bye\ndata: {}\n\n",
                                                     .heartbeat = ":\n\n",
                                                     .heartbeat_ms = 1000};
    const char *also = bb_arg(rq, "also");
    struct bb_stream *stream;
    int status = bb_stream_open(rq, &options, &stream);

    if (status != 200)
        return status;
    if (bb_stream_join(rq->host, stream, bb_segment(rq, "topic")) ||
        bb_stream_join(rq->host, stream, also ? also : bb_segment(rq, "topic")))
        bb_stream_cut(rq->host, stream);
    return status;
}

static int tell(struct bb_request *rq)
{
    const char *topic = bb_segment(rq, "topic"), *text = bb_text(rq, "text");

    if (!bb_arg(rq, "all"))
        return bb_reply(rq, 200, json_pack("{si}", "count", publish(rq->host, topic, text)));
    if (bb_notify(rq, NULL, "test_live", bb_format(rq, "%s %s", topic, text)))
        return bb_failed(rq);
    return bb_reply(rq, 200, json_object());
}

static int open_live(struct bb_host *host, void **state)
{
    *state = host;
    return 0;
}

static void heard(void *state, const char *payload)
{
    const char *blank = payload ? strchr(payload, ' ') : NULL;
    char topic[64];

    if (!blank || (size_t)(blank - payload) >= sizeof(topic))
        return;
    memcpy(topic, payload, (size_t)(blank - payload));
    topic[blank - payload] = '\0';
    publish(state, topic, blank + 1);
}

static const struct bb_field segments[] = {{.name = "topic", .type = BB_TEXT, .max = 60}};
static const struct bb_field also[] = {{.name = "also", .type = BB_TEXT, .max = 60}};
static const struct bb_field all[] = {{.name = "all", .type = BB_BOOL}};
static const struct bb_field body[] = {
    {.name = "text", .type = BB_TEXT, .flags = BB_REQUIRED, .max = 60000}};

static const struct bb_route routes[] = {
    {.method = "GET",
     .path = "/live/:topic",
     .roles = BB_ANYONE,
     .segments = BB_TABLE(segments),
     .query = BB_TABLE(also),
     .handler = listen_to},
    {.method = "POST",
     .path = "/live/:topic",
     .roles = BB_ANYONE,
     .segments = BB_TABLE(segments),
     .query = BB_TABLE(all),
     .body = BB_TABLE(body),
     .body_max = 100000,
     .handler = tell},
};

static const struct bb_channel channels[] = {{"test_live", heard}};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("live", "1.0.0"),
    .routes = BB_TABLE(routes),
    .channels = BB_TABLE(channels),
    .open = open_live,
};
