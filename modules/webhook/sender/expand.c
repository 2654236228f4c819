/*
 * Expands events that match too many webhooks for the publisher's transaction (enqueue.c): creates
 * their deliveries after the commit, PART per statement, each in a separate transaction. The same
 * statement advances webhook_expansion.done, so that each webhook gets exactly one delivery, even
 * if another host continues. The accounts that raised the events take turns. After a statement this
 * host rests for twice the statement's duration, so that the database has time for other work.
 */
#include "modules/webhook/sender/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PART "128" /* webhooks per statement */
#define PAYLOAD "webhook_payload(b.body) FROM e JOIN webhook_body b ON b.id = e.body_id"
#define MATCHING WEBHOOK_FILTERED("(SELECT " PAYLOAD ")")
#define REST 2 /* pause after a statement, as a multiple of its duration */
#define REST_MAX_MS 250
#define FAILED_MS 60000 /* between two log lines about events that cannot be expanded */

/*
 * Expands a part of the next event. $1 the account of the previous event, $2 an age in ms. Copies
 * the body of an event of an earlier day, because a delivery must be in the partition of its body's
 * day, or of the next day. The first row returned is the event: null, account, body's id, name,
 * event's id, body, trace, and whether it is younger than $2. Further rows are deliveries: webhook,
 * id. Returns no row if there is no event, or if another host has locked the event to expand it.
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
    " copied AS (INSERT INTO webhook_body (body) SELECT b.body FROM e JOIN webhook_body b"
    " ON b.id = e.body_id WHERE e.body_id < webhook_day_floor((now() AT TIME ZONE 'UTC')::date)"
    " RETURNING id),"
    " made AS (INSERT INTO webhook_delivery"
    " (webhook, event, event_id, body_id, created_at, traceparent)"
    " SELECT h.id, e.event, e.event_id, coalesce(c.id, e.body_id), e.queued_at, e.traceparent"
    " FROM e LEFT JOIN copied c ON true, webhook_hook h"
    " WHERE h.id = ANY(e.webhooks[e.done + 1:e.done + " PART "]) AND " MATCHING
    " RETURNING webhook, id) SELECT NULL::bigint, e.account, coalesce(c.id, e.body_id), e.event,"
    " e.event_id, b.body, e.traceparent,"
    " (e.queued_at > now() - make_interval(secs => $2::bigint / 1000.0))::int"
    " FROM e LEFT JOIN copied c ON true LEFT JOIN webhook_body b ON b.id = e.body_id"
    " UNION ALL SELECT webhook, id, NULL, NULL, NULL, NULL, NULL, NULL FROM made",
    BB_SQL_WRITE | BB_SQL_LONG,
};

/* Finds the account of the event that `expand` could not expand. $1 as for `expand` */
static const struct bb_sql whose = {
    "SELECT coalesce((SELECT min(account) FROM webhook_expansion WHERE account > $1::bigint),"
    " (SELECT min(account) FROM webhook_expansion), 0)",
    BB_SQL_LONG,
};

static void expand_work(struct bb_request *rq, struct db_task *db_task)
{
    struct expansion *expansion = (struct expansion *)db_task;
    const struct bb_rows *rows = bb_query(
        rq, &expand,
        BB_ARGS(bb_i(expansion->account), bb_i(webhook_max_age_ms(db_task->sender->settings))));

    if (!rows) {
        /* An event that cannot be expanded is skipped. It waits, with the other events of its
         * account, while the events of other accounts continue. */
        char state[sizeof(expansion->refused)];

        snprintf(state, sizeof(state), "%s", bb_sqlstate(rq));
        rows = bb_query(rq, &whose, BB_ARGS(bb_i(expansion->account)));
        db_task->ok = rows != NULL; /* the event has failed, not the database */
        if (rows) {
            expansion->account = bb_cell_int(rq, rows, 0, 0);
            memcpy(expansion->refused, state, sizeof(state));
        }
        return;
    }
    size_t count = bb_count(rq, rows);
    struct sender_item *items = bb_alloc(rq, (count + 1) * sizeof(*items));

    db_task->ok = true;
    expansion->found = count > 0;
    if (!expansion->found)
        return;
    expansion->account = bb_cell_int(rq, rows, 0, 1);
    struct sender_event event = {.name = bb_cell(rq, rows, 0, 3),
                                 .id = bb_cell(rq, rows, 0, 4),
                                 .body = bb_cell(rq, rows, 0, 5),
                                 .length = rq->api->rows_length(rows, 0, 5),
                                 .body_id = bb_cell_int(rq, rows, 0, 2),
                                 .trace = bb_cell(rq, rows, 0, 6)};

    for (size_t i = 1; i < count; i++)
        items[i - 1] = (struct sender_item){.id = bb_cell_int(rq, rows, i, 1),
                                            .webhook = bb_cell_int(rq, rows, i, 0)};
    if (count > 1 && event.body &&
        bb_cell_int(rq, rows, 0, 7)) /* 0: an old event, which is read from the log */
        sender_committed(db_task->sender, &event, items, count - 1, false);
}

static void expand_back(struct sender *sender, struct db_task *db_task)
{
    struct expansion *expansion = (struct expansion *)db_task;
    int64_t rest = REST * (sender->now_ms - expansion->sent_ms);

    if (!db_task->ok || *expansion->refused)
        rest = SENDER_AGAIN_MS;
    else if (!expansion->found)
        return;
    sender->expand_at = sender->now_ms + (rest < REST_MAX_MS ? rest : REST_MAX_MS);
    if (!*expansion->refused ||
        (sender->expand_told_ms && sender->now_ms - sender->expand_told_ms < FAILED_MS))
        return;
    bb_host_log(sender->host, BB_WARN,
                "an event for many webhooks was not expanded: account %" PRId64 ", SQLSTATE %s",
                expansion->account, expansion->refused);
    sender->expand_told_ms = sender->now_ms;
}

void expand_events(struct sender *sender)
{
    struct expansion *expansion = &sender->expansion;

    if (expansion->db_task.busy || !sender->me || sender->stopping ||
        sender->now_ms < sender->expand_at || sender->now_ms < sender->retry_db_at ||
        !attempt_is_allowed(sender))
        return;
    expansion->found = false;
    *expansion->refused = '\0';
    expansion->sent_ms = sender->now_ms;
    sender->expand_at = INT64_MAX;
    db_task_send(sender, &expansion->db_task, expand_work, expand_back);
}
