/*
 * The exact position of a reader of messages, even though transactions do not commit in the order
 * of their numbers.
 *
 * A mark is a PostgreSQL snapshot (pg_current_snapshot()): the reader has seen every transaction
 * below xmax that is not in xip. A cursor is a mark plus a position in one transaction that the
 * mark does not include; of that transaction the reader has seen the messages up to (conversation,
 * part). The text of a cursor is the id of an event, so a reconnecting client gets exactly the
 * events that it has not seen.
 *
 * Transaction numbers are valid within one cluster. A dump restored elsewhere, or a promoted
 * standby, counts differently. A cursor therefore names its home (CHAT_HOME in live.h) and cannot
 * be used in another one.
 *
 * A message has one or two parts: 2 * seq for the conversation that it started, 2 * seq + 1 for the
 * message itself.
 */
#ifndef CHAT_CURSOR_H
#define CHAT_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CHAT_XIPS = 512,     /* transactions in progress that a mark can list */
    CHAT_ID_SIZE = 3000, /* for an id, with its NUL */
    CHAT_SNAPSHOT_SIZE = CHAT_XIPS * 21 + 48
};

struct chat_mark {
    uint64_t xmax;
    size_t count;
    uint64_t xip[CHAT_XIPS]; /* in ascending order, below xmax */
};

struct chat_cursor {
    uint64_t home; /* database that the numbers belong to; 0: unknown. Compare cursors of the same
                      home only */
    struct chat_mark mark;
    uint64_t xid; /* partly seen transaction; 0: none */
    int64_t conversation, part;
};

bool chat_mark_has(const struct chat_mark *mark, uint64_t xid);

/* Removes a transaction from the mark. Returns 0, or -1 if xip is full. */
int chat_mark_exclude(struct chat_mark *mark, uint64_t xid);

/* Adds a transaction that was in progress to the mark. */
void chat_mark_include(struct chat_mark *mark, uint64_t xid);

/* Returns whether the reader has seen a part of a message of a transaction. */
bool chat_cursor_has(const struct chat_cursor *cursor, uint64_t xid, int64_t conversation,
                     int64_t part);

/* Returns whether `more` has seen everything that `less` has seen. */
bool chat_cursor_covers(const struct chat_cursor *more, const struct chat_cursor *less);

/*
 * Returns whether a single cursor can express what the two have seen together. It cannot if each
 * one is in the middle of a different transaction.
 */
bool chat_cursor_merges(const struct chat_cursor *one, const struct chat_cursor *other);

/*
 * Adds everything that `more` has seen to *into. Returns 0; or -1, with *into unchanged, if
 * chat_cursor_merges() returns false.
 */
int chat_cursor_merge(struct chat_cursor *into, const struct chat_cursor *more);

/*
 * Converts from and to the text of a pg_snapshot. Parsing returns 0, or -1 if the text is malformed
 * or lists more than CHAT_XIPS transactions in progress.
 */
int chat_mark_parse(const char *text, struct chat_mark *mark);
void chat_mark_text(const struct chat_mark *mark, char text[CHAT_SNAPSHOT_SIZE]);

/*
 * Converts from and to the text of a cursor. They return 0; or -1 if the text is malformed (parse)
 * or would be too long (text).
 */
int chat_cursor_parse(const char *text, struct chat_cursor *cursor);
int chat_cursor_text(const struct chat_cursor *cursor, char text[CHAT_ID_SIZE]);

#endif
