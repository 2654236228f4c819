/*
 * The reader of new messages: a thread that only keeps time, and a fiber that looks.
 *
 * While anybody listens it looks every chat.stream_interval milliseconds, and at once again where a
 * page was not the last one. In each look some pages are read for listeners that were away for
 * longer than memory goes back. A look does a bounded piece of work and ends; the next one follows
 * at once where more is to be done, so that the requests of its loop come in between.
 */
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "modules/chat/live/live.h"

enum {
    BACKLOG = 1000,  /* messages that the first look takes into memory, for those that come again */
    PAGES = 8,       /* in a look, for those that are behind */
    IDLE_MS = 60000, /* whoever comes, and whatever ends, rings */
    HEARTBEATS_MS = 1000
};

struct tail {
    struct bb_worker_context *context;
    atomic_bool looking;
    atomic_bool again;
    int64_t heartbeats_at; /* the fiber's */
};

/*
 * Where to begin, not long ago: the snapshot, and a transaction so many messages back. It reads
 * messages, which may be locked: on a connection of its own it holds up no other statement.
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
    uint64_t xid = back ? strtoull(back, NULL, 10) + 1 : 1; /* that one may be a large import */

    if (at->mark.xmax > xid)
        at->mark.xmax = xid;
    while (at->mark.count && at->mark.xip[at->mark.count - 1] >= at->mark.xmax)
        at->mark.count--;
    at->home = (uint64_t)bb_cell_int(rq, rows, 0, 2);
    chat_hub_begin(hub, at);
    return true;
}

/* Whether the page says that the database is another one now: the hub is told, the page is gone. */
static bool moves(struct bb_request *rq, struct chat_hub *hub, struct chat_page *page)
{
    if (!page->moved)
        return false;
    chat_page_free(rq->host, page);
    bb_log(rq, BB_WARN, "the database is another one than before: live streams begin anew");
    chat_hub_move(hub);
    return true;
}

/* False: the database does not answer, or there is more to be handed round. */
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

/* False: the database does not answer. */
static bool read_for(struct bb_request *rq, struct chat_hub *hub, uint64_t number,
                     const struct chat_cursor *at)
{
    struct chat_page *page = chat_page_read(rq, at);

    if (page && moves(rq, hub, page))
        return false;
    if (page)
        chat_hub_give_page(hub, number, page);
    else if (!strncmp(bb_sqlstate(rq), "22", 2))
        chat_hub_begin_anew(hub, number); /* its id is none: the others must not wait for it */
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

    (void)whole; /* what it has not come to is for the next look */

    atomic_store(&tail->looking, false); /* from here on the thread may end, and tail with it */
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

/* One turn; returns when to look next. */
static int64_t turn(struct tail *tail, int64_t next)
{
    struct bb_host *host = tail->context->host;
    const struct chat *chat = host->state;
    int64_t now = bb_now_ms(host);

    if (!chat_hub_busy(chat->hub)) {
        wait_for(tail, IDLE_MS);
        return 0;
    }
    if (now < next) {
        wait_for(tail, next - now);
        return next;
    }
    atomic_store(&tail->again, false);
    atomic_store(&tail->looking, true);
    if (bb_run_then(host, look, looked, tail))
        atomic_store(&tail->looking, false);
    while (atomic_load(&tail->looking))
        wait_for(tail, IDLE_MS);
    return atomic_load(&tail->again) ? 0 : now + chat->settings->stream_interval;
}

void chat_tail(struct bb_worker_context *context)
{
    struct tail tail = {.context = context};
    int64_t next = 0;

    while (!bb_stopping(context))
        next = turn(&tail, next);
}
