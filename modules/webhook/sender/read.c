/*
 * Reads deliveries that are not in memory: backlogs of webhooks from the log, and due rows of
 * webhook_waiting. Webhooks take turns, and each is read only when half of its room is free, so
 * that a backlog of any length needs little memory and delays no other webhook.
 */
#include "modules/webhook/sender/internal.h"

#include <stdlib.h>

/* ---- deliveries that are not in memory ------------------------------------------------------ */

enum {
    ROWS = 1024,                /* deliveries per statement */
    ROWS_EACH = 512,            /* deliveries of a webhook per statement */
    BYTES = 1 << 20,            /* of bodies per statement; only the first body may exceed it */
    LOOKS = 4 * SENDER_STREAMS, /* webhooks checked per read */
};

#define AGE(of) "round(extract(epoch FROM now() - " of ") * 1000)::bigint"

/* The log of a webhook. With NOT EXISTS, PostgreSQL might build a hash of all outcomes. */
#define LOG                                                                                        \
    "(SELECT d.*, 0 AS tries, d.created_at AS due_at, NULL::timestamptz AS next_at,"               \
    " false AS replay FROM webhook_delivery d WHERE s.after >= 0 AND d.webhook = s.webhook"        \
    " AND d.id > s.after AND d.event <> '" WEBHOOK_PING "' AND d.sequence IS NULL"                 \
    " AND (d.id > s.checked OR ((SELECT o.id FROM webhook_outcome o WHERE o.id = d.id) IS NULL"    \
    " AND (SELECT w.id FROM webhook_waiting w WHERE w.id = d.id) IS NULL))"                        \
    " ORDER BY d.id LIMIT s.most)"

/* The due rows of webhook_waiting, and the first later row, which sets when to read again. */
#define WAITING                                                                                    \
    "(SELECT * FROM webhook_waiting w WHERE w.webhook = s.webhook AND w.next_at <= now()"          \
    " ORDER BY w.next_at LIMIT s.most) UNION ALL (SELECT * FROM webhook_waiting w"                 \
    " WHERE w.webhook = s.webhook AND w.next_at > now() AND w.next_at < webhook_never()"           \
    " ORDER BY w.next_at LIMIT 1)"

/*
 * Deliveries with an order wait with next_at = webhook_never(). Only the first delivery of each key
 * may be sent. The oldest of them are read, so that each key gets its turn. The search takes one
 * step in the index per key. Nine of ten searches end after 4,096 keys, because more than 100,000
 * keys may wait for a webhook.
 */
#define FIRST_OF_KEYS                                                                              \
    " (SELECT w.* FROM (WITH RECURSIVE k(key, id, next_at) AS ((SELECT key, id, next_at"           \
    " FROM webhook_waiting WHERE webhook = s.webhook AND key IS NOT NULL ORDER BY key, id"         \
    " LIMIT 1) UNION ALL SELECT n.* FROM k CROSS JOIN LATERAL (SELECT x.key, x.id, x.next_at"      \
    " FROM webhook_waiting x WHERE x.webhook = s.webhook AND x.key > k.key"                        \
    " ORDER BY x.key, x.id LIMIT 1) n) SELECT id FROM (SELECT id FROM k"                           \
    " WHERE next_at = webhook_never()"                                                             \
    " LIMIT CASE WHEN random() < 0.9 THEN greatest(s.most, 4096) END) k"                           \
    " ORDER BY id LIMIT s.most) k JOIN webhook_waiting w ON w.id = k.id)"

/*
 * $1 webhooks, $2 ids after which to read their logs (-1: read their waiting rows), $3 ids up to
 * which the log may have finished deliveries, $4 maximum numbers of deliveries, $5 ids of bodies
 * that are in memory. The age of a delivery counts from the time of its retry, if it has one,
 * because a retry policy may delay the retry for a day.
 */
// clang-format off
#define READ(from)                                                                                 \
    "SELECT s.n - 1, d.webhook, d.id, ceil(extract(epoch FROM d.next_at - now()) * 1000)::bigint," \
    " d.body_id, d.body_id = ANY($5::bigint[]), coalesce(octet_length(d.body), (SELECT"            \
    " octet_length(b.body) FROM webhook_body b WHERE b.id = d.body_id)), d.event_id, d.event,"     \
    " d.body, d.traceparent, d.tries, " AGE("d.due_at") ", d.replay, d.sequence"                   \
    " FROM " BB_KEYS_4("bigint", "bigint", "bigint", "bigint")                                     \
    " AS s(webhook, after, checked, most, n) CROSS JOIN LATERAL (" from ") d"                      \
    " ORDER BY s.n, d.next_at, d.id"

