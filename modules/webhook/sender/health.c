/*
 * The health of webhooks, and the events about it.
 *
 * The owner of a shard counts the failures of its webhooks in memory. Only failures that the
 * receiver causes count; a success resets the count. A webhook is failing if a delivery was
 * abandoned and all of its attempts failed without a success of another delivery in between, or if
 * attempts have failed for a minute. A result that changes the health of its webhook is recorded in
 * a transaction together with the health and the events about it. So an event is raised if and only
 * if the change is stored. The stored row decides: a webhook whose policy was cleared meanwhile is
 * not disabled, and a state that is already stored raises no event. Tests have no effect.
 */
#include "modules/webhook/sender/internal.h"

#include <inttypes.h>

enum {
    FAILING_MS = 60000,  /* failures for this time make a webhook failing */
    AGAIN_MS = 60000,    /* minimum time between two changes of `failing` to true */
    SUCCESS_MS = 300000, /* minimum between two updates of last_success_at */
    REPORTED_MAX = 1000  /* webhooks per transaction of the job webhook.sweep */
};

/* ---- results, on the worker ----------------------------------------------------------------- */

void health_judge(const struct sender *sender, struct delivery *delivery, bool fault,
                  enum health_asked asked)
{
    struct health *health = &delivery->subscription->health;
    int64_t now_ms = delivery->at_wall_ms + delivery->took_ms;

    delivery->notes = false;
    delivery->asked = HEALTH_NOT_ASKED;
    if (delivery->test)
        return;
    if (delivery->verdict == RETRY_DELIVERED) {
        delivery->notes = health->stored || now_ms - health->success_stored_ms >= SUCCESS_MS;
        health->failing = false;
        health->failures = 0;
        health->since_ms = 0;
        health->success_ms = now_ms;
    } else if (fault) {
        health->failures++;
        if (!health->since_ms)
            health->since_ms = now_ms;
        if (delivery->tries == 1)
            delivery->failing_since_ms = health->since_ms;
        bool abandoned = delivery->verdict == RETRY_ABANDON &&
                         health->failures >= delivery->tries &&
                         health->since_ms == delivery->failing_since_ms;

        if (!health->failing && (abandoned || now_ms - health->since_ms >= FAILING_MS) &&
            (!health->failed_at_ms || sender->now_ms - health->failed_at_ms >= AGAIN_MS)) {
            health->failing = true;
            health->failed_at_ms = sender->now_ms;
        }
        delivery->notes = health->failing != health->stored ||
                          (health->failing && health->disable_after_ms &&
                           now_ms - health->since_ms >= health->disable_after_ms);
    }
    if (delivery->verdict == RETRY_ABANDON)
        delivery->notes = true;
    if (asked && health->disable_after_ms) {
        delivery->notes = true;
        delivery->asked = asked;
    }
}

void health_note(struct recording *recording, const struct delivery *delivery)
{
    struct health *health = &delivery->subscription->health;
    size_t i = recording->note_count++;

    health->version++;
    recording->notes[NOTE_WEBHOOK][i] = delivery->webhook;
    recording->notes[NOTE_SINCE][i] = health->failing ? health->since_ms : 0;
    recording->notes[NOTE_SUCCESS][i] = health->success_ms;
    recording->notes[NOTE_ASKED][i] = delivery->asked;
    recording->notes[NOTE_EXHAUSTED][i] = delivery->verdict == RETRY_ABANDON;
}

void health_stored(struct sender *sender, const struct recording *recording)
{
    for (size_t i = 0; i < recording->note_count; i++) {
        struct subscription *subscription =
            subscription_find(sender, recording->notes[NOTE_WEBHOOK][i]);

        if (!subscription)
            continue;
        subscription->health.version++;
        subscription->health.stored = recording->notes[NOTE_SINCE][i] != 0;
        subscription->health.success_stored_ms = recording->notes[NOTE_SUCCESS][i];
    }
    subscriptions_changed(sender, &recording->db_task.pairs, false);
}

