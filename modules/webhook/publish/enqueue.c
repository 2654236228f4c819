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
 *
 * Events of an interactive transaction with the same name and audience, such as the events of a
 * bulk upload's rows, are gathered: one statement enqueues up to MOST of them. The order of events
 * is kept, because an event that differs has the earlier ones enqueued first.
 */
#include "modules/webhook/publish/publish.h"

#include <string.h>

enum {
    MOST = 100,        /* events that one statement enqueues */
    LARGE_BODY = 2048, /* larger bodies are stored once, not in each delivery */
    AT_ONCE = 128      /* most deliveries of an event in a transaction */
};
#define AT_ONCE_TEXT "128"

/*
 * The webhooks h that get the event, and the initial owner of the delivery to each. $1 event, $3
 * organization or null, $4 e-mails, $5 host or null, $6 full webhooks
 */
#define MATCHING_OF(event, organization, emails)                                                   \
    " FROM webhook_hook h WHERE h.active AND h.admitted"                                           \
    " AND h.events && ARRAY[" event ", '" WEBHOOK_ALL_EVENTS "']"                                  \
    " AND (h.sees_all OR h.organisations @> ARRAY[" organization "] OR h.email = ANY(" emails "))"
#define OWNER_OF(full, host) " CASE WHEN h.id = ANY(" full ") THEN NULL ELSE " host " END"
#define MATCHING MATCHING_OF("$1::text", "$3::bigint", "$4::text[]")
#define OWNER OWNER_OF("$6::bigint[]", "$5::bigint")

/*
 * $1 event, $2 its id, $3 organization or null, $4 e-mails, $5 host or null, $6 full webhooks, $7
 * body, $8 traceparent
 */
#define EVENTS BB_KEYS_8("text", "uuid", "bigint", "text", "bigint", "text", "text", "text")
#define OWNER_OF_EVENT OWNER_OF("k.busy::bigint[]", "k.host")
#define MATCHING_EVENT MATCHING_OF("k.event", "k.organisation", "k.emails::text[]")

