/*
 * GET /api/chat/stream
 *
 * Sends the events of the conversations that the caller may see as Server-Sent Events, starting now
 * or after the event named by Last-Event-ID.
 */
#include <string.h>

#include "modules/chat/live/listeners.h"

#define RETRY "retry: 1000\n\n"

/* How many transactions old a client's position may be; older clients start over. */
#define REPLAY_XIDS 1000000

static const struct bb_sql snapshot = {"SELECT pg_current_snapshot(), " CHAT_HOME, 0};

static void closed(struct bb_stream *stream, void *arg)
{
    struct chat_listener *listener = arg;
    const struct chat *chat = listener->host->state;

    (void)stream;
    chat_hub_remove(chat->hub, listener);
}

/*
 * Finds where the stream begins. Returns 0 with *at, or the status of the response sent. The flag
 * says that the client's position cannot be used and the stream starts over.
 */
static int find_start(struct bb_request *rq, struct chat_cursor *at, bool *anew)
{
    const char *last = bb_header(rq, "Last-Event-ID");
    struct chat_cursor *now = bb_alloc(rq, sizeof(*now));

    if (last && !*last)
        last = NULL; /* an empty id counts as no id (WHATWG) */
    if (last && chat_cursor_parse(last, at))
        return bb_fail(rq, 400, "Last-Event-ID must be an id that this stream gave");

    const struct bb_rows *rows = bb_query(rq, &snapshot, BB_NO_ARGS);

    if (!rows)
        return bb_failed(rq);
    if (chat_mark_parse(bb_cell(rq, rows, 0, 0), &now->mark))
        return bb_fail(rq, 503, "The database is temporarily unavailable");
    now->home = (uint64_t)bb_cell_int(rq, rows, 0, 1);
    if (last && !at->home)
        at->home = now->home;
    *anew = last && (at->home != now->home || at->mark.xmax > now->mark.xmax ||
                     at->xid > now->mark.xmax || at->mark.xmax + REPLAY_XIDS < now->mark.xmax);
    if (!last || *anew)
        *at = *now;
    return 0;
}

/* Returns 0, or the status of the response sent. */
static int refuse_too_many(struct bb_request *rq)
{
    const struct chat *chat = rq->state;

    if (chat_hub_count(chat->hub, rq->principal->account) <
        (size_t)chat->settings->streams_per_account)
        return 0;
    bb_reply_header(rq, "Retry-After", "5");
    return bb_fail(rq, 429, "Too many open streams for this account");
}

int chat_stream(struct bb_request *rq)
{
    const struct chat *chat = rq->state;
    struct chat_scope scope = chat_scope(rq);
    struct chat_cursor *at = bb_alloc(rq, sizeof(*at));
    bool anew = false;

    int refused = refuse_too_many(rq);

    if (!refused)
        refused = find_start(rq, at, &anew);
    if (!refused)
        refused = refuse_too_many(rq); /* others may have connected during the query */
    if (refused)
        return refused;
    char *id = bb_alloc(rq, CHAT_ID_SIZE);
    const char *line = chat_cursor_text(at, id) ? "" : bb_format(rq, "id: %s\n\n", id);
    const char *text = bb_format(rq, RETRY "%s%s", line, anew ? CHAT_RESET : "");
    struct bb_chunk *first = chat_chunk(rq->host, text);
    struct chat_listener *listener =
        first ? chat_listener_new(rq->host, &scope, rq->principal->account, at) : NULL;

    if (!listener) {
        bb_chunk_release(rq->host, first);
        return bb_no_memory(rq);
    }
    struct bb_stream_options options = {
        .size = sizeof(options),
        .type = "text/event-stream; charset=utf-8",
        .limit = chat->stream_buffer,
        .goodbye = RETRY,
        .closed = closed,
        .arg = listener,
    };
    int status = bb_stream_open(rq, &options, &listener->stream);

    if (status == 200) {
        bb_stream_send(rq->host, listener->stream, first);
        chat_hub_add(chat->hub, listener);
        bb_wake(rq->host, "stream");
    } else {
        chat_listener_free(listener);
    }
    bb_chunk_release(rq->host, first);
    return status;
}
