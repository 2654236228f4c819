/*
 * The lease of this host: its row in webhook_host, and the shards that it owns.
 *
 * webhook_tend() renews the lease every two seconds. If it was not renewed for eight seconds, by
 * the clock of the database, any other host deletes the row, and the shards have no owner. This
 * host starts no attempt and sends no request later than six seconds after its last heartbeat
 * began, by CLOCK_BOOTTIME, which also counts while the machine is suspended. A host that was only
 * suspended finds that its row is gone, drops everything in memory and takes a new id. No host
 * checks the processes of other hosts, because they may be on another machine, or hidden
 * (ProtectProc=invisible).
 *
 * A host that has more than its part of the shards, or ends, gives shards away: it starts no
 * attempt for them, records its results, and writes a row in webhook_waiting for each attempt in
 * flight. The next owner repeats such an attempt only if this host records no outcome in time.
 */
#include "modules/webhook/sender/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TEND_MS 2000
#define COUNT_ROUNDS 3 /* the webhooks are counted in every third round */

static const struct bb_sql tend = {
    "SELECT me, paused::int, fair, buried, frontier, low_xact, next_xact, owned"
    " FROM webhook_tend($1::bigint, $2::jsonb, $3::boolean)",
    BB_SQL_WRITE,
};
enum { ME, PAUSED, FAIR, BURIED, FRONTIER, LOW_XACT, NEXT_XACT, OWNED };

/*
 * $1 host, $2 shards, $3 their cursors, $4 webhooks, $5 the cursors of their backlogs (0: they have
 * none), $6 deliveries in flight, $7 their webhooks, $8 their tries and $9 ages in ms, $10 how long
 * these deliveries are held, in ms, $11 whether the shards are given away
 */
static const struct bb_sql save = {
    "WITH me AS MATERIALIZED (SELECT id FROM webhook_host WHERE id = $1::bigint FOR KEY SHARE),"
    " moved AS (UPDATE webhook_shard s SET cursor = greatest(s.cursor, n.cursor),"
    " owner = CASE WHEN $11::boolean THEN NULL ELSE s.owner END"
    " FROM unnest($2::bigint[], $3::bigint[]) AS n(shard, cursor)"
    " WHERE s.shard = n.shard AND s.owner = (SELECT id FROM me)),"
    " b AS (SELECT * FROM unnest($4::bigint[], $5::bigint[]) AS b(webhook, cursor)"
    " WHERE EXISTS (SELECT FROM me)),"
    " backlog AS (INSERT INTO webhook_backlog (webhook, cursor) SELECT * FROM b WHERE cursor > 0"
    " ON CONFLICT (webhook) DO UPDATE SET cursor = excluded.cursor),"
    " caught_up AS (DELETE FROM webhook_backlog"
    " WHERE webhook = ANY (ARRAY(SELECT webhook FROM b WHERE cursor = 0))),"
    " held AS (INSERT INTO webhook_waiting (id, webhook, tries, queued_at, next_at)"
    " SELECT id, webhook, tries, now() - age * interval '1 ms',"
    " now() + $10::bigint * interval '1 ms'"
    " FROM unnest($6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])"
    " AS f(id, webhook, tries, age) WHERE EXISTS (SELECT FROM me)"
    " ON CONFLICT (id) DO UPDATE SET next_at = excluded.next_at)"
    " SELECT count(*) FROM me",
    BB_SQL_WRITE,
};

static const struct bb_sql leave = {"DELETE FROM webhook_host WHERE id = $1::bigint", BB_SQL_WRITE};

/* Also returns the age of the oldest event to be expanded, in ms. */
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

/* ---- the heartbeat -------------------------------------------------------------------------- */

struct tending {
    struct db_task db_task;
    int64_t me; /* 0: this host joins */
    int64_t sent_ms;
    unsigned pauses;
    bool leaving, counts;
    bool lost, paused;
    int64_t fair, buried, frontier, low_xact, next_xact;
    uint64_t owned;
    int64_t cursors[SENDER_SHARDS];
    char counters[256];
    int64_t webhooks[WEBHOOK_STATES]; /* the first is -1: not counted */
    int64_t expanding, expanding_ms;  /* events to be expanded, and the age of the oldest */
};

