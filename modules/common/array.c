/*
 * Sending an array page by page. Each page is read and sent by a piece of work of its own, which
 * asks for the next one when it ends; before it reads, it waits until the client has taken most of
 * what went before. So a slow client holds a page or two in memory, and no connection to the
 * database.
 *
 * The stream closes on a thread of its own choosing, and may be used only until then: the lock.
 */
#include "modules/common/array.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    READY_BYTES = 64 * 1024, /* that may wait for the client when a page is read */
    PAUSE_MS = 20,
    PAUSES = 500 /* in one piece of work */
};

struct sending {
    struct bb_host *host;
    struct array_places *places;
    int64_t account; /* who holds a place for it */
    struct array_source source;
    bool begun; /* items have been sent */
    int more; /* of the piece of work under way: 1: another one follows, 0: all sent, -1: failed */
    pthread_mutex_t lock;
    /* under the lock */
    struct bb_stream *stream; /* NULL: closed */
    bool working;             /* a piece of work is under way, or asked for */
};

/* ---- text ---- */

static bool grow(struct array_text *text, size_t more)
{
    size_t room = text->room ? text->room : 4096;

    while (room < text->length + more)
        room *= 2;
    if (room == text->room)
        return true;
    char *bytes = realloc(text->bytes, room);

    if (!bytes)
        return false;
    text->bytes = bytes;
    text->room = room;
    return true;
}

void array_text_add(struct bb_request *rq, struct array_text *text, json_t *item)
{
    size_t length = 0;
    const char *json = item ? bb_json(rq, item, &length) : NULL;

    json_decref(item);
    if (!json || !grow(text, length + 1)) {
        text->failed = true;
        return;
    }
    text->bytes[text->length] = text->begun ? ',' : '[';
    memcpy(text->bytes + text->length + 1, json, length);
    text->length += length + 1;
    text->begun = true;
}

/* ---- the end ---- */

static void free_sending(struct sending *sending)
{
    array_place_give(sending->places, sending->account);
    pthread_mutex_destroy(&sending->lock);
    sending->source.free(sending->source.arg);
    free(sending);
}

static void closed(struct bb_stream *stream, void *arg)
{
    struct sending *sending = arg;

    (void)stream;
    pthread_mutex_lock(&sending->lock);
    sending->stream = NULL;
    bool working = sending->working;
    pthread_mutex_unlock(&sending->lock);
    if (!working)
        free_sending(sending);
}

/* No work follows. */
static void finish(struct sending *sending, bool whole)
{
    pthread_mutex_lock(&sending->lock);
    struct bb_stream *stream = sending->stream;

    if (stream && whole)
        bb_stream_end(sending->host, stream);
    else if (stream)
        bb_stream_cut(sending->host, stream);
    sending->working = false;
    pthread_mutex_unlock(&sending->lock);
    if (!stream)
        free_sending(sending);
}

/* ---- pages ---- */

/* Takes the text's bytes. 0, or -1. */
static int send(struct sending *sending, struct array_text *text, bool last)
{
    bool failed = text->failed || (last && !grow(text, 2));

    if (!failed && last) {
        memcpy(text->bytes + text->length, text->begun ? "]" : "[]", 2);
        text->length += text->begun ? 1 : 2;
    }
    struct bb_chunk *chunk =
        !failed && text->length ? bb_chunk_new(sending->host, text->length) : NULL;

    failed = failed || (text->length && !chunk);
    if (chunk) {
        memcpy(chunk->bytes, text->bytes, text->length);
        pthread_mutex_lock(&sending->lock);
        failed = !sending->stream || bb_stream_send(sending->host, sending->stream, chunk);
        pthread_mutex_unlock(&sending->lock);
        bb_chunk_release(sending->host, chunk);
    }
    sending->begun = text->begun;
    free(text->bytes);
    text->bytes = NULL;
    return failed ? -1 : 0;
}

