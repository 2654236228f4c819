#include "modules/webhook/sender/queue.h"

/* Bytes a turn: a small delivery or two, or receivers would need more connections. */
#define QUANTUM 1024
#define OVERHEAD 512 /* what a delivery costs beside its bytes */
#define FIRST_CAP 4  /* of a lane that has just proved fast */
#define SLOW_CAP 16
#define NEAR_CAP 4   /* of a lane whose receiver answers within the millisecond … */
#define CAP_PER_MS 2 /* … and for each one that it takes */
#define FAR_MS 20    /* from here on the cap grows by each delivery, else by each round of them */
#define WHILE 64     /* attempts from which the shortest time is taken */
#define NEVER_MS 1000000
#define UNPROVED 8 /* part of the limits up to which a lane may hold unless it is in its stride */

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

static void ring_add(struct queue_lane **ring, struct queue_lane *lane)
{
    lane->ring = ring;
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

/* What is left of its turn is lost; what it had beyond its turn is not forgiven. */
static void ring_remove(struct queue_lane *lane)
{
    struct queue_lane **ring = lane->ring;

    lane->ring = NULL;
    if (lane->deficit > 0)
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
    bool more = lane->class == QUEUE_SLOW && lane->flying;
    struct queue_lane **ring = more ? &queue->more : &queue->ring[lane->class];

    if (lane->ring && (!ready || lane->ring != ring))
        ring_remove(lane);
    if (ready && !lane->ring)
        ring_add(ring, lane);
}

static void move_class(struct queue *queue, struct queue_lane *lane, enum queue_class class,
                       size_t cap)
{
    if (lane->ring)
        ring_remove(lane);
    queue->flying[lane->class] -= lane->flying;
    queue->flying[class] += lane->flying;
    queue->young[lane->class] -= lane->young;
    queue->young[class] += lane->young;
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
    *lane = (struct queue_lane){
        .class = QUEUE_FRESH, .cap = 1, .best_ms = NEVER_MS, .best_before_ms = NEVER_MS};
}

/* One that fails or is slow has one attempt in flight, and holding more would only make bursts. */
static size_t part_of(const struct queue_lane *lane, size_t limit)
{
    bool in_stride = lane->class == QUEUE_FAST && lane->cap > 1;

    return in_stride || limit < UNPROVED ? limit : limit / UNPROVED;
}

size_t queue_lane_items(const struct queue *queue, const struct queue_lane *lane)
{
    return part_of(lane, queue->limits.lane_items);
}

size_t queue_lane_bytes(const struct queue *queue, const struct queue_lane *lane)
{
    return part_of(lane, queue->limits.lane_bytes);
}

bool queue_room(const struct queue *queue, const struct queue_lane *lane, uint32_t size)
{
    const struct queue_limits *limits = &queue->limits;

    if (!lane->held)
        return true;
    if (lane->held >= queue_lane_items(queue, lane) ||
        lane->held_bytes + size > queue_lane_bytes(queue, lane))
        return false;
    return queue->held_bytes + size <= limits->bytes || lane->held < QUEUE_LANE_SURE;
}

bool queue_admit(struct queue *queue, struct queue_lane *lane, struct queue_item *item)
{
    if (!queue_room(queue, lane, item->size))
        return false;
    item->lane = lane;
    item->place = QUEUE_WAITING;
    lane->held++;
    lane->held_bytes += item->size;
    queue->held++;
    queue->held_bytes += item->size - item->shared;
    list_push(&lane->waiting, item);
    lane->waiting_count++;
    ring_settle(queue, lane);
    return true;
}

void queue_hold(struct queue *queue, size_t bytes)
{
    queue->held_bytes += bytes;
}

void queue_let_go(struct queue *queue, size_t bytes)
{
    queue->held_bytes -= bytes;
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
    queue->held_bytes -= item->size - item->shared;
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
    size_t slots = queue->limits.slots;

    return queue->young[class] < slots / (class == QUEUE_FAST ? 2 : 4) &&
           queue_flying(queue) < QUEUE_CROWD * slots;
}

static struct queue_item *take_first(struct queue *queue, struct queue_lane *lane, int64_t now_ms)
{
    struct queue_item *item = lane->waiting.first;

    list_remove(&lane->waiting, item);
    lane->waiting_count--;
    lane->deficit -= (int64_t)item->size + OVERHEAD;
    lane->flying++;
    lane->young++;
    queue->flying[lane->class]++;
    queue->young[lane->class]++;
    item->place = QUEUE_FLYING;
    item->started_ms = now_ms;
    item->age = QUEUE_YOUNG;
    list_push(&queue->aging[QUEUE_YOUNG], item);
    ring_settle(queue, lane);
    return item;
}

/*
 * Deficit round-robin: the lane at the ring's head sends while its deficit lasts, then the next one
 * is at the head with a quantum more. A large body takes several rounds, which are walked here.
 */
static struct queue_item *take(struct queue *queue, struct queue_lane **ring, int64_t now_ms)
{
    struct queue_lane *lane;

    while ((lane = *ring)) {
        if (lane->deficit > 0)
            return take_first(queue, lane, now_ms);
        lane->deficit += QUANTUM;
        *ring = lane->next;
    }
    return NULL;
}

struct queue_item *queue_take(struct queue *queue, int64_t now_ms)
{
    struct queue_item *item = NULL;

    for (int class = 0; class < QUEUE_CLASSES && !item; class ++)
        if (share_left(queue, (enum queue_class) class))
            item = take(queue, &queue->ring[class], now_ms);
    if (!item && share_left(queue, QUEUE_SLOW) &&
        queue->flying[QUEUE_SLOW] < queue->limits.slots / 4)
        item = take(queue, &queue->more, now_ms);
    return item;
}

/* ---- how a lane adapts ------------------------------------------------------------------------
 */

/* One more or, where that is too many by now, no more than that. */
static size_t more(size_t cap, size_t max)
{
    return cap < max ? cap + 1 : max;
}

static void note_time(struct queue_lane *lane, int64_t took_ms)
{
    if (took_ms < lane->best_ms)
        lane->best_ms = took_ms;
    if (++lane->best_of < WHILE)
        return;
    lane->best_before_ms = lane->best_ms;
    lane->best_ms = NEVER_MS;
    lane->best_of = 0;
}

static int64_t best_of(const struct queue_lane *lane)
{
    return lane->best_ms < lane->best_before_ms ? lane->best_ms : lane->best_before_ms;
}

/* What the distance of its receiver asks for, as far as it is known. */
static size_t wanted(const struct queue *queue, const struct queue_lane *lane)
{
    int64_t best = best_of(lane);
    size_t cap = NEAR_CAP + (best == NEVER_MS ? 0 : CAP_PER_MS * (size_t)best);
    size_t most = queue->limits.lane_flying;

    return cap < most ? cap : most;
}

/* After one that was delivered in time. */
static void grow(const struct queue *queue, struct queue_lane *lane)
{
    size_t most = wanted(queue, lane);

    if (lane->cap < most && best_of(lane) < FAR_MS && ++lane->grown_of < lane->cap)
        return;
    lane->grown_of = 0;
    lane->cap = more(lane->cap, most);
}

static void adapt(struct queue *queue, struct queue_lane *lane, bool delivered, bool connected,
                  int64_t took_ms)
{
    size_t half = lane->cap > 1 ? lane->cap / 2 : 1;
    size_t flying = queue->limits.lane_flying;

    if (delivered && !connected)
        note_time(lane, took_ms);
    if (took_ms > QUEUE_SLOW_MS && lane->class != QUEUE_SLOW)
        move_class(queue, lane, QUEUE_SLOW, 1);
    else if (took_ms > QUEUE_SLOW_MS)
        lane->cap = delivered ? more(lane->cap, flying < SLOW_CAP ? flying : SLOW_CAP) : half;
    else if (lane->class != QUEUE_FAST)
        move_class(queue, lane, QUEUE_FAST, flying < FIRST_CAP ? flying : FIRST_CAP);
    else if (delivered)
        grow(queue, lane);
    else
        lane->cap = half;
}

/* Counts the attempt as young no more, and checks its age no more. */
static void grow_old(struct queue *queue, struct queue_item *item)
{
    if (item->age == QUEUE_OLD)
        return;
    list_remove(&queue->aging[item->age], item);
    if (item->age == QUEUE_YOUNG) {
        item->lane->young--;
        queue->young[item->lane->class]--;
    }
    item->age = QUEUE_OLD;
}

void queue_landed(struct queue *queue, struct queue_item *item, bool delivered, int64_t now_ms)
{
    struct queue_lane *lane = item->lane;

    grow_old(queue, item);
    item->place = QUEUE_RESTING;
    lane->flying--;
    queue->flying[lane->class]--;
    adapt(queue, lane, delivered, item->connected, now_ms - item->started_ms);
    ring_settle(queue, lane);
}

void queue_put_back(struct queue *queue, struct queue_item *item)
{
    struct queue_lane *lane = item->lane;

    grow_old(queue, item);
    lane->flying--;
    queue->flying[lane->class]--;
    lane->deficit += (int64_t)item->size + OVERHEAD;
    queue_again(queue, item);
}

/* The oldest attempt of that age if it is older than `ms`; else NULL, and *wait shortened. */
static struct queue_item *overdue(struct queue *queue, enum queue_age age, int64_t ms,
                                  int64_t now_ms, int64_t *wait)
{
    struct queue_item *item = queue->aging[age].first;
    int64_t left = item ? item->started_ms + ms + 1 - now_ms : 0;

    if (!item || left <= 0)
        return item;
    if (*wait < 0 || left < *wait)
        *wait = left;
    return NULL;
}

int64_t queue_tick(struct queue *queue, int64_t now_ms)
{
    struct queue_item *item;
    int64_t wait = -1;

    while ((item = overdue(queue, QUEUE_YOUNG, QUEUE_YOUNG_MS, now_ms, &wait))) {
        grow_old(queue, item);
        item->age = QUEUE_AGED;
        list_push(&queue->aging[QUEUE_AGED], item);
    }
    while ((item = overdue(queue, QUEUE_AGED, QUEUE_SLOW_MS, now_ms, &wait))) {
        grow_old(queue, item);
        if (item->lane->class != QUEUE_SLOW)
            move_class(queue, item->lane, QUEUE_SLOW, 1);
        ring_settle(queue, item->lane);
    }
    return wait;
}
