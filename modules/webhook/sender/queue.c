#include "modules/webhook/sender/queue.h"

/* Bytes per turn of a flow. Larger turns would be bursts, which need more connections. */
#define QUANTUM 1024
#define OVERHEAD 512 /* cost of a delivery in addition to its bytes */
#define FIRST_CAP 4  /* cap of a flow that has just become fast */
#define SLOW_CAP 16
#define NEAR_CAP 4    /* added to the number in flight that a fast flow's traffic needs */
#define RATE_MAX 2    /* limit of a flow's rate, in deliveries per millisecond */
#define DRAIN_MS 1000 /* time in which a flow's waiting items should be sent */
#define FAR_MS 20     /* below this mean time, only every `cap`-th delivery raises the cap */
#define WHILE 64      /* deliveries per struct queue_pace */
#define SURE 8        /* deliveries after which their mean decides if a flow stays slow */
#define UNPROVED 8    /* divides the limits of a flow that is not fast, or fails */

/* ---- rings: the flows of a class that may send and have something to send ------------------- */

/* Removes a flow from its ring. A positive deficit of bytes is lost, a negative one stays. */
static void queue_leave_ring(struct queue_flow *flow)
{
    if (!flow->ring)
        return;
    TAILQ_REMOVE(flow->ring, flow, next);
    flow->ring = NULL;
    if (flow->deficit > 0)
        flow->deficit = 0;
}

/* Adds the flow to the end of its ring if it may send and has items; otherwise removes it. */
static void queue_settle(struct queue *queue, struct queue_flow *flow)
{
    bool ready = !flow->closed && flow->waiting_count && flow->flying < flow->cap;
    bool more = flow->class == QUEUE_SLOW && flow->flying;
    struct queue_ring *ring = more ? &queue->more : &queue->rings[flow->class];

    if (!ready || flow->ring != ring)
        queue_leave_ring(flow);
    if (!ready || flow->ring)
        return;
    TAILQ_INSERT_TAIL(ring, flow, next);
    flow->ring = ring;
}

static void queue_move_class(struct queue *queue, struct queue_flow *flow, enum queue_class class,
                             size_t cap)
{
    queue_leave_ring(flow);
    queue->flying[flow->class] -= flow->flying;
    queue->flying[class] += flow->flying;
    queue->young[flow->class] -= flow->young;
    queue->young[class] += flow->young;
    flow->class = class;
    flow->cap = cap;
}

/* ---- items ---------------------------------------------------------------------------------- */

void queue_init(struct queue *queue, const struct queue_limits *limits)
{
    *queue = (struct queue){.limits = *limits};
    for (int i = 0; i < QUEUE_CLASSES; i++)
        TAILQ_INIT(&queue->rings[i]);
    TAILQ_INIT(&queue->more);
    for (int i = 0; i < QUEUE_AGES; i++)
        TAILQ_INIT(&queue->aging[i]);
}

void queue_flow_init(struct queue_flow *flow)
{
    *flow = (struct queue_flow){.class = QUEUE_FRESH, .cap = 1};
    TAILQ_INIT(&flow->waiting);
}

/* A flow that is new, slow or failing may hold an eighth of `limit`; more would cause bursts. */
size_t queue_part(const struct queue_flow *flow, size_t limit)
{
    bool in_stride = flow->class == QUEUE_FAST && flow->cap > 1;

    return in_stride || limit < UNPROVED ? limit : limit / UNPROVED;
}

bool queue_room(const struct queue *queue, const struct queue_flow *flow, uint32_t size)
{
    if (!flow->held)
        return true;
    if (flow->held >= queue_part(flow, queue->limits.flow_items) ||
        flow->held_bytes + size > queue_part(flow, queue->limits.flow_bytes))
        return false;
    return queue->held_bytes + size <= queue->limits.bytes || flow->held < QUEUE_FLOW_SURE;
}

/* Adds an item at the end (`last`) or head of its group. The group of low items comes last. */
static void queue_insert(struct queue_flow *flow, struct queue_item *item, bool last)
{
    item->place = QUEUE_WAITING;
    flow->waiting_count++;
    if (!last && !item->low)
        TAILQ_INSERT_HEAD(&flow->waiting, item, next);
    else if (flow->low && !(last && item->low))
        TAILQ_INSERT_BEFORE(flow->low, item, next);
    else
        TAILQ_INSERT_TAIL(&flow->waiting, item, next);
    if (item->low && (!last || !flow->low))
        flow->low = item;
}

