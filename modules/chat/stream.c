/*
 * The live stream, GET /api/chat/stream.
 *
 * While anybody listens, each host reads several times a second the events that have become visible
 * since its last snapshot (page.h), and publishes them to topics (busbar/stream.h). A listener is
 * in its topics as long as everything before was sent to it. Otherwise it lags, because it is new
 * or its queue was full: then pages are read for it until it has everything, and it joins its
 * topics again. Accounts take turns in this, and so do the listeners of an account.
 *
 * The mutex guards the hub. Nothing blocks while holding it, and the sends while holding it are
 * limited (WORK). A fiber reads and sends; only it changes `at` and `page` while it runs. It runs
 * as long as there are listeners.
 */
#include <inttypes.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "modules/chat/chat.h"
#include "modules/chat/page.h"

#define RETRY "retry: 1000\n\n"

/* Makes a client read its chains again. */
#define RESET "event: reset\ndata: {}\n\n"

/* The topic of all listeners that do not lag, for ids without an event. */
#define TOPIC_JOINED ""

enum {
    WORK = 4096,                  /* sends while holding the mutex */
    TURNS = 32,                   /* of lagging listeners, in each run */
    READS = 8,                    /* pages read for them in each run */
    PAGE_BYTES = 2 * 1024 * 1024, /* text of a page */
    REPLAY_XIDS = 1000000,        /* clients with an older position start over, */
    REPLAY_EVENTS = 131072        /* and clients that need more events than this */
};

/* An account with at least one listener on this host. */
struct account {
    int64_t id;
    size_t streams;
    uint64_t turn; /* number of its most recent turn */
};

struct listener {
    TAILQ_ENTRY(listener) link; /* in a list of the hub */
    struct chat_hub *hub;
    struct bb_stream *stream;
    struct account *account;
    bool lagging;
    bool ended;             /* nothing more is sent */
    bool fresh;             /* it wants what comes after the snapshot `at`, and nothing else */
    bool stuck;             /* an event did not fit, though nothing was sent before it */
    size_t events;          /* since it began to lag */
    struct chat_cursor *at; /* owned; if it lags */
    size_t topic_count;
    const char *topics[];
};

TAILQ_HEAD(listeners, listener);

struct chat_hub {
    pthread_mutex_t lock;
    struct bb_host *host;
    const struct chat_settings *settings;
    size_t room;    /* bytes that may be queued for a listener */
    void *accounts; /* a tree */
    uint64_t turns;
    struct listeners lists[2]; /* by `lagging`; the second in the order of the last turns */
    size_t counts[2];
    bool running;           /* the fiber */
    bool again;             /* it left work to be done */
    struct chat_cursor *at; /* what was read and will have been published; NULL: not known */
    struct chat_page *page; /* read last; NULL: none */
    size_t published;       /* events of it */
    int64_t ids_ms;         /* time of the last id without an event */
};

static struct bb_chunk *hub_chunk(struct chat_hub *hub, const char *text)
{
    struct bb_chunk *chunk = bb_chunk_new(hub->host, strlen(text));

    if (chunk)
        memcpy(chunk->bytes, text, chunk->length);
    return chunk;
}

/* ---- accounts ---- */

static int account_compare(const void *a, const void *b)
{
    const struct account *one = a, *other = b;

    return one->id < other->id ? -1 : one->id > other->id;
}

/*
 * Counts a stream of an account. A new account starts as if it had just had a turn, so reconnecting
 * gains nothing. Returns 0, 429 if the account has too many, or 503 if out of memory.
 */
static int account_enter(struct chat_hub *hub, int64_t id, struct account **entered)
{
    struct account *made = calloc(1, sizeof(*made)), **found = NULL;
    int status = 503;

    if (!made)
        return status;
    pthread_mutex_lock(&hub->lock);
    *made = (struct account){.id = id, .turn = hub->turns};
    found = tsearch(made, &hub->accounts, account_compare);
    if (found)
        status = (*found)->streams < (size_t)hub->settings->streams_per_account ? 0 : 429;
    if (!status) {
        *entered = *found;
        (*entered)->streams++;
    }
    if (!found || *found != made)
        free(made);
    pthread_mutex_unlock(&hub->lock);
    return status;
}

