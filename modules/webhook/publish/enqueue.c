/*
 * Enqueues deliveries in the publisher's transaction, in one statement, however many webhooks
 * match. The statement inserts the deliveries. If there are too many for a transaction that others
 * wait for, it inserts one row that describes the recipients, and expand.c creates the deliveries
 * after the commit.
 *
 * The statement always runs. Skipping it if no webhook subscribes would require knowing that no
 * other host is registering one at the moment: a webhook counts from the response to its POST, and
 * a cache on this host would be updated later than that. Without a match the statement costs three
 * look-ups in small indexes and no extra round trip.
 *
 * The rows are owned by this host from the start, so that no host claims them; after the commit
 * they are passed to the sender in memory. Rows for webhooks whose memory is full have no owner and
 * wait in the database. So do all rows of a superseded generation, whose sender is ending; its
 * successor is notified. Everything here belongs to the request, and runs on its fiber.
 */
#include "modules/webhook/publish/publish.h"

#include <string.h>

#include "modules/webhook/sender/sender.h"

/*
 * $1 event, $2 its id, $3 organization or null, $4 e-mails, $5 host or null, $6 full webhooks, $7
 * body, $8 traceparent
 */
#define EVENTS BB_KEYS_8("text", "uuid", "bigint", "text", "bigint", "text", "text", "text")
#define OWNER_OF_EVENT WEBHOOK_OWNER_OF("k.busy::bigint[]", "k.host")
#define MATCHING_EVENT WEBHOOK_MATCHING_OF("k.event", "k.organisation", "k.emails::text[]")

static const struct bb_keyed enqueue = {
    {"INSERT INTO webhook_delivery (webhook, event, event_id, owner, body, traceparent)"
     " SELECT h.id, $1::text, $2::uuid," WEBHOOK_OWNER ", $7::text, $8::text" WEBHOOK_MATCHING
     " RETURNING webhook, id, owner, body_id",
     BB_SQL_KEYED},
    {"WITH k AS (SELECT * FROM " EVENTS
     " k(event, event_id, organisation, emails, host, busy, body, trace, i)),"
     " made AS (INSERT INTO webhook_delivery (webhook, event, event_id, owner, body, traceparent)"
     " SELECT h.id, k.event, k.event_id," OWNER_OF_EVENT ", k.body, k.trace"
     " FROM k CROSS JOIN LATERAL (SELECT h.id" MATCHING_EVENT " OFFSET 0) h"
     " RETURNING webhook, id, owner, body_id, event_id)"
     " SELECT m.webhook, m.id, m.owner, m.body_id, k.i"
     " FROM made m JOIN k ON k.event_id = m.event_id",
     0},
};

/*
 * The same if there may be many webhooks, or if the body is large ($9) and gets its own row. $10:
 * the account that raised the event. For an event to be expanded the result is one row of nulls.
 */
static const struct bb_sql enqueue_any = {
    "WITH h AS MATERIALIZED (SELECT h.id" WEBHOOK_MATCHING "),"
    " n AS MATERIALIZED (SELECT count(*) AS webhooks FROM h),"
    " kept AS (INSERT INTO webhook_body (body) SELECT $7::text FROM n"
    " WHERE n.webhooks > " WEBHOOK_AT_ONCE_TEXT
    " OR (n.webhooks > 0 AND $9::boolean) RETURNING id),"
    " later AS (INSERT INTO webhook_expansion"
    " (account, event, event_id, body_id, webhooks, traceparent)"
    " SELECT $10::bigint, $1::text, $2::uuid, kept.id, ARRAY(SELECT h.id FROM h ORDER BY h.id),"
    " $8::text FROM n, kept WHERE n.webhooks > " WEBHOOK_AT_ONCE_TEXT " RETURNING id),"
    " made AS (INSERT INTO webhook_delivery"
    " (webhook, event, event_id, owner, body, body_id, traceparent)"
    " SELECT h.id, $1::text, $2::uuid," WEBHOOK_OWNER ","
    " CASE WHEN kept.id IS NULL THEN $7::text END, kept.id, $8::text"
    " FROM n JOIN h ON n.webhooks <= " WEBHOOK_AT_ONCE_TEXT " LEFT JOIN kept ON true"
    " RETURNING webhook, id, owner, body_id)"
    " SELECT webhook, id, owner, body_id FROM made"
    " UNION ALL SELECT NULL, NULL, NULL, NULL FROM later",
    0,
};

/* Data passed to the sender after the commit. Lives as long as the request. */
struct handoff {
    struct webhook *webhook;
    struct sender_event event;
    int64_t host;
    int index; /* of the statement */
};

/* Passes the rows that still have this host as their owner to the sender. */
static void hand_over(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct handoff *handoff = arg;
    struct sender *sender = handoff->webhook->sender;
    const struct bb_rows *rows = bb_unit_rows(rq, tx, handoff->index);
    size_t count = rows ? bb_count(rq, rows) : 0;
    struct sender_item *items = count ? bb_alloc(rq, count * sizeof(*items)) : NULL;
    size_t owned = 0;

    for (size_t i = 0; i < count; i++) {
        int64_t webhook = bb_cell_int(rq, rows, i, 0);

        if (!webhook)
            sender_expand(sender);
        else if (bb_cell(rq, rows, i, 2))
            items[owned++] = (struct sender_item){bb_cell_int(rq, rows, i, 1), webhook};
        else
            sender_scan(sender, webhook);
    }
    if (owned > 0) {
        handoff->event.body_id = bb_cell_int(rq, rows, 0, 3);
        sender_hand_off(sender, handoff->host, &handoff->event, items, owned, NULL);
    }
}

/* Adds the statement with its arguments. Returns its index in the unit, or a negative number. */
static int add_statement(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                         const struct handoff *handoff)
{
    struct sender *sender = handoff->webhook->sender;
    bool large = handoff->event.length >= WEBHOOK_LARGE_BODY;
    int64_t organization = event->audience->organization, full[SENDER_FULL_MAX];
    size_t count = sender_full(sender, full);
    const struct bb_value args[] = {bb_t(event->name),
                                    bb_t(event->id),
                                    organization ? bb_i(organization) : bb_null(),
                                    bb_t(webhook_array(rq, event->audience->emails)),
                                    handoff->host ? bb_i(handoff->host) : bb_null(),
                                    bb_ints(full, count),
                                    bb_t(handoff->event.body),
                                    bb_t(handoff->event.trace),
                                    bb_b(large),
                                    bb_i(rq->principal ? rq->principal->account : 0)};

    if (large || sender_active(sender) > WEBHOOK_AT_ONCE)
        return bb_add(rq, tx, &enqueue_any, args, 10);
    return bb_add(rq, tx, &enqueue.one, args, 8);
}

int webhook_within(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                   void *state)
{
    struct webhook *webhook = state;
    struct handoff *handoff = bb_alloc(rq, sizeof(*handoff));

    *handoff = (struct handoff){
        .webhook = webhook,
        .event = {.name = event->name, .id = event->id, .trace = bb_traceparent(rq)},
        .host = bb_superseded(rq->host) ? 0 : sender_host(webhook->sender),
    };
    handoff->event.body = bb_json(rq, event->payload, &handoff->event.length);
    int gathered = webhook_gather(rq, tx, webhook, event->audience, &handoff->event);

    if (gathered)
        return gathered < 0 ? -1 : 0;
    handoff->index = add_statement(rq, tx, event, handoff);
    if (handoff->index < 0)
        return -1;
    if (bb_superseded(rq->host) && webhook_notify_queued(rq, tx))
        return -1;
    bb_after(rq, tx, hand_over, handoff);
    return 0;
}
