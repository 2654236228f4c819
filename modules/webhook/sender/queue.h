/*
 * Admission control of the sender: selects the delivery to send next. A flow is the queue of one
 * webhook, with a separate budget; an item is a delivery. The queue links items but does not own
 * them.
 *
 * A flow is in one of three classes, depending on how long its attempts take. Each class has a
 * share of the slots, so that a slow receiver does not delay the deliveries to other receivers:
 *
 *   fast   the last attempt ended within QUEUE_SLOW_MS     half of the slots; cap grows
 *   fresh  no attempt yet: one delivery at a time          a quarter
 *   slow   an attempt takes or took longer, or so does     a quarter; cap 1, growing
 *          the mean of eight or more deliveries
 *
 * The cap of a fast flow grows with its traffic: by Little's law the number in flight is the rate
 * times the mean time of an attempt. A receiver that responds at once needs few connections for a
 * high rate, and a distant receiver needs many. The rate is the rate of recent deliveries plus the
 * rate that would send the waiting items within a second.
 *
 * An attempt uses a slot only while it is young (for QUEUE_YOUNG_MS), so hanging receivers, however
 * many, delay other flows only briefly. After QUEUE_SLOW_MS the flow of the attempt becomes slow.
 * More than `slots` attempts may be in flight, up to QUEUE_CROWD times as many. Every slow flow may
 * have one attempt in flight. A slow flow may have more only while all slow flows together have
 * fewer attempts in flight, young or not, than a quarter of the slots.
 *
 * Within a class, flows take turns by deficit round-robin over bytes.
 *
 * A flow may hold a limited number of items and bytes. queue_admit() refuses further items, which
 * stay in the database. A flow that is not fast, or fails, may hold an eighth of the limits. Items
 * between two attempts (resting) count as held.
 *
 * Only one thread may use a queue. The caller passes the time, in ms of the monotonic clock.
 */
#ifndef WEBHOOK_QUEUE_H
#define WEBHOOK_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define QUEUE_YOUNG_MS 100
#define QUEUE_SLOW_MS 500
#define QUEUE_CROWD 8     /* maximum in flight, as a multiple of the slots */
#define QUEUE_FLOW_SURE 8 /* items that every flow may hold, whatever other flows hold */

enum queue_class { QUEUE_FAST, QUEUE_FRESH, QUEUE_SLOW, QUEUE_CLASSES };
enum queue_age { QUEUE_YOUNG, QUEUE_AGED, QUEUE_OLD, QUEUE_AGES = QUEUE_OLD };
enum queue_place { QUEUE_OUT, QUEUE_WAITING, QUEUE_FLYING, QUEUE_RESTING };

struct queue_item {
    TAILQ_ENTRY(queue_item) next; /* in the flow's `waiting`, or in `aging` of the queue */
    struct queue_flow *flow;
    int64_t started_ms;
    uint32_t size;   /* bytes in memory, mostly the body; set before queue_admit() */
    uint32_t shared; /* part of `size` that several items share in memory */
    bool low;        /* sent after the flow's other items; set before queue_admit() */
    enum queue_place place;
    enum queue_age age; /* of the attempt in flight, at the last queue_tick() */
};

TAILQ_HEAD(queue_list, queue_item);
TAILQ_HEAD(queue_ring, queue_flow);

struct queue_pace {
    int64_t since_ms;
    int64_t took_ms; /* sum of the durations */
    unsigned count;
};

struct queue_flow {
    TAILQ_ENTRY(queue_flow) next; /* in the ring of its class while it may send */
    struct queue_list waiting;
    struct queue_item *low; /* the first waiting low item; all items after it are low; NULL: none */
    size_t waiting_count;
    size_t flying;
    size_t young; /* in flight for up to QUEUE_YOUNG_MS */
    size_t held;  /* waiting, flying and resting */
    size_t held_bytes;
    size_t cap;                    /* maximum in flight; adapts */
    struct queue_pace now, before; /* successes of the current interval, and of the previous one */
    size_t grown_of;               /* deliveries since the cap grew */
    int64_t deficit;
    enum queue_class class;
    struct queue_ring *ring; /* the ring that the flow is in; NULL: none */
    bool closed;             /* paused: nothing is sent */
};

struct queue_limits {
    size_t slots;       /* for young attempts of all flows; at least 4; see above */
    size_t flow_flying; /* attempts in flight for one flow */
    size_t flow_items;  /* held by one flow */
    size_t flow_bytes;  /* held by one flow; one item is always admitted */
    size_t bytes;       /* held by all flows, in addition to QUEUE_FLOW_SURE items per flow */
};

struct queue {
    struct queue_limits limits;
    size_t flying[QUEUE_CLASSES];
    size_t young[QUEUE_CLASSES]; /* in flight for up to QUEUE_YOUNG_MS */
    /* Shared bytes, such as the body of an event, count once: the caller adds them when the first
     * of their items is admitted, and subtracts them when the last has been released. */
    size_t held_bytes;
    struct queue_ring rings[QUEUE_CLASSES]; /* flows that may send, except those in `more` */
    struct queue_ring more;                 /* slow flows that already have attempts in flight */
    struct queue_list aging[QUEUE_AGES];    /* items in flight that are not old, oldest first */
};

void queue_init(struct queue *queue, const struct queue_limits *limits);
void queue_flow_init(struct queue_flow *flow);

/* Returns how much of a limit (flow_items or flow_bytes) the flow may hold now. */
size_t queue_part(const struct queue_flow *flow, size_t limit);

/* Returns whether the flow would admit an item of this size. */
bool queue_room(const struct queue *queue, const struct queue_flow *flow, uint32_t size);

/* Adds a new item at the end of the flow, or before the low items if it is not low. Returns false
 * if the flow is full; the item is unchanged then. */
bool queue_admit(struct queue *queue, struct queue_flow *flow, struct queue_item *item);

/* Returns the item to send now, or NULL. The item is in flight until queue_finished(). */
struct queue_item *queue_take(struct queue *queue, int64_t now_ms);

/* Ends the item's attempt. The item rests until queue_again() or queue_release(). */
void queue_finished(struct queue *queue, struct queue_item *item, bool delivered, int64_t now_ms);

/* Reverses queue_take() for an item that was not sent: puts the item at the head of its flow. */
void queue_put_back(struct queue *queue, struct queue_item *item);

/* Moves a resting item to the head of its flow; a low item goes to the head of the low items. */
void queue_again(struct queue *queue, struct queue_item *item);

/* Removes a waiting or resting item. */
void queue_release(struct queue *queue, struct queue_item *item);

/* Opens or closes a flow; attempts in flight continue. */
void queue_close(struct queue *queue, struct queue_flow *flow, bool closed);

/*
 * Demotes flows whose attempts take long. Returns the milliseconds until the next call is needed;
 * -1: not before another attempt starts.
 */
int64_t queue_tick(struct queue *queue, int64_t now_ms);

size_t queue_flying(const struct queue *queue);

#endif