/* Under the lock. */
static void account_leave(struct chat_hub *hub, struct account *account)
{
    if (--account->streams)
        return;
    tdelete(account, &hub->accounts, account_compare);
    free(account);
}

/* ---- listeners; under the lock ---- */

/* Without an account and a stream, and in no list. Returns NULL if out of memory. */
static struct listener *listener_new(struct chat_hub *hub, const struct chat_scope *scope,
                                     const struct chat_cursor *at)
{
    size_t most = scope->organization_count + 2;
    size_t room = strlen(scope->own) + sizeof(CHAT_TOPIC_EMAIL) + most * CHAT_TOPIC_NUMBER_SIZE;
    struct listener *listener =
        calloc(1, sizeof(*listener) + most * sizeof(listener->topics[0]) + room);

    if (!listener)
        return NULL;
    char *text = (char *)(listener->topics + most), *end = text + room;

    listener->hub = hub;
    listener->at = chat_cursor_copy(at);
    if (!listener->at) {
        free(listener);
        return NULL;
    }
    listener->topics[listener->topic_count++] = TOPIC_JOINED;
    listener->topics[listener->topic_count++] = scope->all ? CHAT_TOPIC_ALL : text;
    text += snprintf(text, (size_t)(end - text), CHAT_TOPIC_EMAIL, scope->own) + 1;
    for (size_t i = 0; i < scope->organization_count && !scope->all; i++) {
        listener->topics[listener->topic_count++] = text;
        text +=
            snprintf(text, (size_t)(end - text), CHAT_TOPIC_ORGANIZATION, scope->organizations[i]) +
            1;
    }
    return listener;
}

static void listener_free(struct listener *listener)
{
    free(listener->at);
    free(listener);
}

static void listener_link(struct listener *listener, bool lagging)
{
    listener->lagging = lagging;
    TAILQ_INSERT_TAIL(&listener->hub->lists[lagging], listener, link);
    listener->hub->counts[lagging]++;
}

static void listener_unlink(struct listener *listener)
{
    TAILQ_REMOVE(&listener->hub->lists[listener->lagging], listener, link);
    listener->hub->counts[listener->lagging]--;
}

/* To the end of a list. */
static void listener_move(struct listener *listener, bool lagging)
{
    listener_unlink(listener);
    listener_link(listener, lagging);
}

/* The client reconnects with the last id that it received. */
static void listener_end(struct listener *listener)
{
    listener->ended = true;
    bb_stream_end(listener->hub->host, listener->stream);
}

/* Sets its position to a copy of a cursor, in which the event is the last one that was seen. */
static void listener_place(struct listener *listener, const struct chat_cursor *at,
                           const struct chat_key *event)
{
    struct chat_cursor *copy = chat_cursor_copy(at);

    if (copy)
        copy->event = *event;
    else
        listener_end(listener);
    free(listener->at);
    listener->at = copy;
    listener->fresh = false;
}

/* Called while publishing: what is published now does not fit, so from here on it lags. */
static void listener_full(struct bb_stream *stream, void *arg)
{
    struct listener *listener = arg;
    struct chat_hub *hub = listener->hub;
    const struct chat_page *page = hub->page;

    (void)stream;
    listener_move(listener, true);
    listener->events = 0;
    if (!page || hub->published == page->count)
        listener_place(listener, hub->at, &hub->at->event);
    else
        listener_place(listener, page->start,
                       hub->published ? &page->events[hub->published - 1]->key
                                      : &page->start->event);
}

/* Lets the listener join if it has everything. Returns whether it did. */
static bool listener_join(struct listener *listener)
{
    struct chat_hub *hub = listener->hub;

    if (hub->at->target || listener->at->target || strcmp(listener->at->seen, hub->at->seen) != 0)
        return false;
    free(listener->at);
    listener->at = NULL;
    listener_move(listener, false);
    for (size_t i = 0; i < listener->topic_count; i++)
        if (bb_stream_join(hub->host, listener->stream, listener->topics[i]))
            listener_end(listener);
    return true;
}

