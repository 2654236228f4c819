/*
 * The exact position of a reader of messages, although transactions do not commit in the order of
 * their numbers.
 *
 * A reader goes from one snapshot of PostgreSQL (pg_current_snapshot()) to a later snapshot. It
 * reads the messages that only the later snapshot shows, in blocks, and sends each block in an
 * order that follows the chain of each conversation. All of this depends only on the stored
 * messages, so every host divides and orders them in the same way. The text of a position is the id
 * of an event: a client that reconnects, to any host, gets exactly the events that it has not seen.
 *
 * The text is d<home>-<seen>[-<target>-<block>-<event>]. Snapshots are valid within one cluster,
 * because a dump restored elsewhere, or a promoted standby, counts transactions differently. So
 * <home> identifies the database (CHAT_HOME in page.h), and other databases refuse the text. Hosts
 * always write <home>; a client may omit it.
 */
#ifndef CHAT_CURSOR_H
#define CHAT_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

/* The parts of a position. A key is a transaction, a conversation, and a row or event number. */
struct chat_cursor {
    uint64_t home;      /* identifies the database (CHAT_HOME); 0: not given */
    const char *seen;   /* a snapshot; the reader has seen all messages in it */
    const char *target; /* the later snapshot up to which the reader reads; NULL: none */
    int64_t block[3];   /* key of the last row of the last complete block seen */
    int64_t event[3];   /* key of the last event seen in the block after `block`; 0: none */
};

/* Splits `text`; the cursor points into it. Returns 0, or -1 if `text` is malformed. */
int chat_cursor_split(char *text, struct chat_cursor *cursor);

/* Returns -1 if snapshot `one` is earlier than `other`, 1 if it is later, otherwise 0. */
int chat_snapshot_compare(const char *one, const char *other);

/* Returns whether a reader at `here` has seen everything that a reader at `there` has seen. */
bool chat_cursor_has(const char *here, const char *there);

#endif
