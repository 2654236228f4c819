/*
 * Events of an interactive transaction with the same name and audience, such as the events of a
 * bulk upload's rows: one statement enqueues up to MOST of them. The order of events is kept,
 * because an event that differs has the earlier ones enqueued first.
 */
#include <string.h>

#include "modules/webhook/publish/publish.h"

enum { MOST = 100 };

/* Lives as long as the transaction. */
struct gathered {
    struct webhook *webhook;
    int64_t organization;
    size_t count;
    struct sender_event events[MOST]; /* of one name; the texts live as long as the request */
};

/* Data passed to the sender after the commit. */
struct handoff {
    struct gathered all;
    int64_t host;
    int index; /* of the statement */
};

/*
 * $1 event, $2 ids, $3 organization or null, $4 no e-mails, $5 host or null, $6 full webhooks, $7
 * bodies, $8 traceparent
 */
static const struct bb_sql enqueue_all = {
    "WITH h AS MATERIALIZED (SELECT h.id" WEBHOOK_MATCHING ")"
    " INSERT INTO webhook_delivery (webhook, event, event_id, owner, body, traceparent)"
    " SELECT h.id, $1::text, e.id," WEBHOOK_OWNER ", e.body, $8::text"
    " FROM unnest($2::uuid[], $7::text[]) WITH ORDINALITY AS e (id, body, n) CROSS JOIN h"
    " ORDER BY e.n, h.id RETURNING webhook, id, owner, event_id",
    0,
};

/* Passes the rows of one event, which begin at `row`, to the sender. Returns the row after them. */
static size_t hand_over_one(struct bb_request *rq, const struct handoff *handoff,
                            const struct bb_rows *rows, const struct sender_event *event,
                            size_t row)
{
    struct sender *sender = handoff->all.webhook->sender;
    size_t count = bb_count(rq, rows), from = row, owned = 0;

    while (row < count && !strcmp(bb_cell(rq, rows, row, 3), event->id))
        row++;
    struct sender_item *items = bb_alloc(rq, (row - from) * sizeof(*items));

    for (size_t i = from; i < row; i++) {
        int64_t webhook = bb_cell_int(rq, rows, i, 0);

        if (bb_cell(rq, rows, i, 2))
            items[owned++] = (struct sender_item){bb_cell_int(rq, rows, i, 1), webhook};
        else
            sender_scan(sender, webhook);
    }
    if (owned)
        sender_hand_off(sender, handoff->host, event, items, owned, NULL);
    return row;
}

static void hand_over(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct handoff *handoff = arg;
    const struct bb_rows *rows = bb_unit_rows(rq, tx, handoff->index);
    size_t row = 0;

    for (size_t i = 0; rows && i < handoff->all.count && row < bb_count(rq, rows); i++)
        row = hand_over_one(rq, handoff, rows, &handoff->all.events[i], row);
}

static int add_statement(struct bb_request *rq, struct bb_tx *tx, const struct handoff *handoff)
{
    const struct gathered *all = &handoff->all;
    int64_t full[SENDER_FULL_MAX];
    size_t count = sender_full(all->webhook->sender, full);
    const char *ids[MOST + 1] = {NULL}, *bodies[MOST + 1] = {NULL};

    for (size_t i = 0; i < all->count; i++) {
        ids[i] = all->events[i].id;
        bodies[i] = all->events[i].body;
    }
    return bb_add(rq, tx, &enqueue_all,
                  BB_ARGS(bb_t(all->events[0].name), bb_t(webhook_array(rq, ids)),
                          all->organization ? bb_i(all->organization) : bb_null(), bb_t("{}"),
                          handoff->host ? bb_i(handoff->host) : bb_null(), bb_ints(full, count),
                          bb_t(webhook_array(rq, bodies)), bb_t(all->events[0].trace)));
}

/* Returns 0 or -1. */
static int enqueue(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct gathered *gathered = arg;
    bool leaving = bb_superseded(rq->host);
    struct handoff *handoff;

    if (!gathered->count)
        return 0;
    handoff = bb_alloc(rq, sizeof(*handoff));
    handoff->all = *gathered;
    handoff->host = leaving ? 0 : sender_host(gathered->webhook->sender);
    gathered->count = 0;
    handoff->index = add_statement(rq, tx, handoff);
    if (handoff->index < 0 || (leaving && webhook_notify_queued(rq, tx)))
        return -1;
    bb_after(rq, tx, hand_over, handoff);
    return 0;
}

int webhook_gather(struct bb_request *rq, struct bb_tx *tx, struct webhook *webhook,
                   const struct bb_audience *audience, const struct sender_event *event)
{
    struct gathered *gathered = bb_before(rq, tx, enqueue, sizeof(*gathered));
    bool alone = event->length >= WEBHOOK_LARGE_BODY || (audience->emails && audience->emails[0]) ||
                 sender_active(webhook->sender) > WEBHOOK_AT_ONCE;

    if (!gathered)
        return 0;
    bool others = gathered->count &&
                  (gathered->count == MOST || gathered->organization != audience->organization ||
                   strcmp(gathered->events[0].name, event->name) != 0);

    if ((alone || others) && enqueue(rq, tx, gathered))
        return -1;
    if (alone)
        return 0;
    gathered->webhook = webhook;
    gathered->organization = audience->organization;
    gathered->events[gathered->count++] = *event;
    return 1;
}
