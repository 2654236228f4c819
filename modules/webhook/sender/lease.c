/*
 * The lease of this host: its row in webhook_host, and the shards that it owns.
 *
 * webhook_tend() renews the lease every two seconds. If it was not renewed for eight seconds, by
 * the clock of the database, any other host deletes the row, which leaves the shards without owner.
 * This host starts no attempt and sends no request later than six seconds after its last heartbeat
 * began, by CLOCK_BOOTTIME, which also counts while the machine is suspended. After these six
 * seconds it resets the connections of the attempts in flight (attempt_close_socket()). A host that
 * was only suspended finds that its row is gone, drops everything in memory and takes a new id.
 * After the promotion of a standby all hosts get new ids and keep their shards. No host checks the
 * processes of other hosts, because they may be hidden or on another machine.
 *
 * A host that owns more shards than its fair share, or stops, gives shards away: it starts no
 * attempt for them, records their results, and writes a row in webhook_waiting for each attempt in
 * flight. The next owner repeats such an attempt only if this host records no outcome in time.
 */
#include "modules/webhook/sender/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define TEND_MS 2000
#define COUNT_ROUNDS 3 /* every third heartbeat counts the webhooks */

static const struct bb_sql tend = {
    "SELECT me, paused::int, fair, buried, frontier, low_xact, next_xact,"
    " string_to_array(translate(owned, ':', ' '), ' ')"
    " FROM webhook_tend($1::bigint, $2::jsonb, $3::boolean)",
    BB_SQL_WRITE,
};
/* The last column has pairs of a shard and its cursor. */
enum { ME, PAUSED, FAIR, BURIED, FRONTIER, LOW_XACT, NEXT_XACT, OWNED };

/*
 * $1 host, $2 shards, $3 the cursors of all shards, $4 webhooks, $5 the cursors of their backlogs
 * (0: no backlog), $6 deliveries in flight, $7 their webhooks, $8 the ms for which the next owners
 * may not send these deliveries, $9 whether the shards are given away
 */
static const struct bb_sql save = {
    "WITH " SENDER_ME ","
    " moved AS (UPDATE webhook_shard s SET cursor = greatest(s.cursor, n.cursor),"
    " owner = CASE WHEN $9::boolean THEN NULL ELSE s.owner END"
    " FROM unnest($3::bigint[]) WITH ORDINALITY AS n(cursor, place)"
    " WHERE s.shard = n.place - 1 AND s.shard = ANY($2::bigint[])"
    " AND s.owner = (SELECT id FROM me)),"
    " b AS (SELECT * FROM unnest($4::bigint[], $5::bigint[]) AS b(webhook, cursor)"
    " WHERE EXISTS (SELECT FROM me)),"
    " backlog AS (INSERT INTO webhook_backlog (webhook, cursor) SELECT * FROM b WHERE cursor > 0"
    " ON CONFLICT (webhook) DO UPDATE SET cursor = excluded.cursor),"
    " caught_up AS (DELETE FROM webhook_backlog"
    " WHERE webhook = ANY (ARRAY(SELECT webhook FROM b WHERE cursor = 0))),"
    " held AS (INSERT INTO webhook_waiting (id, webhook, queued_at, next_at)"
    " SELECT d.id, d.webhook, d.created_at, now() + $8::bigint * interval '1 ms'"
    " FROM unnest($6::bigint[], $7::bigint[]) AS f(id, webhook) CROSS JOIN LATERAL"
    " (SELECT * FROM webhook_delivery d WHERE d.id = f.id AND d.webhook = f.webhook OFFSET 0) d"
    " WHERE EXISTS (SELECT FROM me)"
    " ON CONFLICT (id) DO UPDATE SET next_at = excluded.next_at)"
    " SELECT count(*) FROM me",
    BB_SQL_WRITE,
};

static const struct bb_sql leave = {"DELETE FROM webhook_host WHERE id = $1::bigint", BB_SQL_WRITE};

/* Returns SENDER_STATES and the age of the oldest event to be expanded, in ms. */
static const struct bb_sql states = {
    "SELECT w.*, (SELECT coalesce(floor(extract(epoch FROM now() - min(queued_at)) * 1000), 0)"
    "::bigint FROM webhook_expansion) FROM (" SENDER_STATES ") w",
    BB_SQL_LONG,
};

int64_t lease_clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void lease_notify(struct bb_request *rq)
{
    if (bb_notify(rq, NULL, WEBHOOK_CHANNEL, "shards"))
        bb_log(rq, BB_DEBUG, "cannot notify other hosts of free shards");
}

/* ---- the heartbeat -------------------------------------------------------------------------- */