static bool listener_sees(const struct listener *listener, const struct chat_event *event)
{
    for (size_t i = 0; i < event->topic_count; i++)
        for (size_t j = 0; j < listener->topic_count; j++)
            if (strcmp(event->topics[i], listener->topics[j]) == 0)
                return true;
    return false;
}

/*
 * Returns whether a lagging listener can be sent a page: most of its queue is free, and this host
 * has read everything that it has seen.
 */
static bool listener_ready(const struct listener *listener)
{
    const struct chat_hub *hub = listener->hub;
    const struct chat_cursor *at = listener->at;

    return !listener->ended && at->home == hub->at->home &&
           chat_snapshot_compare(at->target ? at->target : at->seen, hub->at->seen) <= 0 &&
           bb_stream_waiting(hub->host, listener->stream) <= (listener->stuck ? 0 : hub->room / 2);
}

/* Returns whether the listener can continue in a page. */
static bool listener_takes(const struct listener *listener, const struct chat_page *page)
{
    const struct chat_cursor *at = listener->at, *start = page->start, *end = page->end;

    if (listener->fresh && page->whole && chat_snapshot_compare(start->seen, at->seen) <= 0 &&
        chat_snapshot_compare(at->seen, start->target) <= 0)
        return true;
    if (strcmp(at->seen, start->seen) != 0 ||
        (at->target && strcmp(at->target, start->target) != 0) ||
        chat_key_compare(&at->block, &start->block) != 0 ||
        chat_key_compare(&at->event, &start->event) < 0)
        return false;
    /* a page that ends within a block may end before what it has seen */
    return !end->event.xid || chat_key_compare(&at->event, &end->event) <= 0;
}

/* Too many events are between the listener and now: it starts over. */
static void listener_reset(struct listener *listener)
{
    struct chat_hub *hub = listener->hub;
    struct bb_chunk *chunk = hub_chunk(hub, RESET);

    if (!chunk || bb_stream_send(hub->host, listener->stream, chunk))
        listener_end(listener);
    bb_chunk_release(hub->host, chunk);
    listener_place(listener, hub->at, &hub->at->event);
    listener->events = 0;
}

/* Sends a page, as far as there is room. Returns the number of events sent. */
static size_t listener_send(struct listener *listener, const struct chat_page *page)
{
    const struct chat_key *seen = &listener->at->event;
    struct chat_hub *hub = listener->hub;
    size_t sent = 0;

    for (size_t i = 0; i < page->count; i++) {
        const struct chat_event *event = page->events[i];
        size_t waiting = bb_stream_waiting(hub->host, listener->stream);

        if (chat_key_compare(&event->key, seen) <= 0 || !listener_sees(listener, event) ||
            (listener->fresh && chat_snapshot_has(listener->at->seen, event->xid)))
            continue;
        if (waiting && waiting + event->chunk->length > hub->room) {
            listener->stuck = !sent;
            if (sent || !listener->fresh)
                listener_place(listener, page->start,
                               i && chat_key_compare(&page->events[i - 1]->key, seen) > 0
                                   ? &page->events[i - 1]->key
                                   : seen);
            return sent;
        }
        if (bb_stream_send(hub->host, listener->stream, event->chunk)) {
            listener->ended = true; /* the host ended the stream, or the client has left */
            return sent;
        }
        sent++;
    }
    listener->stuck = false;
    listener->events += page->count;
    listener_place(listener, page->end, &page->end->event);
    if (listener->events > REPLAY_EVENTS)
        listener_reset(listener);
    if (listener->at)
        listener_join(listener);
    return sent;
}

/* ---- the fiber: reading and publishing ---- */

static void hub_end_all(struct chat_hub *hub)
{
    struct listener *at;

    for (int i = 0; i < 2; i++)
        for (at = TAILQ_FIRST(&hub->lists[i]); at; at = TAILQ_NEXT(at, link))
            listener_end(at);
}

static void hub_forget(struct chat_hub *hub)
{
    chat_page_free(hub->host, hub->page);
    hub->page = NULL;
    free(hub->at);
    hub->at = NULL;
}

/*
 * Reads a page. If the database was replaced by another one, ends all streams; clients start over.
 * Returns NULL then, and if the database does not answer.
 */
