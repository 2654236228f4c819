/*
 * Records results, hundreds in one statement, which locks the row of this host (SENDER_ME). To take
 * over the shards, another host deletes this row, and so waits until the statement has ended. Later
 * statements of this host find no row and record nothing.
 */
#include "modules/webhook/sender/internal.h"

#include <inttypes.h>
#include <stdio.h>

#define ABANDONED_MS 60000 /* between two log lines about a webhook */
#define FEW 16             /* results that may be recorded by a short statement */
#define GATHER_MS 100      /* how long a result waits for others */
#define IN_MEMORY_MS 60000 /* retries that are due later leave memory */

/*
 * Records plain results (see record_add()). $1 this host, $2 an array of [error, answer, headers],
 * $3 ids, $4 webhooks, $5 times and $6 durations in ms, $7 statuses
 */
#define RECORD_DELIVERED(more)                                                                     \
    "WITH " SENDER_ME                                                                              \
    ", done AS (INSERT INTO webhook_outcome (id, webhook, at, duration_ms, status,"                \
    " delivered, answer, headers) SELECT r.id, r.webhook, to_timestamp(r.at / 1000.0), r.took,"    \
    " r.status, true, r.details ->> 1, r.details ->> 2 FROM ROWS FROM (unnest($3::bigint[],"       \
    " $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[]), jsonb_array_elements($2::jsonb))"   \
    " AS r(id, webhook, at, took, status, details) WHERE EXISTS (SELECT FROM me)" more             \
    ") SELECT count(*) FROM me"

/* Records a result with an event's id (details[3]) only if its delivery has the same event. */
#define CHECKED                                                                                    \
    " AND (r.details -> 3 IS NULL OR (r.details ->> 3)::uuid = (SELECT event_id"                   \
    " FROM webhook_delivery d WHERE d.id = r.id AND webhook = r.webhook)) ON CONFLICT DO NOTHING"

/* The log already has the attempt if RECORD_OTHERS is repeated after a lost response. */
#define LOGGED                                                                                     \
    "CASE WHEN o.log -> -1 ->> 'at' = " BB_SQL_TIME("r.began") " THEN o.log ELSE " WEBHOOK_LOG(    \
        "coalesce(o.log, '[]')",                                                                   \
        WEBHOOK_ATTEMPT(WEBHOOK_NUMBER("o.log"), "r.began", "r.status", "r.took",                  \
                        "r.details -> 0", "r.details -> 1", "r.details -> 2")) " END"
/*
 * Records results that are not plain. $1 to $7 as for RECORD_DELIVERED, $8 verdicts, $9 tries, $10
 * delays before the next attempts and $11 ages of the deliveries, both in ms. Ids are compared with
 * arrays, because PostgreSQL would plan a join with statistics that may be old.
 */
#define RECORD_OTHERS                                                                              \
    "WITH " SENDER_ME                                                                              \
    ", r AS MATERIALIZED (SELECT id, webhook, to_timestamp(at / 1000.0) AS began, took,"           \
    " nullif(status, 0) AS status, verdict, tries, gap, age, details FROM ROWS FROM ("             \
    "unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],"   \
    " $9::bigint[], $10::bigint[], $11::bigint[]), jsonb_array_elements($2::jsonb))"               \
    " AS r(id, webhook, at, took, status, verdict, tries, gap, age, details)"                      \
    " WHERE EXISTS (SELECT FROM me)),"                                                             \
    " old AS (DELETE FROM webhook_waiting WHERE id = ANY (ARRAY(SELECT id FROM r"                  \
    " WHERE verdict <> 1)) RETURNING id, log),"                                                    \
    " before AS (SELECT id, log FROM webhook_waiting WHERE id = ANY (ARRAY(SELECT id FROM r"       \
    " WHERE verdict = 1))),"                                                                       \
    " again AS (INSERT INTO webhook_waiting (id, webhook, next_at, queued_at, tries, log)"         \
    " SELECT r.id, r.webhook, now() + r.gap * interval '1 ms', now() - r.age * interval '1 ms',"   \
    " r.tries, " LOGGED " FROM r LEFT JOIN before o ON o.id = r.id WHERE r.verdict = 1"            \
    " ON CONFLICT (id) DO UPDATE"                                                                  \
    " SET next_at = excluded.next_at, tries = excluded.tries, log = excluded.log),"                \
    " done AS (INSERT INTO webhook_outcome (id, webhook, at, duration_ms, status, delivered, log)" \
    " SELECT r.id, r.webhook, r.began, r.took, r.status, r.verdict = 0, " LOGGED                   \
    " FROM r LEFT JOIN old o ON o.id = r.id WHERE r.verdict <> 1 ON CONFLICT DO NOTHING)"          \
    " SELECT count(*) FROM me"

