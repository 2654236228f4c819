/*
 * Admission control of the sender: which delivery goes out next. A flow is a webhook's queue with a
 * budget of its own; an item is a delivery. The queue links items, it owns none.
 *
 * A flow is in one of three classes by how long its receiver takes, and each class has a share of
 * the slots, so that nobody is held up by another's receiver:
 *
 *     fast   answered within QUEUE_SLOW_MS last time       half of the slots; cap grows
 *     fresh  not heard of yet: one delivery at a time      a quarter
 *     slow   took longer, or takes longer just now         a quarter; cap 1, growing
 *
 * The cap of a fast flow grows as far as its traffic needs: by Little's law the number in flight is
 * the rate times the mean time of an attempt. A receiver that answers at once needs few connections
 * for a high rate, one that is far away needs many. The rate counts recent deliveries plus
 * what it takes to send the waiting items within a second.
 *
 * An attempt takes a slot only while it is young. One older than QUEUE_YOUNG_MS waits for its
 * receiver and no longer counts against its class, so hanging receivers, however many, hold up
 * others for moments only; after QUEUE_SLOW_MS its flow is demoted. In flight are thus more than
 * `slots`, up to QUEUE_CROWD times as many. A slow flow has one attempt in flight by that rule,
 * like any other; for more than one the slow have a quarter of the slots together, young or not.
 *
 * Inside a class flows take turns by deficit round-robin over bytes.
 *
 * A flow holds only so many items and bytes; queue_admit() refuses the rest, which stay in the
 * table. One that is not fast, or fails, holds an eighth of that. Items between two attempts
 * (resting) count as held.
 *
 * One thread. No system calls; time is handed in, in milliseconds of the monotonic clock.
 */
#ifndef WEBHOOK_QUEUE_H
#define WEBHOOK_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUEUE_YOUNG_MS 100
#define QUEUE_SLOW_MS 500
#define QUEUE_CROWD 8     /* times the slots: in flight at most */
#define QUEUE_FLOW_SURE 8 /* items that a flow may hold whatever the others do */

enum queue_class { QUEUE_FAST, QUEUE_FRESH, QUEUE_SLOW, QUEUE_CLASSES };
enum queue_age { QUEUE_YOUNG, QUEUE_AGED, QUEUE_OLD, QUEUE_AGES = QUEUE_OLD };
enum queue_place { QUEUE_OUT, QUEUE_WAITING, QUEUE_FLYING, QUEUE_RESTING };

struct queue_item {
    struct queue_item *next, *prev; /* waiting: in the flow; flying and not old: in the queue */
    struct queue_flow *flow;
    int64_t started_ms;
    uint32_t size;   /* bytes that it costs to send; set before queue_admit() */
    uint32_t shared; /* of them, that others hold as well: see queue_hold() */
    enum queue_place place;
    enum queue_age age; /* of the attempt in flight, as queue_tick() last saw it */
};

struct queue_list {
    struct queue_item *first, *last;
};

struct queue_pace {
    int64_t since_ms;
    int64_t took_ms; /* all attempts together */
    unsigned count;
};

struct queue_flow {
    struct queue_flow *next, *prev; /* in the ring of its class while it may send */
    struct queue_list waiting;
    size_t waiting_count;
    size_t flying;
    size_t young; /* of them */
    size_t held;  /* waiting, flying and resting */
    size_t held_bytes;
    size_t cap;                    /* in flight at most, adapts */
    struct queue_pace now, before; /* of the attempts of a while, and of the while before */
    size_t grown_of;               /* delivered since the cap grew */
    int64_t deficit;
    enum queue_class class;
    struct queue_flow **ring; /* where it is; NULL: in none */
    bool closed;              /* paused: nothing goes out */
};

struct queue_limits {
    size_t slots;       /* young attempts, all flows; see above */
    size_t flow_flying; /* in flight, one flow */
    size_t flow_items;  /* held by one flow */
    size_t flow_bytes;  /* the same; one item is always admitted */
    size_t bytes;       /* held by all; beyond it a flow holds QUEUE_FLOW_SURE items */
};

struct queue {
    struct queue_limits limits;
    size_t flying[QUEUE_CLASSES];
    size_t young[QUEUE_CLASSES]; /* of them */
    size_t held;
    size_t held_bytes;                      /* what items share counts once */
    struct queue_flow *ring[QUEUE_CLASSES]; /* slow: those with nothing in flight */
    struct queue_flow *more;                /* slow ones that want one more */
    struct queue_list aging[QUEUE_AGES];    /* in flight, oldest first */
};

void queue_init(struct queue *queue, const struct queue_limits *limits);
void queue_flow_init(struct queue_flow *flow);

/* How many items and bytes the flow may hold just now. */
size_t queue_flow_items(const struct queue *queue, const struct queue_flow *flow);
size_t queue_flow_bytes(const struct queue *queue, const struct queue_flow *flow);

/* Whether the flow would admit an item of this size. */
bool queue_room(const struct queue *queue, const struct queue_flow *flow, uint32_t size);

/*
 * Bytes in memory that several items share, such as the body of an event, are held once: the caller
 * says when the first of these items is admitted, and when the last one has been released.
 */
void queue_hold(struct queue *queue, size_t bytes);
void queue_let_go(struct queue *queue, size_t bytes);

/* Takes a new item at the flow's end. False: the flow is full, and the item untouched. */
bool queue_admit(struct queue *queue, struct queue_flow *flow, struct queue_item *item);

/* The item that goes out now, or NULL. It is in flight until queue_landed(). */
struct queue_item *queue_take(struct queue *queue, int64_t now_ms);

/* Its attempt is over; it rests until queue_again() or queue_release(). */
void queue_landed(struct queue *queue, struct queue_item *item, bool delivered, int64_t now_ms);

/* It does not go out, after all: it waits before all others of its flow, as if never taken. */
void queue_put_back(struct queue *queue, struct queue_item *item);

/* A waiting item rests as if its attempt were over. */
void queue_rest(struct queue *queue, struct queue_item *item);

/* A resting item is due: it goes before all that waits in its flow. */
void queue_again(struct queue *queue, struct queue_item *item);

/* Lets go of a waiting or resting item. */
void queue_release(struct queue *queue, struct queue_item *item);

/* Opens or closes a flow; what is in flight stays so. */
void queue_close(struct queue *queue, struct queue_flow *flow, bool closed);

/* Demotes flows whose attempts take long. Milliseconds until it is wanted again, or -1. */
int64_t queue_tick(struct queue *queue, int64_t now_ms);

size_t queue_flying(const struct queue *queue);

#endif
