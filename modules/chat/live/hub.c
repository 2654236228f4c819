/*
 * The hub: pages in memory, and sending them to the listeners.
 *
 * A listener is joined if everything that the hub has read so far was sent to it or is covered by
 * its cursor; then it gets each page as soon as it is read. Otherwise it lags at its own cursor,
 * because it is new or its buffer was full. A lagging listener is served from the pages in memory
 * or, if those do not go back far enough, from pages read for it, which any other listener can use
 * too.
 *
 * One mutex guards everything. Work under the mutex is bounded by WORK, or by a few instructions
 * per listener; nothing blocks while holding it.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "modules/chat/live/listeners.h"

enum {
    WORK = 4096,           /* events checked, sends and pages skipped per lock hold */
    LINGER_MS = 60 * 1000, /* keep reading after the last listener left, for those who reconnect */
    KEPT_BYTES = 8 * 1024 * 1024,   /* for clients that reconnect */
    BEHIND_BYTES = 8 * 1024 * 1024, /* for clients that were gone longer */
    PAGES = 256,                    /* not in memory; after this many a listener starts over */
    LOOKS = 16                      /* this many listeners count as much work as one event */
};

struct hub_pages {
    struct chat_page *first, *last;
    size_t bytes;
};

struct chat_hub {
    pthread_mutex_t lock;
    struct bb_host *host;
    struct listeners listeners;
    bool placed; /* `at` is valid */
    struct chat_cursor at;
    struct hub_pages kept;       /* no gaps up to `at`; for clients that reconnect */
    struct hub_pages behind;     /* read for listeners older than `kept` */
    struct chat_page *spreading; /* a page of `kept`; NULL: every page was sent */
    size_t spread;               /* events of `spreading` already sent */
    uint64_t events;             /* read since the generation began */
    uint64_t lendings;           /* pages read for lagging listeners */
    int64_t heard_ms;            /* time of the last add or remove */
};

/* ---- pages in memory: recently read ones, and ones read for lagging listeners ---- */

/* Listeners in the middle of the page lose no events: their cursors have the position too. */
static void drop_first(struct chat_hub *hub, struct hub_pages *pages)
{
    struct chat_page *page = pages->first;

    for (struct chat_listener *at = hub->listeners.behind; at; at = at->next_behind)
        if (at->page == page)
            at->page = NULL;
    pages->first = page->next;
    if (!pages->first)
        pages->last = NULL;
    pages->bytes -= page->bytes;
    chat_page_free(hub->host, page);
}

/* Takes ownership of the page; drops the oldest pages beyond `most` bytes. */
static void add_page(struct chat_hub *hub, struct hub_pages *pages, struct chat_page *page,
                     size_t most)
{
    if (pages->last)
        pages->last->next = page;
    else
        pages->first = page;
    pages->last = page;
    pages->bytes += page->bytes;
    while (pages->bytes > most && pages->first != pages->last)
        drop_first(hub, pages);
}

static void hub_forget(struct chat_hub *hub)
{
    while (hub->kept.first)
        drop_first(hub, &hub->kept);
    while (hub->behind.first)
        drop_first(hub, &hub->behind);
    hub->spreading = NULL;
}

/* Returns the first page with events after a cursor, without a gap between the two. */
static struct chat_page *find_page(const struct hub_pages *pages, const struct chat_cursor *at,
                                   size_t *work)
{
    for (struct chat_page *page = pages->first; page; page = page->next) {
        *work -= *work > 0;
        if (!chat_cursor_covers(at, &page->end) && chat_cursor_covers(at, &page->start))
            return page;
    }
    return NULL;
}

/*
 * Returns the first page in memory that is useful for a listener at a cursor; subtracts the effort
 * from *work. Returns NULL if the listener has had everything in memory, or, with *away set, if the
 * events that it needs are not in memory. A page that ends in the middle of a transaction is
 * useless for a listener that is in the middle of another one.
 */
