/* Sending to one listener. */
#include "modules/chat/live/hub.h"

bool hub_wants(const struct chat_listener *listener, const struct chat_live *live)
{
    return chat_sees(&listener->scope, &live->facts) &&
           !(listener->at && chat_cursor_has(listener->at, live->xid, live->facts.id, live->part));
}

void hub_send(struct chat_listener *listener, struct bb_chunk *chunk)
{
    if (bb_stream_send(listener->host, listener->stream, chunk))
        listener->ended = true; /* the host ended the stream, or the client has left */
    listener->sent_ms = bb_now_ms(listener->host);
}

/* The client reconnects with the last id that it received. */
void hub_end(struct chat_listener *listener)
{
    listener->ended = true;
    bb_stream_end(listener->host, listener->stream);
}

bool hub_has_room(const struct chat_listener *listener, size_t bytes, size_t room)
{
    size_t waiting = bb_stream_waiting(listener->host, listener->stream);

    return !waiting || waiting + bytes <= room;
}

size_t hub_room_behind(const struct chat_listener *listener)
{
    const struct chat *chat = listener->host->state;

    return chat->stream_buffer / 2;
}

void hub_see(struct chat_listener *listener, const struct chat_cursor *seen)
{
    if (chat_cursor_merge(listener->at, seen))
        hub_end(listener);
}

void hub_stand(struct chat_listener *listener, struct chat_page *page, size_t count)
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
