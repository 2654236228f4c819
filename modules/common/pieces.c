/* Each response has a lock, so that no thread uses a stream that the host has closed. */
#include "modules/common/pieces.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAUSE_MS = 20,
    PAUSES = 500,            /* per piece */
    ARRAY_READY = 64 * 1024, /* the next piece is written when at most these bytes are unsent */
    FILE_READY = 256 * 1024
};

/* A response in progress. It frees itself at the end. */
struct pieces {
    struct bb_host *host;
    struct slots *slots;
    int64_t account; /* the account that holds the slot */
    const struct pieces_source *source;
    void *state;
    bool begun; /* the array has items already */
    int more;   /* 1: another piece follows; 0: the response is complete; -1: it has failed */
    pthread_mutex_t lock;
    /* Guarded by the lock. */
    struct bb_stream *stream; /* NULL: closed */
    bool working;             /* pieces_work() runs or will run */
};

static void pieces_free(struct pieces *pieces)
{
    slot_release(pieces->slots, pieces->account);
    pthread_mutex_destroy(&pieces->lock);
    free(pieces->state);
    free(pieces);
}

static void pieces_closed(struct bb_stream *stream, void *arg)
{
    struct pieces *pieces = arg;

    (void)stream;
    pthread_mutex_lock(&pieces->lock);
    pieces->stream = NULL;
    bool working = pieces->working;
    pthread_mutex_unlock(&pieces->lock);
    if (!working)
        pieces_free(pieces);
}

/* Ends the stream if the response is `whole`, or else cuts it. No further work is requested. */
static void pieces_finish(struct pieces *pieces, bool whole)
{
    pthread_mutex_lock(&pieces->lock);
    struct bb_stream *stream = pieces->stream;

    if (stream && whole)
        bb_stream_end(pieces->host, stream);
    else if (stream)
        bb_stream_cut(pieces->host, stream);
    pieces->working = false;
    pthread_mutex_unlock(&pieces->lock);
    if (!stream)
        pieces_free(pieces);
}

/* Sends a copy of the text. Returns 0, or -1 if the client has gone or memory ran out. */
static int pieces_send(struct pieces *pieces, const struct csv *text)
{
    int lost = -1;

    if (text->failed || !text->length)
        return text->failed ? -1 : 0;
    struct bb_chunk *chunk = bb_chunk_new(pieces->host, text->length);

    if (!chunk)
        return -1;
    memcpy(chunk->bytes, text->bytes, text->length);
    pthread_mutex_lock(&pieces->lock);
    if (pieces->stream)
        lost = bb_stream_send(pieces->host, pieces->stream, chunk);
    pthread_mutex_unlock(&pieces->lock);
    bb_chunk_release(pieces->host, chunk);
    return lost;
}

/*
 * Waits until at most FILE_READY or ARRAY_READY bytes are unsent, and returns 1. Returns 0 if this
 * takes too long, or -1 if the client has gone or memory ran out.
 */
static int pieces_await_client(struct bb_request *rq, struct pieces *pieces)
{
    for (int pauses = 0; pauses < PAUSES; pauses++) {
        pthread_mutex_lock(&pieces->lock);
        bool gone = !pieces->stream;
        size_t bytes = gone ? 0 : bb_stream_waiting(pieces->host, pieces->stream);
        pthread_mutex_unlock(&pieces->lock);
        if (bytes <= (pieces->source->name ? FILE_READY : ARRAY_READY))
            return gone ? -1 : 1;
        if (bb_sleep(rq, PAUSE_MS))
            return -1;
    }
    return 0;
}

static void pieces_work(struct bb_request *rq, void *arg)
{
    struct pieces *pieces = arg;
    struct csv *text = bb_alloc(rq, sizeof(*text));
    int ready = pieces_await_client(rq, pieces);

    pieces->more = ready < 0 ? -1 : 1;
    if (ready <= 0)
        return;
    text->begun = pieces->begun;
    bb_defer(rq, csv_drop, text);
    int more = pieces->source->write(rq, text, pieces->state);

    pieces->begun = text->begun;
    if (!more && !pieces->source->name) /* the end of the array */
        csv_bytes(text, text->begun ? "]" : "[]", text->begun ? 1 : 2);
    pieces->more = more < 0 || pieces_send(pieces, text) ? -1 : more;
}

/* Called after pieces_work(). `whole` is false if memory ran out; then the response has failed. */
static void pieces_worked(void *arg, bool whole)
{
    struct pieces *pieces = arg;
    int more = whole ? pieces->more : -1;

    if (more <= 0)
        pieces_finish(pieces, !more);
    else if (bb_run_then(pieces->host, pieces_work, pieces_worked, pieces))
        pieces_finish(pieces, false);
}

void pieces_add(struct bb_request *rq, struct csv *text, json_t *item)
{
    pieces_add_text(rq, text, item ? bb_json(rq, item, NULL) : NULL);
    json_decref(item);
}

void pieces_add_text(struct bb_request *rq, struct csv *text, const char *item)
{
    text->failed |= !item;
    csv_bytes(text, text->begun ? "," : "[", 1);
    if (item)
        csv_bytes(text, item, strlen(item));
    text->begun = true;
    bb_yield(rq);
}

int pieces_begin(struct bb_request *rq, struct slots *slots, const struct pieces_source *source,
                 void *state)
{
    struct pieces *pieces = state ? calloc(1, sizeof(*pieces)) : NULL;
    struct csv header = {.failed = false};
    struct bb_stream_options options = {
        .size = sizeof(options),
        .type = source->name ? "text/csv; charset=utf-8" : "application/json; charset=utf-8",
        .limit = SIZE_MAX, /* not needed, because at most two pieces are unsent */
        .closed = pieces_closed,
        .arg = pieces,
        .whole = true,
    };

    if (!pieces || pthread_mutex_init(&pieces->lock, NULL) != 0) {
        slot_release(slots, rq->principal->account);
        free(state);
        free(pieces);
        return bb_no_memory(rq);
    }
    pieces->host = rq->host;
    pieces->slots = slots;
    pieces->account = rq->principal->account;
    pieces->source = source;
    pieces->state = state;
    int status = bb_stream_open(rq, &options, &pieces->stream);

    if (status != 200) {
        pieces_free(pieces);
        return status;
    }
    pieces->working = true;
    for (const char *const *column = source->columns; column && *column; column++)
        csv_plain(&header, *column);
    if (source->columns)
        csv_end_row(&header);
    if ((source->name &&
         bb_reply_header(rq, "Content-Disposition",
                         bb_format(rq, "attachment; filename=\"%s\"", source->name)) < 0) ||
        pieces_send(pieces, &header) ||
        bb_run_then(pieces->host, pieces_work, pieces_worked, pieces))
        pieces_finish(pieces, false);
    csv_drop(&header);
    return status;
}

int pieces_begin_copy(struct bb_request *rq, struct slots *slots,
                      const struct pieces_source *source, const void *from, size_t size)
{
    slot_await(rq, slots);
    void *copy = malloc(size);

    if (copy)
        memcpy(copy, from, size);
    return pieces_begin(rq, slots, source, copy);
}