static struct chat_page *page_for(const struct chat_hub *hub, const struct chat_cursor *at,
                                  bool *away, size_t *work)
{
    const struct chat_page *first = hub->kept.first;
    struct chat_page *page = NULL;

    *away = !hub->placed || !chat_cursor_covers(at, first ? &first->start : &hub->at);
    if (!*away) {
        page = find_page(&hub->kept, at, work);
        *away = page && !chat_cursor_merges(at, &page->end);
    }
    if (*away)
        page = find_page(&hub->behind, at, work);
    return page && chat_cursor_merges(at, &page->end) ? page : NULL;
}

/* ---- sending to one listener ---- */

static bool hub_wants(const struct chat_listener *listener, const struct chat_live *live)
{
    return chat_sees(&listener->scope, &live->facts) &&
           !(listener->at && chat_cursor_has(listener->at, live->xid, live->facts.id, live->part));
}

static void hub_send(struct chat_listener *listener, struct bb_chunk *chunk)
{
    if (bb_stream_send(listener->host, listener->stream, chunk))
        listener->ended = true; /* the host ended the stream, or the client has left */
    listener->sent_ms = bb_now_ms(listener->host);
}

/* The client reconnects with the last id that it received. */
static void hub_end(struct chat_listener *listener)
{
    listener->ended = true;
    bb_stream_end(listener->host, listener->stream);
}

/* Returns whether `bytes` more fit in the listener's queue if it may have at most `room` bytes. */
static bool hub_has_room(const struct chat_listener *listener, size_t bytes, size_t room)
{
    size_t waiting = bb_stream_waiting(listener->host, listener->stream);

    return !waiting || waiting + bytes <= room;
}

/*
 * Returns how many bytes may be queued for a lagging listener. The rest of its buffer is reserved
 * for events that arrive after it has caught up.
 */
static size_t hub_room_behind(const struct chat_listener *listener)
{
    const struct chat *chat = listener->host->state;

    return chat->stream_buffer / 2;
}

/*
 * Advances a listener's cursor by everything that `seen` has seen. Ends the listener if one cursor
 * cannot express both.
 */
static void hub_see(struct chat_listener *listener, const struct chat_cursor *seen)
{
    if (chat_cursor_merge(listener->at, seen))
        hub_end(listener);
}

/* Sets a listener's position to the middle of a page, after its first `count` events. */
static void hub_stand(struct chat_listener *listener, struct chat_page *page, size_t count)
{
    struct chat_cursor seen;

    listener->page = page;
    listener->event = count;
    if (!count)
        hub_see(listener, &page->start);
    else if (chat_cursor_of(page->events[count - 1]->chunk, &seen))
        hub_end(listener); /* the event has no id: the client must start over */
    else
        hub_see(listener, &seen);
}

/* ---- sending a page that was just read to all joined listeners ---- */

struct offering {
    struct chat_hub *hub;
    size_t work;
};

/* Frees the listener's cursor once the hub's position covers it. */
static void hub_pass(const struct chat_hub *hub, struct chat_listener *listener)
{
    if (!listener->at || listener->behind || !chat_cursor_covers(&hub->at, listener->at))
        return;
    free(listener->at);
    listener->at = NULL;
}

/* The event being sent does not fit in the listener's buffer: from here on it lags. */
static void fall_behind(struct chat_hub *hub, struct chat_listener *listener, size_t bytes)
{
    if (!listener->at)
        listener->at = calloc(1, sizeof(*listener->at));
    if (!listener->at) {
        hub_end(listener);
        return;
    }
    listeners_set_behind(&hub->listeners, listener, true);
    listener->pages = 0;
    listener->wanted = bytes;
    hub_stand(listener, hub->spreading, hub->spread);
}

static void offer(struct chat_listener *listener, void *arg)
{
    struct offering *offering = arg;
    struct chat_hub *hub = offering->hub;
    const struct chat *chat = hub->host->state;
    const struct chat_live *live = hub->spreading->events[hub->spread];

    offering->work -= offering->work > 0;
    if (listener->behind || listener->ended || !hub_wants(listener, live))
        return;
    if (hub_has_room(listener, live->chunk->length, chat->stream_buffer))
        hub_send(listener, live->chunk);
    else
        fall_behind(hub, listener, live->chunk->length);
}

