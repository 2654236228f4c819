/*
 * Pages of events, read from the database for the live stream (stream.c).
 *
 * PostgreSQL is the only source of events. Every message has the ID of the transaction that
 * wrote it, and a reader requests the messages that have become visible since its last snapshot
 * (cursor.h). So all hosts are equal, no event can get lost between them, and the only cost for a
 * post is one more index entry.
 *
 * Rejected alternatives:
 * - A NOTIFY in each post: it serializes the commits of the whole cluster. With 16 connections that
 *   insert, PostgreSQL 15 commits 8,000 times a second, or 400 times if each notifies.
 * - Numbers from a sequence: they become visible out of order, because the transaction with the
 *   lower number may commit later. A reader that requests numbers above the last one would miss
 *   that message.
 * - A table of positions with a single writer: one host would have to be the leader and be replaced
 *   when it dies, and every message would be written a second time before it is sent.
 */
#ifndef CHAT_PAGE_H
#define CHAT_PAGE_H

#include <busbar/busbar.h>

#include "modules/chat/cursor.h"

/*
 * A number that identifies the database and its timeline: another timeline may use transaction IDs
 * again. The subquery makes PostgreSQL call the function once, not for each row.
 */
#define CHAT_HOME "(SELECT busbar_timeline())"

/*
 * The topics of the live stream: all events, the events of an e-mail, and the events of an
 * organization. A stream gets an event if it has joined one of the event's topics.
 */
#define CHAT_TOPIC_ALL "*"
#define CHAT_TOPIC_EMAIL "@%s"
#define CHAT_TOPIC_ORGANIZATION "#%" PRId64
enum { CHAT_TOPICS = 4, CHAT_TOPIC_NUMBER_SIZE = 24 /* of an organization's topic */ };

/* An event, ready to be sent. */
struct chat_event {
    struct bb_chunk *chunk; /* the event holds a reference to it */
    const char *id;         /* the position after the event */
    size_t topic_count;
    const char *topics[CHAT_TOPICS]; /* point into `text`, like `id` */
    char text[];
};

/* The events of one read, in the order in which they are sent. */
struct chat_page {
    char *start, *end; /* positions; owned */
    bool more;         /* there are events between the end and the target */
    bool lost; /* the reader starts over: events before the page may be archived, or the page has
                * no events because its block is torn even with ROWS_MAX rows (page.c) */
    size_t count;
    struct chat_event *events[];
};

/* Creates a page with room for `room` events, but without events. Returns NULL if out of memory. */
struct chat_page *chat_page_new(const char *start, size_t room);
void chat_page_free(struct bb_host *host, struct chat_page *page);

/*
 * Reads the events after a position, up to about `bytes` of text. If the position has no target
 * (cursor.h), reads up to `target`, or up to the current snapshot if `target` is NULL. Returns NULL
 * on failure, and sets *moved if the position belongs to another database. Parks the fiber.
 */
struct chat_page *chat_page_read(struct bb_request *rq, const char *from, const char *target,
                                 size_t bytes, bool *moved);

/*
 * Returns the line that makes a position the client's last event id. Returns "" if the position is
 * too long, because many transactions are in progress; the client then keeps its previous id.
 */
const char *chat_id_line(struct bb_request *rq, const char *position);

/* Creates a chunk of the text. Returns NULL if out of memory. */
struct bb_chunk *chat_chunk(struct bb_host *host, const char *text);

#endif
