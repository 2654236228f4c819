/* The hub: adds and removes listeners. */
#include <stdio.h>
#include <string.h>

#include "modules/chat/live/hub.h"

enum {
    LINGER_MS =
        60 *
        1000 /* keep reading this long after the last listener left, for clients that reconnect */
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

void chat_hub_free(struct chat_hub *hub)
{
    if (!hub)
        return;
    hub_forget(hub);
    listeners_free(&hub->listeners);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
}

/* ---- adding and removing listeners ---- */

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

/* Creates an SSE comment, with an id unless it is empty. */
static struct bb_chunk *comment(struct bb_host *host, const char *id)
{
    char text[CHAT_ID_SIZE + 16];
    int length = *id ? snprintf(text, sizeof(text), ":\nid: %s\n\n", id)
                     : snprintf(text, sizeof(text), ":\n\n");
    struct bb_chunk *chunk = bb_chunk_new(host, (size_t)length);

    if (chunk)
        memcpy(chunk->bytes, text, chunk->length);
    return chunk;
}

/*
 * Sends a heartbeat to all listeners that were sent nothing since `before`, except those that still
 * have unread data queued.
 */
static void say(struct chat_hub *hub, int64_t before, struct bb_chunk *plain,
                struct bb_chunk *placed)
{
    for (struct chat_listener *at = hub->listeners.first; at; at = at->next)
        if (at->sent_ms <= before && !at->ended && !bb_stream_waiting(hub->host, at->stream))
            hub_send(at, at->behind || at->at ? plain : placed);
}

/*
 * The heartbeat carries the hub's cursor as its id if that cursor is right for the listener. So
 * when a client of an idle stream reconnects after a day, not that whole day must be searched for
 * it.
 */
void chat_hub_heartbeat(struct chat_hub *hub, int64_t silent_ms)
{
    char id[CHAT_ID_SIZE];

    pthread_mutex_lock(&hub->lock);
    bool none = !hub->placed || hub->spreading || chat_cursor_text(&hub->at, id);
    struct bb_chunk *plain = comment(hub->host, "");
    struct bb_chunk *placed = comment(hub->host, none ? "" : id);

    if (plain && placed)
        say(hub, bb_now_ms(hub->host) - silent_ms, plain, placed);
    bb_chunk_release(hub->host, plain);
    bb_chunk_release(hub->host, placed);
    pthread_mutex_unlock(&hub->lock);
}

/* ---- metrics ---- */

static uint64_t look_up(void *state, const uint64_t *counter)
{
    struct chat_hub *hub = ((struct chat *)state)->hub;

    pthread_mutex_lock(&hub->lock);
    uint64_t value = *counter;
    pthread_mutex_unlock(&hub->lock);
    return value;
}

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
    (void)value;
    return (double)look_up(state, &((struct chat *)state)->hub->events);
}

double chat_catch_up_pages(void *state, size_t value)
{
    (void)value;
    return (double)look_up(state, &((struct chat *)state)->hub->lendings);
}
