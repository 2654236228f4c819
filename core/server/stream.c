#include "core/server/stream.h"

#include <search.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/module/reply.h"
#include "core/server/http_txn.h"

enum {
    SEND_BYTES = 64 * 1024, /* the kernel's send buffer per client, instead of several megabytes */
    BLOCK_BYTES = 1024,     /* libmicrohttpd's buffer; not used by chunked transfer coding */
    STOP_MS = 1000,         /* time for a client to read the last bytes when the host stops */
    PAUSE_MS = 400,         /* pause between two rounds of checks */
    PORTION = 256,          /* streams checked per loop iteration */
    CHECK_DEADLINE_MS = 2000
};

/*
 * ---- chunks: bytes that many streams share ----
 *
 * The reference count precedes the part visible to modules. It is atomic, because a chunk can be in
 * queues of several threads. A queue has no lock; the lock of its stream protects it.
 */

struct held {
    atomic_size_t holders;
    size_t unused; /* so that the chunk after it is aligned like memory from malloc() */
};

static struct held *stream_chunk_held_of(struct bb_chunk *chunk)
{
    return (struct held *)(void *)chunk - 1;
}

struct bb_chunk *api_chunk_new(size_t length)
{
    struct held *held = malloc(sizeof *held + sizeof(struct bb_chunk) + length);

    if (!held)
        return NULL;
    atomic_init(&held->holders, 1);
    struct bb_chunk *chunk = (struct bb_chunk *)(void *)(held + 1);
    chunk->length = length;
    return chunk;
}

void api_chunk_release(struct bb_chunk *chunk)
{
    if (!chunk || atomic_fetch_sub_explicit(&stream_chunk_held_of(chunk)->holders, 1,
                                            memory_order_acq_rel) != 1)
        return;
    free(stream_chunk_held_of(chunk));
}

struct chunk_link {
    STAILQ_ENTRY(chunk_link) next;
    struct bb_chunk *chunk; /* the link holds a reference */
};

struct chunks {
    STAILQ_HEAD(, chunk_link) list;
    size_t taken; /* bytes of the first chunk that stream_read() has already copied */
    size_t bytes; /* bytes of all chunks that stream_read() has not copied yet */
};

/* Appends the chunk and takes a reference. Returns 0, or -1 if memory ran out. */
static int stream_chunks_add(struct chunks *chunks, struct bb_chunk *chunk)
{
    struct chunk_link *link = malloc(sizeof *link);

    if (!link)
        return -1;
    atomic_fetch_add_explicit(&stream_chunk_held_of(chunk)->holders, 1, memory_order_relaxed);
    *link = (struct chunk_link){.chunk = chunk};
    STAILQ_INSERT_TAIL(&chunks->list, link, next);
    chunks->bytes += chunk->length;
    return 0;
}

static void stream_chunk_drop_first(struct chunks *chunks)
{
    struct chunk_link *link = STAILQ_FIRST(&chunks->list);

    chunks->bytes -= link->chunk->length - chunks->taken;
    chunks->taken = 0;
    STAILQ_REMOVE_HEAD(&chunks->list, next);
    api_chunk_release(link->chunk);
    free(link);
}

/* ---- streams ---- */

struct bb_stream {
    struct watch watch;     /* first member; reports that the client closed the connection */
    struct message message; /* posted to the loop when the stream must write or end */
    struct loop *loop;
    struct http_txn *txn;
    LIST_ENTRY(bb_stream) link; /* in the loop's list */
    struct bb_stream_options options;
    bool suspended;                  /* the connection is suspended; loop's thread only */
    atomic_bool joined;              /* has joined a topic */
    atomic_bool closing;             /* may join no more topics */
    LIST_HEAD(, topic_place) places; /* its topics; protected by topics_lock */
    uint64_t publication;            /* last publication received; protected by topics_lock */
    pthread_mutex_t lock;
    /* protected by the lock: */
    struct chunks queue;
    int64_t sent_ms; /* when a chunk was last queued */
    bool beating; /* the queue contains only a heartbeat, which does not count in options.limit */
    bool posted;  /* the message was posted and has not run yet */
    bool ending;  /* the stream ends after the queued data */
    bool cut;     /* the stream ends at once */
    bool over;    /* the HTTP transaction has ended; a posted message frees the stream */
};

static atomic_size_t open_count; /* open streams of the process */