/* Bytes that wait; -1: nobody listens any more. */
static int64_t waiting(struct sending *sending)
{
    pthread_mutex_lock(&sending->lock);
    int64_t bytes =
        sending->stream ? (int64_t)bb_stream_waiting(sending->host, sending->stream) : -1;
    pthread_mutex_unlock(&sending->lock);
    return bytes;
}

/* Until the client has taken most of what waits: 1; 0: not yet; -1: it has gone. */
static int client_ready(struct bb_request *rq, struct sending *sending)
{
    for (int pauses = 0; pauses < PAUSES; pauses++) {
        int64_t bytes = waiting(sending);

        if (bytes <= READY_BYTES)
            return bytes < 0 ? -1 : 1;
        if (bb_sleep(rq, PAUSE_MS))
            return -1;
    }
    return 0;
}

static void drop_text(void *arg)
{
    struct array_text *text = arg;

    free(text->bytes);
}

static int send_page(struct bb_request *rq, struct sending *sending)
{
    struct array_text *text = bb_alloc(rq, sizeof(*text));

    text->begun = sending->begun;
    bb_defer(rq, drop_text, text);
    int more = sending->source.read(rq, text, sending->source.arg);

    if (more < 0 || send(sending, text, more == 0))
        return -1;
    return more;
}

static void work(struct bb_request *rq, void *arg)
{
    struct sending *sending = arg;
    int ready = client_ready(rq, sending);

    if (ready > 0)
        sending->more = send_page(rq, sending);
    else
        sending->more = ready == 0 ? 1 : -1;
}

static int go_on(struct sending *sending);

/* A piece that ended in the middle, or before its beginning, for want of memory has failed. */
static void worked(void *arg, bool whole)
{
    struct sending *sending = arg;
    int more = whole ? sending->more : -1;

    if (more <= 0)
        finish(sending, more == 0);
    else if (go_on(sending))
        finish(sending, false);
}

static int go_on(struct sending *sending)
{
    return bb_run_then(sending->host, work, worked, sending);
}

/* ---- the beginning ---- */

static struct sending *sending_new(struct bb_request *rq, struct array_places *places,
                                   const struct array_source *source)
{
    struct sending *sending = calloc(1, sizeof(*sending));

    if (!sending || pthread_mutex_init(&sending->lock, NULL)) {
        array_place_give(places, rq->principal->account);
        source->free(source->arg);
        free(sending);
        return NULL;
    }
    sending->host = rq->host;
    sending->places = places;
    sending->account = rq->principal->account;
    sending->source = *source;
    return sending;
}

static int begin(struct bb_request *rq, struct sending *sending)
{
    struct bb_stream_options options = {
        .size = sizeof(options),
        .type = "application/json; charset=utf-8",
        .limit = SIZE_MAX, /* never more than READY_BYTES and a page */
        .closed = closed,
        .arg = sending,
        .whole = true,
    };
    int status = bb_stream_open(rq, &options, &sending->stream);

    if (status != 200) {
        free_sending(sending);
        return status;
    }
    sending->working = true;
    if (go_on(sending))
        finish(sending, false);
    return status;
}

int array_send(struct bb_request *rq, struct array_places *places,
               const struct array_source *source)
{
    struct sending *sending = sending_new(rq, places, source);

    return sending ? begin(rq, sending) : bb_no_memory(rq);
}

int array_send_copy(struct bb_request *rq, struct array_places *places,
                    int (*read)(struct bb_request *, struct array_text *, void *), const void *from,
                    size_t size)
{
    int refused = array_place_take(rq, places);
    void *copy = refused ? NULL : malloc(size);

    if (refused)
        return refused;
    if (!copy) {
        array_place_give(places, rq->principal->account);
        return bb_no_memory(rq);
    }
    memcpy(copy, from, size);
    return array_send(rq, places, &(struct array_source){read, free, copy});
}