static const struct bb_keyed enqueue = {
    {"INSERT INTO webhook_delivery (webhook, event, event_id, owner, body, traceparent)"
     " SELECT h.id, $1::text, $2::uuid," OWNER ", $7::text, $8::text" MATCHING
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
    "WITH h AS MATERIALIZED (SELECT h.id" MATCHING "),"
    " n AS MATERIALIZED (SELECT count(*) AS webhooks FROM h),"
    " kept AS (INSERT INTO webhook_body (body) SELECT $7::text FROM n"
    " WHERE n.webhooks > " AT_ONCE_TEXT " OR (n.webhooks > 0 AND $9::boolean) RETURNING id),"
    " later AS (INSERT INTO webhook_expansion"
    " (account, event, event_id, body_id, webhooks, traceparent)"
    " SELECT $10::bigint, $1::text, $2::uuid, kept.id, ARRAY(SELECT h.id FROM h ORDER BY h.id),"
    " $8::text FROM n, kept WHERE n.webhooks > " AT_ONCE_TEXT " RETURNING id),"
    " made AS (INSERT INTO webhook_delivery"
    " (webhook, event, event_id, owner, body, body_id, traceparent)"
    " SELECT h.id, $1::text, $2::uuid," OWNER ","
    " CASE WHEN kept.id IS NULL THEN $7::text END, kept.id, $8::text"
    " FROM n JOIN h ON n.webhooks <= " AT_ONCE_TEXT " LEFT JOIN kept ON true"
    " RETURNING webhook, id, owner, body_id)"
    " SELECT webhook, id, owner, body_id FROM made"
    " UNION ALL SELECT NULL, NULL, NULL, NULL FROM later",
    0,
};

/*
 * $1 event, $2 ids, $3 organization or null, $4 no e-mails, $5 host or null, $6 full webhooks, $7
 * bodies, $8 traceparent
 */
static const struct bb_sql enqueue_all = {
    "WITH h AS MATERIALIZED (SELECT h.id" MATCHING ")"
    " INSERT INTO webhook_delivery (webhook, event, event_id, owner, body, traceparent)"
    " SELECT h.id, $1::text, e.id," OWNER ", e.body, $8::text"
    " FROM unnest($2::uuid[], $7::text[]) WITH ORDINALITY AS e (id, body, n) CROSS JOIN h"
    " ORDER BY e.n, h.id RETURNING webhook, id, owner, event_id",
    0,
};

/* Formats texts, up to NULL, as a PostgreSQL array: {"a","b"}. */
static char *text_array(struct bb_request *rq, const char *const *texts)
{
    size_t size = 3;

    for (size_t i = 0; texts && texts[i]; i++)
        size += 2 * strlen(texts[i]) + 3;
    char *array = bb_alloc(rq, size), *at = array;

    *at++ = '{';
    for (size_t i = 0; texts && texts[i]; i++) {
        if (i > 0)
            *at++ = ',';
        *at++ = '"';
        for (const char *c = texts[i]; *c; c++) {
            if (*c == '"' || *c == '\\')
                *at++ = '\\';
            *at++ = *c;
        }
        *at++ = '"';
    }
    *at = '}';
    return array;
}

/* Data passed to the sender after the commit. Lives as long as the request. */
struct handoff {
    struct webhook *webhook;
    struct sender_event event;
    int64_t host;
    int index; /* of the statement */
};

/* Events to be enqueued with one statement. Lives as long as the transaction. */
struct gathered {
    struct webhook *webhook;
    int64_t organization;
    size_t count;
    struct sender_event events[MOST]; /* of one name; the texts live as long as the request */
};

struct gathered_handoff {
    struct gathered all;
    int64_t host;
    int index; /* of the statement */
};

/*
 * Passes the rows of one event, from `row` to before `end`, to the sender if they still have this
 * host as their owner.
 */
static void hand_over_rows(struct bb_request *rq, struct sender *sender, int64_t host,
                           const struct sender_event *event, const struct bb_rows *rows, size_t row,
                           size_t end)
{
    struct sender_item *items = row < end ? bb_alloc(rq, (end - row) * sizeof(*items)) : NULL;
    size_t owned = 0;

    for (; row < end; row++) {
        int64_t webhook = bb_cell_int(rq, rows, row, 0);

        if (!webhook)
            sender_expand(sender);
        else if (bb_cell(rq, rows, row, 2))
            items[owned++] = (struct sender_item){bb_cell_int(rq, rows, row, 1), webhook};
        else
            sender_scan(sender, webhook);
    }
    if (owned)
        sender_hand_off(sender, host, event, items, owned, NULL);
}

static void hand_over_gathered(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct gathered_handoff *handoff = arg;
    const struct bb_rows *rows = bb_unit_rows(rq, tx, handoff->index);
    size_t count = rows ? bb_count(rq, rows) : 0, row = 0;

    for (size_t i = 0; i < handoff->all.count && row < count; i++) {
        const struct sender_event *event = &handoff->all.events[i];
        size_t from = row;

        while (row < count && !strcmp(bb_cell(rq, rows, row, 3), event->id))
            row++;
        hand_over_rows(rq, handoff->all.webhook->sender, handoff->host, event, rows, from, row);
    }
}

/* Returns 0 or -1. */
static int enqueue_gathered(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct gathered *gathered = arg;
    bool leaving = bb_superseded(rq->host);
    const char *ids[MOST + 1] = {NULL}, *bodies[MOST + 1] = {NULL};
    int64_t full[SENDER_FULL_MAX];

    if (!gathered->count)
        return 0;
    struct gathered_handoff *handoff = bb_alloc(rq, sizeof(*handoff));
    const struct gathered *all = &handoff->all;

    handoff->all = *gathered;
    handoff->host = leaving ? 0 : sender_host(all->webhook->sender);
    gathered->count = 0;
    size_t full_count = sender_full(all->webhook->sender, full);

    for (size_t i = 0; i < all->count; i++) {
        ids[i] = all->events[i].id;
        bodies[i] = all->events[i].body;
    }
    handoff->index =
        bb_add(rq, tx, &enqueue_all,
               BB_ARGS(bb_t(all->events[0].name), bb_t(text_array(rq, ids)),
                       all->organization ? bb_i(all->organization) : bb_null(), bb_t("{}"),
                       handoff->host ? bb_i(handoff->host) : bb_null(), bb_ints(full, full_count),
                       bb_t(text_array(rq, bodies)), bb_t(all->events[0].trace)));
    if (handoff->index < 0 || (leaving && webhook_notify_queued(rq, tx)))
        return -1;
    bb_after(rq, tx, hand_over_gathered, handoff);
    return 0;
}

/* Returns 1 if it keeps the event; 0 if it needs a separate statement; -1 on failure. */
static int gather(struct bb_request *rq, struct bb_tx *tx, struct webhook *webhook,
                  const struct bb_audience *audience, const struct sender_event *event)
{
    struct gathered *gathered = bb_before(rq, tx, enqueue_gathered, sizeof(*gathered));
    bool alone = event->length >= LARGE_BODY || (audience->emails && audience->emails[0]) ||
                 sender_active(webhook->sender) > AT_ONCE;

    if (!gathered)
        return 0;
    bool others = gathered->count &&
                  (gathered->count == MOST || gathered->organization != audience->organization ||
                   strcmp(gathered->events[0].name, event->name) != 0);

    if ((alone || others) && enqueue_gathered(rq, tx, gathered))
        return -1;
    if (alone)
        return 0;
    gathered->webhook = webhook;
    gathered->organization = audience->organization;
    gathered->events[gathered->count++] = *event;
    return 1;
}

static void hand_over(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct handoff *handoff = arg;
    const struct bb_rows *rows = bb_unit_rows(rq, tx, handoff->index);
    size_t count = rows ? bb_count(rq, rows) : 0;

    if (count)
        handoff->event.body_id = bb_cell_int(rq, rows, 0, 3);
    hand_over_rows(rq, handoff->webhook->sender, handoff->host, &handoff->event, rows, 0, count);
}

int webhook_within(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                   void *state)
{
    struct webhook *webhook = state;
    struct sender *sender = webhook->sender;
    struct handoff *handoff = bb_alloc(rq, sizeof(*handoff));

    *handoff = (struct handoff){
        .webhook = webhook,
        .event = {.name = event->name, .id = event->id, .trace = bb_traceparent(rq)},
        .host = bb_superseded(rq->host) ? 0 : sender_host(sender),
    };
    handoff->event.body = bb_json(rq, event->payload, &handoff->event.length);
    int gathered = gather(rq, tx, webhook, event->audience, &handoff->event);

    if (gathered)
        return gathered < 0 ? -1 : 0;
    bool large = handoff->event.length >= LARGE_BODY;
    int64_t organization = event->audience->organization, full[SENDER_FULL_MAX];
    size_t full_count = sender_full(sender, full);
    const struct bb_value args[] = {bb_t(event->name),
                                    bb_t(event->id),
                                    organization ? bb_i(organization) : bb_null(),
                                    bb_t(text_array(rq, event->audience->emails)),
                                    handoff->host ? bb_i(handoff->host) : bb_null(),
                                    bb_ints(full, full_count),
                                    bb_t(handoff->event.body),
                                    bb_t(handoff->event.trace),
                                    bb_b(large),
                                    bb_i(rq->principal ? rq->principal->account : 0)};

    handoff->index = large || sender_active(sender) > AT_ONCE
                         ? bb_add(rq, tx, &enqueue_any, args, 10)
                         : bb_add(rq, tx, &enqueue.one, args, 8);
    if (handoff->index < 0 || (bb_superseded(rq->host) && webhook_notify_queued(rq, tx)))
        return -1;
    bb_after(rq, tx, hand_over, handoff);
    return 0;
}