static void lease_work(struct bb_request *rq, struct db_task *db_task)
{
    struct tending *tending = (struct tending *)db_task;
    const struct bb_rows *rows = bb_query(
        rq, &tend, BB_ARGS(bb_i(tending->me), bb_t(tending->counters), bb_b(tending->leaving)));

    if (!rows || bb_count(rq, rows) != 1)
        return;
    tending->lost = !bb_cell(rq, rows, 0, ME);
    tending->me = bb_cell_int(rq, rows, 0, ME);
    tending->paused = bb_cell_int(rq, rows, 0, PAUSED);
    tending->fair = bb_cell_int(rq, rows, 0, FAIR);
    tending->buried = bb_cell_int(rq, rows, 0, BURIED);
    tending->frontier = bb_cell_int(rq, rows, 0, FRONTIER);
    tending->low_xact = bb_cell_int(rq, rows, 0, LOW_XACT);
    tending->next_xact = bb_cell_int(rq, rows, 0, NEXT_XACT);
    const char *owned = bb_cell(rq, rows, 0, OWNED);

    for (const char *at = owned ? owned : ""; *at;) {
        char *end;
        int64_t shard = strtoll(at, &end, 10);

        tending->owned |= sender_shard(shard);
        tending->cursors[shard % SENDER_SHARDS] = strtoll(end + 1, &end, 10);
        at = end;
    }
    if (tending->buried)
        bb_log(rq, BB_WARN, "the shards of dead hosts are free: hosts %lld",
               (long long)tending->buried);
    if (tending->counts && !tending->lost) {
        rows = bb_query(rq, &states, BB_NO_ARGS);
        for (size_t i = 0; rows && i < WEBHOOK_STATES; i++)
            tending->webhooks[i] = bb_cell_int(rq, rows, 0, i);
        if (rows) {
            tending->expanding = bb_cell_int(rq, rows, 0, WEBHOOK_STATES);
            tending->expanding_ms = bb_cell_int(rq, rows, 0, WEBHOOK_STATES + 1);
        }
    }
    db_task->ok = true;
}

/* Changes the shards of this host, and drops the deliveries and webhooks of lost shards. */
static void lease_set(struct sender *sender, uint64_t mine)
{
    uint64_t lost = sender->mine & ~mine;

    sender->mine = mine;
    pthread_mutex_lock(&sender->lock);
    sender->owned = mine;
    sender->ready = sender->me;
    pthread_mutex_unlock(&sender->lock);
    if (!lost && sender->me)
        return;
    IDMAP_FOREACH(node, &sender->deliveries)
    {
        struct delivery *delivery = delivery_of(node);

        delivery->lease_lost |= !sender->me;
        if (!sender->me || !(delivery->test || mine & sender_shard(delivery->webhook)))
            delivery_drop(sender, delivery);
    }
    subscriptions_drop(sender, lost);
}

static void lease_lost(struct sender *sender)
{
    bb_host_log(sender->host, BB_WARN,
                "this host lost its lease: other hosts took over its shards");
    sender->me = 0;
    sender->to_give = 0;
    sender->look = LOOK_NONE;
    sender->frontier = 0;
    sender->frontier_safe = false;
    lease_set(sender, 0);
    pthread_mutex_lock(&sender->lock);
    sender->counters.lost_leases++;
    pthread_mutex_unlock(&sender->lock);
    sender->tend_at = sender->now_ms;
}

/* Notes a frontier, and whether it is safe (see webhook_tend()). */
static void lease_note_frontier(struct sender *sender, const struct tending *tending)
{
    bool old = false;

    if (tending->frontier > sender->newest)
        sender->newest = tending->frontier;
    for (int64_t i = 0; i < SENDER_SHARDS; i++)
        old |= sender->mine & sender_shard(i) && sender->cursors[i] < tending->frontier;
    if (sender->frontier && tending->low_xact >= sender->frontier_xact)
        sender->frontier_safe = true;
    if (!sender->frontier && old) {
        sender->frontier = tending->frontier;
        sender->frontier_xact = tending->next_xact;
    }
}