/* Sends as much as one lock hold allows (WORK). Returns whether all of the page was sent. */
static bool spread_on(struct chat_hub *hub)
{
    struct offering offering = {hub, WORK};

    for (; hub->spreading && offering.work; hub->spread++) {
        if (hub->spread == hub->spreading->count) {
            hub->spreading = NULL;
            break;
        }
        listeners_of(&hub->listeners, &hub->spreading->events[hub->spread]->facts, offer,
                     &offering);
        offering.work -= offering.work > 0;
    }
    if (hub->spreading)
        return false;
    for (struct chat_listener *at = hub->listeners.first; at; at = at->next)
        hub_pass(hub, at);
    return true;
}

bool chat_hub_spread(struct chat_hub *hub, struct chat_page *page)
{
    pthread_mutex_lock(&hub->lock);
    hub->at = page->end;
    hub->events += page->count;
    if (page->count) {
        hub->spreading = page;
        hub->spread = 0;
        page->kept = true;
        add_page(hub, &hub->kept, page, KEPT_BYTES);
    } else {
        chat_page_free(hub->host, page);
    }
    bool done = spread_on(hub);

    pthread_mutex_unlock(&hub->lock);
    return done;
}

bool chat_hub_spread_on(struct chat_hub *hub)
{
    pthread_mutex_lock(&hub->lock);
    bool done = spread_on(hub);

    pthread_mutex_unlock(&hub->lock);
    return done;
}

/*
 * ---- serving lagging listeners; accounts take turns ----
 *
 * In its turn a listener gets as much of the pages in memory as its buffer has room for. If it
 * needs a page that is not in memory, that page is read from the database, one page per turn, and
 * later listeners may use it too.
 */

/*
 * There are too many events between the listener's cursor and now, so it starts over at the hub's
 * position.
 */
static void begin_anew(struct chat_hub *hub, struct chat_listener *listener)
{
    struct bb_chunk *chunk = chat_chunk(hub->host, CHAT_RESET);

    if (chunk)
        hub_send(listener, chunk);
    else
        hub_end(listener);
    bb_chunk_release(hub->host, chunk);
    *listener->at = hub->at;
    listener->page = NULL;
    listener->pages = 0;
}

/*
 * Returns whether at least half of the listener's room is free, and the event that did not fit now
 * fits.
 */
static bool ready(const struct chat_listener *listener)
{
    size_t room = hub_room_behind(listener);
    size_t wanted = listener->wanted > room / 2 ? listener->wanted : room / 2;

    return !listener->ended && hub_has_room(listener, wanted, room);
}

/* The listener has had the whole page. */
static void leave_page(struct chat_hub *hub, struct chat_listener *listener)
{
    const struct chat_page *page = listener->page;

    hub_see(listener, &page->end);
    listener->page = page->kept ? page->next : NULL;
    listener->event = 0;
    if (!page->kept && ++listener->pages > PAGES)
        begin_anew(hub, listener);
}

/*
 * Sends as much of the listener's page as it has room for. Returns false if the room or the work is
 * used up.
 */
static bool send_page(struct chat_hub *hub, struct chat_listener *listener, size_t *work)
{
    struct chat_page *page = listener->page;
    size_t at = listener->event, room = hub_room_behind(listener);

    listener->wanted = 0;
    for (; at < page->count && *work && !listener->wanted; *work -= 1) {
        const struct chat_live *live = page->events[at];

        if (!hub_wants(listener, live)) {
            at++;
        } else if (hub_has_room(listener, live->chunk->length, room)) {
            hub_send(listener, live->chunk);
            at++;
        } else {
            listener->wanted = live->chunk->length;
        }
    }
    if (at < page->count) {
        hub_stand(listener, page, at);
        return false;
    }
    leave_page(hub, listener);
    return true;
}

