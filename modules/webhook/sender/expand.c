/*
 * Events with more webhooks than the publisher's transaction inserts deliveries for (enqueue.c).
 * After the commit this file creates their deliveries, a part per statement, each in a separate
 * transaction. The statement also advances `done`, so that each webhook gets exactly one delivery,
 * however often the work is interrupted and whichever host continues. The accounts that raised the
 * events take turns. Between two statements this host rests for twice the duration of a statement,
 * so that many deliveries do not keep the database from other work.
 */
#include "modules/webhook/sender/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PART "128" /* deliveries per statement */
#define REST 2     /* times the statement's duration */
#define REST_MAX_MS 250
#define AGAIN_MS 500
#define FAILED_MS 60000 /* between two log lines about events that cannot be expanded */

/*
 * $1 the account that had the last turn, $2 owner or null, $3 webhooks whose memory is full, $4 the
 * maximum age of a delivery in milliseconds: an older delivery gets no owner, and is abandoned
 * (jobs.c). An id contains the day of the event's body, so that the two are in partitions of the
 * same day. The first row is the event: null, its account, its body's id, event, its id, body,
 * trace; then deliveries: webhook, id, owner. If another host has locked the event, that host
 * continues it.
 */
static const struct bb_sql expand = {
    "WITH turn AS MATERIALIZED (SELECT coalesce("
    "(SELECT id FROM webhook_expansion WHERE account > $1::bigint ORDER BY account, id LIMIT 1),"
    " (SELECT id FROM webhook_expansion ORDER BY account, id LIMIT 1)) AS id),"
    " e AS MATERIALIZED (SELECT x.* FROM webhook_expansion x, turn WHERE x.id = turn.id"
    " FOR UPDATE OF x SKIP LOCKED),"
    " moved AS (UPDATE webhook_expansion x SET done = e.done + " PART " FROM e"
    " WHERE x.id = e.id AND e.done + " PART " < cardinality(e.webhooks)),"
    " ended AS (DELETE FROM webhook_expansion x USING e"
    " WHERE x.id = e.id AND e.done + " PART " >= cardinality(e.webhooks)),"
    " made AS (INSERT INTO webhook_delivery"
    " (id, webhook, event, event_id, owner, body_id, created_at, queued_at, traceparent)"
    " SELECT (e.body_id >> 32 << 32) + nextval('webhook_delivery_number'), h.id, e.event,"
    " e.event_id, CASE WHEN h.active AND h.admitted"
    " AND e.queued_at > now() - make_interval(secs => $4::bigint / 1000.0)"
    " AND NOT h.id = ANY($3::bigint[]) THEN $2::bigint END, e.body_id, e.queued_at, e.queued_at,"
    " e.traceparent"
    " FROM e, webhook_hook h WHERE h.id = ANY(e.webhooks[e.done + 1:e.done + " PART "])"
    " RETURNING webhook, id, owner)"
    " SELECT NULL::bigint, e.account, e.body_id, e.event, e.event_id, b.body, e.traceparent"
    " FROM e LEFT JOIN webhook_body b ON b.id = e.body_id"
    " UNION ALL SELECT webhook, id, owner, NULL, NULL, NULL, NULL FROM made",
    BB_SQL_WRITE | BB_SQL_LONG,
};

/* Finds the account whose turn failed. */
static const struct bb_sql whose = {
    "SELECT coalesce((SELECT min(account) FROM webhook_expansion WHERE account > $1::bigint),"
    " (SELECT min(account) FROM webhook_expansion), 0)",
    BB_SQL_LONG,
};

struct expansion {
    struct db_task db_task;
    int64_t owner, account;
    int64_t sent_ms;
    char refused[6]; /* SQLSTATE, if PostgreSQL answered and the event itself fails */
    bool found;
};

/*
 * Passes the deliveries in the rows after the first one to the sender: into memory, or as waiting
 * in the table.
 */