static struct chat_page *hub_read(struct bb_request *rq, struct chat_hub *hub,
                                  const struct chat_cursor *from, const char *target, size_t bytes)
{
    bool moved;
    struct chat_page *page = chat_page_read(rq, from, target, bytes, &moved);

    if (!moved)
        return page;
    bb_log(rq, BB_WARN, "the database was replaced: live streams restart");
    pthread_mutex_lock(&hub->lock);
    hub_forget(hub);
    hub_end_all(hub);
    pthread_mutex_unlock(&hub->lock);
    return NULL;
}

/* Reads the next events. Returns false if the database does not answer. */
static bool read_new(struct bb_request *rq, struct chat_hub *hub)
{
    struct chat_page *page = hub_read(rq, hub, hub->at, NULL, PAGE_BYTES);
    struct chat_cursor *at = page ? chat_cursor_copy(page->end) : NULL;

    if (!at) {
        chat_page_free(hub->host, page);
        return false;
    }
    bb_metric_add(hub->host, CHAT_EVENTS_READ, 0, page->count);
    pthread_mutex_lock(&hub->lock);
    hub_forget(hub);
    hub->at = at;
    hub->page = page;
    hub->published = 0;
    pthread_mutex_unlock(&hub->lock);
    return true;
}

/* Sends a page to the lagging listeners that can continue with it. May park the fiber. */
static void hub_offer(struct bb_request *rq, struct chat_hub *hub, const struct chat_page *page)
{
    struct listener *at, *next;

    do {
        size_t work = 0;

        pthread_mutex_lock(&hub->lock);
        for (at = TAILQ_FIRST(&hub->lists[true]); at && work < WORK; at = next) {
            next = TAILQ_NEXT(at, link);
            if (listener_ready(at) && listener_takes(at, page))
                work += 1 + listener_send(at, page);
        }
        pthread_mutex_unlock(&hub->lock);
    } while (at && !bb_sleep(rq, 1)); /* from the beginning: others may have left */
}

/* Publishes as much as the mutex may be held for. Returns whether that was everything. */
static bool hub_publish(struct chat_hub *hub)
{
    size_t work = 0;

    pthread_mutex_lock(&hub->lock);
    const struct chat_page *page = hub->page;

    for (; hub->published < page->count && work < WORK; hub->published++) {
        const struct chat_event *event = page->events[hub->published];

        work +=
            1 + bb_stream_publish_to(hub->host, event->topics, event->topic_count, event->chunk);
    }
    bool done = hub->published == page->count;

    pthread_mutex_unlock(&hub->lock);
    return done;
}

/*
 * Returns the listener whose turn it is: of the account that has waited longest, the listener that
 * has waited longest. Returns NULL if none is ready. Under the lock.
 */
static struct listener *hub_next(struct chat_hub *hub)
{
    struct listener *found = NULL, *at;

    for (at = TAILQ_FIRST(&hub->lists[true]); at; at = TAILQ_NEXT(at, link))
        if ((!found || at->account->turn < found->account->turn) && listener_ready(at))
            found = at;
    if (found) {
        found->account->turn = ++hub->turns;
        listener_move(found, true);
    }
    return found;
}

/*
 * Serves the lagging listeners in turns. A page is sent to all listeners that can continue with it.
 * The host has published everything up to its snapshot, to which the listeners go. Returns false if
 * the database does not answer.
 */
static bool serve_lagging(struct bb_request *rq, struct chat_hub *hub)
{
    size_t bytes = hub->room < PAGE_BYTES ? hub->room : PAGE_BYTES;

    for (int turns = 0, reads = 0; turns < TURNS && reads < READS; turns++) {
        struct chat_cursor *from = NULL;

        pthread_mutex_lock(&hub->lock);
        struct listener *listener = hub_next(hub);

        if (listener && !listener_join(listener))
            from = chat_cursor_copy(listener->at);
        pthread_mutex_unlock(&hub->lock);
        if (!listener)
            return true;
        if (!from)
            continue;
        bb_defer(rq, free, from);
        struct chat_page *page = hub_read(rq, hub, from, hub->at->seen, bytes);

        if (!page)
            return false;
        reads++;
        bb_metric_add(hub->host, CHAT_CATCH_UP_PAGES, 0, 1);
        hub_offer(rq, hub, page);
        chat_page_free(hub->host, page);
    }
    hub->again = true;
    return true;
}