static void lease_work(struct bb_request *rq, struct db_task *db_task)
{
    struct tending *tending = (struct tending *)db_task;
    int64_t owned[2 * SENDER_SHARDS];
    const struct bb_rows *rows = bb_query(
        rq, &tend, BB_ARGS(bb_i(db_task->me), bb_t(tending->counters), bb_b(tending->leaving)));

    if (!rows || bb_count(rq, rows) != 1)
        return;
    for (size_t i = 0; i < OWNED; i++)
        tending->got[i] = bb_cell_int(rq, rows, 0, i);
    size_t count = bb_cell_ints(bb_cell(rq, rows, 0, OWNED), owned);

    for (size_t i = 0; i < count; i += 2) {
        tending->owned |= sender_shard(owned[i]);
        tending->cursors[owned[i] % SENDER_SHARDS] = owned[i + 1];
    }
    if (tending->got[BURIED])
        bb_log(rq, BB_WARN, "the shards of dead hosts are free: hosts %lld",
               (long long)tending->got[BURIED]);
    if (tending->counts && tending->got[ME]) {
        rows = bb_query(rq, &states, BB_NO_ARGS);
        for (size_t i = 0; rows && i < WEBHOOK_STATES + 2; i++)
            tending->states[i] = bb_cell_int(rq, rows, 0, i);
    }
    db_task->ok = true;
}

/* Changes the shards of this host, and drops the deliveries and webhooks of lost shards. */
static void lease_set(struct sender *sender, uint64_t mine)
{
    uint64_t lost = sender->mine & ~mine;

    sender->mine = mine;
    sender->owned = mine;
    sender->ready = sender->me;
    if (!lost && sender->me)
        return;
    IDMAP_FOREACH (delivery, delivery, &sender->deliveries) {
        if (!sender->me && !delivery->lease_lost) {
            delivery->lease_lost = true;
            sender->lost_count++;
        }
        if (sender->me && (delivery->test || mine & sender_shard(delivery->webhook)))
            continue;
        if (delivery->item.place == QUEUE_WAITING || delivery->retry.node.set)
            delivery_end(sender, delivery); /* no attempt is in flight or being recorded */
    }
    subscriptions_drop(sender, lost);
}

/*
 * Drops the deliveries in memory. A delivery with an attempt in flight or an unrecorded result
 * stays, with lease_lost set. A failover may lose the delivery's row and give the id to another
 * delivery, so the result is recorded only if the row has the same event. No cursor moves until the
 * last such delivery has left memory; then the log is searched for deliveries with reused ids.
 */
static void lease_lost(struct sender *sender, bool promoted)
{
    bb_host_log(sender->host, BB_WARN, "this host lost its lease: %s",
                promoted ? "the database is on another timeline"
                         : "other hosts took over its shards");
    if (!promoted) /* the other hosts may send now, so attempts in flight end */
        sender->lease_until = 0;
    sender->me = 0;
    sender->to_give = 0;
    sender->look = LOOK_NONE;
    sender->frontier = 0;
    sender->frontier_safe = false;
    lease_set(sender, 0);
    bodies_keep(sender, 0);
    /* on another timeline, the database may give the id of a body to another event */
    IDMAP_FOREACH (body, body, &sender->bodies) {
        idmap_remove(&sender->bodies, &body->node);
        body->shared = false;
        sender->queue.held_bytes -= body->length;
    }
    sender->totals.lost_leases++;
}

/*
 * Keeps the shards that could not be given away, so record_at() no longer delays results of other
 * shards. The next heartbeat tries again. Deliveries committed meanwhile are read from the log.
 */
static void lease_keep(struct sender *sender)
{
    uint64_t kept = sender->to_give & sender->mine;

    sender->give_failed = false;
    sender->to_give &= ~kept;
    sender->look_wanted = true;
    IDMAP_FOREACH (subscription, subscription, &sender->subscriptions)
        if (kept & sender_shard(subscription->node.id))
            subscription_backlog(sender, subscription, subscription->read_to + 1);
}