static void hand_over(struct bb_request *rq, struct sender *sender, const struct bb_rows *rows,
                      int64_t owner)
{
    size_t length = rq->api->rows_length(rows, 0, 5), owned = 0;
    struct sender_event event = {.name = bb_cell(rq, rows, 0, 3),
                                 .id = bb_cell(rq, rows, 0, 4),
                                 .body = bb_cell(rq, rows, 0, 5),
                                 .length = length,
                                 .body_id = bb_cell_int(rq, rows, 0, 2),
                                 .trace = bb_cell(rq, rows, 0, 6)};
    struct sender_item *items = bb_alloc(rq, bb_count(rq, rows) * sizeof(*items));

    for (size_t row = 1; row < bb_count(rq, rows); row++) {
        int64_t webhook = bb_cell_int(rq, rows, row, 0);

        if (bb_cell(rq, rows, row, 2))
            items[owned++] = (struct sender_item){bb_cell_int(rq, rows, row, 1), webhook};
        else
            sender_scan(sender, webhook);
    }
    if (owned > 0 && event.body) /* without a body: scan_own() finds them */
        sender_hand_off(sender, owner, &event, items, owned, NULL);
}

/*
 * An event that cannot be expanded waits, together with its account's other events; other accounts
 * continue.
 */
static void pass_over(struct bb_request *rq, struct expansion *expansion)
{
    char state[sizeof(expansion->refused)];

    snprintf(state, sizeof(state), "%s", bb_sqlstate(rq));
    const struct bb_rows *rows = bb_query(rq, &whose, BB_ARGS(bb_i(expansion->account)));

    if (!rows)
        return;
    expansion->account = bb_cell_int(rq, rows, 0, 0);
    memcpy(expansion->refused, state, sizeof(state));
}

static void expand_work(struct bb_request *rq, struct db_task *db_task)
{
    struct expansion *expansion = BB_CONTAINER_OF(db_task, struct expansion, db_task);
    int64_t full[SENDER_FULL_MAX];
    size_t count = sender_full(db_task->sender, full);
    const struct bb_rows *rows = bb_query(
        rq, &expand,
        BB_ARGS(bb_i(expansion->account), expansion->owner ? bb_i(expansion->owner) : bb_null(),
                bb_ints(full, count), bb_i(db_task->sender->settings->max_age_ms)));

    if (!rows) {
        pass_over(rq, expansion);
        return;
    }
    expansion->found = bb_count(rq, rows) > 0;
    if (expansion->found) {
        expansion->account = bb_cell_int(rq, rows, 0, 1);
        hand_over(rq, db_task->sender, rows, expansion->owner);
    }
    db_task->ok = true;
}

static void failed(struct sender *sender, const struct expansion *expansion)
{
    sender->expand_at = sender->now_ms + AGAIN_MS;
    if (!expansion->refused[0]) {
        sender->retry_db_at = sender->expand_at;
        return;
    }
    sender->expanded_last = expansion->account;
    if (sender->expand_told_ms && sender->now_ms - sender->expand_told_ms < FAILED_MS)
        return;
    bb_host_log(sender->host, BB_WARN,
                "an event for many webhooks was not expanded: account %" PRId64 ", SQLSTATE %s",
                expansion->account, expansion->refused);
    sender->expand_told_ms = sender->now_ms;
}

static void expand_back(struct sender *sender, struct db_task *db_task)
{
    const struct expansion *expansion = BB_CONTAINER_OF(db_task, struct expansion, db_task);
    int64_t rest = REST * (sender->now_ms - expansion->sent_ms);

    sender->expanding = false;
    if (!db_task->ok) {
        failed(sender, expansion);
    } else if (expansion->found) {
        sender->expanded_last = expansion->account;
        sender->expand_at = sender->now_ms + (rest < REST_MAX_MS ? rest : REST_MAX_MS);
    }
}

static void expand_drop(struct db_task *db_task)
{
    free(db_task);
}

void expand_events(struct sender *sender)
{
    if (sender->expanding || !sender->me || sender->stopping ||
        sender->now_ms < sender->expand_at || sender->now_ms < sender->retry_db_at ||
        sender->now_ms >= sender->lease_until)
        return;
    struct expansion *expansion = calloc(1, sizeof(*expansion));

    if (!expansion) {
        sender->expand_at = sender->now_ms + AGAIN_MS;
        return;
    }
    expansion->db_task =
        (struct db_task){.work = expand_work, .back = expand_back, .drop = expand_drop};
    expansion->owner = sender->queue.held_bytes < sender->queue.limits.bytes ? sender->me : 0;
    expansion->account = sender->expanded_last;
    expansion->sent_ms = sender->now_ms;
    sender->expanding = true;
    sender->expand_at = INT64_MAX;
    db_task_send(sender, &expansion->db_task);
}
