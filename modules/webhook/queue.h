/*
 * Admission control of the sender: which delivery goes out next. A lane is a webhook's queue with a
 * budget of its own; an item is a delivery. The queue links items, it owns none.
 *
 * A lane is in one of three classes by how long its receiver takes, and each class has a share of
 * all slots, so that nobody is held up by another's receiver:
 *
 *     fast   answered within QUEUE_SLOW_MS last time       half of the slots; cap grows
 *     fresh  not heard of yet: one delivery at a time      the other half, at most a quarter
 *     slow   took longer, or takes longer just now         of the slots each; cap 1, growing
 *
 * A receiver that begins to hang keeps what it has in flight but is demoted by queue_tick() as
 * soon as one attempt is older than QUEUE_SLOW_MS; what it holds is then counted as slow, and the
 * fast have their share back. For so long more than `slots` may be in flight, but never twice as
 * many. Inside a class lanes take turns by deficit round-robin over bytes.
 *
 * A lane holds only so many items and bytes; queue_admit() refuses the rest, which stay in the
 * table. Items between two attempts (resting) count as held.
 *
 * One thread. No system calls; time is handed in, in milliseconds of the monotonic clock.
 */
#ifndef WEBHOOK_QUEUE_H
#define WEBHOOK_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUEUE_SLOW_MS 500
#define QUEUE_LANE_SURE 8 /* items that a lane may hold whatever the others do */

enum queue_class { QUEUE_FAST, QUEUE_FRESH, QUEUE_SLOW, QUEUE_CLASSES };
enum queue_place { QUEUE_OUT, QUEUE_WAITING, QUEUE_FLYING, QUEUE_RESTING };

struct queue_item {
    struct queue_item *next, *prev; /* waiting: in the lane; flying and young: in the queue */
    struct queue_lane *lane;
    int64_t started_ms;
    uint32_t size; /* bytes that it costs; set before queue_admit() */
    enum queue_place place;
    bool young; /* in flight, not yet looked at by queue_tick() */
};

struct queue_list {
    struct queue_item *first, *last;
};

struct queue_lane {
    struct queue_lane *next, *prev; /* in the ring of its class while it may send */
    struct queue_list waiting;
    size_t waiting_count;
    size_t flying;
    size_t held; /* waiting, flying and resting */
    size_t held_bytes;
    size_t cap; /* in flight at most, adapts */
    int64_t deficit;
    enum queue_class class;
    bool ringed;
    bool closed; /* paused: nothing goes out */
};

struct queue_limits {
    size_t slots;       /* in flight, all lanes; see above */
    size_t lane_flying; /* in flight, one lane */
    size_t lane_items;  /* held by one lane */
    size_t lane_bytes;  /* the same; one item is always admitted */
    size_t bytes;       /* held by all; beyond it a lane holds QUEUE_LANE_SURE items */
};

struct queue {
    struct queue_limits limits;
    size_t flying[QUEUE_CLASSES];
    size_t held;
    size_t held_bytes;
    struct queue_lane *ring[QUEUE_CLASSES];
    struct queue_list young;
};

void queue_init(struct queue *queue, const struct queue_limits *limits);
void queue_lane_init(struct queue_lane *lane);

/* Whether the lane would admit an item of this size. */
bool queue_room(const struct queue *queue, const struct queue_lane *lane, uint32_t size);

/* Takes a new item at the lane's end. False: the lane is full, and the item untouched. */
bool queue_admit(struct queue *queue, struct queue_lane *lane, struct queue_item *item);

/* The item that goes out now, or NULL. It is in flight until queue_landed(). */
struct queue_item *queue_take(struct queue *queue, int64_t now_ms);

/* Its attempt is over; it rests until queue_again() or queue_release(). */
void queue_landed(struct queue *queue, struct queue_item *item, bool delivered, int64_t now_ms);

/* A waiting item rests as if its attempt were over. */
void queue_rest(struct queue *queue, struct queue_item *item);

/* A resting item is due: it goes before all that waits in its lane. */
void queue_again(struct queue *queue, struct queue_item *item);

/* Lets go of a waiting or resting item. */
void queue_release(struct queue *queue, struct queue_item *item);

/* Opens or closes a lane; what is in flight stays so. */
void queue_close(struct queue *queue, struct queue_lane *lane, bool closed);

/* Demotes lanes whose attempts take long. Milliseconds until it is wanted again, or -1. */
int64_t queue_tick(struct queue *queue, int64_t now_ms);

size_t queue_flying(const struct queue *queue);

#endif
