/*
 * The reader of new messages: a thread that only keeps time, and a fiber that reads.
 *
 * While anybody listens, the fiber reads every chat.stream_interval milliseconds, and again at once
 * if a page was not the last one. Each run also reads some pages for listeners that were gone
 * longer than memory goes back. A run does a bounded amount of work; if more is left, the next run
 * follows at once, so that requests on the same loop are served in between.
 */
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "modules/chat/live/live.h"

enum {
    BACKLOG = 1000,  /* messages that the first run loads into memory, for clients that reconnect */
    PAGES = 8,       /* per run, for lagging listeners */
    IDLE_MS = 60000, /* new listeners and shutdown wake the thread earlier */
    HEARTBEATS_MS = 1000
};

struct tail {
    struct bb_worker_context *context;
    atomic_bool looking;
    atomic_bool again;
    int64_t heartbeats_at; /* used by the fiber only */
};

/*
 * Finds the starting position: the current snapshot, and the transaction $1 messages back. The
 * query reads messages, which may be locked, so it gets its own connection and does not delay other
 * statements.
 */
static const struct bb_sql begin = {
    "SELECT pg_current_snapshot(), (SELECT xid FROM chat_entry"
    " WHERE xid < pg_snapshot_xmax(pg_current_snapshot())"
    " ORDER BY xid DESC OFFSET $1::bigint LIMIT 1), " CHAT_HOME,
    BB_SQL_LONG,
};

static bool place_hub(struct bb_request *rq, struct chat_hub *hub)
{
    const struct bb_rows *rows = bb_query(rq, &begin, BB_ARGS(bb_i(BACKLOG)));
    struct chat_cursor *at = bb_alloc(rq, sizeof(*at));

    if (!rows || chat_mark_parse(bb_cell(rq, rows, 0, 0), &at->mark))
        return false;
    const char *back = bb_cell(rq, rows, 0, 1);
    uint64_t xid =
        back ? strtoull(back, NULL, 10) + 1 : 1; /* the transaction itself may be a large import */

    if (at->mark.xmax > xid)
        at->mark.xmax = xid;
    while (at->mark.count && at->mark.xip[at->mark.count - 1] >= at->mark.xmax)
        at->mark.count--;
    at->home = (uint64_t)bb_cell_int(rq, rows, 0, 2);
    chat_hub_begin(hub, at);
    return true;
}

/* Returns true, resets the hub and frees the page if the page shows that the database changed. */
static bool moves(struct bb_request *rq, struct chat_hub *hub, struct chat_page *page)
{
    if (!page->moved)
        return false;
    chat_page_free(rq->host, page);
    bb_log(rq, BB_WARN, "the database was replaced: live streams restart");
    chat_hub_move(hub);
    return true;
}

/* Returns false if the database does not answer or part of a page is still to be sent. */
static bool look_for_all(struct bb_request *rq, struct tail *tail, struct chat_hub *hub)
{
    struct chat_cursor *at = bb_alloc(rq, sizeof(*at));

    if (!chat_hub_position(hub, at)) {
        if (!place_hub(rq, hub))
            return false;
        chat_hub_position(hub, at);
    }
    struct chat_page *page = chat_page_read(rq, at);

    if (!page || moves(rq, hub, page))
        return false;
    bool complete = page->complete, done = chat_hub_spread(hub, page);

    if (!complete || !done)
        atomic_store(&tail->again, true);
    return done;
}

/* Returns false if the database does not answer. */
static bool read_for(struct bb_request *rq, struct chat_hub *hub, uint64_t number,
                     const struct chat_cursor *at)
{
    struct chat_page *page = chat_page_read(rq, at);

    if (page && moves(rq, hub, page))
        return false;
    if (page)
        chat_hub_give_page(hub, number, page);
    else if (!strncmp(bb_sqlstate(rq), "22", 2))
        chat_hub_begin_anew(hub, number); /* its id is invalid: others must not wait for it */
    else
        return false;
    return true;
}

static void look_for_some(struct bb_request *rq, struct tail *tail, struct chat_hub *hub)
{
    struct chat_cursor *at = bb_alloc(rq, sizeof(*at));
    enum chat_turn turn = CHAT_READ;
    uint64_t number;

    for (int i = 0; i < PAGES && turn == CHAT_READ; i++) {
        turn = chat_hub_turns(hub, &number, at);
        if (turn == CHAT_READ && !read_for(rq, hub, number, at))
            return;
    }
    if (turn != CHAT_SERVED)
        atomic_store(&tail->again, true);
}

static void looked(void *arg, bool whole)
{
    struct tail *tail = arg;
    struct bb_host *host = tail->context->host;

    (void)whole; /* the next run does the rest */
    /* From here on the thread may end and `tail` may be gone. */
    atomic_store(&tail->looking, false);
    bb_wake(host, "stream");
}

static void look(struct bb_request *rq, void *arg)
{
    struct tail *tail = arg;
    const struct chat *chat = rq->state;
    int64_t now = bb_now_ms(rq->host);

    if (!chat_hub_spread_on(chat->hub))
        atomic_store(&tail->again, true);
    else if (look_for_all(rq, tail, chat->hub))
        look_for_some(rq, tail, chat->hub);
    if (now < tail->heartbeats_at)
        return;
    tail->heartbeats_at = now + HEARTBEATS_MS;
    chat_hub_heartbeat(chat->hub, chat->settings->stream_heartbeat * 1000);
}

static void wait_for(struct tail *tail, int64_t ms)
{
    struct pollfd bell = {.fd = tail->context->wake_fd, .events = POLLIN};
    uint64_t count;

    if (ms > 0)
        poll(&bell, 1, (int)ms);
    while (read(tail->context->wake_fd, &count, sizeof(count)) > 0)
        ;
}

void chat_tail(struct bb_worker_context *context)
{
    struct tail tail = {.context = context};
    struct bb_host *host = context->host;
    const struct chat *chat = host->state;
    int64_t next = 0; /* time of the next run */

    while (!bb_stopping(context)) {
        int64_t now = bb_now_ms(host);

        if (!chat_hub_busy(chat->hub)) {
            wait_for(&tail, IDLE_MS);
            next = 0;
            continue;
        }
        if (now < next) {
            wait_for(&tail, next - now);
            continue;
        }
        atomic_store(&tail.again, false);
        atomic_store(&tail.looking, true);
        if (bb_run_then(host, look, looked, &tail))
            atomic_store(&tail.looking, false);
        while (atomic_load(&tail.looking))
            wait_for(&tail, IDLE_MS);
        next = atomic_load(&tail.again) ? 0 : now + chat->settings->stream_interval;
    }
}