_Static_assert(RETRY_DELIVERED == 0 && RETRY_LATER == 1, "RECORD_OTHERS has these values");

/*
 * A statement with few results takes as long as a short read. A statement with many results has the
 * flag BB_SQL_LONG, so that no short read waits for it.
 */
static const struct bb_sql record_few = {RECORD_DELIVERED(""), BB_SQL_WRITE};
static const struct bb_sql record_many = {RECORD_DELIVERED(""), BB_SQL_WRITE | BB_SQL_LONG};
static const struct bb_sql record_checked = {RECORD_DELIVERED(CHECKED), BB_SQL_WRITE | BB_SQL_LONG};
static const struct bb_sql record_others = {RECORD_OTHERS, BB_SQL_WRITE | BB_SQL_LONG};

enum { ID, WEBHOOK, AT, TOOK, STATUS, VERDICT, TRIES, GAP, AGE, COLUMNS };

_Static_assert(COLUMNS == SENDER_RECORD_COLUMNS, "struct recording has the columns");

/* Runs the statement for the results, in `tx` unless this is NULL. Returns NULL on failure. */
static const struct bb_rows *record_all(struct bb_request *rq, struct bb_tx *tx,
                                        struct recording *recording)
{
    /* the statements for plain results have the first seven parameters */
    size_t used = recording->plain ? 7 : 2 + COLUMNS;
    struct bb_value values[2 + COLUMNS] = {bb_i(recording->db_task.me),
                                           bb_t(bb_json(rq, recording->details, NULL))};

    for (size_t i = 0; i < COLUMNS; i++)
        values[2 + i] = bb_ints(recording->columns[i], recording->count);
    const struct bb_sql *sql = !recording->plain           ? &record_others
                               : tx || recording->verifies ? &record_checked
                               : recording->count > FEW    ? &record_many
                                                           : &record_few;
    const struct bb_rows *rows =
        tx ? bb_tx_query(rq, tx, sql, values, used) : bb_query(rq, sql, values, used);

    /* unique_violation: the results are already recorded, but the response was lost */
    if (!rows && !tx && recording->plain && !strcmp(bb_sqlstate(rq), "23505"))
        rows = bb_query(rq, &record_others, values, 2 + COLUMNS);
    recording->lost = rows && !bb_cell_int(rq, rows, 0, 0);
    return rows;
}

static int record_with_health(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct recording *recording = arg;

    if (!record_all(rq, tx, recording))
        return -1;
    if (recording->lost)
        return 409;
    return health_store(rq, tx, recording) ? -1 : 200;
}

/*
 * Records the results, and the health of their webhooks in the same transaction. If this fails for
 * another reason than an unavailable database, such as the error of a module that gets the events,
 * the results are recorded without the health.
 */
static void record_work(struct bb_request *rq, struct db_task *db_task)
{
    struct recording *recording = (struct recording *)db_task;
    int status = recording->note_count ? bb_transaction(rq, record_with_health, recording) : 0;

    recording->noted = status == 200;
    db_task->ok = recording->noted || recording->lost;
    if (db_task->ok || status == 503)
        return;
    if (status)
        bb_log(rq, BB_ERROR,
               "cannot store the health of webhooks: results %zu, the first webhook %" PRId64,
               recording->note_count, recording->notes[NOTE_WEBHOOK][0]);
    db_task->ok = record_all(rq, NULL, recording) != NULL;
}

/*
 * Logs at most one line per webhook and minute. The line has no part of the URL or of a body, and
 * only the status of the response, because other people than the webhook's owner read the log.
 */
