/*
 * The live stream, GET /api/chat/stream.
 *
 * PostgreSQL is the only source. Every message carries the number of the transaction that wrote it.
 * While anybody listens, each host reads several times a second the messages that have become
 * visible since its last read (tail.c), and sends each message to the listeners that may see it
 * (hub.c). Recently read pages stay in memory, shared by all listeners, for clients that reconnect
 * after a dropped connection. For clients that were gone longer, the host reads pages from the
 * database, and accounts take turns. So all hosts are equal, no event can get lost between them,
 * and the only cost for a post is one more index entry.
 *
 * Rejected alternatives:
 * - A NOTIFY in each post: it serializes the commits of the whole cluster.
 * - Numbers from a sequence: they become visible out of order, because the transaction with the
 *   lower number may commit later. A reader that asks for numbers above the last one would miss
 *   that message. A transaction number together with the reader's snapshot says which lower numbers
 *   are still to come (cursor.h).
 * - The topics of the contract (busbar/stream.h): who may see a message depends on both the message
 *   and the listener, and a listener that reconnects must get the missed events in commit order.
 * - A table of positions with a single writer: one host would have to be the leader and be replaced
 *   when it dies, and every message would be written a second time before it is sent.
 */
#ifndef CHAT_LIVE_H
#define CHAT_LIVE_H

#include "modules/chat/conversation/chat.h"
#include "modules/chat/live/cursor.h"

/* Makes a client read its chains again. */
#define CHAT_RESET "event: reset\ndata: {}\n\n"

/* An event, ready to be sent. */
struct chat_live {
    uint64_t xid;
    int64_t part;
    struct chat_facts facts; /* the strings are in `text` */
    struct bb_chunk *chunk;  /* holds a reference */
    char text[];
};

/*
 * A number that identifies the database whose transactions are counted, made of the cluster, its
 * timeline and the database. A database restored from a dump gets another number. The timeline is
 * taken from the current write position, because the control file names a new timeline only when
 * the checkpoint after a promotion ends, which can take minutes.
 */
#define CHAT_HOME                                                                                  \
    "(SELECT hashtextextended(concat_ws(' ', s.system_identifier,"                                 \
    " left(pg_walfile_name(pg_current_wal_lsn()), 8), d.oid), 0) & 281474976710655 | 1"            \
    " FROM pg_control_system() s, pg_database d WHERE d.datname = current_database())"

/* The result of one read, in sending order. */
struct chat_page {
    struct chat_page *next;
    struct chat_cursor start, end;
    bool moved;    /* the cursor belongs to another database; the page is empty */
    bool complete; /* there are no more events up to `end` */
    bool kept;     /* the hub keeps it; the page after it is the next one that was read */
    size_t count, bytes;
    struct chat_live *events[];
};

/* ---- page.c ---- */

/* Creates a chunk of a text. Returns NULL if out of memory. */
struct bb_chunk *chat_chunk(struct bb_host *host, const char *text);

/* Gets the cursor from an event's id. Returns 0, or -1 if the event has no id. */
int chat_cursor_of(const struct bb_chunk *chunk, struct chat_cursor *cursor);

/* Reads the events after a cursor. Returns NULL on failure. Parks the fiber. */
struct chat_page *chat_page_read(struct bb_request *rq, const struct chat_cursor *from);
void chat_page_free(struct bb_host *host, struct chat_page *page);

struct chat_listener;

/* hub.c: may be called on any thread. */
struct chat_hub *chat_hub_new(struct bb_host *host);
void chat_hub_free(struct chat_hub *hub);

/* Returns the number of streams that an account has open on this host. */
size_t chat_hub_count(struct chat_hub *hub, int64_t account);

/* Adds a listener and sends it the missed events that are in memory and fit in its buffer. */
void chat_hub_add(struct chat_hub *hub, struct chat_listener *listener);

/* Removes and frees a listener; called from the stream's `closed` callback. */
void chat_hub_remove(struct chat_hub *hub, struct chat_listener *listener);

/*
 * Returns whether anybody listens or has listened within the last minute. If not, drops the pages
 * in memory.
 */
bool chat_hub_busy(struct chat_hub *hub);

/*
 * chat_hub_position() copies the hub's position and returns false if the hub has none yet.
 * chat_hub_begin() sets the position unless the hub has one.
 */
bool chat_hub_position(struct chat_hub *hub, struct chat_cursor *at);
void chat_hub_begin(struct chat_hub *hub, const struct chat_cursor *at);

/*
 * Sends the page that follows the hub's position to all joined listeners; takes ownership of it.
 * Returns false if work is left; call chat_hub_spread_on() until it returns true before calling
 * anything else.
 */
bool chat_hub_spread(struct chat_hub *hub, struct chat_page *page);
bool chat_hub_spread_on(struct chat_hub *hub);

/*
 * Serves the lagging listeners, in turns, from the pages in memory. Returns CHAT_SERVED if no
 * listener has room for more, CHAT_MORE if the limit for one call is reached, or CHAT_READ if
 * listener *number needs the page that follows *at.
 */
enum chat_turn { CHAT_SERVED, CHAT_MORE, CHAT_READ };
enum chat_turn chat_hub_turns(struct chat_hub *hub, uint64_t *number, struct chat_cursor *at);

/*
 * Passes in the page requested by CHAT_READ; any other listener that can use it is served from it
 * too. Takes ownership of the page.
 */
void chat_hub_give_page(struct chat_hub *hub, uint64_t number, struct chat_page *page);

/* Ends all streams because the database was replaced by another one; clients start over. */
void chat_hub_move(struct chat_hub *hub);

/* Makes a listener read its chains again, because the events after its cursor cannot be read. */
void chat_hub_begin_anew(struct chat_hub *hub, uint64_t number);

/* Sends a heartbeat to all listeners that were sent nothing for this many milliseconds. */
void chat_hub_heartbeat(struct chat_hub *hub, int64_t silent_ms);

/* Metrics. */
double chat_listeners(void *state, size_t value);
double chat_events_read(void *state, size_t value);
double chat_catch_up_pages(void *state, size_t value);

/* tail.c */
void chat_tail(struct bb_worker_context *context);

/* stream.c */
int chat_stream(struct bb_request *rq);

#endif
