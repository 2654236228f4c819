/*
 * Claims deliveries that are in nobody's memory because they did not fit, were given back, were
 * orphaned or are sent again. The sender learns from notifications, and from a scan of the table
 * every few seconds, which webhooks have such deliveries. They are claimed in the order of their
 * ids as memory becomes free, up to some hundred per statement.
 */
#include "modules/webhook/sender/internal.h"

#define CLAIMS 3 /* at a time */
#define CLAIM_MAX 512
#define CLAIM_BYTES (1 << 20) /* limit per statement; only the first delivery may exceed it */
#define AGAIN_MS 500

struct claim {
    struct db_task db_task;
    struct subscription *subscription;
    int64_t owner, count, bytes, max_age_ms, behind;
    bool none;
    struct delivery *first, **end;
};

/*
 * $1 owner, $2 webhook, $3 number of deliveries, $4 bytes, $5 age in ms, $6 last id claimed. The
 * order is the order of the index; with an order by id alone PostgreSQL would sort all waiting
 * deliveries, because it does not treat IS NULL as an equality.
 */
static const struct bb_sql take = {
    "WITH c AS (SELECT id, coalesce(octet_length(body), (SELECT octet_length(b.body)"
    " FROM webhook_body b WHERE b.id = body_id)) AS size FROM webhook_delivery"
    " WHERE owner IS NULL AND webhook = $2::bigint AND state = 'queued'"
    " AND id > $6::bigint AND queued_at > now() - make_interval(secs => $5::bigint / 1000.0)"
    " ORDER BY owner, webhook, id LIMIT $3::bigint FOR UPDATE SKIP LOCKED),"
    " p AS (SELECT id, sum(size) OVER (ORDER BY id) - size AS before FROM c)"
    " UPDATE webhook_delivery d SET owner = $1::bigint FROM p"
    " WHERE d.webhook = $2::bigint AND d.id = p.id AND p.before < $4::bigint"
    " AND d.id BETWEEN (SELECT min(id) FROM c) AND (SELECT max(id) FROM c)"
    " RETURNING d.id, d.tries, d.event_id, d.event, d.body, d.body_id,"
    " round(date_part('epoch', d.next_at - now()) * 1000)::bigint,"
    " round(date_part('epoch', now() - d.queued_at) * 1000)::bigint, d.traceparent",
    BB_SQL_WRITE | BB_SQL_LONG, /* it reads the bodies, so no short read should wait for it */
};

enum { ID, TRIES, EVENT_ID, EVENT, BODY, BODY_ID, DELAY_MS, AGE_MS, TRACE };

/*
 * Reads the large bodies of claimed deliveries that are in nobody's memory, within the bytes
 * allowed by `take`.
 */
static const struct bb_sql read_bodies = {
    "SELECT id, body FROM webhook_body WHERE id = ANY($1::bigint[])",
    BB_SQL_LONG,
};

/* Returns the text of one of these bodies; NULL: not found. */
static const char *text_of(struct bb_request *rq, const struct bb_rows *bodies, int64_t id,
                           size_t *length)
{
    for (size_t row = 0; bodies && row < bb_count(rq, bodies); row++) {
        if (bb_cell_int(rq, bodies, row, 0) != id)
            continue;
        *length = rq->api->rows_length(bodies, row, 1);
        return bb_cell(rq, bodies, row, 1);
    }
    return NULL;
}

/*
 * The large bodies of claimed rows that this host has in memory. They are referenced before the
 * other bodies are read: their last reference might be dropped meanwhile, and then they would
 * neither be in memory nor be read.
 */
struct held {
    size_t count;
    struct body **bodies; /* by row; NULL: none, or taken */
};

static void let_go_all(void *arg)
{
    struct held *held = arg;

    for (size_t row = 0; row < held->count; row++)
        body_let_go(held->bodies[row]);
}

