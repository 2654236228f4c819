/*
 * Turns: what waits is served owner by owner, one thing of each at a time, so that a crowd of one
 * delays another by one thing only. Those who wait, or have something under way, are in a table
 * with how much that is; what waits stands in lines, one for each owner, and the lines in a ring. A
 * table may serve several rings. Nothing is locked, and memory comes only with an owner that is
 * new.
 */
#ifndef CORE_TURNS_H
#define CORE_TURNS_H

#include <stddef.h>

#include "core/base/quota_table.h"

/* Part of what waits. */
struct turn {
    struct turn *next;
    struct turn_owner *owner; /* of turns_enter() */
};

/* What waits of one owner in one ring. */
struct turn_line {
    struct turn_line *next; /* of the ring */
    struct turn *first, *last;
    unsigned round, taken; /* for who takes: how much it took of this line in its last round */
};

struct turn_owner {
    struct turn_owner *next; /* of its row, or of the spares */
    struct quota_owner owner;
    size_t count;   /* entered and not left */
    size_t running; /* of it, for who counts it: begun */
    struct turn_line lines[];
};

struct turns {
    unsigned rings; /* that the table serves */
    struct turn_owner *spares;
    struct turn_owner *rows[64];
};

struct turn_ring {
    unsigned index; /* among the rings of the table */
    unsigned lines; /* in which something waits */
    struct turn_line *first, *last;
};

/* For tables that are zeroed. */
void turns_init(struct turns *turns, unsigned rings);
void turns_free(struct turns *turns);

/* Counts one thing more of this owner, if it has less than `each`; NULL with the reason else. */
struct turn_owner *turns_enter(struct turns *turns, const struct quota_owner *owner, size_t each,
                               enum quota_result *why);
void turns_leave(struct turns *turns, struct turn_owner *owner);

/* Puts what waits at the end of its owner's line. */
void turn_wait(struct turn_ring *ring, struct turn *turn);

/* Whose turn it is; NULL: nothing waits. */
struct turn *turn_first(const struct turn_ring *ring);
struct turn_line *turn_line(const struct turn_ring *ring, const struct turn *turn);

/* Takes it out; the next owner comes first then. */
struct turn *turn_take(struct turn_ring *ring);

/* Passes the first line by, for this time. */
void turn_skip(struct turn_ring *ring);

/* Takes out what is waiting wherever. */
void turn_cancel(struct turn_ring *ring, struct turn *turn);

#endif