static void lease_back(struct sender *sender, struct db_task *db_task)
{
    const struct tending *tending = (struct tending *)db_task;
    uint64_t gained = tending->owned & ~sender->mine;

    sender->tend_at =
        db_task->ok ? sender_beat(sender->now_ms, TEND_MS) : sender->now_ms + SENDER_AGAIN_MS;
    if (!db_task->ok)
        return;
    if (tending->lost) {
        lease_lost(sender);
        return;
    }
    pthread_mutex_lock(&sender->lock);
    if (tending->pauses == sender->pauses) /* no newer state was received */
        sender->paused = tending->paused;
    if (tending->webhooks[0] >= 0) {
        memcpy(sender->counters.webhooks, tending->webhooks, sizeof(tending->webhooks));
        sender->counters.expanding = tending->expanding;
        sender->expanding_ms = tending->expanding_ms;
        if (tending->expanding)
            sender->events_wait = true;
    }
    pthread_mutex_unlock(&sender->lock);
    sender->me = tending->me;
    sender->lease_until = tending->sent_ms + SENDER_LEASE_MS;
    lease_note_frontier(sender, tending);
    for (int64_t i = 0; i < SENDER_SHARDS; i++)
        if (gained & sender_shard(i)) {
            sender->cursors[i] = tending->cursors[i];
            sender->gained_ms[i] = sender->now_ms;
        }
    lease_set(sender, tending->owned);
    if (gained) { /* what is in memory about these shards is old */
        subscriptions_drop(sender, gained);
        /* deliveries that this host dropped when it had a shard before */
        memset(sender->recent, 0, SENDER_RECENT * sizeof(*sender->recent));
    }
    if (gained || tending->buried)
        sender->look_wanted = true;
    /* If this host has more than its part, the highest shards are given away. */
    int64_t surplus = __builtin_popcountll(sender->mine) - tending->fair;

    for (int64_t i = SENDER_SHARDS - 1; i >= 0 && surplus > 0; i--)
        if (sender->mine & sender_shard(i)) {
            sender->to_give |= sender_shard(i);
            surplus--;
        }
    sender->look_shards &= ~sender->to_give; /* the rest of the look skips them */
    IDMAP_FOREACH(node, &sender->subscriptions)
    {
        if (gained || sender->to_give)
            subscription_update(sender, subscription_of(node));
    }
}

void lease_tend(struct sender *sender)
{
    if (sender->tending || sender->giving || sender->leaving || sender->now_ms < sender->tend_at)
        return;
    struct tending *tending = db_task_new(sender, sizeof(*tending), lease_work, lease_back, NULL);

    sender->tend_at = sender->now_ms + SENDER_AGAIN_MS;
    if (!tending)
        return;
    tending->me = sender->me;
    tending->leaving = sender->stopping;
    tending->sent_ms = lease_clock_ms();
    tending->counts = !sender->me || sender->tends++ % COUNT_ROUNDS == 0;
    tending->webhooks[0] = -1;
    int64_t lag_ms = subscriptions_lag(sender);
    struct sender_counters counters;

    pthread_mutex_lock(&sender->lock);
    sender->counters.lag_ms = lag_ms > sender->expanding_ms ? lag_ms : sender->expanding_ms;
    tending->pauses = sender->pauses;
    counters = sender->counters;
    pthread_mutex_unlock(&sender->lock);
    snprintf(tending->counters, sizeof(tending->counters),
             "{\"waiting\":%" PRId64 ",\"inFlight\":%" PRId64 ",\"delivered\":%" PRId64
             ",\"retried\":%" PRId64 ",\"abandoned\":%" PRId64 ",\"lostLeases\":%" PRId64 "}",
             counters.waiting, counters.in_flight, counters.delivered, counters.retried,
             counters.abandoned, counters.lost_leases);
    db_task_send(&tending->db_task, &sender->tending);
}

/* ---- cursors, and shards that are given away ------------------------------------------------- */

struct saving {
    struct db_task db_task;
    int64_t me, hold_ms;
    bool gives, lost;
    uint64_t shards;
    size_t shard_count;
    int64_t numbers[SENDER_SHARDS], cursors[SENDER_SHARDS];
    struct pairs held, tries_ages;
    bool failed; /* out of memory */
};

/* Notes the first unfinished delivery of each webhook, and the attempts in flight. */
static void lease_note_deliveries(struct sender *sender, struct saving *saving)
{
    IDMAP_FOREACH(node, &sender->deliveries)
    {
        struct delivery *delivery = delivery_of(node);
        struct subscription *subscription = delivery->subscription;

        if (delivery->test || !(saving->shards & sender_shard(delivery->webhook)))
            continue;
        if (saving->gives && delivery->item.place == QUEUE_FLYING) {
            delivery->kept = true;
            saving->failed |= pairs_add(&saving->held, delivery->webhook, node->id) ||
                              pairs_add(&saving->tries_ages, delivery->tries - 1,
                                        sender->now_ms - delivery->queued_ms);
        }
        if (!delivery->kept && (!subscription->first || node->id < subscription->first))
            subscription->first = node->id;
    }
}

/* Notes the changed cursors of webhooks, after lease_note_deliveries(). */
static void lease_note_cursors(struct sender *sender, struct saving *saving)
{
    IDMAP_FOREACH(node, &sender->subscriptions)
    {
        struct subscription *subscription = subscription_of(node);
        int64_t cursor = subscription->backlog ? subscription->read_to : INT64_MAX;

        if (!(saving->shards & sender_shard(node->id)))
            continue;
        if (subscription->first && subscription->first - 1 < cursor)
            cursor = subscription->first - 1;
        subscription->first = 0;
        if (cursor >= sender->cursors[(uint64_t)node->id % SENDER_SHARDS])
            cursor = 0;
        if (cursor == subscription->saved)
            continue;
        saving->failed |= pairs_add(&saving->db_task.pairs, node->id, cursor) != 0;
        subscription->saved = cursor;
    }
}