static struct held *hold_known(struct bb_request *rq, const struct claim *claim,
                               const struct bb_rows *rows)
{
    size_t count = bb_count(rq, rows);
    struct held *held = bb_alloc(rq, sizeof(*held));

    held->bodies = bb_alloc(rq, (count + 1) * sizeof(struct body *));
    held->count = count;
    bb_defer(rq, let_go_all, held);
    for (size_t row = 0; row < count; row++) {
        int64_t id = bb_cell_int(rq, rows, row, BODY_ID);

        held->bodies[row] = id ? body_find(claim->db_task.sender, id) : NULL;
    }
    return held;
}

/*
 * Returns the body of a row with a reference for the caller; NULL: out of memory, or a large body
 * that was not read.
 */
static struct body *body_of(struct bb_request *rq, const struct claim *claim,
                            const struct bb_rows *rows, size_t row, struct held *held,
                            const struct bb_rows *bodies)
{
    struct sender *sender = claim->db_task.sender;
    int64_t id = bb_cell_int(rq, rows, row, BODY_ID);
    struct body *body = held->bodies[row];

    held->bodies[row] = NULL;
    if (!body && id)
        body = body_find(sender, id); /* created for an earlier row */
    const char *text = bb_cell(rq, rows, row, BODY);
    size_t length = text ? rq->api->rows_length(rows, row, BODY) : 0;

    if (!body && !text)
        text = text_of(rq, bodies, id, &length);
    if (body || !text)
        return body;
    body = body_new(&(struct sender_event){.name = bb_cell(rq, rows, row, EVENT),
                                           .id = bb_cell(rq, rows, row, EVENT_ID),
                                           .trace = bb_cell(rq, rows, row, TRACE),
                                           .body = text,
                                           .length = length});
    return body && id ? body_share(sender, id, body) : body;
}

/* Collects the ids of the large bodies that this host does not have, each once. */
static size_t missing(struct bb_request *rq, const struct bb_rows *rows, const struct held *held,
                      int64_t *ids)
{
    size_t count = 0;

    for (size_t row = 0; row < bb_count(rq, rows); row++) {
        int64_t id = bb_cell_int(rq, rows, row, BODY_ID);

        if (id && !held->bodies[row] && !(count && ids[count - 1] == id))
            ids[count++] = id;
    }
    return count;
}

static int take_row(struct bb_request *rq, struct claim *claim, const struct bb_rows *rows,
                    size_t row, struct held *held, const struct bb_rows *bodies)
{
    struct body *body = body_of(rq, claim, rows, row, held, bodies);
    struct delivery *delivery = body ? delivery_new(bb_cell_int(rq, rows, row, ID), body) : NULL;

    body_let_go(body);
    if (!delivery)
        return -1; /* owned and in nobody's memory: the scan finds it */
    delivery->tries = (int)bb_cell_int(rq, rows, row, TRIES);
    delivery->delay_ms = bb_cell_int(rq, rows, row, DELAY_MS);
    delivery->queued_ms = bb_cell_int(rq, rows, row, AGE_MS); /* age, until it is admitted */
    *claim->end = delivery;
    claim->end = &delivery->next;
    return 0;
}

static void claim_work(struct bb_request *rq, struct db_task *db_task)
{
    struct claim *claim = BB_CONTAINER_OF(db_task, struct claim, db_task);
    const struct bb_rows *rows =
        bb_query(rq, &take,
                 BB_ARGS(bb_i(claim->owner), bb_i(subscription_webhook(claim->subscription)),
                         bb_i(claim->count), bb_i(claim->bytes), bb_i(claim->max_age_ms),
                         bb_i(claim->behind)));

    if (!rows)
        return;
    db_task->ok = true;
    claim->none = bb_count(rq, rows) == 0;
    struct held *held = hold_known(rq, claim, rows);
    int64_t *ids = bb_alloc(rq, bb_count(rq, rows) * sizeof(*ids) + 1);
    size_t count = missing(rq, rows, held, ids);
    const struct bb_rows *bodies =
        count ? bb_query(rq, &read_bodies, BB_ARGS(bb_ints(ids, count))) : NULL;

    for (size_t row = 0; row < bb_count(rq, rows); row++)
        if (take_row(rq, claim, rows, row, held, bodies))
            return;
}