/* BB_SQL_LONG, because the statements read bodies, and no short read should wait for them. */
static const struct bb_sql read_logs = {READ(LOG), BB_SQL_LONG};
static const struct bb_sql read_streams = {
    READ(LOG " UNION ALL (SELECT d.*, w.tries, greatest(w.queued_at, w.at), w.at, w.replay"
    " FROM (SELECT *, nullif(next_at, webhook_never()) AS at FROM ("
    WAITING " UNION ALL" FIRST_OF_KEYS ") w) w CROSS JOIN LATERAL (SELECT * FROM webhook_delivery d"
    " WHERE d.id = w.id AND d.webhook = s.webhook OFFSET 0) d WHERE s.after < 0)"),
    BB_SQL_LONG,
};
enum { STREAM, WEBHOOK, ID, WAIT_MS, BODY_ID, KNOWN, LENGTH, EVENT_ID, EVENT, BODY, TRACE,
       TRIES, AGE_MS, REPLAY, SEQUENCE };
// clang-format on

static const struct bb_sql read_bodies = {
    "SELECT id, body FROM webhook_body WHERE id = ANY($1::bigint[])",
    BB_SQL_LONG,
};

static void read_row(struct bb_request *rq, struct reading *reading, const struct bb_rows *rows,
                     size_t row, const struct bb_rows *bodies)
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
        delivery = bb_alloc(rq, SIZE_MAX); /* fails, which ends the request */
    delivery->kept = reading->after[bb_cell_int(rq, rows, row, STREAM)] < 0;
    delivery->sequence = bb_cell_int(rq, rows, row, SEQUENCE);
    delivery->replay = bb_cell_int(rq, rows, row, REPLAY);
    delivery->tries = (int)bb_cell_int(rq, rows, row, TRIES);
    delivery->queued_ms = bb_cell_int(rq, rows, row, AGE_MS); /* converted by delivery_admit() */
    STAILQ_INSERT_TAIL(&reading->list, delivery, next);
}

/*
 * Selects rows of each stream until the bodies would exceed BYTES. A body that several rows share
 * is read once. Returns 0, or -1 on failure.
 */
