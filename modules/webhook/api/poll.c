/*
 * Webhooks of kind "poll": a client reads their events, for example because a firewall blocks
 * requests to it. The events are the deliveries in the log, which no sender sends. An offset is
 * the id of a delivery. Each consumer has its last committed offset, and reads the events after it.
 *
 * Ids increase in the order in which transactions get them, but the transactions may commit in a
 * different order. So a response must end with an event before which no further event can appear.
 * Only transactions that began before this event was visible can have lower ids, so the request
 * waits until they have ended. If this takes too long, the response ends at the shard's cursor,
 * because the sender has made sure that no further event can appear below this cursor.
 *
 * A request that waits for events has a fiber and a timer, and uses no connection to the database.
 */
#include "modules/common/slots.h"
#include "modules/webhook/api/api.h"

enum {
    LIMIT = 100,       /* events of a response, by default */
    AGAIN_MS = 5000,   /* between two reads of a waiting request, in case a notification is lost */
    SETTLE_MS = 1000,  /* how long a request may wait for older transactions, even with wait=0 */
    SETTLE_MOST = 256, /* maximum ms between two checks for these transactions */
};
#define CONSUMERS "100"     /* maximum per webhook */
#define PAGE_BYTES "262144" /* limit of a response's payloads; only the first may exceed it */

// clang-format off
const struct bb_field poll_event_fields[] = {
    {.name = "offset", .type = BB_INT, .flags = BB_REQUIRED, .example = "17"},
    {.name = "eventId", .type = BB_UUID, .flags = BB_REQUIRED,
     .help = "The header webhook-id of a webhook that sends its events."},
    {.name = "event", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "message.new"},
    {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "payload", .type = BB_OBJECT, .flags = BB_REQUIRED,
     .example = WEBHOOK_EXAMPLE},
};
const struct bb_field poll_consumer_fields[] = {
    {.name = "consumer", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "default"},
    {.name = "offset", .type = BB_INT, .flags = BB_REQUIRED, .help = "The last commit.",
     .example = "17"},
    {.name = "committedAt", .type = BB_TIME, .flags = BB_REQUIRED},
};
// clang-format on

/* ---- the kind of a webhook ---- */

/* Members that a polled webhook cannot have, because nothing is sent. */
static const char *const sending[] = {"url",       "rateLimit",     "ordering",
                                      "headers",   "retryPolicy",   "disablePolicy",
                                      "signature", "authentication"};

void poll_check_members(struct bb_request *rq, bool create)
{
    const char *destination = bb_text(rq, "destination"), *wrong = NULL;

    for (size_t i = 0; i < sizeof(sending) / sizeof(sending[0]) && !wrong; i++) {
        const json_t *value = json_object_get(bb_body(rq), sending[i]);

        wrong = value && !json_is_null(value) ? sending[i] : NULL;
    }
    if (!wrong && !destination)
        return;
    bool polled = create ? bb_text(rq, "kind") != NULL : webhook_find(rq);

    if (destination && !polled)
        bb_end(rq, bb_invalid(rq, "destination", "is only possible with the kind poll"));
    if (wrong && polled)
        bb_end(rq, bb_invalid(rq, wrong, "is not possible if the events are polled"));
}

void poll_check_sends(struct bb_request *rq)
{
    if (webhook_find(rq))
        bb_end(rq, bb_fail(rq, 409,
                           "The events of this webhook are polled: commit an earlier offset to "
                           "read them again"));
}

static const char not_polled[] = "The events of this webhook are sent to its url";

/* ---- GET /api/chat/webhooks/:id/events ---- */

/*
 * $4 consumer, $5 maximum number of events. The last columns are low_xact and next_xact: all
 * transactions below low_xact have ended, and the statement sees none from next_xact on.
 */
static const struct bb_sql look = {
    "SELECT h.kind, coalesce(c.committed, 0), c.committed > 0 AND c.committed < h.dropped_to,"
    " (SELECT max(id) FROM (SELECT d.id FROM webhook_delivery d WHERE d.webhook = h.id"
    " AND d.id > coalesce(c.committed, 0) ORDER BY d.id LIMIT $5::bigint) d),"
    " (SELECT cursor FROM webhook_shard WHERE shard = webhook_shard_of(h.id)),"
    " pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint"
    " FROM webhook_hook h LEFT JOIN webhook_consumer c ON c.webhook = h.id AND c.name = $4,"
    " pg_current_snapshot() AS s WHERE " WEBHOOK_MINE,
    0,
};
enum { KIND, COMMITTED, DROPPED, LAST, CURSOR, LOW_XACT, NEXT_XACT };