/* Sorts by id (merge sort), because an UPDATE returns its rows in any order. */
static struct delivery *sorted(struct delivery *list)
{
    struct delivery *half = list, *fast = list ? list->next : NULL, *all = NULL, **end = &all;

    if (!fast)
        return list;
    while (fast && fast->next) {
        half = half->next;
        fast = fast->next->next;
    }
    struct delivery *right = sorted(half->next), *left;

    half->next = NULL;
    left = sorted(list);
    while (left && right) {
        struct delivery **least = left->node.id < right->node.id ? &left : &right;

        *end = *least;
        end = &(*end)->next;
        *least = *end;
    }
    *end = left ? left : right;
    return all;
}

static void admit(struct sender *sender, struct subscription *subscription,
                  struct delivery *delivery, bool mine)
{
    int64_t age = delivery->queued_ms, delay = delivery->delay_ms;

    delivery->delay_ms = 0;
    if (!mine) { /* the lease was lost: the host that deletes the old one finds them */
        delivery_free(delivery);
        return;
    }
    bool known = idmap_find(&sender->deliveries, delivery->node.id) != NULL;

    if (!delivery_admit(sender, subscription, delivery, delay))
        delivery_refuse(sender, subscription->node.id, delivery);
    else if (!known)
        delivery->queued_ms = sender->now_ms - age;
}

static void claim_back(struct sender *sender, struct db_task *db_task)
{
    struct claim *claim = BB_CONTAINER_OF(db_task, struct claim, db_task);
    struct subscription *subscription = claim->subscription;

    sender->claiming--;
    subscription->claiming = false;
    if (!db_task->ok)
        sender->retry_db_at = sender->now_ms + AGAIN_MS;
    claim->first = sorted(claim->first);
    while (claim->first) {
        struct delivery *delivery = claim->first;

        claim->first = delivery->next;
        delivery->next = NULL;
        subscription->claimed_to = delivery->node.id;
        admit(sender, subscription, delivery, claim->owner == sender->me);
    }
    if (db_task->ok && claim->none && !claim->behind)
        subscription_set_overflow(sender, subscription, false);
    else if (db_task->ok && claim->none)
        subscription->claimed_to = 0; /* start from the beginning again */
    subscription_update(sender, subscription);
}

static void claim_drop(struct db_task *db_task)
{
    struct claim *claim = BB_CONTAINER_OF(db_task, struct claim, db_task);

    while (claim->first) {
        struct delivery *delivery = claim->first;

        claim->first = delivery->next;
        delivery_free(delivery);
    }
    free(claim);
}

/*
 * Returns how many deliveries a webhook may claim now: some only if half of its room is free and
 * there is memory left.
 */
static size_t room_for(const struct sender *sender, const struct subscription *subscription)
{
    const struct queue_limits *limits = &sender->queue.limits;
    size_t held = subscription->flow.held,
           items = queue_flow_items(&sender->queue, &subscription->flow);
    size_t room = items > held ? items - held : 0;

    if (subscription->state != SUBSCRIPTION_READY || subscription->claiming || held * 2 > items ||
        subscription->flow.held_bytes * 2 > queue_flow_bytes(&sender->queue, &subscription->flow))
        return 0;
    if (sender->queue.held_bytes + CLAIM_BYTES > limits->bytes)
        return held * 2 > QUEUE_FLOW_SURE ? 0 : QUEUE_FLOW_SURE - held;
    return room < CLAIM_MAX ? room : CLAIM_MAX;
}

/*
 * Returns how many bytes of bodies it may claim: half of the flow's room, because a delivery uses
 * memory in addition to its body.
 */
static int64_t bytes_for(const struct sender *sender, const struct subscription *subscription)
{
    size_t room =
        (queue_flow_bytes(&sender->queue, &subscription->flow) - subscription->flow.held_bytes) / 2;

    return room < CLAIM_BYTES ? (int64_t)room : CLAIM_BYTES;
}

