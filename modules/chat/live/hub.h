/*
 * The hub's inside, shared by hub.c (who comes and goes), hub_pages.c (what was read), hub_send.c
 * (to one listener), hub_spread.c (to all that are joined) and hub_turns.c (to those behind).
 *
 * A listener is joined when everything that the hub has read so far has been sent to it or is in
 * its cursor: then it gets each page as it comes. Else it is behind, at its cursor: new, or without
 * room for what came. It is served from pages in memory or, where those do not go back far enough,
 * from ones that are read for it, and used by whoever else can use them.
 *
 * One mutex guards everything. What is done while it is held is bounded by WORK, or by the number
 * of listeners with a few instructions each; nothing waits.
 */
#ifndef CHAT_HUB_H
#define CHAT_HUB_H

#include <pthread.h>

#include "modules/chat/live/listeners.h"

enum { WORK = 4096 /* events looked at, sendings, pages passed while the mutex is held */ };

struct hub_pages {
    struct chat_page *first, *last;
    size_t bytes;
};

struct chat_hub {
    pthread_mutex_t lock;
    struct bb_host *host;
    struct listeners listeners;
    bool placed; /* `at` says where it stands */
    struct chat_cursor at;
    struct hub_pages kept;       /* without gaps up to `at`, for those that come again */
    struct hub_pages behind;     /* read for those that are behind what is kept */
    struct chat_page *spreading; /* of `kept`; NULL: all has been handed round */
    size_t spread;               /* events of it that have been */
    uint64_t events;             /* read since the generation began */
    uint64_t lendings;           /* pages read for those that are behind */
    int64_t heard_ms;            /* when somebody listened */
};

/* hub_pages.c: each takes the page. */
void hub_keep(struct chat_hub *hub, struct chat_page *page);
void hub_serve_page(struct chat_hub *hub, struct chat_page *page);
void hub_forget(struct chat_hub *hub);

/*
 * The first page of use for a listener at a cursor, takes from *work. NULL: there is none, because
 * it has had all that is kept, or (*away) because what it needs is not here.
 */
struct chat_page *hub_page_for(const struct chat_hub *hub, const struct chat_cursor *at, bool *away,
                               size_t *work);

/* hub_send.c */
bool hub_wants(const struct chat_listener *listener, const struct chat_live *live);
void hub_send(struct chat_listener *listener, struct bb_chunk *chunk);
void hub_end(struct chat_listener *listener);

/* Whether there is room for so many bytes among at most `room` that wait. */
bool hub_has_room(const struct chat_listener *listener, size_t bytes, size_t room);

/* What may wait for one that is behind: the rest of its buffer is for what comes meanwhile. */
size_t hub_room_behind(const struct chat_listener *listener);

/* Moves a listener's cursor on: what `seen` has seen, it has. It ends where that cannot be. */
void hub_see(struct chat_listener *listener, const struct chat_cursor *seen);

/* It stands in the middle of a page, behind its first `count` events. */
void hub_stand(struct chat_listener *listener, struct chat_page *page, size_t count);

/* hub_turns.c: serves one that is behind from what is in memory; true: what it needs is not there.
 */
bool hub_serve(struct chat_hub *hub, struct chat_listener *listener, size_t *work);

/* hub_spread.c: the cursor is not looked at any more once the hub has passed it. */
void hub_pass(const struct chat_hub *hub, struct chat_listener *listener);

#endif