/*
 * Sends an id without an event now and then. So when the client of a quiet stream reconnects after
 * a day, not that whole day must be searched for it.
 */
static void send_ids(struct bb_request *rq, struct chat_hub *hub)
{
    static const char *const topic = TOPIC_JOINED;
    char *id = bb_alloc(rq, CHAT_ID_SIZE);

    if (bb_now_ms(hub->host) < hub->ids_ms + hub->settings->stream_heartbeat * 1000 ||
        chat_cursor_text(hub->at, id))
        return;
    hub->ids_ms = bb_now_ms(hub->host);
    struct bb_chunk *chunk = hub_chunk(hub, bb_format(rq, ":\nid: %s\n\n", id));

    pthread_mutex_lock(&hub->lock);
    if (chunk)
        bb_stream_publish_to(hub->host, &topic, 1, chunk);
    pthread_mutex_unlock(&hub->lock);
    bb_chunk_release(hub->host, chunk);
}

/* A run does a bounded amount of work, so that requests on its loop are served in between. */
static void hub_run(struct bb_request *rq, void *arg)
{
    struct chat_hub *hub = arg;

    if (!hub->again)
        bb_sleep(rq, hub->settings->stream_interval);
    hub->again = false;
    pthread_mutex_lock(&hub->lock);
    bool known = hub->at != NULL, rest = hub->page && hub->published < hub->page->count;
    pthread_mutex_unlock(&hub->lock);
    if (!known || (!rest && !read_new(rq, hub)))
        return;
    if (!hub_publish(hub)) {
        hub->again = true;
        return;
    }
    hub_offer(rq, hub, hub->page);
    if (hub->at->target)
        hub->again = true;
    else if (serve_lagging(rq, hub))
        send_ids(rq, hub);
}

static void hub_ran(void *arg, bool whole);

/* Starts the next run. If that is impossible ends all streams, because nothing would be sent. */
static void hub_start(struct chat_hub *hub)
{
    if (!bb_run_then(hub->host, hub_run, hub_ran, hub))
        return;
    pthread_mutex_lock(&hub->lock);
    hub->running = false;
    hub_forget(hub);
    hub_end_all(hub);
    pthread_mutex_unlock(&hub->lock);
}

static void hub_ran(void *arg, bool whole)
{
    struct chat_hub *hub = arg;

    (void)whole; /* the next run does the rest */
    pthread_mutex_lock(&hub->lock);
    bool runs = hub->counts[false] || hub->counts[true];

    hub->running = runs;
    if (!runs)
        hub_forget(hub);
    pthread_mutex_unlock(&hub->lock);
    if (runs)
        hub_start(hub);
}

/* ---- the route ---- */

static void stream_closed(struct bb_stream *stream, void *arg)
{
    struct listener *listener = arg;
    struct chat_hub *hub = listener->hub;

    (void)stream;
    pthread_mutex_lock(&hub->lock);
    listener_unlink(listener);
    account_leave(hub, listener->account);
    pthread_mutex_unlock(&hub->lock);
    listener_free(listener);
}

/* Where a stream begins. The cursors live as long as the request. */
struct start {
    struct chat_cursor *now; /* the current snapshot */
    struct chat_cursor *at;  /* the client's position, or `now` if it has none */
    bool anew;               /* its position cannot be used */
};

static int find_start(struct bb_request *rq, struct start *start)
{
    static const struct bb_sql snapshot = {
        "SELECT pg_current_snapshot(), " CHAT_HOME
        ", pg_snapshot_xmax(coalesce($2::pg_snapshot, $1::pg_snapshot)) >"
        " pg_snapshot_xmax(pg_current_snapshot())"
        " OR pg_snapshot_xmax($1::pg_snapshot)::text::bigint + $3::bigint <"
        " pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
        0};
    const char *id = bb_header(rq, "Last-Event-ID");
    struct chat_cursor *at = NULL;

    if (id && *id) { /* an empty id counts as no id (WHATWG) */
        at = chat_cursor_parse(id);
        if (!at)
            return bb_fail(rq, 400, "Last-Event-ID must be an id that this stream gave");
        bb_defer(rq, free, at);
    }
    const struct bb_rows *rows = bb_query(
        rq, &snapshot,
        BB_ARGS(bb_t(at ? at->seen : NULL), bb_t(at ? at->target : NULL), bb_i(REPLAY_XIDS)));

    if (!rows)
        return bb_failed(rq);
    uint64_t home = (uint64_t)bb_cell_int(rq, rows, 0, 1);

    start->now = chat_cursor_new(home, bb_cell(rq, rows, 0, 0), NULL);
    if (!start->now)
        return bb_no_memory(rq);
    bb_defer(rq, free, start->now);
    start->anew = at && ((at->home && at->home != home) || *bb_cell(rq, rows, 0, 2) == 't');
    start->at = at && !start->anew ? at : start->now;
    start->at->home = home;
    return 0;
}