/* Serves a lagging listener. Returns true if the events that it needs are not in memory. */
static bool hub_serve(struct chat_hub *hub, struct chat_listener *listener, size_t *work)
{
    bool away = false;

    do {
        if (!listener->page) {
            listener->page = page_for(hub, listener->at, &away, work);
            listener->event = 0;
        }
        if (!listener->page && away)
            return true;
        if (!listener->page) {
            listeners_set_behind(&hub->listeners, listener, false);
            hub_pass(hub, listener);
            return false;
        }
    } while (send_page(hub, listener, work) && *work && !listener->ended);
    return false;
}

enum chat_turn chat_hub_turns(struct chat_hub *hub, uint64_t *number, struct chat_cursor *at)
{
    struct chat_listener *listener = NULL;
    enum chat_turn turn = CHAT_MORE;
    size_t work = WORK;

    pthread_mutex_lock(&hub->lock);
    while (turn == CHAT_MORE && work && !hub->spreading) {
        size_t looks = 1 + hub->listeners.behind_count / LOOKS;

        listener = listeners_turn(&hub->listeners, ready);
        work -= looks < work ? looks : work;
        if (!listener)
            turn = CHAT_SERVED;
        else if (hub_serve(hub, listener, &work))
            turn = CHAT_READ;
    }
    if (turn == CHAT_READ) {
        *number = listener->number;
        *at = *listener->at;
    }
    pthread_mutex_unlock(&hub->lock);
    return turn;
}

/* Returns NULL if the listener has left meanwhile. */
static struct chat_listener *find_listener(struct chat_hub *hub, uint64_t number)
{
    struct chat_listener *at = hub->listeners.behind;

    while (at && at->number != number)
        at = at->next_behind;
    return at;
}

void chat_hub_give_page(struct chat_hub *hub, uint64_t number, struct chat_page *page)
{
    size_t work = WORK;

    pthread_mutex_lock(&hub->lock);
    struct chat_listener *listener = find_listener(hub, number);

    hub->lendings++;
    add_page(hub, &hub->behind, page, BEHIND_BYTES);
    if (listener) {
        listener->page = page;
        listener->event = 0;
        hub_serve(hub, listener, &work);
    }
    pthread_mutex_unlock(&hub->lock);
}

void chat_hub_begin_anew(struct chat_hub *hub, uint64_t number)
{
    pthread_mutex_lock(&hub->lock);
    struct chat_listener *listener = find_listener(hub, number);

    if (listener)
        begin_anew(hub, listener);
    pthread_mutex_unlock(&hub->lock);
}

/* ---- the hub ---- */

struct chat_hub *chat_hub_new(struct bb_host *host)
{
    struct chat_hub *hub = calloc(1, sizeof(*hub));

    if (!hub)
        return NULL;
    hub->host = host;
    hub->heard_ms = -LINGER_MS;
    if (listeners_init(&hub->listeners)) {
        free(hub);
        return NULL;
    }
    if (pthread_mutex_init(&hub->lock, NULL)) {
        listeners_free(&hub->listeners);
        free(hub);
        return NULL;
    }
    return hub;
}

void chat_hub_free(struct chat_hub *hub)
{
    if (!hub)
        return;
    hub_forget(hub);
    listeners_free(&hub->listeners);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
}

size_t chat_hub_count(struct chat_hub *hub, int64_t account)
{
    pthread_mutex_lock(&hub->lock);
    size_t count = listeners_count(&hub->listeners, account);

    pthread_mutex_unlock(&hub->lock);
    return count;
}

void chat_hub_add(struct chat_hub *hub, struct chat_listener *listener)
{
    size_t work = WORK;

    pthread_mutex_lock(&hub->lock);
    listener->sent_ms = hub->heard_ms = bb_now_ms(hub->host);
    if (listeners_add(&hub->listeners, listener))
        hub_end(listener);
    else if (!hub->spreading)
        hub_serve(hub, listener, &work);
    pthread_mutex_unlock(&hub->lock);
}