size_t streams_open(void)
{
    return atomic_load_explicit(&open_count, memory_order_relaxed);
}

static void stream_free(struct bb_stream *stream)
{
    while (!STAILQ_EMPTY(&stream->queue.list))
        stream_chunk_drop_first(&stream->queue);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

/* Loop's thread. */
static void stream_resume(struct bb_stream *stream)
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
    stream_resume(stream);
}

/* Under the lock. */
static void stream_post(struct bb_stream *stream)
{
    if (stream->posted || stream->over)
        return;
    stream->posted = true;
    loop_post(stream->loop, &stream->message);
}

/* Called when the client has closed the connection, or the sweep has cut it. */
static void stream_client_left(struct watch *watch, uint32_t events)
{
    struct bb_stream *stream = (struct bb_stream *)(void *)watch;

    (void)events;
    loop_watch(stream->loop, watch, -1, 0);
    pthread_mutex_lock(&stream->lock);
    stream->cut = true;
    pthread_mutex_unlock(&stream->lock);
    stream_resume(stream);
}

/* ---- checks of tokens, and heartbeats ---- */

struct check {
    struct core_request rq; /* first member */
    const char *token;
    struct bb_principal who;
    bool parked;
};

static bool stream_has_same_rights(const struct bb_principal *a, const struct bb_principal *b)
{
    return a->account == b->account && a->role == b->role && a->organization == b->organization &&
           a->organization_count == b->organization_count && !strcmp(a->email, b->email) &&
           (!a->organization_count || !memcmp(a->organizations, b->organizations,
                                              a->organization_count * sizeof *a->organizations));
}

static void stream_check_entry(struct core_request *rq)
{
    struct check *check = (struct check *)(void *)rq;
    const struct generation *generation = rq->generation;
    void *state = generation->authenticator_host->host.state;

    check->who.size = sizeof check->who;
    int refused =
        generation->authenticator->authenticate(state, &rq->pub, check->token, &check->who);
    struct bb_stream *stream = rq->loop->http->streams.checked;

    if (!stream || refused == 503)
        return;
    if (refused || !stream_has_same_rights(&check->who, &stream->txn->principal))
        api_stream_end(stream);
}

static void stream_check_again(struct loop *loop, int64_t in_ms)
{
    timer_set(&loop->timers, &loop->http->streams.timer, loop->now_ms + in_ms);
}

static void stream_check_soon(struct loop *loop)
{
    const struct streams *all = &loop->http->streams;

    if (!LIST_EMPTY(&all->open) && !all->in_round && !all->timer.node.set)
        stream_check_again(loop, PAUSE_MS);
}

static void stream_check_ended(struct core_request *rq)
{
    struct loop *loop = rq->loop;

    loop->http->streams.checked = NULL;
    if (((struct check *)(void *)rq)->parked)
        stream_check_again(loop, 0);
    request_free(rq);
}

/*
 * Checks the stream's token, if it has one and there is memory for the check. Returns false if the
 * check waits for the database. In this case stream_check_ended() continues the round later.
 */
static bool stream_check(struct bb_stream *stream)
{
    struct http_txn *txn = stream->txn;
    const char *token = txn->rq.pub.principal ? http_txn_token(txn) : NULL;
    struct loop *loop = stream->loop;
    struct check *check = NULL;

    if (token)
        check = request_make(sizeof *check, REQUEST_JOB, loop, txn->rq.generation);
    if (!check)
        return true;
    check->token = arena_text(check->rq.arena, token, strlen(token));
    if (!check->token) {
        request_free(&check->rq);
        return true;
    }
    check->rq.entry = stream_check_entry;
    check->rq.ended = stream_check_ended;
    check->rq.deadline_ms = loop->now_ms + CHECK_DEADLINE_MS;
    request_enter(&check->rq, &txn->rq.generation->authenticator_host->host);
    loop->http->streams.checked = stream;
    if (request_start(&check->rq))
        return true;
    check->parked = true;
    return false;
}

/* Returns a chunk with the text. NULL: there is no text, or out of memory. */
static struct bb_chunk *stream_chunk(const char *text)
{
    size_t length = text ? strlen(text) : 0;
    struct bb_chunk *chunk = length ? api_chunk_new(length) : NULL;

    if (chunk)
        memcpy(chunk->bytes, text, length);
    return chunk;
}

