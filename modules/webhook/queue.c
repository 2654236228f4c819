#include "queue.h"

#define QUANTUM 16384 /* bytes a turn */
#define OVERHEAD 512  /* what a delivery costs beside its bytes */
#define FIRST_CAP 4   /* of a lane that has just proved fast */
#define SLOW_CAP 16

static void list_push(struct queue_list *list, struct queue_item *item)
{
    item->next = NULL;
    item->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = item;
    list->last = item;
}

static void list_push_front(struct queue_list *list, struct queue_item *item)
{
    item->prev = NULL;
    item->next = list->first;
    *(list->first ? &list->first->prev : &list->last) = item;
    list->first = item;
}

static void list_remove(struct queue_list *list, struct queue_item *item)
{
    *(item->prev ? &item->prev->next : &list->first) = item->next;
    *(item->next ? &item->next->prev : &list->last) = item->prev;
    item->next = item->prev = NULL;
}

/* ---- rings: the lanes of a class that have something to send and may ------------------------- */

static void ring_add(struct queue *queue, struct queue_lane *lane)
{
    struct queue_lane **ring = &queue->ring[lane->class];

    lane->ringed = true;
    if (!*ring) {
        lane->next = lane->prev = lane;
        *ring = lane;
        return;
    }
    lane->next = *ring; /* the last to have its turn */
    lane->prev = (*ring)->prev;
    lane->prev->next = lane;
    lane->next->prev = lane;
}

static void ring_remove(struct queue *queue, struct queue_lane *lane)
{
    struct queue_lane **ring = &queue->ring[lane->class];

    lane->ringed = false;
    lane->deficit = 0;
    if (*ring == lane)
        *ring = lane->next == lane ? NULL : lane->next;
    lane->prev->next = lane->next;
    lane->next->prev = lane->prev;
}

/* Puts the lane in its ring or takes it out, as things stand. */
static void ring_settle(struct queue *queue, struct queue_lane *lane)
{
    bool ready = !lane->closed && lane->waiting_count && lane->flying < lane->cap;

    if (ready && !lane->ringed)
        ring_add(queue, lane);
    else if (!ready && lane->ringed)
        ring_remove(queue, lane);
}

static void move_class(struct queue *queue, struct queue_lane *lane, enum queue_class class,
                       size_t cap)
{
    if (lane->ringed)
        ring_remove(queue, lane);
    queue->flying[lane->class] -= lane->flying;
    queue->flying[class] += lane->flying;
    lane->class = class;
    lane->cap = cap;
}

/* ---- items ----------------------------------------------------------------------------------- */

void queue_init(struct queue *queue, const struct queue_limits *limits)
{
    *queue = (struct queue){.limits = *limits};
    if (queue->limits.slots < 4)
        queue->limits.slots = 4;
}

void queue_lane_init(struct queue_lane *lane)
{
    *lane = (struct queue_lane){.class = QUEUE_FRESH, .cap = 1};
}

bool queue_room(const struct queue *queue, const struct queue_lane *lane, uint32_t size)
{
    const struct queue_limits *limits = &queue->limits;

    if (!lane->held)
        return true;
    if (lane->held >= limits->lane_items || lane->held_bytes + size > limits->lane_bytes)
        return false;
    return queue->held_bytes + size <= limits->bytes || lane->held < QUEUE_LANE_SURE;
}

bool queue_admit(struct queue *queue, struct queue_lane *lane, struct queue_item *item)
{
    if (!queue_room(queue, lane, item->size))
        return false;
    item->lane = lane;
    item->place = QUEUE_WAITING;
    item->young = false;
    lane->held++;
    lane->held_bytes += item->size;
    queue->held++;
    queue->held_bytes += item->size;
    list_push(&lane->waiting, item);
    lane->waiting_count++;
    ring_settle(queue, lane);
    return true;
}

static void leave_lane(struct queue_lane *lane, struct queue_item *item)
{
    list_remove(&lane->waiting, item);
    lane->waiting_count--;
}

void queue_rest(struct queue *queue, struct queue_item *item)
{
    leave_lane(item->lane, item);
    item->place = QUEUE_RESTING;
    ring_settle(queue, item->lane);
}

void queue_again(struct queue *queue, struct queue_item *item)
{
    struct queue_lane *lane = item->lane;

    item->place = QUEUE_WAITING;
    list_push_front(&lane->waiting, item);
    lane->waiting_count++;
    ring_settle(queue, lane);
}

void queue_release(struct queue *queue, struct queue_item *item)
{
    struct queue_lane *lane = item->lane;

    if (item->place == QUEUE_WAITING)
        leave_lane(lane, item);
    item->place = QUEUE_OUT;
    lane->held--;
    lane->held_bytes -= item->size;
    queue->held--;
    queue->held_bytes -= item->size;
    ring_settle(queue, lane);
}

