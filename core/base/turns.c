#include "core/base/turns.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = sizeof((struct turns *)0)->rows / sizeof(struct turn_owner *) };

void turns_init(struct turns *turns, unsigned rings)
{
    turns->rings = rings;
}

static void free_list(struct turn_owner *owner)
{
    while (owner) {
        struct turn_owner *next = owner->next;

        free(owner);
        owner = next;
    }
}

void turns_free(struct turns *turns)
{
    free_list(turns->spares);
    for (size_t i = 0; i < ROWS; i++)
        free_list(turns->rows[i]);
}

static struct turn_owner **row_of(struct turns *turns, const struct quota_owner *owner)
{
    return &turns->rows[quota_owner_hash(owner) % ROWS];
}

static struct turn_owner *begin(struct turns *turns, const struct quota_owner *owner)
{
    struct turn_owner *new = turns->spares, **row = row_of(turns, owner);

    if (new)
        turns->spares = new->next;
    else
        new = calloc(1, sizeof *new + turns->rings * sizeof new->lines[0]);
    if (!new)
        return NULL;
    new->owner = *owner;
    new->next = *row;
    *row = new;
    return new;
}

struct turn_owner *turns_enter(struct turns *turns, const struct quota_owner *owner, size_t each,
                               enum quota_result *why)
{
    struct turn_owner *at = *row_of(turns, owner);

    while (at && !quota_owner_same(&at->owner, owner))
        at = at->next;
    *why = QUOTA_OWN_FULL;
    if ((at ? at->count : 0) >= each)
        return NULL;
    *why = QUOTA_NO_MEMORY;
    if (!at)
        at = begin(turns, owner);
    if (!at)
        return NULL;
    *why = QUOTA_TAKEN;
    at->count++;
    return at;
}

void turns_leave(struct turns *turns, struct turn_owner *owner)
{
    struct turn_owner **at = row_of(turns, &owner->owner);

    if (--owner->count)
        return;
    while (*at != owner)
        at = &(*at)->next;
    *at = owner->next;
    owner->next = turns->spares;
    turns->spares = owner;
}

struct turn_line *turn_line(const struct turn_ring *ring, const struct turn *turn)
{
    return &turn->owner->lines[ring->index];
}

static void ring_add(struct turn_ring *ring, struct turn_line *line)
{
    line->next = NULL;
    if (ring->last)
        ring->last->next = line;
    else
        ring->first = line;
    ring->last = line;
}

static struct turn_line *ring_take(struct turn_ring *ring)
{
    struct turn_line *line = ring->first;

    ring->first = line->next;
    if (!ring->first)
        ring->last = NULL;
    return line;
}

void turn_wait(struct turn_ring *ring, struct turn *turn)
{
    struct turn_line *line = turn_line(ring, turn);

    turn->next = NULL;
    if (line->first) {
        line->last->next = turn;
    } else {
        line->first = turn;
        ring_add(ring, line);
        ring->lines++;
    }
    line->last = turn;
}

struct turn *turn_first(const struct turn_ring *ring)
{
    return ring->first ? ring->first->first : NULL;
}

struct turn *turn_take(struct turn_ring *ring)
{
    struct turn_line *line = ring->first;

    if (!line)
        return NULL;
    struct turn *turn = line->first;

    line->first = turn->next;
    ring_take(ring);
    if (line->first)
        ring_add(ring, line);
    else
        ring->lines--;
    return turn;
}

void turn_skip(struct turn_ring *ring)
{
    if (ring->lines > 1)
        ring_add(ring, ring_take(ring));
}

static void ring_drop(struct turn_ring *ring, struct turn_line *line)
{
    struct turn_line *before = NULL, *at = ring->first;

    for (; at != line; at = at->next)
        before = at;
    if (before)
        before->next = line->next;
    else
        ring->first = line->next;
    if (ring->last == line)
        ring->last = before;
    ring->lines--;
}

void turn_cancel(struct turn_ring *ring, struct turn *turn)
{
    struct turn_line *line = turn_line(ring, turn);
    struct turn *before = NULL, *at = line->first;

    for (; at != turn; at = at->next)
        before = at;
    if (before)
        before->next = turn->next;
    else
        line->first = turn->next;
    if (line->last == turn)
        line->last = before;
    if (!line->first)
        ring_drop(ring, line);
}
