/*
 * The live stream, GET /api/chat/stream.
 *
 * PostgreSQL is the only source. Every message carries the number of its transaction; the host
 * reads what has become visible since it last looked, several times a second while anybody listens
 * (tail.c), and gives each message to the listeners that may see it (hub.c). What was read lately
 * is kept for those that come again after a cut (a page's memory is shared by all of them); for who
 * was away for longer pages are read from the database, in turns of the accounts. So all hosts are
 * alike, nothing can be lost on the way, and a post pays nothing for it but an entry in an index.
 *
 * What was not taken, and why:
 * - a NOTIFY in each post: it makes the commits of a whole cluster queue up;
 * - numbers of a sequence: they become visible out of order, for who took the lower one may commit
 *   later, and a reader who asks for what is above the last one loses it. The number of a
 * transaction says with the reader's snapshot which lower ones are still to come (cursor.h);
 * - topics of the contract (busbar/stream.h): who may see a message is decided by the message and
 * by who listens, and a listener that comes again gets what it has missed, in the order of commits;
 * - a table of positions with one writer: one host would have to lead, and to be replaced when it
 *   dies, and each message would be written a second time before anybody hears of it.
 */
#ifndef CHAT_LIVE_H
#define CHAT_LIVE_H

#include "modules/chat/conversation/chat.h"
#include "modules/chat/live/cursor.h"

/* Tells a client to read the chains anew. */
#define CHAT_RESET "event: reset\ndata: {}\n\n"

/* An event, ready to be sent. */
struct chat_live {
    uint64_t xid;
    int64_t part;
    struct chat_facts facts; /* text in this block */
    struct bb_chunk *chunk;  /* held */
    char text[];
};

/*
 * A number for the database whose transactions are counted: made of the cluster, its timeline and
 * the database in it. A database that was restored from a dump has another one. The timeline comes
 * from the current write position, because the control file names a new timeline only when the
 * checkpoint after a promotion ends, which can take minutes.
 */
#define CHAT_HOME                                                                                  \
    "(SELECT hashtextextended(concat_ws(' ', s.system_identifier,"                                 \
    " left(pg_walfile_name(pg_current_wal_lsn()), 8), d.oid), 0) & 281474976710655 | 1"            \
    " FROM pg_control_system() s, pg_database d WHERE d.datname = current_database())"

/* What one look found, in the order of sending. */
struct chat_page {
    struct chat_page *next;
    struct chat_cursor start, end;
    bool moved;    /* the database is another one than the cursor's: there is nothing in it */
    bool complete; /* up to `end` there is nothing more */
    bool kept;     /* in the hub: the page behind it is the next that came */
    size_t count, bytes;
    struct chat_live *events[];
};

/*
 * live_event.c: an event of a conversation, with the cursor behind it as its id; takes the payload,
 * NULL included. NULL: out of memory.
 */
struct chat_live *chat_live_new(struct bb_request *rq, const struct chat_cursor *at,
                                const struct chat_facts *facts, const char *name, json_t *payload);
void chat_live_free(struct bb_host *host, struct chat_live *live);

/* The cursor that is the id of an event. 0, or -1: it has none. */
int chat_cursor_of(const struct bb_chunk *chunk, struct chat_cursor *cursor);

/* page.c: reads what follows a cursor; NULL: failed. Parks. */
struct chat_page *chat_page_read(struct bb_request *rq, const struct chat_cursor *from);
void chat_page_free(struct bb_host *host, struct chat_page *page);

/* order.c: rows of a page, sorted by xid, conversation_id, seq. */
struct chat_row {
    uint64_t xid;
    int64_t conversation, seq;
    size_t group; /* place of its transaction among those of the page */
};

/*
 * The order in which the transactions of a page are sent: by number, but where two wrote to one
 * conversation, in the order of its chain. Fills order[0..groups); in the request's memory.
 */
void chat_order(struct bb_request *rq, const struct chat_row *rows, size_t count, size_t *order,
                size_t groups);

/* A listener. */
struct chat_listener;

/* hub.c: any thread. */
struct chat_hub *chat_hub_new(struct bb_host *host);
void chat_hub_free(struct chat_hub *hub);

/*
 * A new listener at a cursor, with a copy of the scope; its stream is set by the caller, who then
 * enlists it. NULL: out of memory.
 */
struct chat_listener *chat_listener_new(struct bb_host *host, const struct chat_scope *scope,
                                        int64_t account, const struct chat_cursor *at);
struct bb_stream **chat_listener_stream(struct chat_listener *listener);
struct bb_host *chat_listener_host(const struct chat_listener *listener);
void chat_listener_free(struct chat_listener *listener);

/* How many streams an account has here. */
size_t chat_hub_count(struct chat_hub *hub, int64_t account);

/* Enlists a listener, and sends it what it missed as far as that is in memory and there is room. */
void chat_hub_add(struct chat_hub *hub, struct chat_listener *listener);

/* Forgets and frees it; the stream's `closed`. */
void chat_hub_remove(struct chat_hub *hub, struct chat_listener *listener);

/* Whether anybody listens, or did until a minute ago. Forgets what it keeps when not. */
bool chat_hub_busy(struct chat_hub *hub);

/* Copies where the hub stands; false: nowhere yet. And sets it, unless it stands somewhere. */
bool chat_hub_position(struct chat_hub *hub, struct chat_cursor *at);
void chat_hub_begin(struct chat_hub *hub, const struct chat_cursor *at);

/*
 * Hands a page that follows the position round to all that are joined; takes it. False: not all of
 * it yet; then chat_hub_spread_on() goes on, as long as it says so, before anything else is done.
 */
bool chat_hub_spread(struct chat_hub *hub, struct chat_page *page);
bool chat_hub_spread_on(struct chat_hub *hub);

/*
 * Serves those that are behind, in turns, from what is in memory. SERVED: nobody has room for more;
 * MORE: enough for one time; READ: a listener, given by number, needs the page that follows *at.
 */
enum chat_turn { CHAT_SERVED, CHAT_MORE, CHAT_READ };
enum chat_turn chat_hub_turns(struct chat_hub *hub, uint64_t *number, struct chat_cursor *at);

/* That page, for this listener and whoever else can use it; takes it. */
void chat_hub_give_page(struct chat_hub *hub, uint64_t number, struct chat_page *page);

/* The database is another one: all begin anew. */
void chat_hub_move(struct chat_hub *hub);

/* What follows its cursor cannot be read: it is told to read the chains anew. */
void chat_hub_begin_anew(struct chat_hub *hub, uint64_t number);

/* Says something to those that have not heard anything for that long. */
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