static void lease_back(struct sender *sender, struct db_task *db_task)
{
    const struct tending *tending = (struct tending *)db_task;
    int64_t me = tending->got[ME], frontier = tending->got[FRONTIER];
    bool old = false; /* a cursor is below the frontier */

    sender->tend_at = sender->now_ms + SENDER_AGAIN_MS;
    if (!db_task->ok)
        return;
    /* a multiple of TEND_MS, so that an idle sender wakes up once for all its periodic work */
    sender->tend_at = sender->now_ms - sender->now_ms % TEND_MS + TEND_MS;
    if (sender->me && sender->me != me)
        lease_lost(sender, me != 0);
    if (!me) {
        sender->tend_at = sender->now_ms;
        return;
    }
    uint64_t gained = tending->owned & ~sender->mine;

    pthread_mutex_lock(&sender->lock);
    if (tending->pauses == sender->pauses) /* no newer state was received */
        sender->paused = tending->got[PAUSED];
    pthread_mutex_unlock(&sender->lock);
    if (tending->states[WEBHOOK_STATES] > 0)
        sender->events_wait = true;
    if (tending->states[0] >= 0) {
        memcpy(sender->totals.webhooks, tending->states, sizeof(sender->totals.webhooks));
        sender->totals.expanding = tending->states[WEBHOOK_STATES];
        sender->expanding_ms = tending->states[WEBHOOK_STATES + 1];
    }
    if (sender->me != me)
        sender->joined = frontier;
    sender->me = me;
    sender->lease_until = tending->sent_ms + SENDER_LEASE_MS;
    if (frontier > sender->newest)
        sender->newest = frontier;
    for (int64_t i = 0; i < SENDER_SHARDS; i++)
        old |= sender->mine & sender_shard(i) && sender->cursors[i] < frontier;
    if (sender->frontier && tending->got[LOW_XACT] >= sender->frontier_xact)
        sender->frontier_safe = true; /* all transactions below frontier_xact have ended */
    if (!sender->frontier && old && !sender->lost_count) {
        sender->frontier = frontier;
        sender->frontier_xact = tending->got[NEXT_XACT];
    }
    for (int64_t i = 0; i < SENDER_SHARDS; i++)
        if (gained & sender_shard(i)) {
            sender->cursors[i] = tending->cursors[i];
            sender->gained_ms[i] = sender->now_ms;
        }
    lease_set(sender, tending->owned);
    if (gained) { /* the state of these shards in memory may be outdated */
        subscriptions_drop(sender, gained);
        /* `recent` has deliveries of these shards that were dropped and must be read again. Other
         * deliveries may have ended after the snapshot of the read in progress. */
        for (size_t i = 0; i < SENDER_RECENT; i++)
            if (!sender->reading.db_task.busy || sender->recent[i].read != sender->reads)
                sender->recent[i] = (struct recent){0};
    }
    if (gained || tending->got[BURIED])
        sender->look_wanted = true;
    /* If this host owns more shards than its fair share, it gives the highest ones away. */
    int64_t surplus = __builtin_popcountll(sender->mine) - tending->got[FAIR];

    if (sender->give_failed) {
        lease_keep(sender);
        surplus = 0;
    }
    for (int64_t i = SENDER_SHARDS - 1; i >= 0 && surplus > 0; i--)
        if (sender->mine & sender_shard(i)) {
            sender->to_give |= sender_shard(i);
            surplus--;
        }
    sender->look_shards &= ~sender->to_give; /* the search in progress skips these shards */
    if (gained || sender->to_give)
        IDMAP_FOREACH (subscription, subscription, &sender->subscriptions)
            subscription_update(sender, subscription);
}

void lease_tend(struct sender *sender)
{
    struct tending *tending = &sender->tending;
    struct sender_counters *totals = &sender->totals;
    int64_t lag_ms;

    if (tending->db_task.busy || sender->saving.gives || sender->leaving ||
        sender->now_ms < sender->tend_at)
        return;
    *tending = (struct tending){
        .leaving = sender->stopping,
        .sent_ms = lease_clock_ms(),
        .pauses = sender->pauses,
        .counts = !sender->me || sender->tends++ % COUNT_ROUNDS == 0,
        .states[0] = -1,
    };
    lag_ms = subscriptions_lag(sender);
    totals->lag_ms = lag_ms > sender->expanding_ms ? lag_ms : sender->expanding_ms;
    snprintf(tending->counters, sizeof(tending->counters),
             "{\"waiting\":%" PRId64 ",\"inFlight\":%" PRId64 ",\"delivered\":%" PRId64
             ",\"retried\":%" PRId64 ",\"abandoned\":%" PRId64 ",\"lostLeases\":%" PRId64 "}",
             totals->waiting, totals->in_flight, totals->delivered, totals->retried,
             totals->abandoned, totals->lost_leases);
    db_task_send(sender, &tending->db_task, lease_work, lease_back);
}

/* ---- cursors, and shards that are given away ------------------------------------------------- */

/*
 * Collects the changed cursors of webhooks. A webhook's cursor is the id before its first
 * unfinished delivery. If shards are given away, also collects the attempts in flight.
 */