/* Queues a heartbeat if the queue is empty and nothing was queued for heartbeat_ms. */
static void stream_beat(struct bb_stream *stream, int64_t now_ms)
{
    const struct bb_stream_options *options = &stream->options;

    if (!options->heartbeat || options->heartbeat_ms <= 0)
        return;
    pthread_mutex_lock(&stream->lock);
    bool silent = !stream->queue.bytes && !stream->ending && !stream->cut &&
                  now_ms - stream->sent_ms >= options->heartbeat_ms;
    struct bb_chunk *chunk = silent ? stream_chunk(options->heartbeat) : NULL;

    if (chunk && !stream_chunks_add(&stream->queue, chunk)) {
        stream->beating = true;
        stream->sent_ms = now_ms;
        stream_post(stream);
    }
    pthread_mutex_unlock(&stream->lock);
    api_chunk_release(chunk);
}

void streams_round(struct timer *timer)
{
    struct http *http = BB_CONTAINER_OF(timer, struct http, streams.timer);
    struct streams *all = &http->streams;
    struct loop *loop = http->loop;

    if (!all->in_round)
        all->next = LIST_FIRST(&all->open);
    all->in_round = true;
    for (int i = 0; all->next && i < PORTION; i++) {
        struct bb_stream *stream = all->next;

        all->next = LIST_NEXT(stream, link);
        stream_beat(stream, loop->now_ms);
        if (!stream_check(stream))
            return;
    }
    all->in_round = all->next != NULL;
    if (all->in_round)
        stream_check_again(loop, 0);
    else
        stream_check_soon(loop);
}

/* ---- opening ---- */

/* Ends the stream unless it is `whole`, so that the client reconnects to the new generation. */
static void stream_superseded(struct core_request *rq)
{
    struct bb_stream *stream = http_txn_of(&rq->pub)->stream;

    if (!stream->options.whole)
        api_stream_end(stream);
}

int api_stream_open(struct bb_request *pub, const struct bb_stream_options *options,
                    struct bb_stream **opened)
{
    struct core_request *rq = request_of(pub);
    struct http_txn *txn = http_txn_of(pub);

    if (rq->kind != REQUEST_HTTP || txn->stream)
        return module_error(rq, "module opened a stream in a request that cannot have a stream",
                            NULL);
    if (http_txn_is_late(txn))
        return reply_failure(rq, FAILED_DEADLINE);
    if (rq->loop->http->streams.refusing)
        return reply_failure(rq, FAILED_BUSY);
    size_t most = (size_t)rq->generation->host->http.max_streams;
    bool room = atomic_fetch_add(&open_count, 1) < most;
    struct bb_stream *stream = room ? calloc(1, sizeof *stream) : NULL;

    if (!stream || pthread_mutex_init(&stream->lock, NULL)) {
        free(stream);
        atomic_fetch_sub(&open_count, 1);
        return reply_failure(rq, room ? FAILED_MEMORY : FAILED_BUSY);
    }
    memcpy(&stream->options, options,
           options->size < sizeof *options ? options->size : sizeof *options);
    STAILQ_INIT(&stream->queue.list);
    stream->watch = (struct watch){.fd = -1, .ready = stream_client_left};
    stream->message.run = stream_wake;
    stream->loop = rq->loop;
    stream->txn = txn;
    stream->sent_ms = rq->loop->now_ms;
    LIST_INSERT_HEAD(&rq->loop->http->streams.open, stream, link);
    stream_check_soon(rq->loop);
    txn->stream = stream;
    if (!stream->options.whole)
        http_txn_uncount(txn); /* not http.max_requests, but http.max_streams limits streams */
    if (generation_superseded(rq->generation))
        stream_superseded(rq);
    else
        rq->superseded = stream_superseded;
    *opened = stream;
    return reply_bytes(rq, 200, NULL, 0);
}

/* ---- writing ---- */

/*
 * Queues a chunk and returns 0. If a published chunk does not fit and options.full is set, returns
 * 1: the caller must call `full`. On any other failure, ends the stream and returns -1.
 */
static int stream_send(struct bb_stream *stream, struct bb_chunk *chunk, bool published)
{
    int status = -1;

    if (!chunk->length)
        return 0;
    BB_LOCKED(&stream->lock);
    /* a chunk of any length fits into an empty queue, or into one with only a heartbeat */
    size_t waiting = stream->beating ? 0 : stream->queue.bytes;

    bool open = !stream->cut && !stream->ending && !stream->over;
    bool fits = !waiting || waiting + chunk->length <= stream->options.limit;

    if (open && !fits && published && stream->options.full)
        return 1;
    if (open && fits) {
        status = stream_chunks_add(&stream->queue, chunk);
        stream->beating = false;
    }
    if (status && !stream->ending)
        stream->cut = true;
    if (stream->options.heartbeat)
        stream->sent_ms = clock_mono_ms();
    stream_post(stream);
    return status;
}