static const struct bb_sql low_xact = {
    "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint", 0};

/*
 * $1 webhook, $2 the offset before the first event, $3 the offset of the last event, $4 maximum
 * number of events. Events that have appeared since the last offset was read may exceed it.
 */
#define CREATED BB_SQL_MS("created_at")
#define BYTES "octet_length(coalesce(d.body, b.body))"
const struct bb_sql poll_page = {
    "SELECT id, event_id, event, " CREATED ", body FROM (SELECT d.id, d.event_id, d.event,"
    " d.created_at, coalesce(d.body, b.body) AS body,"
    " sum(" BYTES ") OVER (ORDER BY d.id) - " BYTES " AS before"
    " FROM webhook_delivery d LEFT JOIN webhook_body b ON b.id = d.body_id"
    " WHERE d.webhook = $1::bigint AND d.id > $2::bigint AND d.id <= $3::bigint"
    " ORDER BY d.id LIMIT $4::bigint) d WHERE before < " PAGE_BYTES " ORDER BY id",
    BB_SQL_LONG, /* it reads bodies */
};

struct range {
    int64_t from, last; /* offsets: the events after `from`, up to `last`; last 0: no events */
    int64_t cursor;     /* of the shard */
    int64_t low_xact, next_xact;
};

/* Finds the range of events that follow the consumer's offset. */
static void poll_look(struct bb_request *rq, struct range *range)
{
    const struct bb_rows *rows =
        bb_find_or_end(rq, &look,
                       BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_t(bb_arg(rq, "consumer")),
                               bb_i(bb_arg_int(rq, "limit", LIMIT))),
                       "Webhook");

    if (!bb_cell(rq, rows, 0, KIND))
        bb_end(rq, bb_fail_text(rq, 409, not_polled));
    range->from = bb_cell_int(rq, rows, 0, COMMITTED);
    if (bb_cell_int(rq, rows, 0, DROPPED))
        bb_end(rq, bb_fail(rq, 410,
                           "Events after the offset %lld were dropped, because they were older "
                           "than webhook.retention_days. Commit the offset 0 to continue with the "
                           "oldest event.",
                           (long long)range->from));
    range->last = bb_cell_int(rq, rows, 0, LAST);
    range->cursor = bb_cell_int(rq, rows, 0, CURSOR);
    range->low_xact = bb_cell_int(rq, rows, 0, LOW_XACT);
    range->next_xact = bb_cell_int(rq, rows, 0, NEXT_XACT);
}

int webhook_poll(struct bb_request *rq)
{
    const struct webhook *webhook = rq->state;
    int64_t until_ms = bb_now_ms(rq->host) + 1000 * bb_arg_int(rq, "wait", 0), left_ms;
    int64_t id = bb_segment_int(rq, "id");
    struct bb_completion *news = NULL;
    struct range range = {.last = 0};

    slot_take(rq, webhook->polls);
    slot_hold(rq, webhook->polls);
    struct waiter *waiter = waiter_add(rq, webhook->waiters, id, false);

    do {
        left_ms = until_ms - bb_now_ms(rq->host);
        if (left_ms > 0)
            news = waiter_next(rq, waiter);
        poll_look(rq, &range);
        if (!range.last && news && left_ms > 0)
            bb_completion_wait(rq, news, left_ms < AGAIN_MS ? left_ms : AGAIN_MS);
        /* The token may be revoked: send no events. The next request checks the token. */
        if (atomic_load(&waiter->revoked))
            left_ms = range.last = 0;
    } while (!range.last && news && left_ms > 0);
    /* Wait until no event can appear before the last one, or respond with fewer events. */
    if (until_ms < bb_now_ms(rq->host) + SETTLE_MS)
        until_ms = bb_now_ms(rq->host) + SETTLE_MS;
    for (int64_t pause_ms = 2; range.last > range.cursor && range.low_xact < range.next_xact;
         pause_ms = pause_ms < SETTLE_MOST ? 2 * pause_ms : SETTLE_MOST) {
        if (bb_now_ms(rq->host) >= until_ms) {
            range.last = range.cursor;
            break;
        }
        if (bb_sleep(rq, pause_ms))
            bb_end(rq, bb_no_memory(rq));
        range.low_xact = bb_cell_int(rq, bb_query_or_end(rq, &low_xact, BB_NO_ARGS), 0, 0);
    }
    const struct bb_rows *rows =
        bb_query_or_end(rq, &poll_page,
                        BB_ARGS(bb_i(id), bb_i(range.from), bb_i(range.last),
                                bb_i(bb_arg_int(rq, "limit", LIMIT))));
    size_t count = bb_count(rq, rows);
    json_t *events = bb_hold(rq, bb_rows_fields(rq, rows, count, 0, poll_event_fields, 5));

    if (count)
        range.from = bb_cell_int(rq, rows, count - 1, 0);
    return bb_reply(rq, 200,
                    json_pack("{s:O, s:I}", "events", events, "offset", (json_int_t)range.from));
}

