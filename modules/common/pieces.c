/* A stream is closed on any thread and must not be used afterwards; the lock ensures that. */
#include "modules/common/pieces.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_MS 20
#define PAUSES 500 /* per piece */

struct pieces {
    struct bb_host *host;
    const struct pieces_source *source;
    void *arg;
    enum pieces_next next; /* result of the last piece */
    pthread_mutex_t lock;
    /* Guarded by the lock. */
    struct bb_stream *stream; /* NULL: closed */
    bool working;             /* a piece is being made, or was requested */
};

static void free_pieces(struct pieces *pieces)
{
    pieces->source->drop(pieces->host, pieces->arg);
    pthread_mutex_destroy(&pieces->lock);
    free(pieces);
}

static void closed(struct bb_stream *stream, void *arg)
{
    struct pieces *pieces = arg;

    (void)stream;
    pthread_mutex_lock(&pieces->lock);
    pieces->stream = NULL;
    bool working = pieces->working;
    pthread_mutex_unlock(&pieces->lock);
    if (!working)
        free_pieces(pieces);
}

/* Ends the stream; no more work follows. */
static void finish(struct pieces *pieces, bool whole)
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
        free_pieces(pieces);
}

int pieces_send(struct pieces *pieces, const char *bytes, size_t length)
{
    int lost = -1;

    if (!length)
        return 0;
    struct bb_chunk *chunk = bytes ? bb_chunk_new(pieces->host, length) : NULL;

    if (!chunk)
        return -1;
    memcpy(chunk->bytes, bytes, length);
    pthread_mutex_lock(&pieces->lock);
    if (pieces->stream)
        lost = bb_stream_send(pieces->host, pieces->stream, chunk);
    pthread_mutex_unlock(&pieces->lock);
    bb_chunk_release(pieces->host, chunk);
    return lost;
}

/*
 * Waits until the client has received most of the data. Returns 1, 0 if it has not yet, -1 if it
 * has gone.
 */
static int client_ready(struct bb_request *rq, struct pieces *pieces)
{
    for (int pauses = 0; pauses < PAUSES; pauses++) {
        pthread_mutex_lock(&pieces->lock);
        bool gone = !pieces->stream;
        size_t bytes = gone ? 0 : bb_stream_waiting(pieces->host, pieces->stream);
        pthread_mutex_unlock(&pieces->lock);
        if (bytes <= pieces->source->ready)
            return gone ? -1 : 1;
        if (bb_sleep(rq, PAUSE_MS))
            return -1;
    }
    return 0;
}

static void work(struct bb_request *rq, void *arg)
{
    struct pieces *pieces = arg;
    int ready = client_ready(rq, pieces);

    if (ready > 0)
        pieces->next = pieces->source->work(rq, pieces, pieces->arg);
    else
        pieces->next = ready < 0 ? PIECES_CUT : PIECES_MORE;
}

static int go_on(struct pieces *pieces);

/* A work function that ended early, because memory ran out, has failed. */
static void worked(void *arg, bool whole)
{
    struct pieces *pieces = arg;
    enum pieces_next next = whole ? pieces->next : PIECES_CUT;

    if (next != PIECES_MORE)
        finish(pieces, next == PIECES_WHOLE);
    else if (go_on(pieces))
        finish(pieces, false);
}

static int go_on(struct pieces *pieces)
{
    return bb_run_then(pieces->host, work, worked, pieces);
}

int pieces_begin(struct bb_request *rq, const struct pieces_source *source, void *arg,
                 const char *bytes, size_t length)
{
    struct pieces *pieces = calloc(1, sizeof(*pieces));
    struct bb_stream_options options = {
        .size = sizeof(options),
        .type = source->type,
        .limit = SIZE_MAX, /* the stream never holds more than `ready` bytes and a piece */
        .closed = closed,
        .arg = pieces,
        .whole = true,
    };

    if (!pieces || pthread_mutex_init(&pieces->lock, NULL) != 0) {
        free(pieces);
        source->drop(rq->host, arg);
        return bb_no_memory(rq);
    }
    pieces->host = rq->host;
    pieces->source = source;
    pieces->arg = arg;
    int status = bb_stream_open(rq, &options, &pieces->stream);

    if (status != 200) {
        free_pieces(pieces);
        return status;
    }
    pieces->working = true;
    if ((source->name &&
         bb_reply_header(rq, "Content-Disposition",
                         bb_format(rq, "attachment; filename=\"%s\"", source->name)) < 0) ||
        !bytes || pieces_send(pieces, bytes, length) || go_on(pieces))
        finish(pieces, false);
    return status;
}
