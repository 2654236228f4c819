/*
 * Where a reader of the messages stands, exactly, though transactions do not commit in the order of
 * their numbers.
 *
 * A mark is a snapshot of PostgreSQL's (pg_current_snapshot()): the transactions below xmax that
 * are not in xip have been seen. A cursor is a mark and a place in one transaction that the mark
 * does not have: of that one the messages up to (conversation, part) have been seen, too. The text
 * of a cursor is the id of an event, so a client that comes again gets what it has not seen.
 *
 * Transactions are numbered by the cluster. A dump that was restored elsewhere, or a standby that
 * was promoted, counts anew: so a cursor names its home, and is of no use in another one.
 *
 * A message is one part or two: 2 * seq for the conversation that it started, 2 * seq + 1 for the
 * message itself.
 */
#ifndef CHAT_CURSOR_H
#define CHAT_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CHAT_XIPS = 512,     /* transactions under way that a mark can name */
    CHAT_ID_SIZE = 3000, /* room for an id, with its NUL */
    CHAT_SNAPSHOT_SIZE = CHAT_XIPS * 21 + 48
};

struct chat_mark {
    uint64_t xmax;
    size_t count;
    uint64_t xip[CHAT_XIPS]; /* ascending, below xmax */
};

struct chat_cursor {
    uint64_t home; /* of which database the numbers are; 0: unknown. Cursors compare in one alone */
    struct chat_mark mark;
    uint64_t xid; /* in part seen; 0: none */
    int64_t conversation, part;
};

bool chat_mark_has(const struct chat_mark *mark, uint64_t xid);

/* Makes a transaction one that the mark does not have. 0, or -1: no room for it. */
int chat_mark_exclude(struct chat_mark *mark, uint64_t xid);

/* Makes one that is under way one that the mark has. */
void chat_mark_include(struct chat_mark *mark, uint64_t xid);

/* Whether a part of a message of a transaction has been seen. */
bool chat_cursor_has(const struct chat_cursor *cursor, uint64_t xid, int64_t conversation,
                     int64_t part);

/* Whether all that `less` has seen has been seen by `more`. */
bool chat_cursor_covers(const struct chat_cursor *more, const struct chat_cursor *less);

/* Whether one cursor can say what either has seen: not where both are in parts of transactions of
 * their own. */
bool chat_cursor_merges(const struct chat_cursor *one, const struct chat_cursor *other);

/*
 * Makes a cursor that of a reader who has seen what either has. 0; or -1, and *into as it was,
 * where chat_cursor_merges() says that there is none.
 */
int chat_cursor_merge(struct chat_cursor *into, const struct chat_cursor *more);

/* The text of a pg_snapshot, both ways. 0, or -1: malformed, or more than CHAT_XIPS under way. */
int chat_mark_parse(const char *text, struct chat_mark *mark);
void chat_mark_text(const struct chat_mark *mark, char text[CHAT_SNAPSHOT_SIZE]);

/* The text of a cursor, both ways. 0, or -1: malformed; too long. */
int chat_cursor_parse(const char *text, struct chat_cursor *cursor);
int chat_cursor_text(const struct chat_cursor *cursor, char text[CHAT_ID_SIZE]);

#endif