int api_stream_send(struct bb_stream *stream, struct bb_chunk *chunk)
{
    return stream_send(stream, chunk, false);
}

size_t api_stream_waiting(struct bb_stream *stream)
{
    BB_LOCKED(&stream->lock);
    return stream->queue.bytes;
}

void api_stream_cut(struct bb_stream *stream)
{
    BB_LOCKED(&stream->lock);
    stream->cut = true;
    stream_post(stream);
}

void api_stream_end(struct bb_stream *stream)
{
    struct bb_chunk *chunk = stream_chunk(stream->options.goodbye);

    pthread_mutex_lock(&stream->lock);
    if (chunk && !stream->ending && stream_chunks_add(&stream->queue, chunk))
        stream->cut = true;
    stream->ending = true;
    stream_post(stream);
    pthread_mutex_unlock(&stream->lock);
    api_chunk_release(chunk);
}

/* Called by libmicrohttpd to get bytes; suspends the connection if there are none. Loop only. */
static ssize_t stream_read(void *cls, uint64_t position, char *into, size_t room)
{
    struct bb_stream *stream = cls;
    struct connection *connection = stream->txn->connection;

    (void)position;
    pthread_mutex_lock(&stream->lock);
    bool cut = stream->cut, ending = stream->ending;
    struct chunks *chunks = &stream->queue;
    size_t length = 0;

    while (!cut && !STAILQ_EMPTY(&chunks->list) && length < room) {
        const struct bb_chunk *chunk = STAILQ_FIRST(&chunks->list)->chunk;
        size_t left = chunk->length - chunks->taken;
        size_t piece = left < room - length ? left : room - length;

        memcpy(into + length, chunk->bytes + chunks->taken, piece);
        length += piece;
        chunks->taken += piece;
        chunks->bytes -= piece;
        if (chunks->taken == chunk->length)
            stream_chunk_drop_first(chunks);
    }
    pthread_mutex_unlock(&stream->lock);
    if (cut)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (length) {
        connection_stage(connection, STAGE_WRITE, length);
        return (ssize_t)length;
    }
    if (ending) {
        connection_stage(connection, STAGE_WRITE, 0); /* for the last chunk */
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    connection_stage(connection, STAGE_HANDLER, 0);
    stream->suspended = true;
    MHD_suspend_connection(stream->txn->mhd);
    return 0;
}

/* Creates a response that ends with the connection. */
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
    /* the client of a `whole` stream may shut down its side, so only an error ends the stream */
    loop_watch(stream->loop, &stream->watch, connection->fd,
               stream->options.whole ? EPOLLPRI : EPOLLRDHUP);
    return response;
}

const char *stream_type(const struct bb_stream *stream)
{
    return stream->options.type;
}

/* ---- topics ---- */

/* A stream's membership in a topic. */
struct topic_place {
    LIST_ENTRY(topic_place) of_stream, of_topic; /* in the lists of the stream and the topic */
    struct bb_stream *stream;
    struct topic *topic;
};

struct topic {
    const struct bb_host *host; /* identifies the module and generation */
    const char *name;
    LIST_HEAD(, topic_place) places;
    char copy[]; /* the name */
};

/*
 * A search tree of the topics that have at least one stream. A thread that needs topics_lock and
 * the lock of a stream takes topics_lock first.
 */
static pthread_mutex_t topics_lock = PTHREAD_MUTEX_INITIALIZER;
static void *topics;
static uint64_t publications;

static int stream_topic_compare(const void *a, const void *b)
{
    const struct topic *one = a, *other = b;

    if (one->host != other->host)
        return one->host < other->host ? -1 : 1;
    return strcmp(one->name, other->name);
}

/* Under the lock. */
static void stream_topic_drop(struct topic *topic)
{
    if (!LIST_EMPTY(&topic->places))
        return;
    tdelete(topic, &topics, stream_topic_compare);
    free(topic);
}

