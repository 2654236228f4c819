/*
 * Streams outlive the check of their token, so the host repeats it, stream after stream, about
 * twice a second. A stream ends if its session was ended, its account may no longer act, or its
 * token has expired; also if its rights have changed, because the client then reconnects with the
 * new rights. In the steady state a check costs a lookup in the authenticator's cache. The same
 * rounds send heartbeats. While the authenticator is unavailable (503), streams continue.
 */
#include <string.h>

#include "core/server/stream_parts.h"

enum {
    PAUSE_MS = 400, /* pause between two rounds */
    PORTION = 256,  /* streams per loop iteration */
    LOOK_DEADLINE_MS = 2000
};

struct look {
    struct core_request rq; /* first */
    struct bb_stream *stream;
    const char *token;
    struct bb_principal who;
    bool parked;
};

static bool same_rights(const struct bb_principal *a, const struct bb_principal *b)
{
    return a->account == b->account && a->role == b->role && a->organization == b->organization &&
           a->organization_count == b->organization_count && !strcmp(a->email, b->email) &&
           (!a->organization_count || !memcmp(a->organizations, b->organizations,
                                              a->organization_count * sizeof *a->organizations));
}

static void look_entry(struct core_request *rq)
{
    struct look *look = (struct look *)(void *)rq;
    const struct generation *generation = rq->generation;
    void *state = generation->authenticator_host->host.state;

    look->who.size = sizeof look->who;
    int refused = generation->authenticator->authenticate(state, &rq->pub, look->token, &look->who);
    struct bb_stream *stream = rq->loop->streams->looked_at;

    if (!stream || refused == 503)
        return;
    if (refused || !same_rights(&look->who, &stream->txn->principal))
        api_stream_end(stream);
}

static void again(struct loop *loop, int64_t in_ms)
{
    timer_set(&loop->timers, &loop->streams->timer, loop->now_ms + in_ms);
}

void streams_check_soon(struct loop *loop)
{
    const struct streams *all = loop->streams;

    if (all->first && !all->in_round && !all->timer.slot)
        again(loop, PAUSE_MS);
}

static void look_ended(struct core_request *rq)
{
    struct loop *loop = rq->loop;

    loop->streams->looked_at = NULL;
    if (((struct look *)(void *)rq)->parked)
        again(loop, 0);
    request_free(rq);
}

/* Returns NULL if the stream needs no check, or if there is no memory for it now. */
static struct look *look_new(struct bb_stream *stream)
{
    struct http_txn *txn = stream->txn;
    const char *token = txn->rq.pub.principal ? http_txn_token(txn) : NULL;
    struct loop *loop = txn->rq.loop;
    struct look *look = NULL;

    if (token)
        look = request_make(sizeof *look, REQUEST_JOB, loop, txn->rq.generation);
    if (!look)
        return NULL;
    look->token = arena_text(look->rq.arena, token, strlen(token));
    if (!look->token) {
        request_free(&look->rq);
        return NULL;
    }
    look->rq.entry = look_entry;
    look->rq.ended = look_ended;
    look->rq.deadline_ms = loop->now_ms + LOOK_DEADLINE_MS;
    request_enter(&look->rq, &txn->rq.generation->authenticator_host->host);
    return look;
}

/* Returns false if the check waits for the database; it continues asynchronously. */
static bool look_at(struct bb_stream *stream)
{
    struct loop *loop = stream->txn->rq.loop;
    struct look *look = look_new(stream);

    if (!look)
        return true;
    loop->streams->looked_at = stream;
    if (request_start(&look->rq))
        return true;
    look->parked = true;
    return false;
}

static bool wants_heartbeat(struct bb_stream *stream, int64_t now_ms)
{
    const struct bb_stream_options *options = &stream->options;

    if (!options->heartbeat || !*options->heartbeat || options->heartbeat_ms <= 0)
        return false;
    pthread_mutex_lock(&stream->lock);
    bool silent = stream_is_silent(stream, now_ms);
    pthread_mutex_unlock(&stream->lock);
    return silent;
}

static void send_heartbeat(struct bb_stream *stream, int64_t now_ms)
{
    const char *heartbeat = stream->options.heartbeat;

    if (!wants_heartbeat(stream, now_ms))
        return;
    struct bb_chunk *chunk = api_chunk_new(strlen(heartbeat));

    if (!chunk)
        return;
    memcpy(chunk->bytes, heartbeat, chunk->length);
    stream_beat(stream, chunk, now_ms);
    api_chunk_release(chunk);
}

static void round_go_on(struct timer *timer)
{
    struct streams *all = BB_CONTAINER_OF(timer, struct streams, timer);
    struct loop *loop = all->loop;

    if (!all->in_round)
        all->next = all->first;
    all->in_round = true;
    for (int i = 0; all->next && i < PORTION; i++) {
        struct bb_stream *stream = all->next;

        all->next = stream->next;
        send_heartbeat(stream, loop->now_ms);
        if (!look_at(stream))
            return;
    }
    all->in_round = all->next != NULL;
    if (all->in_round)
        again(loop, 0);
    else
        streams_check_soon(loop);
}

void streams_check_start(struct loop *loop)
{
    loop->streams->loop = loop;
    loop->streams->timer.fire = round_go_on;
}
