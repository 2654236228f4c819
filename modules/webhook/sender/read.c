/*
 * Reads deliveries that are not in memory: backlogs of webhooks from the log, and due rows of
 * webhook_waiting. Webhooks take turns, and each is read only when half of its room is free, so
 * that a backlog of any length needs little memory and delays no other webhook.
 */
#include "modules/webhook/sender/internal.h"

#include <stdlib.h>

enum {
    STREAMS = 32,        /* webhooks per statement */
    ROWS = 1024,         /* deliveries per statement */
    ROWS_EACH = 512,     /* of a webhook */
    BYTES = 1 << 20,     /* of bodies per statement; only the first body may exceed it */
    BODIES = 256,        /* large bodies in memory that are not read again */
    LOOKS = 4 * STREAMS, /* webhooks checked per read */
};

#define AGE(of) "round(extract(epoch FROM now() - " of ") * 1000)::bigint"
#define CREATED AGE("d.created_at")
/* Since when a delivery has been due. A policy may delay a retry for a day. */
#define DUE AGE("greatest(w.queued_at, CASE WHEN w.next_at < webhook_never() THEN w.next_at END)")
#define SIZE                                                                                       \
    "coalesce(octet_length(d.body), (SELECT octet_length(b.body) FROM webhook_body b"              \
    " WHERE b.id = d.body_id))"
#define DELIVERY "d.event_id, d.event, d.body, d.body_id, d.traceparent, " SIZE

/*
 * $1 webhooks, $2 the ids after which they are read, $3 the ids up to which deliveries may have
 * outcomes, $4 numbers of deliveries. EXISTS could be planned as a hash of all outcomes.
 */
static const struct bb_sql read_log = {
    "SELECT d.webhook, d.id, 0, " CREATED ", " DELIVERY ", false, NULL"
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY"
    " AS s(webhook, after, checked, most, n) CROSS JOIN LATERAL (SELECT * FROM webhook_delivery d"
    " WHERE d.webhook = s.webhook AND d.id > s.after AND d.event <> '" WEBHOOK_PING "'"
    " AND d.sequence IS NULL"
    " AND (d.id > s.checked OR ((SELECT o.id FROM webhook_outcome o WHERE o.id = d.id) IS NULL"
    " AND (SELECT w.id FROM webhook_waiting w WHERE w.id = d.id) IS NULL))"
    " ORDER BY d.id LIMIT s.most) d ORDER BY s.n, d.id",
    BB_SQL_LONG, /* it reads the bodies, so no short read should wait for it */
};

/*
 * Deliveries with an order wait with next_at = webhook_never(). Only the first delivery of each key
 * may be sent. The search takes one step in the index per key.
 */
#define FIRST_OF_KEYS                                                                              \
    " (SELECT w.* FROM (WITH RECURSIVE k(key, id, next_at) AS ((SELECT key, id, next_at"           \
    " FROM webhook_waiting WHERE webhook = s.webhook AND key IS NOT NULL ORDER BY key, id LIMIT "  \
    "1)"                                                                                           \
    " UNION ALL SELECT n.* FROM k CROSS JOIN LATERAL (SELECT x.key, x.id, x.next_at"               \
    " FROM webhook_waiting x WHERE x.webhook = s.webhook AND x.key > k.key"                        \
    " ORDER BY x.key, x.id LIMIT 1) n) SELECT id FROM k WHERE next_at = webhook_never()"           \
    " LIMIT s.most) k JOIN webhook_waiting w ON w.id = k.id)"

/* $1 webhooks, $2 numbers of deliveries */
static const struct bb_sql read_due = {
    "SELECT d.webhook, d.id, w.tries, " DUE ", " DELIVERY ", w.replay, d.sequence"
    " FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS s(webhook, most, n)"
    " CROSS JOIN LATERAL ((SELECT * FROM webhook_waiting w WHERE w.webhook = s.webhook"
    " AND w.next_at <= now() ORDER BY w.next_at LIMIT s.most) UNION ALL" FIRST_OF_KEYS ") w"
    " CROSS JOIN LATERAL"
    " (SELECT * FROM webhook_delivery d WHERE d.id = w.id AND d.webhook = s.webhook OFFSET 0) d"
    " ORDER BY s.n, w.next_at",
    BB_SQL_LONG,
};
enum {
    WEBHOOK,
    ID,
    TRIES,
    AGE_MS,
    EVENT_ID,
    EVENT,
    BODY,
    BODY_ID,
    TRACE,
    LENGTH,
    REPLAY,
    SEQUENCE
};

