#include "core/server/stream_parts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/module/module_error.h"
#include "core/module/reply.h"

enum {
    SEND_BYTES = 64 * 1024, /* the kernel's send buffer per client, instead of several megabytes */
    BLOCK_BYTES = 1024,     /* libmicrohttpd's buffer, unused: it writes from the connection's
                             * memory */
    STOP_MS = 1000          /* time for a client to read the last bytes when the host stops */
};

/* One per process, because there is one engine. */
static atomic_size_t open_count;

size_t streams_open(void)
{
    return atomic_load_explicit(&open_count, memory_order_relaxed);
}

static void stream_free(struct bb_stream *stream)
{
    chunks_clear(&stream->queue);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

/* Loop's thread. */
static void resume(struct bb_stream *stream)
{
    if (!stream->suspended)
        return;
    stream->suspended = false;
    MHD_resume_connection(stream->txn->mhd);
}

static void stream_wake(struct message *message)
{
    struct bb_stream *stream = BB_CONTAINER_OF(message, struct bb_stream, message);

    pthread_mutex_lock(&stream->lock);
    bool over = stream->over, cut = stream->cut;
    stream->posted = false;
    pthread_mutex_unlock(&stream->lock);
    if (over) {
        stream_free(stream);
        return;
    }
    if (cut) /* libmicrohttpd may be waiting for the client to read */
        connection_cut(stream->txn->connection);
    resume(stream);
}

/* Under the lock. */
static void post(struct bb_stream *stream)
{
    if (stream->posted || stream->over)
        return;
    stream->posted = true;
    loop_post(stream->loop, &stream->message);
}

static void stream_cut(struct bb_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->cut = true;
    pthread_mutex_unlock(&stream->lock);
    resume(stream);
}

/* The client closed the connection, or the sweep cut it. */
static void client_left(struct watch *watch, uint32_t events)
{
    struct bb_stream *stream = (struct bb_stream *)(void *)watch;

    (void)events;
    loop_watch(stream->loop, watch, -1, 0);
    stream_cut(stream);
}

/* ---- opening ---- */

static int refuse(struct core_request *rq, enum failure_kind kind)
{
    request_fail(rq, kind);
    return reply_failed(rq);
}

static bool take_place(const struct generation *generation)
{
    size_t most = (size_t)settings_int(generation->settings, "http", "max_streams");

    if (atomic_fetch_add(&open_count, 1) < most)
        return true;
    atomic_fetch_sub(&open_count, 1);
    return false;
}

static struct bb_stream *stream_new(struct core_request *rq,
                                    const struct bb_stream_options *options)
{
    struct bb_stream *stream = calloc(1, sizeof *stream);
    size_t known = options->size < sizeof *options ? options->size : sizeof *options;

    if (!stream || pthread_mutex_init(&stream->lock, NULL)) {
        free(stream);
        return NULL;
    }
    memcpy(&stream->options, options, known);
    stream->watch = (struct watch){.fd = -1, .ready = client_left};
    stream->message.run = stream_wake;
    stream->loop = rq->loop;
    stream->txn = (struct http_txn *)(void *)rq;
    stream->sent_ms = rq->loop->now_ms;
    return stream;
}

static void enlist(struct bb_stream *stream)
{
    struct streams *all = stream->loop->streams;

    stream->next = all->first;
    if (stream->next)
        stream->next->before = stream;
    all->first = stream;
    streams_check_soon(stream->loop);
}

/* The host ends the stream. An answer that must be complete must not appear to be. */
static void end_early(struct bb_stream *stream)
{
    if (stream->options.whole)
        api_stream_cut(stream);
    else
        api_stream_end(stream);
}

/*
 * Another generation is live: the client reconnects and reaches it. An answer that must be complete
 * continues for as long as requests may.
 */
static void superseded(struct core_request *rq)
{
    struct bb_stream *stream = ((struct http_txn *)(void *)rq)->stream;

    if (!stream->options.whole)
        api_stream_end(stream);
}

int api_stream_open(struct bb_request *pub, const struct bb_stream_options *options,
                    struct bb_stream **opened)
{
    struct core_request *rq = request_of(pub);

    if (rq->kind != REQUEST_HTTP || http_txn_of(pub)->stream)
        return module_error(rq, "a module opens a stream in a request that cannot have one", NULL);
    if (http_txn_of(pub)->late)
        return refuse(rq, FAILED_DEADLINE);
    if (rq->loop->streams->refusing || !take_place(rq->generation))
        return refuse(rq, FAILED_BUSY);
    struct bb_stream *stream = stream_new(rq, options);

    if (!stream) {
        atomic_fetch_sub(&open_count, 1);
        return refuse(rq, FAILED_MEMORY);
    }
    enlist(stream);
    http_txn_of(pub)->stream = stream;
    if (!stream->options.whole)
        http_txn_uncount(http_txn_of(pub)); /* http.max_streams limits it from now on */
    request_on_superseded(rq, superseded);
    *opened = stream;
    return reply_bytes(rq, 200, NULL, 0);
}

/* ---- writing ---- */

/*
 * Queued data, except a heartbeat, reduces the room for a chunk; the first chunk may have any
 * length.
 */
static bool has_room(const struct bb_stream *stream, size_t length)
{
    size_t waiting = stream->beating ? 0 : stream->queue.bytes;

    return !waiting || waiting + length <= stream->options.limit;
}

int api_stream_send(struct bb_stream *stream, struct bb_chunk *chunk)
{
    int status = -1;

    if (!chunk->length)
        return 0;
    pthread_mutex_lock(&stream->lock);
    if (!stream->cut && !stream->ending && !stream->over && has_room(stream, chunk->length)) {
        status = chunks_add(&stream->queue, chunk);
        stream->beating = false;
    }
    if (status && !stream->ending)
        stream->cut = true;
    if (stream->options.heartbeat)
        stream->sent_ms = clock_mono_ms();
    post(stream);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

void stream_beat(struct bb_stream *stream, struct bb_chunk *heartbeat, int64_t now_ms)
{
    pthread_mutex_lock(&stream->lock);
    if (stream_is_silent(stream, now_ms) && !chunks_add(&stream->queue, heartbeat)) {
        stream->beating = true;
        stream->sent_ms = now_ms;
        post(stream);
    }
    pthread_mutex_unlock(&stream->lock);
}

size_t api_stream_waiting(struct bb_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    size_t bytes = stream->queue.bytes;
    pthread_mutex_unlock(&stream->lock);
    return bytes;
}

void api_stream_cut(struct bb_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->cut = true;
    post(stream);
    pthread_mutex_unlock(&stream->lock);
}

void api_stream_end(struct bb_stream *stream)
{
    const char *goodbye = stream->options.goodbye;
    size_t length = goodbye ? strlen(goodbye) : 0;
    struct bb_chunk *chunk = length ? api_chunk_new(length) : NULL;

    if (chunk)
        memcpy(chunk->bytes, goodbye, length);
    pthread_mutex_lock(&stream->lock);
    if (chunk && !stream->ending && chunks_add(&stream->queue, chunk))
        stream->cut = true;
    stream->ending = true;
    post(stream);
    pthread_mutex_unlock(&stream->lock);
    api_chunk_release(chunk);
}

/*
 * Called by libmicrohttpd for more bytes; if there are none, the connection is suspended. Loop's
 * thread.
 */
static ssize_t stream_read(void *cls, uint64_t position, char *into, size_t room)
{
    struct bb_stream *stream = cls;
    struct connection *connection = stream->txn->connection;

    (void)position;
    pthread_mutex_lock(&stream->lock);
    bool cut = stream->cut, ending = stream->ending;
    size_t length = cut ? 0 : chunks_take(&stream->queue, into, room);
    pthread_mutex_unlock(&stream->lock);
    if (cut)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (length) {
        connection_stage(connection, STAGE_WRITE, length);
        return (ssize_t)length;
    }
    if (ending)
        return MHD_CONTENT_READER_END_OF_STREAM;
    connection_stage(connection, STAGE_HANDLER, 0);
    stream->suspended = true;
    MHD_suspend_connection(stream->txn->mhd);
    return 0;
}

/* The end of the connection marks the end of the answer. */
struct MHD_Response *stream_response(struct bb_stream *stream)
{
    struct connection *connection = stream->txn->connection;
    int bytes = SEND_BYTES;
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, stream_read, stream, NULL);

    if (!response)
        return NULL;
    stream->txn->close = true;
    connection->lingers = stream->options.whole;
    setsockopt(connection->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    /* a client that has shut down its sending side may still read; errors are always reported */
    loop_watch(stream->loop, &stream->watch, connection->fd,
               stream->options.whole ? EPOLLPRI : EPOLLRDHUP);
    return response;
}

const char *stream_type(const struct bb_stream *stream)
{
    return stream->options.type;
}

/* ---- the end ---- */

static void delist(struct bb_stream *stream)
{
    struct streams *all = stream->loop->streams;

    if (all->next == stream)
        all->next = stream->next;
    if (all->looked_at == stream)
        all->looked_at = NULL;
    if (stream->next)
        stream->next->before = stream->before;
    if (stream->before)
        stream->before->next = stream->next;
    else
        all->first = stream->next;
}

void stream_closed(struct bb_stream *stream)
{
    loop_watch(stream->loop, &stream->watch, -1, 0);
    delist(stream);
    if (stream->options.closed)
        stream->options.closed(stream, stream->options.arg);
    topics_leave(stream); /* the module could join it to a topic up to now */
    atomic_fetch_sub(&open_count, 1);
    pthread_mutex_lock(&stream->lock);
    bool posted = stream->posted;
    stream->over = true;
    pthread_mutex_unlock(&stream->lock);
    if (!posted)
        stream_free(stream);
}

void streams_stop(struct loop *loop)
{
    if (!loop->streams)
        return;
    loop->streams->refusing = true;
    for (struct bb_stream *at = loop->streams->first; at; at = at->next) {
        end_early(at);
        at->txn->connection->stop_ms = loop->now_ms + STOP_MS;
    }
}

int streams_init(struct loop *loop)
{
    loop->streams = calloc(1, sizeof *loop->streams);
    if (!loop->streams)
        return -1;
    streams_check_start(loop);
    return 0;
}

void streams_free(struct loop *loop)
{
    if (!loop->streams)
        return;
    timer_clear(&loop->timers, &loop->streams->timer);
    free(loop->streams);
    loop->streams = NULL;
}