static void lease_note(struct sender *sender, struct saving *saving)
{
    IDMAP_FOREACH (delivery, delivery, &sender->deliveries) {
        struct subscription *subscription = delivery->subscription;

        if (delivery->test || !(saving->db_task.shards & sender_shard(delivery->webhook)))
            continue;
        if (saving->gives && delivery->item.place == QUEUE_FLYING)
            saving->failed |= pairs_add(&saving->held, delivery->webhook, delivery->node.id) != 0;
        else if (!delivery->kept &&
                 (!subscription->first || delivery->node.id < subscription->first))
            subscription->first = delivery->node.id;
    }
    IDMAP_FOREACH (subscription, subscription, &sender->subscriptions) {
        int64_t cursor = subscription->backlog ? subscription->read_to : INT64_MAX;

        if (!(saving->db_task.shards & sender_shard(subscription->node.id)))
            continue;
        if (subscription->first && subscription->first - 1 < cursor)
            cursor = subscription->first - 1;
        subscription->first = 0;
        if (cursor >= sender->cursors[(uint64_t)subscription->node.id % SENDER_SHARDS])
            cursor = 0;
        if (cursor == subscription->saved)
            continue;
        saving->failed |= pairs_add(&saving->db_task.pairs, subscription->node.id, cursor) != 0;
        subscription->saved = cursor;
    }
}

static void lease_save_work(struct bb_request *rq, struct db_task *db_task)
{
    struct saving *saving = (struct saving *)db_task;
    const struct pairs *backlog = &db_task->pairs, *held = &saving->held;

    if (saving->failed)
        return;
    const struct bb_rows *rows = bb_query(
        rq, &save,
        BB_ARGS(bb_i(db_task->me), db_task_shards(rq, db_task),
                bb_ints(saving->cursors, SENDER_SHARDS), bb_ints(backlog->webhooks, backlog->count),
                bb_ints(backlog->ids, backlog->count), bb_ints(held->ids, held->count),
                bb_ints(held->webhooks, held->count),
                bb_i(sender_hold_ms(db_task->sender->webhook)), bb_b(saving->gives)));

    db_task->ok = rows != NULL;
    saving->lost = rows && !bb_cell_int(rq, rows, 0, 0);
    if (saving->gives && rows)
        lease_notify(rq);
}

static void lease_save_back(struct sender *sender, struct db_task *db_task)
{
    struct saving *saving = (struct saving *)db_task;

    for (size_t i = 0; i < db_task->pairs.count && !db_task->ok; i++) {
        struct subscription *subscription = subscription_find(sender, db_task->pairs.webhooks[i]);

        if (subscription)
            subscription->saved = -1; /* unknown */
    }
    if (saving->lost)
        sender->tend_at = sender->now_ms;
    if (saving->gives)
        sender->give_failed = !db_task->ok; /* the next heartbeat shows whether it was committed */
    if (saving->gives && db_task->ok) {
        for (size_t i = 0; i < saving->held.count; i++) {
            struct idmap_node *node = idmap_find(&sender->deliveries, saving->held.ids[i]);

            if (node)
                ((struct delivery *)node)->kept = true;
        }
        sender->to_give = 0;
        lease_set(sender, sender->mine & ~db_task->shards);
    }
    saving->gives = false;
    pairs_free(&saving->held);
}

/* Stores the cursors of shards, and of webhooks with unfinished deliveries below those cursors. */
void lease_save(struct sender *sender, uint64_t shards, bool gives)
{
    struct saving *saving = &sender->saving;

    if (!sender->me || saving->db_task.busy)
        return;
    *saving = (struct saving){.db_task.shards = shards, .gives = gives};
    memcpy(saving->cursors, sender->cursors, sizeof(saving->cursors));
    lease_note(sender, saving);
    db_task_send(sender, &saving->db_task, lease_save_work, lease_save_back);
}

void lease_give(struct sender *sender)
{
    if (sender->to_give && !sender->tending.db_task.busy && !sender->reading.db_task.busy &&
        !sender->replaying.busy && !sender->recording.db_task.busy && !record_has_given(sender) &&
        sender->now_ms >= sender->retry_db_at)
        lease_save(sender, sender->to_give, true);
}

/* ---- the end -------------------------------------------------------------------------------- */

static void lease_leave_work(struct bb_request *rq, struct db_task *db_task)
{
    db_task->ok = bb_query(rq, &leave, BB_ARGS(bb_i(db_task->me))) != NULL;
    if (db_task->ok)
        lease_notify(rq);
}

void lease_end(struct sender *sender)
{
    if (queue_flying(&sender->queue)) { /* reset connections before other hosts may send */
        sender->lease_until = 0;
        http_client_end(sender->client);
    }
    if (sender->me)
        db_task_send(sender, &sender->leave, lease_leave_work, NULL);
}