int api_stream_join(struct bb_host *host, struct bb_stream *stream, const char *name)
{
    struct topic_place *place = calloc(1, sizeof *place);
    size_t size = strlen(name) + 1;
    struct topic *topic = calloc(1, sizeof *topic + size), *const *found = NULL;

    if (!place || !topic) {
        free(place);
        free(topic);
        return -1;
    }
    topic->host = host;
    topic->name = memcpy(topic->copy, name, size);
    pthread_mutex_lock(&topics_lock);
    atomic_store(&stream->joined, true); /* set before `closing` is read: see stream_closed() */
    found = tsearch(topic, &topics, stream_topic_compare);
    if (!found || *found != topic)
        free(topic); /* the topic exists already, or memory ran out */
    topic = found ? *found : NULL;
    const struct topic_place *known = LIST_FIRST(&stream->places);
    int status = topic ? 0 : -1;

    while (known && known->topic != topic)
        known = LIST_NEXT(known, of_stream);

    if (topic && !known && !atomic_load(&stream->closing)) {
        *place = (struct topic_place){.stream = stream, .topic = topic};
        LIST_INSERT_HEAD(&stream->places, place, of_stream);
        LIST_INSERT_HEAD(&topic->places, place, of_topic);
        place = NULL;
    } else if (topic) {
        stream_topic_drop(topic);
    }
    pthread_mutex_unlock(&topics_lock);
    free(place);
    return status;
}

/* Under the lock. */
static void stream_leave(struct bb_stream *stream)
{
    struct topic_place *place;

    while ((place = LIST_FIRST(&stream->places))) {
        LIST_REMOVE(place, of_stream);
        LIST_REMOVE(place, of_topic);
        stream_topic_drop(place->topic);
        free(place);
    }
}

size_t api_stream_publish_to(struct bb_host *host, const char *const *names, size_t name_count,
                             struct bb_chunk *chunk)
{
    size_t count = 0;

    BB_LOCKED(&topics_lock);
    publications++;
    for (size_t i = 0; i < name_count; i++) {
        const struct topic key = {.host = host, .name = names[i]};
        struct topic *const *found = tfind(&key, &topics, stream_topic_compare);

        for (struct topic_place *at = found ? LIST_FIRST(&(*found)->places) : NULL, *next; at;
             at = next) {
            struct bb_stream *stream = at->stream;

            /* read now, because stream_leave() below may free `at` */
            next = LIST_NEXT(at, of_topic);
            if (stream->publication == publications)
                continue; /* the stream got the chunk from another topic */
            stream->publication = publications;
            int status = stream_send(stream, chunk, true);

            count += status == 0;
            if (status > 0) {
                /* stream_closed() waits for topics_lock, so it has not called `closed` yet */
                stream->options.full(stream, stream->options.arg);
                stream_leave(stream);
            }
        }
    }
    return count;
}

size_t api_stream_publish(struct bb_host *host, const char *name, struct bb_chunk *chunk)
{
    return api_stream_publish_to(host, &name, 1, chunk);
}

/* ---- the end ---- */

void stream_closed(struct bb_stream *stream)
{
    struct streams *all = &stream->loop->http->streams;

    loop_watch(stream->loop, &stream->watch, -1, 0);
    if (all->next == stream)
        all->next = LIST_NEXT(stream, link);
    if (all->checked == stream)
        all->checked = NULL;
    LIST_REMOVE(stream, link);
    atomic_store(&stream->closing, true);
    if (atomic_load(&stream->joined)) { /* streams without topics do not need the lock */
        BB_LOCKED(&topics_lock);
        stream_leave(stream); /* from now on `full` is not called */
    }
    if (stream->options.closed)
        stream->options.closed(stream, stream->options.arg);
    atomic_fetch_sub(&open_count, 1);
    pthread_mutex_lock(&stream->lock);
    bool posted = stream->posted;
    stream->over = true;
    pthread_mutex_unlock(&stream->lock);
    if (!posted)
        stream_free(stream);
}

/* Cuts `whole` streams, so that their clients notice that the response is incomplete. */
void streams_stop(struct loop *loop)
{
    if (!loop->http)
        return;
    loop->http->streams.refusing = true;
    for (struct bb_stream *at = LIST_FIRST(&loop->http->streams.open); at;
         at = LIST_NEXT(at, link)) {
        if (at->options.whole)
            api_stream_cut(at);
        else
            api_stream_end(at);
        at->txn->connection->stop_ms = loop->now_ms + STOP_MS;
    }
}
