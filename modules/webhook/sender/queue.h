/*
 * Admission control of the sender: selects the delivery to send next. A flow is a webhook's queue,
 * with a separate budget; an item is a delivery. The queue links items but does not own them.
 *
 * A flow is in one of three classes, depending on how long its receiver takes. Each class has a
 * share of the slots, so that nobody is delayed by another's receiver:
 *
 *   fast   answered within QUEUE_SLOW_MS last time       half of the slots; cap grows
 *   fresh  no attempt yet: one delivery at a time        a quarter
 *   slow   took longer, or is taking longer now          a quarter; cap 1, growing
 *
 * The cap of a fast flow grows as needed for its traffic: by Little's law the number in flight is
 * the rate times the mean time of an attempt. A receiver that answers at once needs few connections
 * for a high rate, and a distant receiver needs many. The rate is the rate of recent deliveries
 * plus the rate that would send the waiting items within a second.
 *
 * An attempt uses a slot only while it is young. An attempt older than QUEUE_YOUNG_MS waits for its
 * receiver and does not count against its class any more, so hanging receivers, however many, delay
 * others only briefly; after QUEUE_SLOW_MS its flow is demoted. So more than `slots` attempts may
 * be in flight, up to QUEUE_CROWD times as many. The same rule lets every slow flow have one
 * attempt in flight; all attempts beyond the first of each slow flow share a quarter of the slots,
 * young or not.
 *
 * Within a class, flows take turns by deficit round-robin over bytes.
 *
 * A flow may hold a limited number of items and bytes; queue_admit() refuses more, and they stay in
 * the table. A flow that is not fast, or fails, may hold an eighth of that. Items between two
 * attempts (resting) count as held.
 *
 * One thread. No system calls; the caller passes the time, in milliseconds of the monotonic clock.
 */
#ifndef WEBHOOK_QUEUE_H
#define WEBHOOK_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define QUEUE_YOUNG_MS 100
#define QUEUE_SLOW_MS 500
#define QUEUE_CROWD 8     /* times the slots: maximum in flight */
#define QUEUE_FLOW_SURE 8 /* items that every flow may hold, whatever the others do */

enum queue_class { QUEUE_FAST, QUEUE_FRESH, QUEUE_SLOW, QUEUE_CLASSES };
enum queue_age { QUEUE_YOUNG, QUEUE_AGED, QUEUE_OLD, QUEUE_AGES = QUEUE_OLD };
enum queue_place { QUEUE_OUT, QUEUE_WAITING, QUEUE_FLYING, QUEUE_RESTING };

struct queue_item {
    TAILQ_ENTRY(queue_item) next; /* waiting: in the flow; flying and not old: in the queue */
    struct queue_flow *flow;
    int64_t started_ms;
    uint32_t size;   /* bytes to send; set before queue_admit() */
    uint32_t shared; /* the part of `size` that other items hold too: see queue_hold() */
    enum queue_place place;
    enum queue_age age; /* of the attempt in flight, at the last queue_tick() */
};

TAILQ_HEAD(queue_list, queue_item);
TAILQ_HEAD(queue_ring, queue_flow);

struct queue_pace {
    int64_t since_ms;
    int64_t took_ms; /* sum of all attempts */
    unsigned count;
};

struct queue_flow {
    TAILQ_ENTRY(queue_flow) next; /* in the ring of its class while it may send */
    struct queue_list waiting;
    size_t waiting_count;
    size_t flying;
    size_t young; /* part of `flying` */
    size_t held;  /* waiting, flying and resting */
    size_t held_bytes;
    size_t cap;                    /* maximum in flight; adapts */
    struct queue_pace now, before; /* attempts of the current interval, and of the previous one */
    size_t grown_of;               /* delivered since the cap grew */
    int64_t deficit;
    enum queue_class class;
    struct queue_ring *ring; /* the ring that it is in; NULL: none */
    bool closed;             /* paused: nothing is sent */
};

struct queue_limits {
    size_t slots;       /* for young attempts of all flows; see above */
    size_t flow_flying; /* in flight, one flow */
    size_t flow_items;  /* held by one flow */
    size_t flow_bytes;  /* the same; one item is always admitted */
    size_t bytes;       /* held by all flows; beyond it a flow may hold QUEUE_FLOW_SURE items */
};

struct queue {
    struct queue_limits limits;
    size_t flying[QUEUE_CLASSES];
    size_t young[QUEUE_CLASSES]; /* part of `flying` */
    size_t held;
    size_t held_bytes;                      /* shared bytes count once */
    struct queue_ring rings[QUEUE_CLASSES]; /* slow: flows with nothing in flight */
    struct queue_ring more;                 /* slow flows that want a further attempt */
    struct queue_list aging[QUEUE_AGES];    /* in flight, oldest first */
};

void queue_init(struct queue *queue, const struct queue_limits *limits);
void queue_flow_init(struct queue_flow *flow);

/* The number of items and bytes that the flow may hold now. */
size_t queue_flow_items(const struct queue *queue, const struct queue_flow *flow);
size_t queue_flow_bytes(const struct queue *queue, const struct queue_flow *flow);

/* Returns whether the flow would admit an item of this size. */
bool queue_room(const struct queue *queue, const struct queue_flow *flow, uint32_t size);

/*
 * Bytes in memory that several items share, such as the body of an event, count once. Call
 * queue_hold() when the first of these items is admitted, and queue_let_go() when the last has been
 * released.
 */
void queue_hold(struct queue *queue, size_t bytes);
void queue_let_go(struct queue *queue, size_t bytes);

/* Appends a new item to the flow. Returns false, with the item unchanged, if the flow is full. */
bool queue_admit(struct queue *queue, struct queue_flow *flow, struct queue_item *item);

/* Returns the item to send now, or NULL. It is in flight until queue_finished(). */
struct queue_item *queue_take(struct queue *queue, int64_t now_ms);

/* The item's attempt has ended; the item rests until queue_again() or queue_release(). */
void queue_finished(struct queue *queue, struct queue_item *item, bool delivered, int64_t now_ms);

/* The item is not sent after all: it becomes the first waiting item again, as if never taken. */
void queue_put_back(struct queue *queue, struct queue_item *item);

/* A resting item is due: it becomes the first waiting item of its flow. */
void queue_again(struct queue *queue, struct queue_item *item);

/* Removes a waiting or resting item. */
void queue_release(struct queue *queue, struct queue_item *item);

/* Opens or closes a flow; attempts in flight continue. */
void queue_close(struct queue *queue, struct queue_flow *flow, bool closed);

/*
 * Demotes flows whose attempts take long. Returns the milliseconds until the next call is needed,
 * or -1.
 */
int64_t queue_tick(struct queue *queue, int64_t now_ms);

size_t queue_flying(const struct queue *queue);

#endif
