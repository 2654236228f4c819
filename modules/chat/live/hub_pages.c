/* Pages in memory: recently read ones, and ones read for lagging listeners. */
#include <string.h>

#include "modules/chat/live/hub.h"

enum {
    KEPT_BYTES = 8 * 1024 * 1024,  /* for clients that reconnect */
    BEHIND_BYTES = 8 * 1024 * 1024 /* for clients that were gone longer */
};

static void append(struct hub_pages *pages, struct chat_page *page)
{
    if (pages->last)
        pages->last->next = page;
    else
        pages->first = page;
    pages->last = page;
    pages->bytes += page->bytes;
}

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

static void add(struct chat_hub *hub, struct hub_pages *pages, struct chat_page *page, size_t most)
{
    append(pages, page);
    while (pages->bytes > most && pages->first != pages->last)
        drop_first(hub, pages);
}

void hub_keep(struct chat_hub *hub, struct chat_page *page)
{
    page->kept = true;
    add(hub, &hub->kept, page, KEPT_BYTES);
}

void hub_serve_page(struct chat_hub *hub, struct chat_page *page)
{
    hub->lendings++;
    add(hub, &hub->behind, page, BEHIND_BYTES);
}

void hub_forget(struct chat_hub *hub)
{
    while (hub->kept.first)
        drop_first(hub, &hub->kept);
    while (hub->behind.first)
        drop_first(hub, &hub->behind);
    hub->spreading = NULL;
}

/* Returns whether the kept pages begin no later than a cursor. */
static bool remembers(const struct chat_hub *hub, const struct chat_cursor *at)
{
    const struct chat_page *first = hub->kept.first;

    return hub->placed && chat_cursor_covers(at, first ? &first->start : &hub->at);
}

/* Returns the first page with events after a cursor, without a gap between the two. */
static struct chat_page *find(const struct hub_pages *pages, const struct chat_cursor *at,
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
 * A page that ends in the middle of a transaction is useless for a listener that is in the middle
 * of another one.
 */
struct chat_page *hub_page_for(const struct chat_hub *hub, const struct chat_cursor *at, bool *away,
                               size_t *work)
{
    struct chat_page *page = NULL;

    *away = !remembers(hub, at);
    if (!*away) {
        page = find(&hub->kept, at, work);
        *away = page && !chat_cursor_merges(at, &page->end);
    }
    if (*away)
        page = find(&hub->behind, at, work);
    return page && chat_cursor_merges(at, &page->end) ? page : NULL;
}
