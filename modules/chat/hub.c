/*
 * The hub: who listens here, and what was read lately.
 *
 * A listener is joined when everything that the hub has read so far has been sent to it or is in
 * its cursor: then it gets each page as it comes. Until then it is behind, and is caught up with
 * from what is in memory, or else from the database. One mutex guards everything; nothing under it
 * waits.
 */
#include <pthread.h>
#include <string.h>

#include "listeners.h"

enum {
    KEPT_BYTES = 8 * 1024 * 1024, /* of pages, for those that come again */
    LINGER_MS = 60 * 1000,        /* reading goes on for them when nobody listens */
    OWN_PAGES = 256               /* that are read for one listener; then it begins anew */
};

struct chat_hub {
    pthread_mutex_t lock;
    struct bb_host *host;
    struct listeners listeners;
    bool placed; /* `at` says where it stands */
    struct chat_cursor at;
    struct chat_page *first, *last; /* without gaps up to `at` */
    size_t bytes;
    uint64_t events;  /* read since the generation began */
    int64_t heard_ms; /* when somebody listened */
};

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

static void drop_first(struct chat_hub *hub)
{
    struct chat_page *page = hub->first;

    hub->first = page->next;
    if (!hub->first)
        hub->last = NULL;
    hub->bytes -= page->bytes;
    chat_page_free(hub->host, page);
}

void chat_hub_free(struct chat_hub *hub)
{
    if (!hub)
        return;
    while (hub->first)
        drop_first(hub);
    listeners_free(&hub->listeners);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
}

/* ---- sending ---- */

static struct bb_chunk *chunk_of(struct bb_host *host, const char *text)
{
    struct bb_chunk *chunk = bb_chunk_new(host, strlen(text));

    if (chunk)
        memcpy(chunk->bytes, text, chunk->length);
    return chunk;
}

static bool wants(const struct chat_listener *listener, const struct chat_live *live)
{
    return chat_sees(&listener->scope, &live->facts) &&
           !(listener->at && chat_cursor_has(listener->at, live->xid, live->facts.id, live->part));
}

/* A stream that is full ends; its client comes again with the last id that it saw. */
static void send(struct chat_hub *hub, struct chat_listener *listener, struct bb_chunk *chunk)
{
    bb_stream_send(hub->host, listener->stream, chunk);
    listener->sent_ms = bb_now_ms(hub->host);
}

/* What may wait for a listener that is behind; the rest is for what comes meanwhile. */
static size_t room_of(const struct chat_hub *hub)
{
    const struct chat *chat = hub->host->state;

    return chat->stream_buffer / 2;
}

static bool has_room(const struct chat_hub *hub, const struct chat_listener *listener, size_t bytes)
{
    size_t waiting = bb_stream_waiting(hub->host, listener->stream);

    return !waiting || waiting + bytes <= room_of(hub);
}

/* What a listener would get of what is in memory. */
static size_t missed_bytes(const struct chat_hub *hub, const struct chat_listener *listener)
{
    size_t bytes = 0;

    for (const struct chat_page *page = hub->first; page; page = page->next)
        for (size_t i = 0; i < page->count; i++)
            if (wants(listener, page->events[i]))
                bytes += page->events[i]->chunk->length;
    return bytes;
}

/* The cursor is not looked at any more once the hub has passed it. */
static void pass(struct chat_hub *hub, struct chat_listener *listener)
{
    if (!listener->at || listener->behind || !chat_cursor_covers(&hub->at, listener->at))
        return;
    free(listener->at);
    listener->at = NULL;
}

/* Sends what it missed from memory, if it is all there and fits. */
static void join(struct chat_hub *hub, struct chat_listener *listener)
{
    const struct chat_cursor *known = hub->first ? &hub->first->start : &hub->at;

    if (!hub->placed || !chat_cursor_covers(listener->at, known))
        return;
    size_t bytes = missed_bytes(hub, listener);

    if (bytes && bb_stream_waiting(hub->host, listener->stream) + bytes > room_of(hub))
        return;
    for (const struct chat_page *page = hub->first; page; page = page->next)
        for (size_t i = 0; i < page->count; i++)
            if (wants(listener, page->events[i]))
                send(hub, listener, page->events[i]->chunk);
    listener->behind = false;
    pass(hub, listener);
}

struct spreading {
    struct chat_hub *hub;
    const struct chat_live *live;
};

static void offer(struct chat_listener *listener, void *arg)
{
    const struct spreading *spreading = arg;

    if (!listener->behind && wants(listener, spreading->live))
        send(spreading->hub, listener, spreading->live->chunk);
}

static void keep(struct chat_hub *hub, struct chat_page *page)
{
    if (!page->count) {
        chat_page_free(hub->host, page);
        return;
    }
    if (hub->last)
        hub->last->next = page;
    else
        hub->first = page;
    hub->last = page;
    hub->bytes += page->bytes;
    while (hub->bytes > KEPT_BYTES && hub->first != hub->last)
        drop_first(hub);
}

