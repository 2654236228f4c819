/*
 * Internals of the hub, shared by hub.c (adding and removing listeners), hub_pages.c (pages in
 * memory), hub_send.c (sending to one listener), hub_spread.c (sending to all joined listeners) and
 * hub_turns.c (serving listeners that lag).
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
#ifndef CHAT_HUB_H
#define CHAT_HUB_H

#include <pthread.h>

#include "modules/chat/live/listeners.h"

enum { WORK = 4096 /* events checked, sends and pages skipped per lock hold */ };

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

/* hub_pages.c: both functions that get a page take ownership of it. */
void hub_keep(struct chat_hub *hub, struct chat_page *page);
void hub_serve_page(struct chat_hub *hub, struct chat_page *page);
void hub_forget(struct chat_hub *hub);

/*
 * Returns the first page in memory that is useful for a listener at a cursor; subtracts the effort
 * from *work. Returns NULL if the listener has had everything in memory, or, with *away set, if the
 * events that it needs are not in memory.
 */
struct chat_page *hub_page_for(const struct chat_hub *hub, const struct chat_cursor *at, bool *away,
                               size_t *work);

/* hub_send.c */
bool hub_wants(const struct chat_listener *listener, const struct chat_live *live);
void hub_send(struct chat_listener *listener, struct bb_chunk *chunk);
void hub_end(struct chat_listener *listener);

/* Returns whether `bytes` more fit in the listener's queue if it may have at most `room` bytes. */
bool hub_has_room(const struct chat_listener *listener, size_t bytes, size_t room);

/*
 * Returns how many bytes may be queued for a lagging listener. The rest of its buffer is reserved
 * for events that arrive after it has caught up.
 */
size_t hub_room_behind(const struct chat_listener *listener);

/*
 * Advances a listener's cursor by everything that `seen` has seen. Ends the listener if one cursor
 * cannot express both.
 */
void hub_see(struct chat_listener *listener, const struct chat_cursor *seen);

/* Sets a listener's position to the middle of a page, after its first `count` events. */
void hub_stand(struct chat_listener *listener, struct chat_page *page, size_t count);

/*
 * hub_turns.c: serves a lagging listener from memory. Returns true if the events that it needs are
 * not in memory.
 */
bool hub_serve(struct chat_hub *hub, struct chat_listener *listener, size_t *work);

/* hub_spread.c: frees the listener's cursor once the hub's position covers it. */
void hub_pass(const struct chat_hub *hub, struct chat_listener *listener);

#endif
