/* Sends a page that was just read to all joined listeners. */
#include <stdlib.h>

#include "modules/chat/live/hub.h"

struct offering {
    struct chat_hub *hub;
    size_t work;
};

void hub_pass(const struct chat_hub *hub, struct chat_listener *listener)
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
        hub_keep(hub, page);
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