static void record_tell_abandoned(const struct sender *sender, const struct delivery *delivery)
{
    struct subscription *subscription = delivery->subscription;
    char last[32];

    subscription->abandoned++;
    if (subscription->abandoned_told_ms &&
        sender->now_ms - subscription->abandoned_told_ms < ABANDONED_MS)
        return;
    snprintf(last, sizeof(last), "status %d", delivery->status);
    bb_host_log(sender->host, BB_WARN,
                "deliveries were abandoned: webhook %" PRId64 ", count %zu, the last one %" PRId64
                ", event %s, attempts %d, last: %s",
                subscription->node.id, subscription->abandoned, delivery->node.id,
                delivery->body->event, delivery->tries, delivery->kind ? delivery->kind : last);
    subscription->abandoned = 0;
    subscription->abandoned_told_ms = sender->now_ms;
}

/* Removes the delivery from memory, or lets it rest until its next attempt. */
static void record_settle(struct sender *sender, struct delivery *delivery)
{
    struct subscription *subscription = delivery->subscription;
    bool retries = delivery->verdict == RETRY_LATER;
    bool owner = sender->mine & sender_shard(delivery->webhook);
    int64_t left_ms = delivery->delay_ms - (sender->now_ms - delivery->retry.node.at_ms);

    if (delivery->verdict == RETRY_ABANDON)
        record_tell_abandoned(sender, delivery);
    json_decref(delivery->details);
    delivery->details = NULL;
    delivery->kept = retries;
    if (retries && (owner || delivery->test) && left_ms <= IN_MEMORY_MS &&
        subscription->state != SUBSCRIPTION_GONE) {
        delivery->queued_ms = sender->now_ms + left_ms;
        delivery_rest(sender, delivery, left_ms);
        return;
    }
    if (delivery->sequence && !retries) /* the next delivery of its key may be sent */
        sender_queued(sender, delivery->webhook, true);
    if (owner && (retries || delivery->resent))
        subscription_due(sender, subscription, sender->now_ms + (retries ? left_ms : 0));
    else if (retries)
        sender_queued(sender, delivery->webhook, false);
    delivery_end(sender, delivery);
}

static void record_back(struct sender *sender, struct db_task *db_task)
{
    struct recording *recording = (struct recording *)db_task;
    struct delivery_list *results = &sender->results[recording->plain];

    json_decref(recording->details);
    recording->details = NULL;
    if (recording->noted && db_task->ok)
        health_stored(sender, recording);
    if (recording->lost && db_task->me == sender->me) { /* the heartbeat gets another lease */
        sender->tend_at = sender->now_ms;
        sender->retry_db_at = sender->now_ms + SENDER_AGAIN_MS;
    }
    if (!db_task->ok || recording->lost) {
        for (size_t i = recording->count; i > 0; i--)
            STAILQ_INSERT_HEAD(results, recording->list[i - 1], next);
        sender->result_count += recording->count;
        return;
    }
    for (size_t i = 0; i < recording->count; i++) {
        if (recording->list[i]->lease_lost) /* if it was not recorded, it is read again */
            delivery_unsettled(sender, recording->list[i]);
        else
            record_settle(sender, recording->list[i]);
    }
}

/* ---- a batch -------------------------------------------------------------------------------- */

/*
 * Adds the result of an attempt to a batch. The result waits for further results, at most until
 * the next attempt. A result is plain if the delivery succeeded and has no row in webhook_waiting.
 * While a statement that gives shards away may insert such rows, no result is plain.
 */
void record_add(struct sender *sender, struct delivery *delivery)
{
    bool plain = delivery->verdict == RETRY_DELIVERED && !delivery->kept && !sender->saving.gives;
    bool soon = delivery->verdict == RETRY_LATER && delivery->delay_ms < GATHER_MS;
    int64_t wait_ms = soon ? delivery->delay_ms : delivery->sequence ? 0 : GATHER_MS;
    int64_t at_ms = sender->now_ms + wait_ms;

    sender->totals.delivered += delivery->verdict == RETRY_DELIVERED;
    sender->totals.retried += delivery->verdict == RETRY_LATER;
    sender->totals.abandoned += delivery->verdict == RETRY_ABANDON;
    if (!sender->result_count || at_ms < sender->record_ms)
        sender->record_ms = at_ms;
    STAILQ_INSERT_TAIL(&sender->results[plain], delivery, next);
    sender->result_count++;
}

