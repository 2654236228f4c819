/*
 * Finds deliveries that are in nobody's memory. There are two scans of the table, each every few
 * seconds: for webhooks with deliveries without an owner, which then count as overflowing; and for
 * deliveries that this host owns but does not have in memory (the response to a commit was lost, or
 * memory ran out), which are given back. Each scan reads the table page by page and starts again at
 * the end, so that nothing is missed in a backlog of any length.
 */
#include "modules/webhook/sender/internal.h"

#define SCAN_UNOWNED_MS 4000
#define SCAN_OWN_MS 5000
#define SCAN_MAX 20000
#define WEBHOOKS_MAX 10000
#define RELEASE_MAX 2048

/*
 * The distinct webhooks after $1, one step in the index for each, in the order of the index (see
 * claim.c); $2 number of webhooks. Plus a row 0 if there are events to be expanded.
 */
static const struct bb_sql unowned = {
    "WITH RECURSIVE w(webhook) AS ("
    "(SELECT webhook FROM webhook_delivery WHERE state = 'queued' AND owner IS NULL"
    " AND webhook > $1::bigint ORDER BY owner, webhook LIMIT 1)"
    " UNION ALL SELECT (SELECT d.webhook FROM webhook_delivery d WHERE d.state = 'queued'"
    " AND d.owner IS NULL AND d.webhook > w.webhook ORDER BY d.owner, d.webhook LIMIT 1)"
    " FROM w WHERE w.webhook IS NOT NULL)"
    " (SELECT webhook FROM w WHERE webhook IS NOT NULL LIMIT $2::bigint)"
    " UNION ALL (SELECT 0 FROM webhook_expansion LIMIT 1)",
    BB_SQL_LONG,
};

/*
 * Deliveries after delivery $3 of webhook $2 that this host has owned for longer than a hand-over
 * takes.
 */
static const struct bb_sql own = {
    "SELECT webhook, id FROM webhook_delivery WHERE owner = $1::bigint AND state = 'queued'"
    " AND (webhook, id) > ($2::bigint, $3::bigint) AND queued_at < now() - interval '5 s'"
    " ORDER BY webhook, id LIMIT $4::bigint",
    BB_SQL_LONG,
};

struct listing {
    struct db_task db_task;
    int64_t owner;
    struct scan_place after;
    struct pairs pairs;
};

static void unowned_work(struct bb_request *rq, struct db_task *db_task)
{
    struct listing *listing = BB_CONTAINER_OF(db_task, struct listing, db_task);
    const struct bb_rows *rows =
        bb_query(rq, &unowned, BB_ARGS(bb_i(listing->after.webhook), bb_i(WEBHOOKS_MAX)));

    for (size_t row = 0; rows && row < bb_count(rq, rows); row++)
        if (pairs_add(&listing->pairs, bb_cell_int(rq, rows, row, 0), 0))
            return;
    db_task->ok = rows != NULL;
}

static void unowned_back(struct sender *sender, struct db_task *db_task)
{
    struct listing *listing = BB_CONTAINER_OF(db_task, struct listing, db_task);

    sender->scanning_unowned = false;
    sender->scan_unowned_at = sender_beat(sender->now_ms, SCAN_UNOWNED_MS);
    if (db_task->ok)
        sender->unowned_after = 0;
    for (size_t i = 0; i < listing->pairs.count; i++) {
        int64_t webhook = listing->pairs.webhooks[i];
        struct subscription *subscription = webhook ? subscription_get(sender, webhook) : NULL;

        if (db_task->ok && i + 1 == WEBHOOKS_MAX) /* the page is full: the next scan continues */
            sender->unowned_after = webhook;
        if (!webhook && sender->expand_at == INT64_MAX)
            sender->expand_at = sender->now_ms;
        if (subscription && subscription->state != SUBSCRIPTION_GONE)
            subscription_set_overflow(sender, subscription, true);
    }
}

static void own_work(struct bb_request *rq, struct db_task *db_task)
{
    struct listing *listing = BB_CONTAINER_OF(db_task, struct listing, db_task);
    const struct bb_rows *rows =
        bb_query(rq, &own,
                 BB_ARGS(bb_i(listing->owner), bb_i(listing->after.webhook),
                         bb_i(listing->after.id), bb_i(SCAN_MAX)));

    for (size_t row = 0; rows && row < bb_count(rq, rows); row++)
        if (pairs_add(&listing->pairs, bb_cell_int(rq, rows, row, 0),
                      bb_cell_int(rq, rows, row, 1)))
            return;
    db_task->ok = rows != NULL;
}

static bool suspected(const struct pairs *suspects, int64_t id)
{
    for (size_t i = 0; i < suspects->count; i++)
        if (suspects->ids[i] == id)
            return true;
    return false;
}

/*
 * A row may be visible as owned while its hand-over or its outcome is still on its way to this
 * thread, so a row is given back only if it is missing from memory in two consecutive scans. A page
 * with missing rows is therefore read twice before the scan continues after the last checked row.
 */
static void own_back(struct sender *sender, struct db_task *db_task)
{
    struct listing *listing = BB_CONTAINER_OF(db_task, struct listing, db_task);
    const struct pairs *pairs = &listing->pairs;
    struct pairs missing = {0}, suspects = sender->suspects;
    bool judges = db_task->ok && listing->owner == sender->me;
    size_t i = 0;

    sender->scanning_own = false;
    sender->scan_own_at = sender_beat(sender->now_ms + SCAN_OWN_MS, SCAN_UNOWNED_MS / 2);
    sender->suspects = (struct pairs){0};
    for (; judges && i < pairs->count && sender->release.count < RELEASE_MAX &&
           missing.count < RELEASE_MAX;
         i++) {
        if (idmap_find(&sender->deliveries, pairs->ids[i]))
            continue;
        pairs_add(suspected(&suspects, pairs->ids[i]) ? &sender->release : &missing,
                  pairs->webhooks[i], pairs->ids[i]);
    }
    if (judges && missing.count && !suspects.count) {
        sender->suspects = missing;
    } else {
        if (judges && i)
            sender->own_after = (struct scan_place){pairs->webhooks[i - 1], pairs->ids[i - 1]};
        if (listing->owner != sender->me || (judges && i == pairs->count && i < SCAN_MAX))
            sender->own_after = (struct scan_place){0};
        pairs_free(&missing);
    }
    pairs_free(&suspects);
}

static void listing_drop(struct db_task *db_task)
{
    pairs_free(&(BB_CONTAINER_OF(db_task, struct listing, db_task))->pairs);
    free(db_task);
}

static bool list(struct sender *sender, struct scan_place after,
                 void (*work)(struct bb_request *, struct db_task *),
                 void (*back)(struct sender *, struct db_task *))
{
    struct listing *listing = sender->me ? calloc(1, sizeof(*listing)) : NULL;

    if (!listing)
        return false;
    listing->db_task = (struct db_task){.work = work, .back = back, .drop = listing_drop};
    listing->owner = sender->me;
    listing->after = after;
    db_task_send(sender, &listing->db_task);
    return true;
}

void scan_unowned(struct sender *sender)
{
    if (!sender->scanning_unowned && sender->now_ms >= sender->scan_unowned_at)
        sender->scanning_unowned =
            list(sender, (struct scan_place){.webhook = sender->unowned_after}, unowned_work,
                 unowned_back);
}

void scan_own(struct sender *sender)
{
    if (!sender->scanning_own && sender->now_ms >= sender->scan_own_at)
        sender->scanning_own = list(sender, sender->own_after, own_work, own_back);
}
