/*
 * Serves lagging listeners; accounts take turns. In its turn a listener gets as much of the pages
 * in memory as its buffer has room for. If it needs a page that is not in memory, that page is read
 * from the database, one page per turn, and later listeners may use it too.
 */
#include <string.h>

#include "modules/chat/live/hub.h"

enum {
    PAGES = 256, /* not in memory; after this many a listener starts over */
    LOOKS = 16   /* this many listeners count as much work as one event */
};

static struct bb_chunk *chunk_of(struct bb_host *host, const char *text)
{
    struct bb_chunk *chunk = bb_chunk_new(host, strlen(text));

    if (chunk)
        memcpy(chunk->bytes, text, chunk->length);
    return chunk;
}

/*
 * There are too many events between the listener's cursor and now, so it starts over at the hub's
 * position.
 */
static void begin_anew(struct chat_hub *hub, struct chat_listener *listener)
{
    struct bb_chunk *chunk = chunk_of(hub->host, CHAT_RESET);

    if (chunk)
        hub_send(listener, chunk);
    else
        hub_end(listener);
    bb_chunk_release(hub->host, chunk);
    *listener->at = hub->at;
    listener->page = NULL;
    listener->pages = 0;
}

static void join(struct chat_hub *hub, struct chat_listener *listener)
{
    listeners_set_behind(&hub->listeners, listener, false);
    hub_pass(hub, listener);
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

bool hub_serve(struct chat_hub *hub, struct chat_listener *listener, size_t *work)
{
    bool away = false;

    do {
        if (!listener->page) {
            listener->page = hub_page_for(hub, listener->at, &away, work);
            listener->event = 0;
        }
        if (!listener->page && away)
            return true;
        if (!listener->page) {
            join(hub, listener);
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
static struct chat_listener *find(struct chat_hub *hub, uint64_t number)
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
    struct chat_listener *listener = find(hub, number);

    hub_serve_page(hub, page);
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
    struct chat_listener *listener = find(hub, number);

    if (listener)
        begin_anew(hub, listener);
    pthread_mutex_unlock(&hub->lock);
}