/* Adds a listener, which lags, and starts the fiber if that is necessary. */
static void hub_add(struct chat_hub *hub, struct listener *listener, const struct chat_cursor *now)
{
    pthread_mutex_lock(&hub->lock);
    listener_link(listener, true);
    if (!hub->at)
        hub->at = chat_cursor_copy(now);
    if (!hub->at)
        listener_end(listener);
    bool starts = !hub->running;

    hub->running = true;
    pthread_mutex_unlock(&hub->lock);
    if (starts)
        hub_start(hub);
}

int chat_stream(struct bb_request *rq)
{
    struct chat_hub *hub = ((const struct chat *)rq->state)->hub;
    struct chat_scope scope = chat_scope(rq);
    char *id = bb_alloc(rq, CHAT_ID_SIZE);
    struct start start = {0};
    int status = find_start(rq, &start);

    if (status)
        return status;
    const char *line = chat_cursor_text(start.at, id) ? "" : bb_format(rq, "id: %s\n\n", id);
    struct bb_chunk *first =
        hub_chunk(hub, bb_format(rq, RETRY "%s%s", line, start.anew ? RESET : ""));
    struct listener *listener = listener_new(hub, &scope, start.at);

    status =
        first && listener ? account_enter(hub, rq->principal->account, &listener->account) : 503;
    if (status == 429) {
        bb_reply_header(rq, "Retry-After", "5");
        bb_fail(rq, 429, "Too many open streams for this account");
    } else if (status) {
        bb_no_memory(rq);
    } else {
        listener->fresh = start.at == start.now;
        struct bb_stream_options options = {
            .size = sizeof(options),
            .type = "text/event-stream; charset=utf-8",
            .limit = hub->room,
            .goodbye = RETRY,
            .closed = stream_closed,
            .full = listener_full,
            .arg = listener,
            .heartbeat = ":\n\n",
            .heartbeat_ms = hub->settings->stream_heartbeat * 1000,
        };
        status = bb_stream_open(rq, &options, &listener->stream);
        if (status == 200) {
            bb_stream_send(rq->host, listener->stream, first);
            hub_add(hub, listener, start.now);
            listener = NULL;
        } else {
            pthread_mutex_lock(&hub->lock);
            account_leave(hub, listener->account);
            pthread_mutex_unlock(&hub->lock);
        }
    }
    if (listener)
        listener_free(listener);
    bb_chunk_release(rq->host, first);
    return status;
}

/* ---- the hub ---- */

struct chat_hub *chat_hub_new(struct bb_host *host)
{
    struct chat_hub *hub = calloc(1, sizeof(*hub));

    if (!hub || pthread_mutex_init(&hub->lock, NULL)) {
        free(hub);
        return NULL;
    }
    hub->host = host;
    hub->settings = bb_settings(host);
    hub->room = (size_t)hub->settings->stream_buffer * 1024;
    TAILQ_INIT(&hub->lists[false]);
    TAILQ_INIT(&hub->lists[true]);
    return hub;
}

void chat_hub_free(struct chat_hub *hub)
{
    if (!hub)
        return;
    hub_forget(hub);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
}

double chat_listeners(void *state, size_t value)
{
    struct chat_hub *hub = ((struct chat *)state)->hub;

    pthread_mutex_lock(&hub->lock);
    size_t count = hub->counts[value];
    pthread_mutex_unlock(&hub->lock);
    return (double)count;
}
