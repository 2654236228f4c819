/*
 * The routes of a delivery: they show it with its body, send deliveries again, and send a test. The
 * list is in search.c.
 */
#include <string.h>

#include "modules/common/example.h"
#include "modules/common/slots.h"
#include "modules/webhook/api/api.h"

/* clang-format off */
const char *const webhook_delivery_states[] = {"queued", "delivered", "abandoned", NULL};
static const struct bb_field delivery_attempt[] = {
    {.name = "number", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "at", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "status", .type = BB_INT, .flags = BB_REQUIRED | BB_NULLABLE,
     .help = "Status of the response.", .example = "200"},
    {.name = "durationMs", .type = BB_INT, .flags = BB_REQUIRED, .example = "87"},
    {.name = "error", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NULLABLE, .example = "null"},
    {.name = "answer", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NULLABLE, .example = "OK",
     .help = "The first 1 KiB of the response."},
    {.name = "requestHeaders", .type = BB_OBJECT, .flags = BB_REQUIRED | BB_NULLABLE,
     .example = "{\"X-Webhook-Event\":\"message.new\"}",
     .help = "The headers that busbar added to the request; null: not recorded."},
};
#define DELIVERY                                                                                   \
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED, .example = "17"},                         \
    {.name = "event", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "message.new"},            \
    {.name = "eventId", .type = BB_UUID, .flags = BB_REQUIRED, .help = "The header webhook-id."},  \
    {.name = "status", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = webhook_delivery_states, \
     .example = "delivered"},                                                                      \
    {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED},                                  \
    {.name = "nextAttemptAt", .type = BB_TIME, .flags = BB_REQUIRED | BB_NULLABLE,                 \
     .example = "null"},                                                                           \
    {.name = "attempts", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(delivery_attempt)}

const struct bb_field webhook_delivery_fields[] = {DELIVERY};
const struct bb_field webhook_delivery_body_fields[] = {
    DELIVERY,
    {.name = "body", .type = BB_TEXT, .flags = BB_REQUIRED,
     .help = "The body that is sent, byte for byte.",
     .example = WEBHOOK_EXAMPLE},
};
/* clang-format on */

/* The parameters of WEBHOOK_MINE come first; $4 is the delivery. */
static const struct bb_sql one = {
    "SELECT " DELIVERY_COLUMNS ", coalesce(d.body, b.body) FROM webhook_hook h"
    " JOIN webhook_deliveries d ON d.webhook = h.id AND d.id = $4::bigint"
    " LEFT JOIN webhook_body b ON b.id = d.body_id WHERE " WEBHOOK_MINE,
    BB_SQL_LIST, /* it reads a body */
};

int webhook_delivery(struct bb_request *rq)
{
    const struct bb_rows *rows = bb_find_or_end(
        rq, &one, BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_i(bb_segment_int(rq, "deliveryId"))),
        "Delivery");

    return bb_reply(rq, 200, BB_ROW_FIELDS(rq, rows, 0, 0, webhook_delivery_body_fields));
}

/* ---- sending one delivery again, or all that have been abandoned since a time ---- */

#define BATCH 2000
#define BATCH_TEXT "2000"
#define RESENT WEBHOOK_QUEUE_AGAIN("ARRAY(SELECT id FROM found)", "false")
#define RECOVERED WEBHOOK_QUEUE_AGAIN("(SELECT ids FROM found)::bigint[]", "false")

int webhook_resend(struct bb_request *rq)
{
    static const struct bb_sql again = {
        "WITH found AS (SELECT d.webhook, d.id FROM webhook_hook h"
        " JOIN webhook_delivery d ON d.webhook = h.id WHERE " WEBHOOK_MINE
        " AND d.id = $4::bigint)," RESENT " SELECT FROM found",
        BB_SQL_WRITE};

    poll_check_sends(rq);
    bb_find_or_end(rq, &again,
                   BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_i(bb_segment_int(rq, "deliveryId"))),
                   "Delivery");
    sender_queued(((struct webhook *)rq->state)->sender, bb_segment_int(rq, "id"), false);
    return bb_reply(rq, 200, json_pack("{s:b}", "success", 1));
}

int webhook_recover(struct bb_request *rq)
{
    /* All days are searched: an old delivery may have been resent and abandoned again. */
    static const struct bb_sql batch = {
        "WITH found AS (SELECT count(*) AS n, max(id) AS last, array_agg(id) AS ids"
        " FROM (SELECT o.id FROM webhook_outcome o WHERE o.webhook = $1::bigint"
        " AND NOT o.delivered AND o.id > $3::bigint"
        " AND o.at + o.duration_ms * interval '1 ms' >= $2::timestamptz"
        " ORDER BY o.id LIMIT " BATCH_TEXT ") abandoned),"
        " " RECOVERED " SELECT n, last, (SELECT count(*) FROM queued) FROM found",
        BB_SQL_WRITE | BB_SQL_LONG};
    int64_t queued = 0, after = 0, id = bb_segment_int(rq, "id");

    poll_check_sends(rq);
    while (after < INT64_MAX) {
        const struct bb_rows *rows =
            bb_query_or_end(rq, &batch, BB_ARGS(bb_i(id), bb_t(bb_text(rq, "since")), bb_i(after)));

        after = bb_cell_int(rq, rows, 0, 0) == BATCH ? bb_cell_int(rq, rows, 0, 1) : INT64_MAX;
        queued += bb_cell_int(rq, rows, 0, 2);
    }
    if (queued > 0)
        sender_queued(((struct webhook *)rq->state)->sender, id, false);
    return bb_reply(rq, 200, json_pack("{s:b, s:I}", "success", 1, "queued", (json_int_t)queued));
}