bool queue_admit(struct queue *queue, struct queue_flow *flow, struct queue_item *item)
{
    if (!queue_room(queue, flow, item->size))
        return false;
    item->flow = flow;
    flow->held++;
    flow->held_bytes += item->size;
    queue->held_bytes += item->size - item->shared;
    queue_insert(flow, item, true);
    queue_settle(queue, flow);
    return true;
}

static void queue_leave_flow(struct queue_flow *flow, struct queue_item *item)
{
    if (flow->low == item)
        flow->low = TAILQ_NEXT(item, next);
    TAILQ_REMOVE(&flow->waiting, item, next);
    flow->waiting_count--;
}

void queue_again(struct queue *queue, struct queue_item *item)
{
    struct queue_flow *flow = item->flow;

    queue_insert(flow, item, false);
    queue_settle(queue, flow);
}

void queue_release(struct queue *queue, struct queue_item *item)
{
    struct queue_flow *flow = item->flow;

    if (item->place == QUEUE_WAITING)
        queue_leave_flow(flow, item);
    item->place = QUEUE_OUT;
    flow->held--;
    flow->held_bytes -= item->size;
    queue->held_bytes -= item->size - item->shared;
    queue_settle(queue, flow);
}

void queue_close(struct queue *queue, struct queue_flow *flow, bool closed)
{
    flow->closed = closed;
    queue_settle(queue, flow);
}

size_t queue_flying(const struct queue *queue)
{
    return queue->flying[QUEUE_FAST] + queue->flying[QUEUE_FRESH] + queue->flying[QUEUE_SLOW];
}

/* ---- selecting the next item ---------------------------------------------------------------- */

/* Returns whether the class may start one more attempt. */
static bool queue_has_share(const struct queue *queue, enum queue_class class)
{
    size_t slots = queue->limits.slots;

    return queue->young[class] < slots / (class == QUEUE_FAST ? 2 : 4) &&
           queue_flying(queue) < QUEUE_CROWD * slots;
}

/*
 * Deficit round-robin: the flow at the ring's head sends while its byte credit (`deficit`) is
 * positive; otherwise the credit grows by a quantum, and the flow moves to the end. After a large
 * body a flow may need several quanta; this loop gives them at once.
 */
static struct queue_item *queue_take_of(struct queue *queue, struct queue_ring *ring,
                                        int64_t now_ms)
{
    struct queue_flow *flow;

    while ((flow = TAILQ_FIRST(ring)) && flow->deficit <= 0) {
        flow->deficit += QUANTUM;
        TAILQ_REMOVE(ring, flow, next);
        TAILQ_INSERT_TAIL(ring, flow, next);
    }
    if (!flow)
        return NULL;
    struct queue_item *item = TAILQ_FIRST(&flow->waiting);

    queue_leave_flow(flow, item);
    flow->deficit -= (int64_t)item->size + OVERHEAD;
    flow->flying++;
    flow->young++;
    queue->flying[flow->class]++;
    queue->young[flow->class]++;
    item->place = QUEUE_FLYING;
    item->started_ms = now_ms;
    item->age = QUEUE_YOUNG;
    TAILQ_INSERT_TAIL(&queue->aging[QUEUE_YOUNG], item, next);
    queue_settle(queue, flow);
    return item;
}

struct queue_item *queue_take(struct queue *queue, int64_t now_ms)
{
    struct queue_item *item = NULL;

    for (int class = 0; class < QUEUE_CLASSES && !item; class ++)
        if (queue_has_share(queue, (enum queue_class) class))
            item = queue_take_of(queue, &queue->rings[class], now_ms);
    if (!item && queue_has_share(queue, QUEUE_SLOW) &&
        queue->flying[QUEUE_SLOW] < queue->limits.slots / 4)
        item = queue_take_of(queue, &queue->more, now_ms);
    return item;
}

/* ---- how a flow adapts ---------------------------------------------------------------------- */

static double queue_mean_ms(const struct queue_flow *flow)
{
    unsigned count = flow->now.count + flow->before.count;

    return count ? (double)(flow->now.took_ms + flow->before.took_ms) / count : 0;
}

/*
 * Moves the cap toward the number in flight that the flow's traffic needs. Called after a delivery
 * that took up to QUEUE_SLOW_MS. Lowers at once a cap that is too high; otherwise adds 1.
 */
