/*
 * The live stream, GET /api/chat/stream.
 *
 * While a listener exists, each host reads several times a second the events that have become
 * visible since its last snapshot (page.h), and publishes them to topics (busbar/stream.h). A
 * listener lags while it is new, or after its queue was full. Pages are read for a lagging listener
 * until it has reached the hub's position; then it joins its topics. The accounts of lagging
 * listeners take turns, and so do the listeners of an account.
 *
 * Positions (cursor.h) are compared as texts: two readers with equal texts are at the same place.
 *
 * The mutex guards the hub. Nothing blocks while it is held, and the number of sends while it is
 * held is limited (WORK). A fiber reads and sends, and runs as long as there are listeners; only
 * the fiber replaces `page`.
 */
#include <busbar/lock.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "modules/chat/chat.h"
#include "modules/chat/cursor.h"
#include "modules/chat/page.h"
#include "modules/common/hash.h"

#define RETRY "retry: 1000\n\n"

/* Sent to a client that may have missed events, so that the client reads its chains again. */
#define RESET "event: reset\ndata: {}\n\n"

/* The topic of all listeners that do not lag. hub_run() sends ids without an event to it. */
#define TOPIC_JOINED ""

enum {
    WORK = 4096,                  /* maximum sends while the mutex is held */
    TURNS = 32,                   /* maximum turns of lagging listeners in a run of hub_run() */
    READS = 8,                    /* maximum pages read for lagging listeners in such a run */
    PAGE_BYTES = 2 * 1024 * 1024, /* bytes of text after which a page ends */
    REPLAY_XIDS = 1000000,        /* a client that missed more transactions must start over */
    REPLAY_EVENTS = 131072,       /* a client for which more events were read must start over */
    TYPING_MS = 3000,             /* minimum time between an account's reports in a conversation */
    TYPING_ANY_MS = 100,          /* minimum time between an account's reports */
    TYPING_KEPT = 1024            /* slots for the times of reports, found by hash */
};

/* An account with at least one listener on this host. */
struct account {
    int64_t id;
    size_t streams;
    uint64_t turn; /* number of the account's most recent turn */
};

struct listener {
    TAILQ_ENTRY(listener) link; /* in a list of the hub */
    struct chat_hub *hub;
    struct bb_stream *stream;
    struct account *account;
    bool lagging;
    bool ended;    /* nothing more is sent */
    size_t events; /* number of events read for the listener since it began to lag */
    char *at;      /* position while lagging, owned; NULL: not lagging, or out of memory */
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
    struct listeners lists[2]; /* indexed by `lagging`; lagging listeners in the order of turns */
    bool running;              /* hub_run() is running, or will run */
    bool again;                /* the last run left work to do */
    struct chat_page *page;    /* the last page read, or NULL; page->end is the hub's position */
    size_t published;          /* number of events of `page` that were published */
    int64_t ids_ms;            /* time when an id without an event was last sent */
    int64_t typing_ms[TYPING_KEPT], typing_any_ms[TYPING_KEPT];
    uint64_t typing[TYPING_KEPT]; /* [i]: hash of the account and conversation of typing_ms[i] */
};

/* ---- accounts ---- */

static int account_compare(const void *a, const void *b)
{
    const struct account *one = a, *other = b;

    return one->id < other->id ? -1 : one->id > other->id;
}

/*
 * Counts a stream of the caller's account. A new account starts as if its turn had just ended, so
 * that clients gain no turn by reconnecting. Ends the request if the account has too many streams.
 */
static struct account *account_enter(struct bb_request *rq, struct chat_hub *hub)
{
    struct account *made = calloc(1, sizeof(*made)), **found = NULL, *account;

    if (!made)
        bb_end(rq, bb_no_memory(rq));
    pthread_mutex_lock(&hub->lock);
    *made = (struct account){.id = rq->principal->account, .turn = hub->turns};
    found = tsearch(made, &hub->accounts, account_compare);
    account = found ? *found : NULL;
    if (account != made)
        free(made);
    bool more = account && account->streams < (size_t)hub->settings->streams_per_account;

    if (more)
        account->streams++;
    pthread_mutex_unlock(&hub->lock);
    if (!account)
        bb_end(rq, bb_no_memory(rq));
    if (more)
        return account;
    bb_reply_header(rq, "Retry-After", "5");
    bb_end(rq, bb_fail(rq, 429, "Too many open streams for this account"));
}