void queue_close(struct queue *queue, struct queue_lane *lane, bool closed)
{
    lane->closed = closed;
    ring_settle(queue, lane);
}

size_t queue_flying(const struct queue *queue)
{
    return queue->flying[QUEUE_FAST] + queue->flying[QUEUE_FRESH] + queue->flying[QUEUE_SLOW];
}

/* ---- who goes next --------------------------------------------------------------------------- */

/* Whether the class may start one more. */
static bool share_left(const struct queue *queue, enum queue_class class)
{
    size_t slots = queue->limits.slots, fresh = queue->flying[QUEUE_FRESH],
           slow = queue->flying[QUEUE_SLOW];

    if (class == QUEUE_FAST)
        return queue->flying[QUEUE_FAST] < slots / 2 && queue_flying(queue) < 2 * slots;
    if (class == QUEUE_FRESH)
        return fresh < slots / 4 && fresh + slow < slots / 2;
    return slow < slots / 4 && fresh + slow < slots / 2;
}

static struct queue_item *take_first(struct queue *queue, struct queue_lane *lane, int64_t now_ms)
{
    struct queue_item *item = lane->waiting.first;

    list_remove(&lane->waiting, item);
    lane->waiting_count--;
    lane->deficit -= (int64_t)item->size + OVERHEAD;
    lane->flying++;
    queue->flying[lane->class]++;
    item->place = QUEUE_FLYING;
    item->started_ms = now_ms;
    item->young = true;
    list_push(&queue->young, item);
    ring_settle(queue, lane);
    return item;
}

/*
 * Deficit round-robin: the lane at the ring's head sends while its deficit lasts, then the next one
 * is at the head with a quantum more. A large body takes several rounds, which are walked here.
 */
static struct queue_item *take(struct queue *queue, enum queue_class class, int64_t now_ms)
{
    struct queue_lane *lane;

    if (!share_left(queue, class))
        return NULL;
    while ((lane = queue->ring[class])) {
        if (lane->deficit > 0)
            return take_first(queue, lane, now_ms);
        lane->deficit += QUANTUM;
        queue->ring[class] = lane->next;
    }
    return NULL;
}

struct queue_item *queue_take(struct queue *queue, int64_t now_ms)
{
    struct queue_item *item = NULL;

    for (int class = 0; class < QUEUE_CLASSES && !item; class ++)
        item = take(queue, (enum queue_class) class, now_ms);
    return item;
}

/* ---- how a lane adapts ------------------------------------------------------------------------
 */

static size_t more(size_t cap, size_t max)
{
    return cap < max ? cap + 1 : max;
}

static void adapt(struct queue *queue, struct queue_lane *lane, bool delivered, int64_t took_ms)
{
    size_t half = lane->cap > 1 ? lane->cap / 2 : 1;
    size_t flying = queue->limits.lane_flying;

    if (took_ms > QUEUE_SLOW_MS && lane->class != QUEUE_SLOW)
        move_class(queue, lane, QUEUE_SLOW, 1);
    else if (took_ms > QUEUE_SLOW_MS)
        lane->cap = delivered ? more(lane->cap, flying < SLOW_CAP ? flying : SLOW_CAP) : half;
    else if (lane->class != QUEUE_FAST)
        move_class(queue, lane, QUEUE_FAST, flying < FIRST_CAP ? flying : FIRST_CAP);
    else
        lane->cap = delivered ? more(lane->cap, flying) : half;
}

void queue_landed(struct queue *queue, struct queue_item *item, bool delivered, int64_t now_ms)
{
    struct queue_lane *lane = item->lane;

    if (item->young)
        list_remove(&queue->young, item);
    item->young = false;
    item->place = QUEUE_RESTING;
    lane->flying--;
    queue->flying[lane->class]--;
    adapt(queue, lane, delivered, now_ms - item->started_ms);
    ring_settle(queue, lane);
}

int64_t queue_tick(struct queue *queue, int64_t now_ms)
{
    struct queue_item *item;

    while ((item = queue->young.first)) {
        struct queue_lane *lane = item->lane;

        if (now_ms - item->started_ms <= QUEUE_SLOW_MS)
            return item->started_ms + QUEUE_SLOW_MS + 1 - now_ms;
        list_remove(&queue->young, item);
        item->young = false;
        if (lane->class != QUEUE_SLOW)
            move_class(queue, lane, QUEUE_SLOW, 1);
        ring_settle(queue, lane);
    }
    return -1;
}