void health_apply(struct health *health, const struct parts *fresh, unsigned version)
{
    bool activated = health->off && fresh->active;

    health->off = !fresh->active;
    health->disable_after_ms = fresh->disable_after_ms;
    if (activated) {
        health->failing = false;
        health->since_ms = health->failures = 0;
    }
    if (health->version != version) /* stored since the row was read */
        return;
    if (health->success_stored_ms < fresh->success_ms)
        health->success_stored_ms = fresh->success_ms;
    if (health->success_ms < fresh->success_ms)
        health->success_ms = fresh->success_ms;
    if (fresh->fails_since_ms)
        health->since_ms = fresh->fails_since_ms;
    else if (health->stored) /* it was activated again before its inactive row was read */
        health->since_ms = health->failures = 0;
    if (fresh->fails_since_ms || health->stored)
        health->failing = health->stored = fresh->fails_since_ms != 0;
}

/* ---- storing, in the transaction of the results --------------------------------------------- */

/* Payloads of events about a webhook: t is its row; n is the old row, with columns added. */
// clang-format off
#define ABOUT "json_build_object('webhookId', t.id, 'userId', t.account, 'url', t.url, "
#define LAST_SUCCESS ", 'lastSuccessAt', " BB_SQL_TIME("t.last_success_at") ")"
#define EXHAUSTED(count) ABOUT "'count', " count ", 'since', " BB_SQL_TIME("n.exhausted_at") ")"
#define FAILING ABOUT "'since', " BB_SQL_TIME("t.failing_since") LAST_SUCCESS
#define RECOVERED ABOUT "'since', " BB_SQL_TIME("n.failing_since") ")"
#define DISABLED ABOUT "'reason', n.reason, 'since', " BB_SQL_TIME("t.failing_since") LAST_SUCCESS

/*
 * Arrays with an element per result: $1 webhook, $2 failing since, and $3 last success, in ms since
 * 1970 (0: none), $4 enum health_asked, $5 number of abandoned deliveries
 */
static const struct bb_sql store = {
    "WITH h AS MATERIALIZED (SELECT * FROM webhook_hook WHERE id = ANY($1::bigint[])"
    " ORDER BY id FOR NO KEY UPDATE), n AS (SELECT h.*, since, success,"
    " h.exhausted + r.exhausted AS total,"
    " r.exhausted > 0 AND coalesce(h.exhausted_at <= now() - interval '1 hour', true) AS reports,"
    " CASE WHEN NOT h.active OR h.disable_policy IS NULL THEN NULL WHEN asked = 1 THEN 'gone'"
    " WHEN asked = 2 THEN 'requested' WHEN since > 0 AND to_timestamp(since / 1000.0)"
    " <= now() - (h.disable_policy ->> 'after')::interval THEN 'failing' END AS reason"
    " FROM (SELECT id, max(since) AS since, max(success) AS success, max(asked) AS asked,"
    " sum(exhausted)::bigint AS exhausted FROM unnest($1::bigint[], $2::bigint[], $3::bigint[],"
    " $4::bigint[], $5::bigint[]) AS r(id, since, success, asked, exhausted) GROUP BY id) r"
    " JOIN h USING (id))"
    " UPDATE webhook_hook t SET failing_since = CASE WHEN since > 0"
    " THEN coalesce(t.failing_since, to_timestamp(since / 1000.0)) END,"
    " last_success_at = CASE WHEN success > 0 THEN to_timestamp(success / 1000.0)"
    " ELSE t.last_success_at END, active = t.active AND n.reason IS NULL,"
    " disabled_at = CASE WHEN n.reason IS NULL THEN t.disabled_at ELSE now() END,"
    " disabled_reason = coalesce(n.reason, t.disabled_reason),"
    " exhausted = CASE WHEN reports THEN 0 ELSE total END,"
    " exhausted_at = CASE WHEN reports THEN now() ELSE t.exhausted_at END"
    " FROM n WHERE t.id = n.id RETURNING t.id, t.email, n.reason,"
    " CASE WHEN reports THEN " EXHAUSTED("total") " END,"
    " CASE WHEN n.failing_since IS NULL AND t.failing_since IS NOT NULL THEN " FAILING " END,"
    " CASE WHEN n.failing_since IS NOT NULL AND t.failing_since IS NULL THEN " RECOVERED " END,"
    " CASE WHEN n.reason IS NOT NULL THEN " DISABLED " END",
    BB_SQL_WRITE,
};
// clang-format on
enum { ID, EMAIL, REASON, PAYLOADS };

