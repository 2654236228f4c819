/*
 * The exact position of a reader of messages, although transactions do not commit in the order of
 * their numbers.
 *
 * A reader goes from one snapshot of PostgreSQL (pg_current_snapshot()) to a later one: it reads
 * the messages that the later one shows and the earlier one does not, in blocks, and within a block
 * in an order that follows the chain of each conversation. All of this depends only on the stored
 * messages, so every host divides and orders them in the same way. The text of a position is the id
 * of an event: a client that reconnects, to any host, gets exactly the events that it has not seen.
 *
 * The text is d<home>-<seen>[-<target>-<block>-<event>]. Snapshots are valid within one cluster. A
 * dump restored elsewhere, or a promoted standby, counts transactions differently. So the text
 * begins with its home (CHAT_HOME in page.h) and cannot be used in another one. Hosts always write
 * the home; a client may leave it out.
 */
#ifndef CHAT_CURSOR_H
#define CHAT_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

/* The parts of a position. A key is the transaction, the conversation, the number in it. */
struct chat_cursor {
    uint64_t home;      /* database of the snapshots; 0: not named */
    const char *seen;   /* a snapshot; all it shows was seen */
    const char *target; /* snapshot to which the reader goes; NULL: it has not begun */
    int64_t block[3];   /* the last message, in the order of blocks, of the blocks seen */
    int64_t event[3];   /* the last event seen of the next block */
};

/* Splits the text, which the parts point to. Returns 0, or -1 if it is malformed. */
int chat_cursor_split(char *text, struct chat_cursor *cursor);

/* Returns whether the earlier of two snapshots is the first one (< 0), the other, or both (0). */
int chat_snapshot_compare(const char *one, const char *other);

/* Returns whether a reader at `here` has seen everything that a reader at `there` has. */
bool chat_cursor_has(const char *here, const char *there);

#endif