static int claim_for(struct sender *sender, struct subscription *subscription, size_t count)
{
    struct claim *claim = calloc(1, sizeof(*claim));

    if (!claim)
        return -1;
    claim->db_task = (struct db_task){.work = claim_work, .back = claim_back, .drop = claim_drop};
    claim->subscription = subscription;
    claim->owner = sender->me;
    claim->count = (int64_t)count;
    claim->bytes = bytes_for(sender, subscription);
    claim->max_age_ms = sender->settings->max_age_ms;
    claim->behind = subscription->claimed_to;
    claim->end = &claim->first;
    subscription->claiming = true;
    sender->claiming++;
    db_task_send(sender, &claim->db_task);
    return 0;
}

/* A webhook that was served moves to the end of the list, so that all have their turn. */
void claim_overflow(struct sender *sender)
{
    struct subscription *next;

    if (!sender->me || sender->stopping || sender->now_ms < sender->retry_db_at ||
        sender->now_ms >= sender->lease_until)
        return;
    for (struct subscription *subscription = sender->overflowing;
         subscription && sender->claiming < CLAIMS; subscription = next) {
        size_t count = room_for(sender, subscription);

        next = subscription->overflow_next;
        if (count && claim_for(sender, subscription, count))
            return;
    }
}

/* ---- giving back deliveries ----------------------------------------------------------------- */

static const struct bb_sql give_back = {
    "UPDATE webhook_delivery d SET owner = NULL"
    " FROM unnest($2::bigint[], $3::bigint[]) AS r(webhook, id)"
    " WHERE d.webhook = r.webhook AND d.id = r.id AND d.owner = $1::bigint AND d.state = 'queued'"
    " AND d.id BETWEEN $4::bigint AND $5::bigint",
    BB_SQL_WRITE | BB_SQL_LONG,
};

struct release {
    struct db_task db_task;
    int64_t owner;
    struct pairs pairs;
};

static void release_work(struct bb_request *rq, struct db_task *db_task)
{
    struct release *release = BB_CONTAINER_OF(db_task, struct release, db_task);
    struct pairs *pairs = &release->pairs;
    int64_t low = INT64_MAX, high = 0;

    for (size_t i = 0; i < pairs->count; i++) {
        low = pairs->ids[i] < low ? pairs->ids[i] : low;
        high = pairs->ids[i] > high ? pairs->ids[i] : high;
    }
    db_task->ok =
        bb_query(rq, &give_back,
                 BB_ARGS(bb_i(release->owner), bb_ints(pairs->webhooks, pairs->count),
                         bb_ints(pairs->ids, pairs->count), bb_i(low), bb_i(high))) != NULL;
    if (db_task->ok && bb_superseded(rq->host))
        webhook_tell_queued(rq);
}

/*
 * If it failed, this host still owns the deliveries without having them in memory: the scan finds
 * them.
 */
static void release_back(struct sender *sender, struct db_task *db_task)
{
    struct release *release = BB_CONTAINER_OF(db_task, struct release, db_task);

    sender->releasing = false;
    for (size_t i = 0; db_task->ok && i < release->pairs.count; i++) {
        struct subscription *subscription = subscription_get(sender, release->pairs.webhooks[i]);

        if (subscription && subscription->state != SUBSCRIPTION_GONE)
            subscription_set_overflow(sender, subscription, true);
    }
}

static void release_drop(struct db_task *db_task)
{
    pairs_free(&(BB_CONTAINER_OF(db_task, struct release, db_task))->pairs);
    free(db_task);
}

void claim_release(struct sender *sender)
{
    if (!sender->release.count || sender->releasing || !sender->me)
        return;
    struct release *release = calloc(1, sizeof(*release));

    if (!release)
        return;
    release->db_task =
        (struct db_task){.work = release_work, .back = release_back, .drop = release_drop};
    release->owner = sender->me;
    release->pairs = sender->release;
    sender->release = (struct pairs){0};
    sender->releasing = true;
    db_task_send(sender, &release->db_task);
}