void chat_hub_remove(struct chat_hub *hub, struct chat_listener *listener)
{
    pthread_mutex_lock(&hub->lock);
    listeners_remove(&hub->listeners, listener);
    hub->heard_ms = bb_now_ms(hub->host);
    pthread_mutex_unlock(&hub->lock);
    chat_listener_free(listener);
}

bool chat_hub_busy(struct chat_hub *hub)
{
    pthread_mutex_lock(&hub->lock);
    bool busy = hub->listeners.first || bb_now_ms(hub->host) < hub->heard_ms + LINGER_MS;

    if (!busy)
        hub_forget(hub);
    hub->placed = hub->placed && busy;
    pthread_mutex_unlock(&hub->lock);
    return busy;
}

bool chat_hub_position(struct chat_hub *hub, struct chat_cursor *at)
{
    pthread_mutex_lock(&hub->lock);
    bool placed = hub->placed;

    *at = hub->at;
    pthread_mutex_unlock(&hub->lock);
    return placed;
}

void chat_hub_begin(struct chat_hub *hub, const struct chat_cursor *at)
{
    pthread_mutex_lock(&hub->lock);
    if (!hub->placed) {
        hub->placed = true;
        hub->at = *at;
    }
    pthread_mutex_unlock(&hub->lock);
}

/* The clients reconnect and get ids of the new home. */
void chat_hub_move(struct chat_hub *hub)
{
    pthread_mutex_lock(&hub->lock);
    hub_forget(hub);
    hub->placed = false;
    for (struct chat_listener *at = hub->listeners.first; at; at = at->next)
        if (!at->ended)
            hub_end(at);
    pthread_mutex_unlock(&hub->lock);
}

/* ---- heartbeats ---- */

/*
 * The heartbeat carries the hub's cursor as its id if that cursor is right for the listener. So
 * when a client of an idle stream reconnects after a day, not that whole day must be searched for
 * it. A listener that still has unread data queued needs no heartbeat.
 */
void chat_hub_heartbeat(struct chat_hub *hub, int64_t silent_ms)
{
    char id[CHAT_ID_SIZE], text[CHAT_ID_SIZE + 16];

    pthread_mutex_lock(&hub->lock);
    bool none = !hub->placed || hub->spreading || chat_cursor_text(&hub->at, id);
    int64_t before = bb_now_ms(hub->host) - silent_ms;

    snprintf(text, sizeof(text), ":\nid: %s\n\n", none ? "" : id);
    struct bb_chunk *plain = chat_chunk(hub->host, ":\n\n");
    struct bb_chunk *placed = chat_chunk(hub->host, none ? ":\n\n" : text);

    for (struct chat_listener *at = hub->listeners.first; at && plain && placed; at = at->next)
        if (at->sent_ms <= before && !at->ended && !bb_stream_waiting(hub->host, at->stream))
            hub_send(at, at->behind || at->at ? plain : placed);
    bb_chunk_release(hub->host, plain);
    bb_chunk_release(hub->host, placed);
    pthread_mutex_unlock(&hub->lock);
}

/* ---- metrics ---- */

double chat_listeners(void *state, size_t value)
{
    struct chat_hub *hub = ((struct chat *)state)->hub;

    pthread_mutex_lock(&hub->lock);
    size_t behind = hub->listeners.behind_count, all = hub->listeners.count;
    pthread_mutex_unlock(&hub->lock);
    return (double)(value ? behind : all - behind);
}

double chat_events_read(void *state, size_t value)
{
    struct chat_hub *hub = ((struct chat *)state)->hub;

    (void)value;
    pthread_mutex_lock(&hub->lock);
    uint64_t events = hub->events;
    pthread_mutex_unlock(&hub->lock);
    return (double)events;
}

double chat_catch_up_pages(void *state, size_t value)
{
    struct chat_hub *hub = ((struct chat *)state)->hub;

    (void)value;
    pthread_mutex_lock(&hub->lock);
    uint64_t lendings = hub->lendings;
    pthread_mutex_unlock(&hub->lock);
    return (double)lendings;
}