/* ---- consumers ---- */

int webhook_commit(struct bb_request *rq)
{
    /* $4 consumer, $5 offset. The lock makes a DELETE of the webhook wait. */
    static const struct bb_sql commit = {
        "WITH h AS (SELECT h.id, h.kind, $5::bigint <= coalesce(h.dropped_to, 0) OR EXISTS ("
        "SELECT FROM webhook_delivery d WHERE d.webhook = h.id AND d.id = $5::bigint) AS valid"
        " FROM webhook_hook h WHERE " WEBHOOK_MINE " FOR KEY SHARE), kept AS ("
        "INSERT INTO webhook_consumer (webhook, name, committed) SELECT h.id, $4, $5::bigint FROM h"
        " WHERE h.valid AND h.kind IS NOT NULL AND (EXISTS (SELECT FROM webhook_consumer c"
        " WHERE c.webhook = h.id AND c.name = $4) OR (SELECT count(*) FROM webhook_consumer c"
        " WHERE c.webhook = h.id) < " CONSUMERS ") ON CONFLICT (webhook, name) DO UPDATE"
        " SET committed = excluded.committed, committed_at = now() RETURNING webhook)"
        " SELECT kind, valid, EXISTS (SELECT FROM kept) FROM h",
        BB_SQL_WRITE,
    };
    const struct bb_rows *rows =
        bb_find_or_end(rq, &commit,
                       BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_t(bb_text(rq, "consumer")),
                               bb_i(bb_given_int(rq, "offset", 0))),
                       "Webhook");

    if (!bb_cell(rq, rows, 0, 0))
        return bb_fail_text(rq, 409, not_polled);
    if (!bb_cell_int(rq, rows, 0, 1))
        return bb_invalid(rq, "offset", "must be the offset of an event of this webhook, or 0");
    if (!bb_cell_int(rq, rows, 0, 2))
        return bb_fail(rq, 409, "A webhook may have at most " CONSUMERS " consumers");
    return bb_reply(rq, 200, json_pack("{s:b}", "success", 1));
}

int webhook_consumers(struct bb_request *rq)
{
    static const struct bb_sql list = {
        "SELECT name, committed, " BB_SQL_MS(
            "committed_at") " FROM webhook_consumer WHERE webhook = $1::bigint ORDER BY name",
        0};

    webhook_find(rq);
    const struct bb_rows *rows =
        bb_query_or_end(rq, &list, BB_ARGS(bb_i(bb_segment_int(rq, "id"))));

    return bb_reply_fields(rq, rows, SIZE_MAX, 0, poll_consumer_fields, 3);
}

int webhook_consumer_delete(struct bb_request *rq)
{
    static const struct bb_sql forget = {
        "DELETE FROM webhook_consumer c USING webhook_hook h WHERE c.webhook = h.id"
        " AND c.name = $4 AND " WEBHOOK_MINE " RETURNING 1",
        BB_SQL_WRITE};

    bb_find_or_end(rq, &forget, BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_t(bb_segment(rq, "consumer"))),
                   "Consumer");
    return bb_reply(rq, 200, json_pack("{s:b}", "success", 1));
}