static int read_rows(struct bb_request *rq, struct reading *reading, const struct bb_rows *rows)
{
    size_t count = bb_count(rq, rows), wanted = 0;
    bool *taken = bb_alloc(rq, count + 1);
    int64_t *ids = bb_alloc(rq, (count + 1) * sizeof(*ids));

    for (size_t row = 0; row < count; row++) {
        int64_t id = bb_cell_int(rq, rows, row, BODY_ID);
        int64_t i = bb_cell_int(rq, rows, row, STREAM);
        int64_t wait_ms = bb_cell_int(rq, rows, row, WAIT_MS);
        size_t size = (size_t)bb_cell_int(rq, rows, row, LENGTH);
        bool known = id && ((wanted && ids[wanted - 1] == id) || bb_cell_int(rq, rows, row, KNOWN));

        taken[row] = false;
        if (wait_ms > 0) { /* not due yet */
            reading->next_ms[i] = wait_ms;
            continue;
        }
        reading->found[i]++;
        if (!known && reading->bytes && reading->bytes + size > BYTES)
            reading->cut[i] = true;
        taken[row] = !reading->cut[i];
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
    for (size_t row = 0; row < count; row++)
        if (taken[row])
            read_row(rq, reading, rows, row, bodies);
    return 0;
}

static void read_work(struct bb_request *rq, struct db_task *db_task)
{
    struct reading *reading = (struct reading *)db_task;
    size_t count = reading->count;
    bool waiting = false;

    for (size_t i = 0; i < count; i++)
        waiting |= reading->after[i] < 0;
    /* PostgreSQL needs twice the time for the union, even if it reads only logs */
    const struct bb_rows *rows =
        bb_query(rq, waiting ? &read_streams : &read_logs,
                 BB_ARGS(bb_ints(reading->webhooks, count), bb_ints(reading->after, count),
                         bb_ints(reading->checked, count), bb_ints(reading->most, count),
                         bb_ints(reading->bodies, reading->body_count)));

    db_task->ok = rows && !read_rows(rq, reading, rows);
}

/* Adds a delivery to memory, or frees it. Returns false if it has to be read again. */
static bool read_admit(struct sender *sender, struct delivery *delivery)
{
    int64_t id = delivery->node.id;
    struct subscription *subscription = subscription_find(sender, delivery->webhook);
    bool mine = sender->mine & ~sender->to_give & sender_shard(delivery->webhook);
    const struct recent *recent = &sender->recent[id % SENDER_RECENT];
    struct delivery *held = (struct delivery *)idmap_find(&sender->deliveries, id);
    bool ended = !held && llabs(recent->id) == id && recent->read == sender->reads;
    bool known = !subscription || !mine || held || ended;

    if (!known && id > sender->newest)
        sender->newest = id;
    if (!known && delivery_admit(sender, subscription, delivery))
        return true;
    /* A row without an attempt may be newer than an outcome that this sender has not settled yet:
     * `resend` has deleted the outcome. Then the row must be read again. */
    if (subscription && mine && delivery->kept && !delivery->tries) {
        if (ended)
            subscription_due(sender, subscription, sender->now_ms);
        else if (held && held->item.place == QUEUE_RESTING && !held->retry.node.set)
            held->resent = true;
    }
    delivery_free(sender, delivery);
    return known && mine;
}

/* Updates the webhook of stream i after a read. `last`: the last accepted id; 0: none. */
static void read_end(struct sender *sender, size_t i, bool ok, int64_t last)
{
    const struct reading *reading = &sender->reading;
    struct subscription *subscription = reading->subscriptions[i];
    bool more = !ok || reading->cut[i] || reading->found[i] >= reading->most[i];

    if (reading->after[i] < 0 && (more || reading->next_ms[i])) {
        subscription_due(sender, subscription, sender->now_ms + (more ? 0 : reading->next_ms[i]));
    } else if (reading->after[i] >= 0 && ok) {
        if (subscription->again) /* its rows are read again, and may have outcomes by then */
            subscription->checked = sender->newest;
        else if (last > subscription->read_to)
            subscription->read_to = last;
        subscription->backlog &= subscription->again || more;
    }
    if (subscription->missed) /* the snapshot of the read may be older than this delivery */
        subscription_backlog(sender, subscription, subscription->missed);
    subscription_update(sender, subscription);
}

static void read_back(struct sender *sender, struct db_task *db_task)
{
    struct reading *reading = (struct reading *)db_task;
    int64_t last[SENDER_STREAMS] = {0};
    struct delivery *delivery;
    bool ok = db_task->ok && db_task->me == sender->me; /* the lease of the read is not lost */

    while (ok && (delivery = STAILQ_FIRST(&reading->list))) {
        int64_t id = delivery->node.id;
        size_t i = 0;

        STAILQ_REMOVE_HEAD(&reading->list, next);
        while (reading->webhooks[i] != delivery->webhook)
            i++;
        if (reading->cut[i]) /* adding it would break the order of the log */
            delivery_free(NULL, delivery);
        else if (!read_admit(sender, delivery))
            reading->cut[i] = true;
        else
            last[i] = id;
    }
    delivery_free_list(&reading->list);
    for (size_t i = 0; i < reading->count; i++)
        read_end(sender, i, ok, last[i]);
}

/*
 * Returns how many deliveries a webhook may read now: 0 unless half of the webhook's limits is
 * free. If memory is short, a webhook may hold QUEUE_FLOW_SURE deliveries.
 */
static size_t read_room(const struct sender *sender, const struct subscription *subscription)
{
    const struct queue_limits *limits = &sender->queue.limits;
    const struct queue_flow *flow = &subscription->flow;
    size_t held = flow->held, items = queue_part(flow, limits->flow_items);
    size_t room = items > held ? items - held : 0;

    if (subscription->state != SUBSCRIPTION_READY || held * 2 > items ||
        flow->held_bytes * 2 > queue_part(flow, limits->flow_bytes))
        return 0;
    if (sender->queue.held_bytes + BYTES > limits->bytes)
        return held * 2 > QUEUE_FLOW_SURE ? 0 : QUEUE_FLOW_SURE - held;
    return room < ROWS_EACH ? room : ROWS_EACH;
}

/* Chooses the webhooks to read. Each checked webhook moves to the end of the list. */
static void read_choose(struct sender *sender, struct reading *reading)
{
    const struct subscription *first = TAILQ_FIRST(&sender->to_read);
    size_t rows = 0;

    for (size_t i = 0; i < LOOKS && rows < ROWS && reading->count < SENDER_STREAMS; i++) {
        struct subscription *subscription = TAILQ_FIRST(&sender->to_read);
        size_t place = reading->count, room = read_room(sender, subscription);
        bool due = subscription->due;

        if (i && subscription == first)
            break;
        TAILQ_REMOVE(&sender->to_read, subscription, read_next);
        TAILQ_INSERT_TAIL(&sender->to_read, subscription, read_next);
        if (!room)
            continue;
        reading->count++;
        reading->subscriptions[place] = subscription;
        reading->webhooks[place] = subscription->node.id;
        reading->after[place] = due ? -1 : subscription->read_to;
        reading->checked[place] = subscription->checked;
        reading->most[place] = (int64_t)(due ? room + subscription->flow.held : room);
        if (due)
            subscription->due = false;
        else
            subscription->again = false;
        subscription->missed = 0;
        rows += room;
    }
}

void read_deliveries(struct sender *sender)
{
    struct reading *reading = &sender->reading;

    if (reading->db_task.busy || sender->saving.gives || sender->to_give ||
        TAILQ_EMPTY(&sender->to_read) || sender->stopping || sender->now_ms < sender->retry_db_at ||
        !attempt_is_allowed(sender))
        return;
    if (sender->queue.held_bytes + BYTES > sender->queue.limits.bytes)
        bodies_keep(sender, 0); /* deliveries need the memory */
    memset(reading, 0, sizeof(*reading));
    STAILQ_INIT(&reading->list);
    read_choose(sender, reading);
    if (!reading->count)
        return;
    sender->reads++;
    IDMAP_FOREACH (body, body, &sender->bodies) {
        if (reading->body_count == SENDER_BODIES)
            break;
        reading->bodies[reading->body_count++] = body->node.id;
    }
    db_task_send(sender, &reading->db_task, read_work, read_back);
}

/* ---- deliveries that are not known ----------------------------------------------------------- */

/*
 * Looks in the database for deliveries that this sender does not have, after this host got shards
 * or after a gap in the notifications. Every few seconds it looks only in the new part of the log,
 * because a host may die between a commit and its notification. This search ends at a `frontier`:
 * an id below which no delivery can appear any more, because all transactions that got lower ids
 * have ended. After the search, the cursors move to the frontier.
 */
#define PAGE_TEXT "4000"
enum { PAGE = 4000 }; /* rows per statement */

/* $1 the webhook to continue after, $2 shards. Returns pairs of a webhook and its cursor. */
static const struct bb_sql look_backlog = {
    "SELECT webhook, cursor FROM webhook_backlog WHERE webhook > $1::bigint"
    " AND webhook_shard_of(webhook) = ANY($2::bigint[]) ORDER BY webhook LIMIT " PAGE_TEXT,
    BB_SQL_LONG,
};
/* Returns webhooks, and in how many ms their first row is due, with one index step per webhook. */
static const struct bb_sql look_waiting = {
    "WITH RECURSIVE w(webhook, next_at) AS ((SELECT webhook, next_at FROM webhook_waiting"
    " WHERE webhook > $1::bigint ORDER BY webhook, next_at LIMIT 1) UNION ALL"
    " SELECT n.webhook, n.next_at FROM w CROSS JOIN LATERAL (SELECT x.webhook, x.next_at"
    " FROM webhook_waiting x WHERE x.webhook > w.webhook ORDER BY x.webhook, x.next_at LIMIT 1) n)"
    " SELECT webhook, CASE WHEN EXISTS (SELECT FROM webhook_waiting x WHERE x.webhook = w.webhook"
    " AND x.key IS NOT NULL) THEN 0 ELSE"
    " greatest(0, ceil(extract(epoch FROM next_at - now()) * 1000))::bigint END FROM w"
    " WHERE webhook_shard_of(webhook) = ANY($2::bigint[]) LIMIT " PAGE_TEXT,
    BB_SQL_LONG,
};
/* $1 and $3 limit the ids. The ids of tests and of deliveries with an order are returned as
 * negative numbers. Pings are omitted: the host that handles the test's request sends them. */
static const struct bb_sql look_log = {
    "SELECT webhook, CASE WHEN sequence IS NULL THEN id ELSE -id END FROM webhook_delivery WHERE "
    "id > $1::bigint AND id <= $3::bigint"
    " AND event <> '" WEBHOOK_PING "' AND webhook_shard_of(webhook) = ANY($2::bigint[])"
    " ORDER BY id LIMIT " PAGE_TEXT,
    BB_SQL_LONG,
};

static void look_work(struct bb_request *rq, struct db_task *db_task)
{
    static const struct bb_sql *const statements[] = {NULL, &look_backlog, &look_waiting,
                                                      &look_log};
    const struct looking *looking = (struct looking *)db_task;
    const struct bb_value args[] = {bb_i(looking->after), db_task_shards(rq, db_task),
                                    bb_i(looking->to)};

    db_task_read(rq, db_task,
                 bb_query(rq, statements[looking->look], args, looking->look == LOOK_LOG ? 3 : 2));
}

/* Handles a lack of memory: the next search finds the same rows, because no cursor has moved. */
static void look_fail(struct sender *sender)
{
    sender->look_wanted = true;
    sender->look_shards = 0;
    sender->retry_db_at = sender->now_ms + SENDER_AGAIN_MS;
}

/* Starts a read of the webhook's log from `id` on if this sender does not know this delivery. */
void look_found(struct sender *sender, int64_t webhook, int64_t id)
{
    if (!(sender->mine & ~sender->to_give & sender_shard(webhook)) ||
        id <= sender->cursors[webhook % SENDER_SHARDS] ||
        sender->recent[id % SENDER_RECENT].id == id || idmap_find(&sender->deliveries, id))
        return;
    struct subscription *subscription = subscription_get(sender, webhook);

    if (id > sender->newest)
        sender->newest = id;
    if (!subscription) {
        look_fail(sender);
    } else if (!subscription->backlog || id <= subscription->read_to) {
        subscription_backlog(sender, subscription, id);
    } else if (!subscription->missed || id < subscription->missed) {
        subscription->missed = id;
    }
}

static void look_back(struct sender *sender, struct db_task *db_task)
{
    struct looking *looking = (struct looking *)db_task;
    const struct pairs *found = &db_task->pairs;
    size_t count = found->count;

    if (!db_task->ok || sender->look != looking->look)
        return; /* if `look` differs, the lease was lost */
    for (size_t i = 0; i < count; i++) {
        int64_t webhook = found->webhooks[i], number = found->ids[i];
        struct subscription *subscription;

        if (looking->look == LOOK_LOG && number > 0)
            look_found(sender, webhook, number);
        else if (!(sender->mine & sender_shard(webhook)))
            continue;
        else if (!(subscription = subscription_get(sender, webhook)))
            look_fail(sender);
        else if (looking->look != LOOK_BACKLOG) /* its rows in webhook_waiting are due */
            subscription_due(sender, subscription, sender->now_ms + (number > 0 ? number : 0));
        else if (!subscription->saved) {
            subscription->saved = number;
            subscription_backlog(sender, subscription, number + 1);
        }
    }
    if (count == PAGE) {
        looking->after =
            looking->look == LOOK_LOG ? llabs(found->ids[count - 1]) : found->webhooks[count - 1];
        return;
    }
    looking->after = 0;
    sender->look = looking->look == LOOK_LOG ? LOOK_NONE : looking->look + 1;
    if (sender->look || looking->to == INT64_MAX)
        return;
    /* All deliveries up to the frontier have been found, so the cursors move to it. */
    for (int64_t i = 0; i < SENDER_SHARDS; i++)
        if (sender->look_shards & sender->mine & sender_shard(i) &&
            sender->cursors[i] < sender->frontier)
            sender->cursors[i] = sender->frontier;
    sender->frontier = 0;
    sender->frontier_safe = false;
    lease_save(sender, sender->mine & ~sender->to_give, false);
}

void look_on(struct sender *sender)
{
    struct looking *looking = &sender->looking;

    if (looking->db_task.busy || !sender->mine || sender->stopping ||
        sender->now_ms < sender->retry_db_at)
        return;
    if (!sender->look) {
        if (!sender->look_wanted && !sender->frontier_safe)
            return;
        sender->look = sender->look_wanted ? LOOK_BACKLOG : LOOK_LOG;
        looking->to = sender->look_wanted ? INT64_MAX : sender->frontier;
        sender->look_shards = sender->mine & ~sender->to_give;
        if (sender->look_wanted) /* there may be replays that this sender does not know */
            sender->replay_at = sender->now_ms;
        sender->look_wanted = false;
        looking->after = 0;
    }
    looking->look = sender->look;
    looking->db_task.shards = sender->look_shards;
    if (looking->look == LOOK_LOG && !looking->after) {
        looking->after = INT64_MAX;
        for (int64_t i = 0; i < SENDER_SHARDS; i++)
            if (sender->look_shards & sender_shard(i) && sender->cursors[i] < looking->after)
                looking->after = sender->cursors[i];
    }
    db_task_send(sender, &looking->db_task, look_work, look_back);
}