/*
 * Raises events about a stored change. For each of the first `count` events the row has a payload,
 * or null if the event is not raised. Returns 0 or -1.
 */
static int health_raise(struct bb_request *rq, struct bb_tx *tx, const struct bb_rows *rows,
                        size_t row, size_t count)
{
    static const char *const events[] = {"webhook.exhausted", "webhook.failing",
                                         "webhook.recovered", "webhook.disabled"};
    const char *emails[] = {bb_cell(rq, rows, row, EMAIL), NULL};
    struct bb_audience audience = {.size = sizeof(audience), .emails = emails};

    for (size_t i = 0; i < count; i++) {
        const char *payload = bb_cell(rq, rows, row, PAYLOADS + i);

        if (payload && bb_emit(rq, tx, events[i], bb_json_read(rq, payload), &audience))
            return -1;
    }
    return 0;
}

int health_store(struct bb_request *rq, struct bb_tx *tx, struct recording *recording)
{
    const int64_t(*c)[SENDER_RECORD_MAX] = recording->notes;
    size_t count = recording->note_count;
    const struct bb_rows *rows =
        bb_tx_query(rq, tx, &store,
                    BB_ARGS(bb_ints(c[NOTE_WEBHOOK], count), bb_ints(c[NOTE_SINCE], count),
                            bb_ints(c[NOTE_SUCCESS], count), bb_ints(c[NOTE_ASKED], count),
                            bb_ints(c[NOTE_EXHAUSTED], count)));

    for (size_t row = 0; rows && row < bb_count(rq, rows); row++) {
        int64_t webhook = bb_cell_int(rq, rows, row, ID);

        if (health_raise(rq, tx, rows, row, 4))
            return -1;
        if (!bb_cell(rq, rows, row, REASON))
            continue;
        if (bb_notify(rq, tx, WEBHOOK_CHANNEL, bb_format(rq, "hook:%" PRId64, webhook)) ||
            pairs_add(&recording->db_task.pairs, webhook, 0))
            return -1;
        bb_log(rq, BB_WARN, "webhook disabled: webhook %" PRId64 ", reason %s", webhook,
               bb_cell(rq, rows, row, REASON));
    }
    return rows ? 0 : -1;
}

/* ---- the job: deliveries that were abandoned after the last event of their webhook ---------- */

static int health_report(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql due = {
        "WITH n AS MATERIALIZED (SELECT id, exhausted, exhausted_at FROM webhook_hook"
        " WHERE exhausted > 0 AND exhausted_at <= now() - interval '1 hour' ORDER BY id"
        " LIMIT $1::bigint FOR NO KEY UPDATE SKIP LOCKED)"
        " UPDATE webhook_hook t SET exhausted = 0, exhausted_at = now() FROM n WHERE t.id = n.id"
        " RETURNING t.id, t.email, NULL, " EXHAUSTED("n.exhausted"),
        BB_SQL_WRITE};
    const struct bb_rows *rows = bb_tx_query(rq, tx, &due, BB_ARGS(bb_i(REPORTED_MAX)));

    (void)arg;
    for (size_t row = 0; rows && row < bb_count(rq, rows); row++)
        if (health_raise(rq, tx, rows, row, 1))
            return -1;
    return rows ? 200 : -1;
}

void webhook_report_exhausted(struct bb_request *rq)
{
    if (bb_transaction(rq, health_report, NULL) >= 400)
        bb_log(rq, BB_WARN, "cannot report abandoned deliveries: %s", bb_sqlstate(rq));
}