/* Returns the milliseconds until the next rows of the webhooks $1 are due; null: no rows. */
static const struct bb_sql read_next = {
    "SELECT s.webhook, (SELECT ceil(extract(epoch FROM w.next_at - now()) * 1000)::bigint"
    " FROM webhook_waiting w WHERE w.webhook = s.webhook AND w.next_at > now()"
    " AND w.next_at < webhook_never()"
    " ORDER BY w.next_at LIMIT 1) FROM unnest($1::bigint[]) WITH ORDINALITY AS s(webhook, n)"
    " ORDER BY s.n",
    BB_SQL_LONG,
};

static const struct bb_sql read_bodies = {
    "SELECT id, body FROM webhook_body WHERE id = ANY($1::bigint[])",
    BB_SQL_LONG,
};

/* The webhooks that one statement reads. */
struct streams {
    size_t count;
    struct subscription *subscriptions[STREAMS];
    int64_t webhooks[STREAMS], after[STREAMS], checked[STREAMS], most[STREAMS], next_ms[STREAMS];
    size_t found[STREAMS]; /* rows */
    bool cut[STREAMS];     /* some rows were not taken */
};

struct reading {
    struct db_task db_task;
    struct streams log, due;
    int64_t bodies[BODIES]; /* large ones in memory, sorted */
    size_t body_count;
    size_t bytes;
    struct delivery_list list;
};

static int read_compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static int read_row(struct bb_request *rq, struct reading *reading, const struct bb_rows *rows,
                    size_t row, const struct bb_rows *bodies, bool kept)
{
    int64_t body_id = bb_cell_int(rq, rows, row, BODY_ID);
    size_t found = 0, count = body_id && bodies ? bb_count(rq, bodies) : 0;
    struct sender_event event = {.name = bb_cell(rq, rows, row, EVENT),
                                 .id = bb_cell(rq, rows, row, EVENT_ID),
                                 .trace = bb_cell(rq, rows, row, TRACE),
                                 .body_id = body_id,
                                 .body = bb_cell(rq, rows, row, BODY)};

    while (found < count && bb_cell_int(rq, bodies, found, 0) != body_id)
        found++;
    if (event.body) {
        event.length = rq->api->rows_length(rows, row, BODY);
    } else if (found < count) {
        event.body = bb_cell(rq, bodies, found, 1);
        event.length = rq->api->rows_length(bodies, found, 1);
    }
    struct body *body = body_new(&event);
    struct delivery *delivery = body ? delivery_new(bb_cell_int(rq, rows, row, WEBHOOK),
                                                    bb_cell_int(rq, rows, row, ID), body)
                                     : NULL;

    if (body)
        body_release(NULL, body);
    if (!delivery)
        return -1;
    delivery->kept = kept;
    delivery->sequence = bb_cell_int(rq, rows, row, SEQUENCE);
    delivery->replay = bb_cell_int(rq, rows, row, REPLAY);
    delivery->tries = (int)bb_cell_int(rq, rows, row, TRIES);
    delivery->queued_ms = bb_cell_int(rq, rows, row, AGE_MS); /* age, until it is admitted */
    STAILQ_INSERT_TAIL(&reading->list, delivery, next);
    return 0;
}

/*
 * Takes the rows of each stream until a body does not fit. A body that several rows share is read
 * once. Returns 0, or -1 on failure.
 */