static void lease_save_work(struct bb_request *rq, struct db_task *db_task)
{
    struct saving *saving = (struct saving *)db_task;
    const struct pairs *backlog = &db_task->pairs, *held = &saving->held,
                       *rest = &saving->tries_ages;

    if (saving->failed)
        return;
    const struct bb_rows *rows = bb_query(
        rq, &save,
        BB_ARGS(bb_i(saving->me), bb_ints(saving->numbers, saving->shard_count),
                bb_ints(saving->cursors, saving->shard_count),
                bb_ints(backlog->webhooks, backlog->count), bb_ints(backlog->ids, backlog->count),
                bb_ints(held->ids, held->count), bb_ints(held->webhooks, held->count),
                bb_ints(rest->webhooks, rest->count), bb_ints(rest->ids, rest->count),
                bb_i(saving->hold_ms), bb_b(saving->gives)));

    db_task->ok = rows != NULL;
    saving->lost = rows && !bb_cell_int(rq, rows, 0, 0);
    if (saving->gives && rows && bb_notify(rq, NULL, WEBHOOK_CHANNEL, "shards"))
        bb_log(rq, BB_DEBUG, "cannot notify other hosts of free shards");
}

static void lease_save_back(struct sender *sender, struct db_task *db_task)
{
    struct saving *saving = (struct saving *)db_task;

    sender->giving = false;
    for (size_t i = 0; i < db_task->pairs.count && !db_task->ok; i++) {
        struct subscription *subscription = subscription_find(sender, db_task->pairs.webhooks[i]);

        if (subscription)
            subscription->saved = -1; /* unknown */
    }
    if (saving->lost)
        sender->tend_at = sender->now_ms;
    if (!saving->gives || !db_task->ok)
        return;
    sender->to_give = 0;
    lease_set(sender, sender->mine & ~saving->shards);
}

static void lease_save_drop(struct db_task *db_task)
{
    struct saving *saving = (struct saving *)db_task;

    pairs_free(&saving->held);
    pairs_free(&saving->tries_ages);
}

/* Stores the cursors of shards, and of webhooks with unfinished deliveries below those cursors. */
static void lease_send_save(struct sender *sender, uint64_t shards, bool gives)
{
    struct saving *saving = sender->me ? db_task_new(sender, sizeof(*saving), lease_save_work,
                                                     lease_save_back, lease_save_drop)
                                       : NULL;

    if (!saving)
        return;
    saving->me = sender->me;
    saving->hold_ms = sender_hold_ms(sender->webhook);
    saving->shards = shards;
    saving->gives = gives;
    for (int64_t i = 0; i < SENDER_SHARDS; i++) {
        if (shards & sender_shard(i)) {
            saving->numbers[saving->shard_count] = i;
            saving->cursors[saving->shard_count++] = sender->cursors[i];
        }
    }
    lease_note_deliveries(sender, saving);
    lease_note_cursors(sender, saving);
    sender->giving = gives;
    db_task_send(&saving->db_task, &sender->saving);
}

void lease_save(struct sender *sender)
{
    if (!sender->saving)
        lease_send_save(sender, sender->mine & ~sender->to_give, false);
}

void lease_give(struct sender *sender)
{
    if (sender->to_give && !sender->giving && !sender->saving && !sender->tending &&
        !sender->reading && !sender->replaying && !sender->recording &&
        STAILQ_EMPTY(&sender->results) && sender->now_ms >= sender->retry_db_at)
        lease_send_save(sender, sender->to_give, true);
}

/* ---- the end -------------------------------------------------------------------------------- */

static void lease_leave_work(struct bb_request *rq, struct db_task *db_task)
{
    db_task->ok = bb_query(rq, &leave, BB_ARGS(bb_i(((struct tending *)db_task)->me))) != NULL;
    if (db_task->ok && bb_notify(rq, NULL, WEBHOOK_CHANNEL, "shards"))
        bb_log(rq, BB_DEBUG, "cannot notify other hosts of free shards");
}

void lease_end(struct sender *sender)
{
    struct tending *tending =
        sender->me ? db_task_new(sender, sizeof(*tending), lease_leave_work, NULL, NULL) : NULL;

    if (!tending)
        return;
    tending->me = sender->me;
    db_task_send(&tending->db_task, &sender->tending);
}
