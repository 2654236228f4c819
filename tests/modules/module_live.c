/* Streams that join topics, and publishing to topics: on this host, or on all by a channel. */
#include <busbar/busbar.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { JOINED_MAX = 256, JOINED_TOPICS = 20 };

/* Streams that a worker joins to topics; the list has a lock, as in real modules. */
struct live {
    struct bb_host *host;
    pthread_mutex_t lock; /* also held while publishing */
    struct bb_stream *joined[JOINED_MAX];
    size_t count;
    struct bb_stream *behind; /* left its topics, because its queue was full */
};

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

static int publish_to(struct bb_host *host, const char *const *topics, size_t topic_count,
                      const char *text)
{
    struct live *live = host->state;
    struct bb_chunk *chunk = event_of(host, text);

    pthread_mutex_lock(&live->lock);
    size_t count = chunk ? bb_stream_publish_to(host, topics, topic_count, chunk) : 0;
    pthread_mutex_unlock(&live->lock);

    bb_chunk_release(host, chunk);
    return (int)count;
}

static int publish(struct bb_host *host, const char *topic, const char *text)
{
    return publish_to(host, &topic, 1, text);
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

static void leave(struct bb_stream *stream, void *arg)
{
    struct live *live = arg;

    pthread_mutex_lock(&live->lock);
    for (size_t i = 0; i < live->count; i++)
        if (live->joined[i] == stream)
            live->joined[i] = live->joined[--live->count];
    pthread_mutex_unlock(&live->lock);
}

static void fall_behind(struct bb_stream *stream, void *arg)
{
    struct live *live = arg;

    live->behind = stream; /* the lock is held: see publish_to() */
}

static void leave_behind(struct bb_stream *stream, void *arg)
{
    struct live *live = arg;

    pthread_mutex_lock(&live->lock);
    if (live->behind == stream)
        live->behind = NULL;
    pthread_mutex_unlock(&live->lock);
}

/* A stream that is not cut when its queue is full. */
static int listen_patiently(struct bb_request *rq)
{
    const struct bb_stream_options options = {.size = sizeof(options),
                                              .type = "text/event-stream; charset=utf-8",
                                              .limit = 65536,
                                              .closed = leave_behind,
                                              .full = fall_behind,
                                              .arg = rq->state};
    struct bb_stream *stream;
    int status = bb_stream_open(rq, &options, &stream);

    if (status == 200 && bb_stream_join(rq->host, stream, bb_segment(rq, "topic")))
        bb_stream_cut(rq->host, stream);
    return status;
}

/* Sends a text to the stream that left its topics, which then joins the topic again. */
static int catch_up(struct bb_request *rq)
{
    struct live *live = rq->state;
    struct bb_chunk *chunk = event_of(rq->host, "caught up");
    int count = 0;

    pthread_mutex_lock(&live->lock);
    struct bb_stream *stream = live->behind;

    if (stream && chunk && bb_stream_waiting(rq->host, stream) == 0) {
        live->behind = NULL;
        count = !bb_stream_send(rq->host, stream, chunk) &&
                !bb_stream_join(rq->host, stream, bb_segment(rq, "topic"));
    }
    pthread_mutex_unlock(&live->lock);
    bb_chunk_release(rq->host, chunk);
    return bb_reply(rq, 200, json_pack("{si}", "count", count));
}

static int be_joined(struct bb_request *rq)
{
    struct live *live = rq->state;
    const struct bb_stream_options options = {.size = sizeof(options),
                                              .type = "text/event-stream; charset=utf-8",
                                              .limit = 65536,
                                              .closed = leave,
                                              .arg = live};
    struct bb_stream *stream;
    int status = bb_stream_open(rq, &options, &stream);

    if (status != 200)
        return status;
    pthread_mutex_lock(&live->lock);
    if (live->count < JOINED_MAX)
        live->joined[live->count++] = stream;
    pthread_mutex_unlock(&live->lock);
    return status;
}

static const char *const topics[JOINED_TOPICS] = {"0",  "1",  "2",  "3",  "4",  "5",  "6",
                                                  "7",  "8",  "9",  "10", "11", "12", "13",
                                                  "14", "15", "16", "17", "18", "19"};

/* Returns the number of streams. */
static size_t join_all(struct live *live)
{
    pthread_mutex_lock(&live->lock);
    size_t count = live->count;

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < JOINED_TOPICS; j++)
            bb_stream_join(live->host, live->joined[i], topics[j]);
    pthread_mutex_unlock(&live->lock);
    return count;
}

static void join(struct bb_worker_context *context)
{
    struct live *live = context->host->state;

    for (unsigned n = 0; !bb_stopping(context); n++) {
        size_t count = join_all(live);

        for (size_t j = 0; j < JOINED_TOPICS && count && n % 20 == 0; j++)
            publish(live->host, topics[j], "joined");
        usleep(count ? 10 : 20000); /* only a pace; nothing is waited for */
    }
}

static int tell(struct bb_request *rq)
{
    const char *topic = bb_segment(rq, "topic"), *text = bb_text(rq, "text");
    const char *both[] = {topic, bb_arg(rq, "also")};

    if (!bb_arg(rq, "all"))
        return bb_reply(
            rq, 200, json_pack("{si}", "count", publish_to(rq->host, both, both[1] ? 2 : 1, text)));
    if (bb_notify(rq, NULL, "test_live", bb_format(rq, "%s %s", topic, text)))
        return bb_failed(rq);
    return bb_reply(rq, 200, json_object());
}

static int open_live(struct bb_host *host, void **state)
{
    struct live *live = bb_host_alloc(host, sizeof(*live));

    if (!live || pthread_mutex_init(&live->lock, NULL))
        return bb_open_fail(host, "out of memory");
    live->host = host;
    *state = live;
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
    publish(((struct live *)state)->host, topic, blank + 1);
}

static const struct bb_field segments[] = {{.name = "topic", .type = BB_TEXT, .max = 60}};
static const struct bb_field also[] = {{.name = "also", .type = BB_TEXT, .max = 60}};
static const struct bb_field all[] = {{.name = "all", .type = BB_BOOL},
                                      {.name = "also", .type = BB_TEXT, .max = 60}};
static const struct bb_field body[] = {
    {.name = "text", .type = BB_TEXT, .flags = BB_REQUIRED, .max = 60000}};

#define ROUTE(of, at, does, ...)                                                                   \
    {                                                                                              \
        .method = (of), .path = "/live" at, .roles = BB_ANYONE, .handler = (does), __VA_ARGS__     \
    }

static const struct bb_route routes[] = {
    ROUTE("GET", "/:topic", listen_to, .segments = BB_TABLE(segments), .query = BB_TABLE(also)),
    ROUTE("POST", "/:topic", tell, .segments = BB_TABLE(segments), .query = BB_TABLE(all),
          .body = BB_TABLE(body), .body_max = 100000),
    ROUTE("GET", "-joined", be_joined, .flags = 0),
    ROUTE("GET", "-patient/:topic", listen_patiently, .segments = BB_TABLE(segments)),
    ROUTE("POST", "-patient/:topic", catch_up, .segments = BB_TABLE(segments)),
};

static const struct bb_worker workers[] = {{.name = "join", .run = join}};

static const struct bb_channel channels[] = {{"test_live", heard}};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("live", "1.0.0"), .routes = BB_TABLE(routes), .channels = BB_TABLE(channels),
    .workers = BB_TABLE(workers),    .open = open_live,
};