static int read_rows(struct bb_request *rq, struct reading *reading, struct streams *streams,
                     const struct bb_rows *rows, bool kept)
{
    size_t count = bb_count(rq, rows), stream = 0, wanted = 0;
    bool *taken = bb_alloc(rq, count + 1);
    int64_t *ids = bb_alloc(rq, (count + 1) * sizeof(*ids));

    for (size_t row = 0; row < count; row++) {
        int64_t id = bb_cell_int(rq, rows, row, BODY_ID);
        size_t size = (size_t)bb_cell_int(rq, rows, row, LENGTH);
        bool known =
            id && ((wanted && ids[wanted - 1] == id) ||
                   bsearch(&id, reading->bodies, reading->body_count, sizeof(id), read_compare));

        while (streams->webhooks[stream] != bb_cell_int(rq, rows, row, WEBHOOK))
            stream++;
        streams->found[stream]++;
        if (!known && reading->bytes && reading->bytes + size > BYTES)
            streams->cut[stream] = true;
        taken[row] = !streams->cut[stream];
        if (!taken[row] || known)
            continue;
        reading->bytes += size;
        if (id)
            ids[wanted++] = id;
    }
    const struct bb_rows *bodies =
        wanted ? bb_query(rq, &read_bodies, BB_ARGS(bb_ints(ids, wanted))) : NULL;

    if (wanted && !bodies)
        return -1;
    for (size_t row = 0; row < count; row++) {
        if (taken[row] && read_row(rq, reading, rows, row, bodies, kept))
            return -1;
    }
    return 0;
}

static void read_work(struct bb_request *rq, struct db_task *db_task)
{
    struct reading *reading = (struct reading *)db_task;
    struct streams *log = &reading->log, *due = &reading->due;
    const struct bb_rows *rows = NULL;

    if (log->count) {
        rows = bb_query(rq, &read_log,
                        BB_ARGS(bb_ints(log->webhooks, log->count), bb_ints(log->after, log->count),
                                bb_ints(log->checked, log->count), bb_ints(log->most, log->count)));
        if (!rows || read_rows(rq, reading, log, rows, false))
            return;
    }
    if (due->count) {
        /* first, so that rows that become due between the statements are in both results */
        rows = bb_query(rq, &read_next, BB_ARGS(bb_ints(due->webhooks, due->count)));
        if (!rows)
            return;
        for (size_t i = 0; i < due->count; i++)
            due->next_ms[i] = bb_cell(rq, rows, i, 1) ? bb_cell_int(rq, rows, i, 1) : -1;
        rows =
            bb_query(rq, &read_due,
                     BB_ARGS(bb_ints(due->webhooks, due->count), bb_ints(due->most, due->count)));
        if (!rows || read_rows(rq, reading, due, rows, true))
            return;
    }
    db_task->ok = true;
}

/* Takes a delivery into memory, or frees it. Returns false if it has to be read again. */
static bool read_admit(struct sender *sender, struct delivery *delivery)
{
    struct subscription *subscription = subscription_find(sender, delivery->webhook);
    bool mine = sender->mine & ~sender->to_give & sender_shard(delivery->webhook);
    const struct recent *recent = &sender->recent[delivery->node.id % SENDER_RECENT];
    bool ended = recent->id == delivery->node.id && recent->read == sender->reads;
    bool known =
        !subscription || !mine || ended || idmap_find(&sender->deliveries, delivery->node.id);

    if (!known && delivery->node.id > sender->newest)
        sender->newest = delivery->node.id;
    if (!known && delivery_admit(sender, subscription, delivery))
        return true;
    delivery_free(sender, delivery);
    return known && mine;
}

/* Notes that the log of stream i was read up to the id `last`. `whole`: all its rows were taken. */
static void read_end_log(struct sender *sender, const struct streams *log, size_t i, int64_t last,
                         bool whole)
{
    struct subscription *subscription = log->subscriptions[i];

    if (subscription->again) { /* its rows are read again, and may have outcomes by then */
        subscription->checked = sender->newest;
    } else {
        if (last > subscription->read_to)
            subscription->read_to = last;
        if (whole && (int64_t)log->found[i] < log->most[i])
            subscription->backlog = false;
    }
    subscription_update(sender, subscription);
}