/*
 * ---- POST /api/chat/webhooks/:id/test ----
 *
 * Sends a ping, or an example of the event in the body, and returns the outcome of the first
 * attempt if the attempt ends within WAIT_MS. A test is an ordinary delivery, except that its
 * webhook may be inactive and need not subscribe to the event. While the request waits, it uses a
 * little memory and no thread; the number of waiting tests is limited.
 */

#define WAIT_MS 4000
#define JOIN_MS 1000 /* how long to wait until the sender is ready */
#define JOIN_TRIES 50

int webhook_test(struct bb_request *rq)
{
    /* Until `next_at`, the row in webhook_waiting keeps the shard's owner from sending the test.
     * With the sequence 0 the owner never reads it from the log. Polled webhooks need neither. */
    static const struct bb_sql insert = {
        "WITH found AS (SELECT h.id, h.kind FROM webhook_hook h WHERE " WEBHOOK_MINE "),"
        " made AS (INSERT INTO webhook_delivery (webhook, event, event_id, body, traceparent,"
        " sequence) SELECT id, $8::text, $4::uuid, $5::text, $6::text,"
        " CASE WHEN kind IS NULL THEN 0 END FROM found"
        " RETURNING id, webhook), held AS (INSERT INTO webhook_waiting (id, webhook, next_at)"
        " SELECT m.id, m.webhook, now() + $7::bigint * interval '1 ms' FROM made m, found"
        " WHERE found.kind IS NULL) SELECT m.id, found.kind FROM made m, found",
        BB_SQL_WRITE};
    static const struct waiter polled = {.delivered = true};
    static const struct waiter late = {
        .duration_ms = WAIT_MS,
        .error = "the receiver has not responded yet; the attempt continues"};
    struct webhook *webhook = rq->state;
    const char *name = bb_text(rq, "event");
    const struct bb_event_descriptor *event = webhook_event(rq, name);
    struct sender_event ping = {.name = name, .id = bb_new_uuid(rq), .trace = bb_traceparent(rq)};

    if (slot_try(webhook->tests, rq->principal->account))
        return bb_fail(rq, 503, "Too many webhooks are being tested at the moment");
    slot_hold(rq, webhook->tests);
    if (!event)
        return bb_invalid(rq, "event", "must name events that GET /api/chat/webhooks/events lists");
    json_t *json = bb_hold(rq, strcmp(name, WEBHOOK_PING) != 0
                                   ? example_of(&event->payload, true)
                                   : json_pack("{s:s, s:s}", "event", WEBHOOK_PING, "timestamp",
                                               bb_time_text(rq, bb_wall_ms(rq->host))));

    ping.body = bb_json(rq, json, &ping.length);
    /* After a start or a reload the sender needs a moment to get its id. */
    for (int i = 0; !sender_ready(webhook->sender) && i < JOIN_TRIES; i++)
        bb_sleep(rq, JOIN_MS / JOIN_TRIES);
    if (!sender_ready(webhook->sender)) {
        webhook_find(rq);
        return bb_fail(rq, 503, "The sender is not ready");
    }
    const struct bb_rows *rows =
        bb_find_or_end(rq, &insert,
                       BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_t(ping.id), bb_t(ping.body),
                               bb_t(ping.trace), bb_i(sender_hold_ms(webhook)), bb_t(name)),
                       "Webhook");
    struct sender_item item = {bb_cell_int(rq, rows, 0, 0), bb_segment_int(rq, "id")};
    bool sends = !bb_cell(rq, rows, 0, 1);
    struct waiter *first = waiter_add(rq, webhook->waiters, item.id, true);
    struct bb_completion *ended = sends ? waiter_next(rq, first) : NULL;

    if (sends && !ended)
        return bb_no_memory(rq);
    sender_committed(webhook->sender, &ping, &item, 1, sends);
    const struct waiter *result = !sends                                   ? &polled
                                  : bb_completion_wait(rq, ended, WAIT_MS) ? &late
                                                                           : first;

    return bb_reply(rq, 200,
                    json_pack("{s:b, s:o, s:I, s:s?}", "success", result->delivered, "status",
                              result->status ? json_integer(result->status) : json_null(),
                              "durationMs", (json_int_t)result->duration_ms, "error",
                              *result->error ? result->error : NULL));
}
