/*
 * The exact position of a reader of messages, although transactions do not commit in the order of
 * their numbers.
 *
 * A reader goes from one snapshot of PostgreSQL (pg_current_snapshot()) to a later one: it reads
 * the messages that the later one shows and the earlier one does not, in blocks, and within a block
 * in an order that follows the chain of each conversation. All of this depends only on the stored
 * messages, so every host divides and orders them in the same way. The text of a cursor is the id
 * of an event: a client that reconnects, to any host, gets exactly the events that it has not seen.
 *
 * Snapshots are valid within one cluster. A dump restored elsewhere, or a promoted standby, counts
 * transactions differently. A cursor therefore names its home (CHAT_HOME in page.h) and cannot be
 * used in another one.
 */
#ifndef CHAT_CURSOR_H
#define CHAT_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHAT_ID_SIZE = 3000 }; /* of the text of a cursor, with its NUL */

/* A place in an order of messages or events. Zero is before all of them. */
struct chat_key {
    int64_t xid; /* transaction */
    int64_t conversation;
    int64_t number; /* in the conversation */
};

struct chat_cursor {
    uint64_t home;         /* database of the snapshots; 0: unknown */
    const char *seen;      /* a snapshot; all it shows was seen */
    const char *target;    /* snapshot to which the reader goes; NULL: it has not begun */
    struct chat_key block; /* the last message, in the order of blocks, of the blocks seen */
    struct chat_key event; /* the last event seen of the next block */
    char text[];           /* the snapshots */
};

/* Compares in the order of the members. */
int chat_key_compare(const struct chat_key *one, const struct chat_key *other);

/* Returns whether the earlier of two snapshots is the first one (< 0), the other, or both (0). */
int chat_snapshot_compare(const char *one, const char *other);

/* Returns whether a snapshot shows a transaction. */
bool chat_snapshot_has(const char *snapshot, int64_t xid);

/*
 * Create a cursor that the caller frees. The target may be NULL. They return NULL if out of memory;
 * chat_cursor_parse() also if the text is malformed.
 */
struct chat_cursor *chat_cursor_new(uint64_t home, const char *seen, const char *target);
struct chat_cursor *chat_cursor_copy(const struct chat_cursor *cursor);
struct chat_cursor *chat_cursor_parse(const char *text);

/* Returns 0, or -1 if the text would be too long. */
int chat_cursor_text(const struct chat_cursor *cursor, char text[CHAT_ID_SIZE]);

#endif