static void read_back(struct sender *sender, struct db_task *db_task)
{
    struct reading *reading = (struct reading *)db_task;
    struct streams *log = &reading->log, *due = &reading->due;
    int64_t last[STREAMS] = {0};
    struct delivery *delivery;

    while (db_task->ok && (delivery = STAILQ_FIRST(&reading->list))) {
        struct streams *streams = delivery->kept ? due : log;
        int64_t id = delivery->node.id;
        size_t i = 0;

        STAILQ_REMOVE_HEAD(&reading->list, next);
        while (streams->webhooks[i] != delivery->webhook)
            i++;
        if (streams->cut[i]) { /* taking it would break the order of the log */
            delivery_free(NULL, delivery);
        } else if (!read_admit(sender, delivery)) {
            streams->cut[i] = true;
        } else if (streams == log) {
            last[i] = id;
        }
    }
    for (size_t i = 0; i < log->count; i++)
        if (db_task->ok)
            read_end_log(sender, log, i, last[i], !log->cut[i]);
    for (size_t i = 0; i < due->count; i++) {
        bool more = !db_task->ok || due->cut[i] || (int64_t)due->found[i] >= due->most[i];

        if (more)
            subscription_due(sender, due->subscriptions[i], sender->now_ms);
        else if (due->next_ms[i] >= 0)
            subscription_due(sender, due->subscriptions[i], sender->now_ms + due->next_ms[i]);
        subscription_update(sender, due->subscriptions[i]);
    }
}

static void read_drop(struct db_task *db_task)
{
    delivery_free_list(&((struct reading *)db_task)->list);
}

/*
 * Returns how many deliveries a webhook may read now: 0 unless half of its room is free and there
 * is memory left.
 */
static size_t read_room(const struct sender *sender, const struct subscription *subscription)
{
    const struct queue_limits *limits = &sender->queue.limits;
    size_t held = subscription->flow.held,
           items = queue_flow_items(&sender->queue, &subscription->flow);
    size_t room = items > held ? items - held : 0;

    if (subscription->state != SUBSCRIPTION_READY || held * 2 > items ||
        subscription->flow.held_bytes * 2 > queue_flow_bytes(&sender->queue, &subscription->flow))
        return 0;
    if (sender->queue.held_bytes + BYTES > limits->bytes)
        return held * 2 > QUEUE_FLOW_SURE ? 0 : QUEUE_FLOW_SURE - held;
    return room < ROWS_EACH ? room : ROWS_EACH;
}

static void read_add(struct streams *streams, struct subscription *subscription, size_t most)
{
    size_t i = streams->count++;

    streams->subscriptions[i] = subscription;
    streams->webhooks[i] = subscription->node.id;
    streams->after[i] = subscription->read_to;
    streams->checked[i] = subscription->checked;
    streams->most[i] = (int64_t)most;
}

/* Chooses the webhooks to read. Each webhook that it checks moves to the end of the list. */
static void read_choose(struct sender *sender, struct reading *reading)
{
    const struct subscription *first = TAILQ_FIRST(&sender->to_read);
    size_t rows = 0;

    for (size_t i = 0; i < LOOKS && rows < ROWS; i++) {
        struct subscription *subscription = TAILQ_FIRST(&sender->to_read);

        if (i && subscription == first)
            break;
        size_t room = read_room(sender, subscription);

        TAILQ_REMOVE(&sender->to_read, subscription, read_next);
        TAILQ_INSERT_TAIL(&sender->to_read, subscription, read_next);
        if (!room || reading->log.count == STREAMS || reading->due.count == STREAMS)
            continue;
        if (subscription->due) {
            subscription->due = false;
            read_add(&reading->due, subscription, room + subscription->flow.held);
        } else {
            subscription->again = false;
            read_add(&reading->log, subscription, room);
        }
        rows += room;
    }
}

void read_deliveries(struct sender *sender)
{
    if (sender->reading || sender->giving || TAILQ_EMPTY(&sender->to_read) || sender->stopping ||
        sender->now_ms < sender->retry_db_at || !attempt_is_allowed(sender))
        return;
    struct reading *reading =
        db_task_new(sender, sizeof(*reading), read_work, read_back, read_drop);

    if (!reading)
        return;
    STAILQ_INIT(&reading->list);
    read_choose(sender, reading);
    if (!reading->log.count && !reading->due.count) {
        free(reading);
        return;
    }
    sender->reads++;
    IDMAP_FOREACH(node, &sender->bodies)
    {
        if (reading->body_count == BODIES)
            break;
        reading->bodies[reading->body_count++] = node->id;
    }
    qsort(reading->bodies, reading->body_count, sizeof(int64_t), read_compare);
    db_task_send(&reading->db_task, &sender->reading);
}