/* Returns whether a pending result is of a shard that is to be given away. */
bool record_has_given(const struct sender *sender)
{
    const struct delivery *delivery;

    for (int plain = 0; plain < 2; plain++)
        STAILQ_FOREACH (delivery, &sender->results[plain], next)
            if (sender->to_give & sender_shard(delivery->webhook))
                return true;
    return false;
}

/*
 * A statement costs PostgreSQL half a millisecond, most of it for the plan and the commit, and each
 * result costs a few hundredths of a millisecond. So results wait a little for further results,
 * unless there are FEW, or the next deliveries can be read only after these have left memory. While
 * shards are to be given away, a statement starts only if results of these shards wait:
 * lease_give() has to wait for each statement, and results of other shards keep arriving.
 */
int64_t record_at(const struct sender *sender)
{
    bool alone = !TAILQ_EMPTY(&sender->to_read) && !queue_flying(&sender->queue);
    bool now = sender->stopping || sender->to_give || sender->result_count >= FEW || alone;
    int64_t at_ms = now ? 0 : sender->record_ms;

    if (sender->to_give && !record_has_given(sender))
        return INT64_MAX;
    return at_ms > sender->retry_db_at ? at_ms : sender->retry_db_at;
}

/*
 * Records plain results and other results alternately (see record_add()). Results accumulate while
 * a statement is running, so batches grow with the load.
 */
void record_results(struct sender *sender)
{
    struct recording *recording = &sender->recording;
    struct delivery *delivery;

    if (!sender->result_count || recording->db_task.busy || !sender->me || sender->saving.gives ||
        sender->now_ms < record_at(sender))
        return;
    recording->plain ^= !STAILQ_EMPTY(&sender->results[!recording->plain]);
    recording->count = recording->note_count = 0;
    recording->lost = recording->noted = recording->verifies = false;
    recording->details = json_array();
    struct delivery_list *results = &sender->results[recording->plain];

    while ((delivery = STAILQ_FIRST(results)) && recording->count < SENDER_RECORD_MAX) {
        json_t *details = delivery->details ? json_incref(delivery->details) : json_null();
        size_t i = recording->count;

        if (json_array_append_new(recording->details, details)) /* out of memory */
            break;
        STAILQ_REMOVE_HEAD(results, next);
        sender->result_count--;
        if (delivery->lease_lost) {
            bool owner = sender->mine & sender_shard(delivery->webhook);

            if (!owner || !recording->plain ||
                json_array_append_new(details, json_string(delivery->body->id))) {
                json_array_remove(recording->details, i);
                delivery_unsettled(sender, delivery);
                continue;
            }
            delivery->notes = false;
            recording->verifies = true;
        }
        recording->count++;
        recording->list[i] = delivery;
        recording->columns[ID][i] = delivery->node.id;
        recording->columns[WEBHOOK][i] = delivery->webhook;
        recording->columns[AT][i] = delivery->at_wall_ms;
        recording->columns[TOOK][i] = delivery->took_ms;
        recording->columns[STATUS][i] = delivery->status;
        recording->columns[VERDICT][i] = delivery->verdict;
        recording->columns[TRIES][i] = delivery->tries;
        recording->columns[GAP][i] =
            delivery->delay_ms + (delivery->test ? sender_hold_ms(sender->webhook) : 0);
        recording->columns[AGE][i] = sender->now_ms - delivery->queued_ms;
        if (delivery->notes)
            health_note(recording, delivery);
    }
    if (recording->count) {
        db_task_send(sender, &recording->db_task, record_work, record_back);
        return;
    }
    json_decref(recording->details);
    recording->details = NULL;
    if (!STAILQ_EMPTY(results)) /* memory ran out */
        sender->retry_db_at = sender->now_ms + SENDER_AGAIN_MS;
}