/* Removes a stream of the account; the last one frees the account. Call with the lock held. */
static void account_leave(struct chat_hub *hub, struct account *account)
{
    if (--account->streams)
        return;
    tdelete(account, &hub->accounts, account_compare);
    free(account);
}

/* ---- listeners; call with the lock held ---- */

/* Creates a listener. It has no stream, and is in no list. Returns NULL if out of memory. */
static struct listener *listener_new(struct chat_hub *hub, struct account *account,
                                     const struct chat_scope *scope, const char *at)
{
    size_t most = scope->organization_count + 2;
    size_t room = strlen(scope->own) + sizeof(CHAT_TOPIC_EMAIL) + most * CHAT_TOPIC_NUMBER_SIZE;
    struct listener *listener =
        calloc(1, sizeof(*listener) + most * sizeof(listener->topics[0]) + room);

    if (!listener)
        return NULL;
    char *text = (char *)(listener->topics + most), *end = text + room;

    listener->hub = hub;
    listener->account = account;
    listener->at = strdup(at);
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

/* Moves a listener to the end of a list. */
static void listener_move(struct listener *listener, bool lagging)
{
    TAILQ_REMOVE(&listener->hub->lists[listener->lagging], listener, link);
    listener->lagging = lagging;
    TAILQ_INSERT_TAIL(&listener->hub->lists[lagging], listener, link);
}

/* Ends the stream. The client reconnects with the last id that it received. */
static void listener_end(struct listener *listener)
{
    listener->ended = true;
    bb_stream_end(listener->hub->host, listener->stream);
}

/* Sets the listener's position: after the first `seen` events of a page. */
static void listener_place(struct listener *listener, const struct chat_page *page, size_t seen)
{
    free(listener->at);
    listener->at = strdup(seen == page->count ? page->end
                          : seen              ? page->events[seen - 1]->id
                                              : page->start);
    if (!listener->at)
        listener_end(listener);
}

/* Called if an event to publish does not fit into a listener's queue. Makes the listener lag. */
static void listener_full(struct bb_stream *stream, void *arg)
{
    struct listener *listener = arg;
    const struct chat_hub *hub = listener->hub;

    (void)stream;
    listener_move(listener, true);
    listener->events = 0;
    listener_place(listener, hub->page, hub->published);
}

/* Adds a listener to its topics if it has reached the hub's position; otherwise returns -1. */
static int listener_join(struct listener *listener)
{
    struct chat_hub *hub = listener->hub;

    if (strcmp(listener->at, hub->page->end) != 0)
        return -1;
    free(listener->at);
    listener->at = NULL;
    listener_move(listener, false);
    for (size_t i = 0; i < listener->topic_count; i++)
        if (bb_stream_join(hub->host, listener->stream, listener->topics[i]))
            listener_end(listener);
    return 0;
}

/*
 * Returns whether a lagging listener can be sent a page: nothing is queued for it, and this host
 * has read everything that the listener has seen.
 */
static bool listener_is_ready(const struct listener *listener)
{
    const struct chat_hub *hub = listener->hub;

    return !listener->ended && chat_cursor_has(hub->page->end, listener->at) &&
           !bb_stream_waiting(hub->host, listener->stream);
}

/* Sends events that the listener may see until its queue is full. Returns the number sent. */
static size_t listener_send(struct listener *listener, const struct chat_page *page)
{
    struct chat_hub *hub = listener->hub;
    size_t sent = 0;

    for (size_t i = 0; i < page->count; i++) {
        const struct chat_event *event = page->events[i];
        struct bb_chunk *chunk = event->chunk;
        bool sees = false;

        for (size_t j = 0; j < event->topic_count * listener->topic_count && !sees; j++)
            sees = !strcmp(event->topics[j % event->topic_count],
                           listener->topics[j / event->topic_count]);
        if (!sees)
            continue;
        if (sent && bb_stream_waiting(hub->host, listener->stream) + chunk->length > hub->room) {
            listener->events += i;
            listener_place(listener, page, i);
            return sent;
        }
        if (bb_stream_send(hub->host, listener->stream, chunk)) {
            listener->ended = true; /* the host ended the stream, or the client has left */
            return sent;
        }
        sent++;
    }
    listener->events += page->count;
    listener_place(listener, page, page->count);
    if (page->lost || listener->events > REPLAY_EVENTS) { /* the client starts over */
        struct bb_chunk *chunk = chat_chunk(hub->host, RESET);

        if (!chunk || bb_stream_send(hub->host, listener->stream, chunk))
            listener_end(listener);
        bb_chunk_release(hub->host, chunk);
        listener_place(listener, hub->page, hub->page->count);
        listener->events = 0;
    }
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
    hub->published = 0;
}

/*
 * Reads a page. If the database was replaced, ends all streams, so that clients start over. Returns
 * NULL if the database was replaced or does not respond.
 */
static struct chat_page *hub_read(struct bb_request *rq, struct chat_hub *hub, const char *from,
                                  const char *target, size_t bytes)
{
    bool moved;
    struct chat_page *page = chat_page_read(rq, from, target, bytes, &moved);

    if (!moved)
        return page;
    bb_log(rq, BB_WARN, "the database was replaced: live streams restart");
    BB_LOCKED(&hub->lock);
    hub_forget(hub);
    hub_end_all(hub);
    return NULL;
}

/* Sends a page to lagging listeners whose position is the page's start. May park the fiber. */
static void hub_offer(struct bb_request *rq, struct chat_hub *hub, const struct chat_page *page)
{
    struct listener *at, *next;

    do {
        size_t work = 0;

        pthread_mutex_lock(&hub->lock);
        for (at = TAILQ_FIRST(&hub->lists[true]); at && work < WORK; at = next) {
            next = TAILQ_NEXT(at, link);
            if (listener_is_ready(at) && strcmp(at->at, page->start) == 0)
                work += 1 + listener_send(at, page);
        }
        pthread_mutex_unlock(&hub->lock);
    } while (at && !bb_sleep(rq, 1)); /* starts at the head, because listeners may have left */
}

/*
 * Sends pages to the lagging listeners in turns, up to the snapshot that this host has published. A
 * page is sent to all listeners whose position is the page's start. Returns 0, or -1 if the
 * database does not respond or was replaced.
 */
static int hub_serve_lagging(struct bb_request *rq, struct chat_hub *hub)
{
    const char *target = strchr(hub->page->end, '-') + 1;
    size_t bytes = hub->room < PAGE_BYTES ? hub->room : PAGE_BYTES;

    for (int turns = 0, reads = 0; turns < TURNS && reads < READS; turns++) {
        char *from = NULL;

        /* the first ready listener of the account whose last turn is longest ago */
        struct listener *listener = NULL, *at;

        pthread_mutex_lock(&hub->lock);
        for (at = TAILQ_FIRST(&hub->lists[true]); at; at = TAILQ_NEXT(at, link))
            if ((!listener || at->account->turn < listener->account->turn) && listener_is_ready(at))
                listener = at;
        if (listener) {
            listener->account->turn = ++hub->turns;
            listener_move(listener, true);
            if (listener_join(listener))
                from = strdup(listener->at);
        }
        pthread_mutex_unlock(&hub->lock);
        if (!listener)
            return 0;
        if (!from)
            continue;
        bb_defer(rq, free, from);
        struct chat_page *page = hub_read(rq, hub, from, target, bytes);

        if (!page)
            return -1;
        reads++;
        bb_metric_add(hub->host, CHAT_CATCH_UP_PAGES, 0, 1);
        hub_offer(rq, hub, page);
        chat_page_free(hub->host, page);
    }
    hub->again = true;
    return 0;
}

/* Does a bounded amount of work, so that the loop serves other requests between two runs. */
static void hub_run(struct bb_request *rq, void *arg)
{
    static const char *const joined = TOPIC_JOINED;
    struct chat_hub *hub = arg;
    size_t work = 0;

    if (!hub->again)
        bb_sleep(rq, hub->settings->stream_interval);
    hub->again = false;
    pthread_mutex_lock(&hub->lock);
    const struct chat_page *page = hub->page;
    pthread_mutex_unlock(&hub->lock);
    if (!page)
        return;
    if (hub->published == page->count) {
        struct chat_page *next = hub_read(rq, hub, hub->page->end, NULL, PAGE_BYTES);

        if (!next)
            return;
        bb_metric_add(hub->host, CHAT_EVENTS_READ, 0, next->count);
        pthread_mutex_lock(&hub->lock);
        hub_forget(hub);
        hub->page = next;
        if (next->lost) /* this host was stopped for days, or the block is torn */
            hub_end_all(hub);
        pthread_mutex_unlock(&hub->lock);
    }
    /* Publishes events, with about WORK sends while the mutex is held. */
    pthread_mutex_lock(&hub->lock);
    page = hub->page;
    for (; hub->published < page->count && work < WORK; hub->published++) {
        const struct chat_event *event = page->events[hub->published];

        work +=
            1 + bb_stream_publish_to(hub->host, event->topics, event->topic_count, event->chunk);
    }
    hub->again = hub->published < page->count;
    pthread_mutex_unlock(&hub->lock);
    if (hub->again)
        return;
    hub_offer(rq, hub, hub->page);
    hub->again = hub->page->more;
    if (hub->again || hub_serve_lagging(rq, hub))
        return;
    /*
     * Regularly sends an id without an event. Otherwise a client that got no event for a day would
     * reconnect with an old id, and the host would have to search the events of that day.
     */
    const char *line = chat_id_line(rq, hub->page->end);

    if (!*line || bb_now_ms(hub->host) < hub->ids_ms + hub->settings->stream_heartbeat * 1000)
        return;
    hub->ids_ms = bb_now_ms(hub->host);
    struct bb_chunk *chunk = chat_chunk(hub->host, bb_format(rq, ":\n%s\n", line));

    pthread_mutex_lock(&hub->lock);
    if (chunk)
        bb_stream_publish_to(hub->host, &joined, 1, chunk);
    pthread_mutex_unlock(&hub->lock);
    bb_chunk_release(hub->host, chunk);
}

static void hub_ran(void *arg, bool whole);

/* Starts the next run. On failure ends all streams, because nothing would be sent any more. */
static void hub_start(struct chat_hub *hub)
{
    if (!bb_run_then(hub->host, hub_run, hub_ran, hub))
        return;
    BB_LOCKED(&hub->lock);
    hub->running = false;
    hub_forget(hub);
    hub_end_all(hub);
}

static void hub_ran(void *arg, bool whole)
{
    struct chat_hub *hub = arg;

    (void)whole; /* if the run was cut short, the next run completes the work */
    pthread_mutex_lock(&hub->lock);
    bool runs = !TAILQ_EMPTY(&hub->lists[false]) || !TAILQ_EMPTY(&hub->lists[true]);

    hub->running = runs;
    if (!runs)
        hub_forget(hub);
    pthread_mutex_unlock(&hub->lock);
    if (runs)
        hub_start(hub);
}

/* ---- who is typing ---- */

bool chat_typing_is_due(struct bb_request *rq, int64_t conversation)
{
    struct chat_hub *hub = ((const struct chat *)rq->state)->hub;
    int64_t account = rq->principal->account, now_ms = bb_now_ms(hub->host);
    const char *key = bb_format(rq, "%" PRId64 " %" PRId64, account, conversation);
    uint64_t hash = hash_bytes(HASH_SEED, key, strlen(key));
    size_t at = hash % TYPING_KEPT, any = (uint64_t)account % TYPING_KEPT;

    BB_LOCKED(&hub->lock);
    if ((hub->typing[at] == hash && now_ms < hub->typing_ms[at] + TYPING_MS) ||
        now_ms < hub->typing_any_ms[any] + TYPING_ANY_MS)
        return false;
    hub->typing[at] = hash;
    hub->typing_ms[at] = hub->typing_any_ms[any] = now_ms;
    return true;
}

void chat_typing_heard(void *state, const char *payload)
{
    struct chat_hub *hub = ((struct chat *)state)->hub;
    char *text = payload ? strdup(payload) : NULL, *at = text;
    const char *topics[CHAT_TOPICS];
    size_t count = 0;

    while (at && *at != '\n' && count < CHAT_TOPICS)
        topics[count++] = strsep(&at, "\n");
    struct bb_chunk *chunk = at && *at == '\n' ? chat_chunk(hub->host, at + 1) : NULL;

    pthread_mutex_lock(&hub->lock);
    if (chunk && hub->page) /* otherwise there are no streams; listener_full() uses the page */
        bb_stream_publish_to(hub->host, topics, count, chunk);
    pthread_mutex_unlock(&hub->lock);
    bb_chunk_release(hub->host, chunk);
    free(text);
}

/* ---- the route ---- */

static void stream_closed(struct bb_stream *stream, void *arg)
{
    struct listener *listener = arg;
    struct chat_hub *hub = listener->hub;

    (void)stream;
    pthread_mutex_lock(&hub->lock);
    TAILQ_REMOVE(&hub->lists[listener->lagging], listener, link);
    account_leave(hub, listener->account);
    pthread_mutex_unlock(&hub->lock);
    listener_free(listener);
}

/* Positions at which a stream can begin. They live as long as the request. */
struct start {
    const char *now; /* the current snapshot */
    const char *at;  /* the client's position, or `now` if the client has none */
    bool anew;       /* the client's position cannot be used */
};

static struct start start_find(struct bb_request *rq)
{
    static const struct bb_sql snapshot = {
        "SELECT pg_current_snapshot(), " CHAT_HOME
        ", pg_snapshot_xmax(coalesce($2::pg_snapshot, $1::pg_snapshot)) >"
        " pg_snapshot_xmax(pg_current_snapshot())"
        " OR pg_snapshot_xmax($1::pg_snapshot)::text::bigint + $3::bigint <"
        " pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
        0};
    const char *id = bb_header(rq, "Last-Event-ID");
    struct chat_cursor at = {.seen = NULL};

    /* an empty id counts as no id (WHATWG); hosts send no id that is too long for a line */
    if (id && *id && (!*chat_id_line(rq, id) || chat_cursor_split(bb_format(rq, "%s", id), &at)))
        bb_end(rq, bb_fail(rq, 400, "Last-Event-ID must be an id of this stream"));
    const struct bb_rows *rows =
        bb_query_or_end(rq, &snapshot, BB_ARGS(bb_t(at.seen), bb_t(at.target), bb_i(REPLAY_XIDS)));
    uint64_t home = (uint64_t)bb_cell_int(rq, rows, 0, 1);
    const char *now = bb_format(rq, "d%" PRIu64 "-%s", home, bb_cell(rq, rows, 0, 0));
    bool anew = at.seen && ((at.home && at.home != home) || *bb_cell(rq, rows, 0, 2) == 't');

    if (!at.seen || anew)
        return (struct start){now, now, anew};
    return (struct start){
        now, bb_format(rq, "d%" PRIu64 "-%s", home, at.home ? strchr(id, '-') + 1 : id), false};
}

int chat_stream(struct bb_request *rq)
{
    struct chat_hub *hub = ((const struct chat *)rq->state)->hub;
    struct chat_scope scope = chat_scope(rq);
    struct start start = start_find(rq);
    const char *text =
        bb_format(rq, RETRY "%s\n%s", chat_id_line(rq, start.at), start.anew ? RESET : "");
    struct account *account = account_enter(rq, hub);
    struct listener *listener = listener_new(hub, account, &scope, start.at);
    struct bb_chunk *first = chat_chunk(hub->host, text);
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
    bool ready = first && listener, starts = false;
    int status = ready ? bb_stream_open(rq, &options, &listener->stream) : bb_no_memory(rq);

    ready = ready && status == 200;
    if (ready)
        bb_stream_send(rq->host, listener->stream, first);
    pthread_mutex_lock(&hub->lock);
    if (ready) {
        listener->lagging = true;
        TAILQ_INSERT_TAIL(&hub->lists[true], listener, link);
        if (!hub->page)
            hub->page = chat_page_new(start.now, 0);
        if (!hub->page)
            listener_end(listener);
        starts = !hub->running;
        hub->running = true;
    } else {
        account_leave(hub, account);
    }
    pthread_mutex_unlock(&hub->lock);
    if (starts)
        hub_start(hub);
    if (!ready && listener)
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
    const struct listener *at;
    size_t count = 0;

    BB_LOCKED(&hub->lock);
    for (at = TAILQ_FIRST(&hub->lists[value]); at; at = TAILQ_NEXT(at, link))
        count++;
    return (double)count;
}