void chat_hub_spread(struct chat_hub *hub, struct chat_page *page)
{
    pthread_mutex_lock(&hub->lock);
    for (size_t i = 0; i < page->count; i++) {
        struct spreading spreading = {hub, page->events[i]};

        listeners_of(&hub->listeners, &page->events[i]->facts, offer, &spreading);
    }
    hub->at = page->end;
    hub->events += page->count;
    keep(hub, page);
    for (struct chat_listener *at = hub->listeners.first; at; at = at->next) {
        if (at->behind)
            join(hub, at);
        pass(hub, at);
    }
    pthread_mutex_unlock(&hub->lock);
}

/* ---- coming, going, catching up ---- */

size_t chat_hub_count(struct chat_hub *hub, int64_t account)
{
    size_t count = 0;

    pthread_mutex_lock(&hub->lock);
    for (const struct chat_listener *at = hub->listeners.first; at; at = at->next)
        count += at->account == account;
    pthread_mutex_unlock(&hub->lock);
    return count;
}

void chat_hub_add(struct chat_hub *hub, struct chat_listener *listener)
{
    pthread_mutex_lock(&hub->lock);
    listeners_add(&hub->listeners, listener);
    listener->sent_ms = hub->heard_ms = bb_now_ms(hub->host);
    join(hub, listener);
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

    while (!busy && hub->first)
        drop_first(hub);
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

bool chat_hub_behind(struct chat_hub *hub, uint64_t after, uint64_t *number, struct chat_cursor *at)
{
    const struct chat_listener *found = NULL;

    pthread_mutex_lock(&hub->lock);
    for (const struct chat_listener *next = hub->listeners.first; next; next = next->next)
        if (next->behind && next->number > after && (!found || next->number < found->number) &&
            has_room(hub, next, 1))
            found = next;
    if (found) {
        *number = found->number;
        *at = *found->at;
    }
    pthread_mutex_unlock(&hub->lock);
    return found;
}

/* Sends what there is room for; the cursor stays before the first that there is none for. */
static void send_page(struct chat_hub *hub, struct chat_listener *listener,
                      const struct chat_page *page)
{
    struct chat_cursor *at = listener->at;

    for (size_t i = 0; i < page->count; i++) {
        const struct chat_live *live = page->events[i];

        if (!wants(listener, live))
            continue;
        if (!has_room(hub, listener, live->chunk->length))
            return;
        send(hub, listener, live->chunk);
        if (chat_cursor_of(live->chunk, at))
            bb_stream_end(hub->host, listener->stream); /* it has no id: begin again */
    }
    *at = page->end;
}

/* There is too much between its cursor and now. */
static void begin_anew(struct chat_hub *hub, struct chat_listener *listener)
{
    struct bb_chunk *chunk = chunk_of(hub->host, CHAT_RESET);

    if (chunk)
        send(hub, listener, chunk);
    else
        bb_stream_end(hub->host, listener->stream);
    bb_chunk_release(hub->host, chunk);
    *listener->at = hub->at;
}

void chat_hub_catch_up(struct chat_hub *hub, uint64_t number, const struct chat_page *page)
{
    pthread_mutex_lock(&hub->lock);
    for (struct chat_listener *at = hub->listeners.first; at; at = at->next) {
        if (at->number != number)
            continue;
        if (++at->pages > OWN_PAGES)
            begin_anew(hub, at);
        else
            send_page(hub, at, page);
        join(hub, at);
        break;
    }
    pthread_mutex_unlock(&hub->lock);
}

/* ---- signs of life ---- */

/* With the hub's cursor as the id, where it holds for the listener, so that a client that has heard
 * nothing for a day need not be read a day for. */
void chat_hub_heartbeat(struct chat_hub *hub, int64_t silent_ms)
{
    char id[CHAT_ID_SIZE], text[CHAT_ID_SIZE + 16] = ":\n\n";

    pthread_mutex_lock(&hub->lock);
    int64_t before = bb_now_ms(hub->host) - silent_ms;
    struct bb_chunk *plain = chunk_of(hub->host, text);

    if (hub->placed && !chat_cursor_text(&hub->at, id))
        snprintf(text, sizeof(text), ":\nid: %s\n\n", id);
    struct bb_chunk *placed = chunk_of(hub->host, text);

    for (struct chat_listener *at = hub->listeners.first; at && plain && placed; at = at->next)
        if (at->sent_ms <= before)
            send(hub, at, at->behind || at->at ? plain : placed);
    bb_chunk_release(hub->host, plain);
    bb_chunk_release(hub->host, placed);
    pthread_mutex_unlock(&hub->lock);
}

/* ---- metrics ---- */

double chat_listeners(void *state, size_t value)
{
    struct chat_hub *hub = ((struct chat *)state)->hub;
    size_t counts[2] = {0, 0};

    pthread_mutex_lock(&hub->lock);
    for (const struct chat_listener *at = hub->listeners.first; at; at = at->next)
        counts[at->behind]++;
    pthread_mutex_unlock(&hub->lock);
    return (double)counts[value];
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