static void queue_grow(const struct queue *queue, struct queue_flow *flow, int64_t now_ms)
{
    const struct queue_pace *first = flow->before.count ? &flow->before : &flow->now;
    int64_t elapsed_ms = now_ms - first->since_ms;
    double sent = elapsed_ms > 0
                      ? (double)(flow->now.count + flow->before.count) / (double)elapsed_ms
                      : RATE_MAX;
    double rate = sent + (double)flow->waiting_count / DRAIN_MS; /* per millisecond */
    double mean_ms = queue_mean_ms(flow);
    size_t most = NEAR_CAP + (size_t)((rate < RATE_MAX ? rate : RATE_MAX) * mean_ms + 0.5);

    if (most > queue->limits.flow_flying)
        most = queue->limits.flow_flying;
    if (flow->cap < most && mean_ms < FAR_MS && ++flow->grown_of < flow->cap)
        return;
    flow->grown_of = 0;
    flow->cap = flow->cap < most ? flow->cap + 1 : most;
}

/* Stops counting the attempt as young, and stops checking its age. */
static void queue_grow_old(struct queue *queue, struct queue_item *item)
{
    if (item->age == QUEUE_OLD)
        return;
    TAILQ_REMOVE(&queue->aging[item->age], item, next);
    if (item->age == QUEUE_YOUNG) {
        item->flow->young--;
        queue->young[item->flow->class]--;
    }
    item->age = QUEUE_OLD;
}

void queue_finished(struct queue *queue, struct queue_item *item, bool delivered, int64_t now_ms)
{
    struct queue_flow *flow = item->flow;
    int64_t took_ms = now_ms - item->started_ms;
    size_t half = flow->cap > 1 ? flow->cap / 2 : 1, flying = queue->limits.flow_flying;
    size_t most = flying < SLOW_CAP ? flying : SLOW_CAP; /* maximum cap of a slow flow */

    queue_grow_old(queue, item);
    item->place = QUEUE_RESTING;
    flow->flying--;
    queue->flying[flow->class]--;
    if (delivered) {
        if (!flow->now.count)
            flow->now.since_ms = item->started_ms;
        flow->now.took_ms += took_ms;
        if (++flow->now.count == WHILE) {
            flow->before = flow->now;
            flow->now = (struct queue_pace){.since_ms = now_ms};
        }
    }
    /* If only some responses of a receiver are fast, each change of the class would lower the cap
     * again. So a slow flow remains slow until its mean is fast, too. */
    bool stays = flow->class == QUEUE_SLOW && flow->now.count + flow->before.count >= SURE &&
                 queue_mean_ms(flow) > QUEUE_SLOW_MS;
    bool slow = took_ms > QUEUE_SLOW_MS || stays;

    if (slow && flow->class != QUEUE_SLOW)
        queue_move_class(queue, flow, QUEUE_SLOW, 1);
    else if (slow)
        flow->cap = !delivered ? half : flow->cap < most ? flow->cap + 1 : most;
    else if (flow->class != QUEUE_FAST)
        queue_move_class(queue, flow, QUEUE_FAST, flying < FIRST_CAP ? flying : FIRST_CAP);
    else if (delivered)
        queue_grow(queue, flow, now_ms);
    else
        flow->cap = half;
    queue_settle(queue, flow);
}

void queue_put_back(struct queue *queue, struct queue_item *item)
{
    struct queue_flow *flow = item->flow;

    queue_grow_old(queue, item);
    flow->flying--;
    queue->flying[flow->class]--;
    flow->deficit += (int64_t)item->size + OVERHEAD;
    queue_again(queue, item);
}

/* Returns the oldest item in aging[age] if older than `ms`. Else lowers *wait to the ms left. */
static struct queue_item *queue_overdue(struct queue *queue, enum queue_age age, int64_t ms,
                                        int64_t now_ms, int64_t *wait)
{
    struct queue_item *item = TAILQ_FIRST(&queue->aging[age]);
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

    while ((item = queue_overdue(queue, QUEUE_YOUNG, QUEUE_YOUNG_MS, now_ms, &wait))) {
        queue_grow_old(queue, item);
        item->age = QUEUE_AGED;
        TAILQ_INSERT_TAIL(&queue->aging[QUEUE_AGED], item, next);
    }
    while ((item = queue_overdue(queue, QUEUE_AGED, QUEUE_SLOW_MS, now_ms, &wait))) {
        queue_grow_old(queue, item);
        if (item->flow->class != QUEUE_SLOW)
            queue_move_class(queue, item->flow, QUEUE_SLOW, 1);
        queue_settle(queue, item->flow);
    }
    return wait;
}
