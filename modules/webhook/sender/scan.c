/*
 * Finds deliveries that are in nobody's memory. Two scans of the table, each every few
 * seconds: for webhooks that have some without an owner, which then count as overflowing; and for
 * deliveries that this host owns but does not know of (the answer to a commit was lost, memory ran
 * out), which are given back.
 */
#include "modules/webhook/sender/internal.h"

#define SCAN_UNOWNED_MS 4000
#define SCAN_OWN_MS 5000
#define SCAN_MAX 20000
#define RELEASE_MAX 2048

/* The distinct webhooks, one step in the index for each, in its order (see claim.c); and 0, if
 * there are events to be expanded. */
static const struct bb_sql unowned = {
    "WITH RECURSIVE w(webhook) AS ("
    "(SELECT webhook FROM webhook_delivery WHERE state = 'queued' AND owner IS NULL"
    " ORDER BY owner, webhook LIMIT 1)"
    " UNION ALL SELECT (SELECT d.webhook FROM webhook_delivery d WHERE d.state = 'queued'"
    " AND d.owner IS NULL AND d.webhook > w.webhook ORDER BY d.owner, d.webhook LIMIT 1)"
    " FROM w WHERE w.webhook IS NOT NULL)"
    " (SELECT webhook FROM w WHERE webhook IS NOT NULL LIMIT 10000)"
    " UNION ALL (SELECT 0 FROM webhook_expansion LIMIT 1)",
    BB_SQL_LONG,
};

/* What this host owns, for longer than a hand-over takes. */
static const struct bb_sql own = {
    "SELECT webhook, id FROM webhook_delivery WHERE owner = $1::bigint AND state = 'queued'"
    " AND queued_at < now() - interval '5 s' ORDER BY webhook, id LIMIT $2::bigint",
    BB_SQL_LONG,
};

struct listing {
    struct db_task db_task;
    int64_t owner;
    struct pairs pairs;
};

static void unowned_work(struct bb_request *rq, struct db_task *db_task)
{
    struct listing *listing = BB_CONTAINER_OF(db_task, struct listing, db_task);
    const struct bb_rows *rows = bb_query(rq, &unowned, BB_NO_ARGS);

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
    for (size_t i = 0; i < listing->pairs.count; i++) {
        int64_t webhook = listing->pairs.webhooks[i];
        struct subscription *subscription = webhook ? subscription_get(sender, webhook) : NULL;

        if (!webhook && sender->expand_at == INT64_MAX)
            sender->expand_at = sender->now_ms;
        if (subscription && subscription->state != SUBSCRIPTION_GONE)
            subscription_set_overflow(sender, subscription, true);
    }
}

static void own_work(struct bb_request *rq, struct db_task *db_task)
{
    struct listing *listing = BB_CONTAINER_OF(db_task, struct listing, db_task);
    const struct bb_rows *rows = bb_query(rq, &own, BB_ARGS(bb_i(listing->owner), bb_i(SCAN_MAX)));

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
 * A row may be seen as ours while what brings it or takes it away is still on its way to this
 * thread; only one that is missing in two scans running is given back.
 */
static void own_back(struct sender *sender, struct db_task *db_task)
{
    struct listing *listing = BB_CONTAINER_OF(db_task, struct listing, db_task);
    struct pairs missing = {0};

    sender->scanning_own = false;
    sender->scan_own_at = sender_beat(sender->now_ms + SCAN_OWN_MS, SCAN_UNOWNED_MS / 2);
    for (size_t i = 0; db_task->ok && listing->owner == sender->me && i < listing->pairs.count;
         i++) {
        int64_t webhook = listing->pairs.webhooks[i], id = listing->pairs.ids[i];

        if (idmap_find(&sender->deliveries, id))
            continue;
        if (suspected(&sender->suspects, id))
            pairs_add(&sender->release, webhook, id);
        else
            pairs_add(&missing, webhook, id);
        if (sender->release.count >= RELEASE_MAX || missing.count >= RELEASE_MAX)
            break;
    }
    pairs_free(&sender->suspects);
    sender->suspects = missing;
}

static void listing_drop(struct db_task *db_task)
{
    pairs_free(&(BB_CONTAINER_OF(db_task, struct listing, db_task))->pairs);
    free(db_task);
}

static bool list(struct sender *sender, void (*work)(struct bb_request *, struct db_task *),
                 void (*back)(struct sender *, struct db_task *))
{
    struct listing *listing = sender->me ? calloc(1, sizeof(*listing)) : NULL;

    if (!listing)
        return false;
    listing->db_task = (struct db_task){.work = work, .back = back, .drop = listing_drop};
    listing->owner = sender->me;
    db_task_send(sender, &listing->db_task);
    return true;
}

void scan_unowned(struct sender *sender)
{
    if (!sender->scanning_unowned && sender->now_ms >= sender->scan_unowned_at)
        sender->scanning_unowned = list(sender, unowned_work, unowned_back);
}

void scan_own(struct sender *sender)
{
    if (!sender->scanning_own && sender->now_ms >= sender->scan_own_at)
        sender->scanning_own = list(sender, own_work, own_back);
}
