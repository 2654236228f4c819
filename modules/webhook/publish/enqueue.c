/*
 * Enqueues deliveries in the publisher's transaction, with one statement, however many webhooks
 * match. The statement inserts one delivery per webhook. If more than AT_ONCE webhooks match, it
 * instead inserts one row that lists the webhooks, because other requests would wait too long for
 * the transaction. After the commit expand.c creates the deliveries.
 *
 * The statement runs even if this host knows no matching webhook, because another host may have
 * registered one, and a webhook must get all events after the response to its POST. If no webhook
 * matches, the statement costs three look-ups in small indexes and no extra round trip.
 *
 * After the commit the deliveries are passed to the sender, which sends to this host's shards and
 * notifies the owners of other shards. A superseded generation notifies all senders, because its
 * own sender is ending. All functions run on the fiber of the request.
 *
 * In an interactive transaction, events with the same name and audience (the events of a bulk
 * upload's rows, for example) are gathered: one statement enqueues up to MOST of them. To keep the
 * order of events, the gathered events are enqueued before an event that differs.
 */
#include "modules/webhook/publish/publish.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

enum {
    MOST = 100,        /* events that one statement enqueues */
    LARGE_BODY = 2048, /* larger bodies are stored once, not in each delivery */
    SLOW_BODY = 16384, /* filters of larger bodies are evaluated after the commit */
    AT_ONCE = 128      /* limit of an event's deliveries in a transaction */
};
#define AT_ONCE_TEXT "128"

/* The webhooks h that get the event. $1 event, $2 organization or null, $3 array of e-mails */
#define MATCHING_OF(event, organization, emails)                                                   \
    " FROM webhook_hook h WHERE h.active AND h.admitted"                                           \
    " AND h.events && ARRAY[" event ", '" WEBHOOK_ALL_EVENTS "']"                                  \
    " AND (h.sees_all OR h.organisations @> ARRAY[" organization "] OR h.email = ANY(" emails      \
    "::text[]))"
#define MATCHING MATCHING_OF("$1::text", "$2::bigint", "$3")
#define FILTERED WEBHOOK_FILTERED("(SELECT webhook_payload($5::text))")

/*
 * For a webhook h with `ordering`, webhook_order() returns the delivery's id and its place in the
 * order of the key, as `o`. For other webhooks o is null, because webhook_order() is STRICT: it is
 * not called with a null argument. The CASE passes null; a WHERE might be evaluated after the call.
 */
#define ORDERED(key)                                                                               \
    " LEFT JOIN LATERAL webhook_order(CASE WHEN h.ordering IS NOT NULL THEN h.id END, " key ") o"  \
    " ON true"
#define DELIVERY_ID                                                                                \
    "coalesce(o.id, CASE WHEN pg_current_xact_id() IS NOT NULL"                                    \
    " THEN nextval('webhook_delivery_id') END)"

/* $4 the event's id, $5 body, $6 traceparent, $7 key or null */
#define EVENTS BB_KEYS_7("text", "bigint", "text", "uuid", "text", "text", "text")
#define MATCHING_EVENT MATCHING_OF("k.event", "k.organisation", "k.emails")

/* clang-format off */
static const struct bb_keyed enqueue = {
    {"INSERT INTO webhook_delivery (id, webhook, event, event_id, body, traceparent, sequence)"
     " SELECT " DELIVERY_ID ", h.id, $1::text, $4::uuid, $5::text, $6::text, o.sequence"
     " FROM (SELECT h.id, h.ordering" MATCHING " AND " FILTERED
     ") h" ORDERED("$7::text") " RETURNING webhook, id, body_id, sequence",
     BB_SQL_KEYED},
    {"WITH k AS (SELECT * FROM " EVENTS
     " k(event, organisation, emails, event_id, body, trace, key, i)),"
     " made AS (INSERT INTO webhook_delivery"
     " (id, webhook, event, event_id, body, traceparent, sequence)"
     " SELECT " DELIVERY_ID ", h.id, k.event, k.event_id, k.body, k.trace, o.sequence"
     " FROM k CROSS JOIN LATERAL (SELECT h.id, h.ordering" MATCHING_EVENT
     " AND " WEBHOOK_FILTERED("(SELECT webhook_payload(k.body))") " OFFSET 0) h" ORDERED("k.key")
     " RETURNING webhook, id, body_id, event_id, sequence)"
     " SELECT m.webhook, m.id, m.body_id, m.sequence, k.i FROM made m"
     " JOIN k ON k.event_id = m.event_id",
     0},
};

/*
 * Like `enqueue`, for events that may match many webhooks. $7: the body is large and gets its own
 * row. $8: the account that raised the event. $9: the body is too large to evaluate filters in this
 * transaction. $10: the event's key. Always inserts the deliveries to webhooks with `ordering`. A
 * row of nulls in the result means that expand.c creates the other deliveries after the commit.
 */
static const struct bb_sql enqueue_any = {
    "WITH h AS MATERIALIZED (SELECT h.id, h.filter_path, h.ordering,"
    " h.ordering IS NOT NULL AND $10::text IS NOT NULL AS ordered" MATCHING "),"
    " n AS MATERIALIZED (SELECT count(*) AS webhooks, count(*) FILTER (WHERE NOT ordered)"
    " > " AT_ONCE_TEXT " OR ($9::boolean AND count(filter_path) FILTER (WHERE NOT ordered) > 0)"
    " AS later FROM h),"
    " kept AS (INSERT INTO webhook_body (body) SELECT $5::text FROM n"
    " WHERE n.later OR (n.webhooks > 0 AND $7::boolean) RETURNING id),"
    " later AS (INSERT INTO webhook_expansion"
    " (account, event, event_id, body_id, webhooks, traceparent)"
    " SELECT $8::bigint, $1::text, $4::uuid, kept.id,"
    " ARRAY(SELECT h.id FROM h WHERE NOT h.ordered ORDER BY h.id), $6::text"
    " FROM n, kept WHERE n.later RETURNING id),"
    " made AS (INSERT INTO webhook_delivery"
    " (id, webhook, event, event_id, body, body_id, traceparent, sequence)"
    " SELECT " DELIVERY_ID ", h.id, $1::text, $4::uuid,"
    " CASE WHEN kept.id IS NULL THEN $5::text END, kept.id, $6::text, o.sequence"
    " FROM n JOIN h ON (h.ordered OR NOT n.later) AND " FILTERED
    " LEFT JOIN kept ON true" ORDERED("$10::text") " RETURNING webhook, id, body_id, sequence)"
    " SELECT webhook, id, body_id, sequence FROM made"
    " UNION ALL SELECT NULL, NULL, NULL, NULL FROM later",
    0,
};

/* Enqueues several events. $3 an empty array, $4 ids, $5 bodies, $6 keys, $7 traceparent */
static const struct bb_sql enqueue_all = {
    "WITH h AS MATERIALIZED (SELECT h.id, h.filter_path, h.ordering" MATCHING ")"
    " INSERT INTO webhook_delivery (id, webhook, event, event_id, body, traceparent, sequence)"
    " SELECT " DELIVERY_ID ", h.id, $1::text, h.event_id, h.body, $7::text, o.sequence"
    " FROM (SELECT h.id, h.ordering, e.id AS event_id, e.body, e.key"
    " FROM unnest($4::uuid[], $5::text[], $6::text[]) WITH ORDINALITY AS e(id, body, key, n)"
    " JOIN h ON " WEBHOOK_FILTERED("webhook_payload(e.body)")
    " ORDER BY e.n, h.id OFFSET 0) h" ORDERED("h.key")
    " RETURNING webhook, id, body_id, sequence, event_id",
    0,
};

/*
 * Enqueues an event about a webhook for the other webhooks of its owner. Without the limit, n
 * webhooks of an owner that fail together would have n * n deliveries, in the transaction that
 * records their outcomes. $1 event, $2 the webhook, $3 the event's id, $4 body, $5 traceparent
 */
#define ABOUT_MOST "100"
static const struct bb_sql enqueue_about = {
    "INSERT INTO webhook_delivery (webhook, event, event_id, body, traceparent)"
    " SELECT h.id, $1::text, $3::uuid, $4::text, $5::text FROM webhook_hook a"
    " JOIN webhook_hook h ON h.account = a.account AND h.id <> a.id WHERE a.id = $2::bigint"
    " AND h.active AND h.admitted AND h.events && ARRAY[$1::text, '" WEBHOOK_ALL_EVENTS "']"
    " AND " WEBHOOK_FILTERED("webhook_payload($4::text)") " ORDER BY h.events @> ARRAY[$1::text]"
    " DESC, h.id LIMIT " ABOUT_MOST " RETURNING webhook, id, body_id, sequence",
    0,
};

/* clang-format on */

/*
 * The events that one statement enqueues: one event, or several of a transaction that have the same
 * name and audience. The texts live as long as the request.
 */
struct gathered {
    struct webhook *webhook;
    int64_t organization;
    int index; /* of the statement in the transaction */
    size_t count;
    const char *keys[MOST]; /* NULL: the event has no key */
    struct sender_event events[MOST];
};

/* Runs after the commit: passes the rows, which are in the order of the events, to the sender. */
static void enqueue_pass(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct gathered *all = arg;
    struct sender *sender = all->webhook->sender;
    const struct bb_rows *rows = bb_unit_rows(rq, tx, all->index);
    size_t count = rows ? bb_count(rq, rows) : 0, row = 0;
    struct sender_item *items = bb_alloc(rq, (count + 1) * sizeof(*items));

    if (all->count == 1 && count)
        all->events[0].body_id = bb_cell_int(rq, rows, 0, 2);
    for (size_t i = 0; i < all->count && row < count; i++) {
        const struct sender_event *event = &all->events[i];
        size_t found = 0;

        for (; row < count && (all->count == 1 || !strcmp(bb_cell(rq, rows, row, 4), event->id));
             row++) {
            int64_t webhook = bb_cell_int(rq, rows, row, 0);

            if (bb_cell(rq, rows, row, 3))
                sender_queued(sender, webhook, true);
            else if (webhook)
                items[found++] = (struct sender_item){bb_cell_int(rq, rows, row, 1), webhook};
            else
                sender_expand(sender);
        }
        if (found)
            sender_committed(sender, event, items, found, false);
    }
}

/* Registers enqueue_pass(). A superseded generation notifies all hosts: its sender is ending. */
static int enqueue_after(struct bb_request *rq, struct bb_tx *tx, struct gathered *all)
{
    if (all->index < 0 ||
        (bb_superseded(rq->host) && bb_notify(rq, tx, WEBHOOK_CHANNEL, WEBHOOK_QUEUED_ANY)))
        return -1;
    bb_after(rq, tx, enqueue_pass, all);
    return 0;
}

static int enqueue_gathered(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct gathered *gathered = arg;

    if (!gathered->count)
        return 0;
    struct gathered *all = bb_alloc(rq, sizeof(*all));
    const char *ids[MOST], *bodies[MOST];

    *all = *gathered;
    gathered->count = 0;
    for (size_t i = 0; i < all->count; i++) {
        ids[i] = all->events[i].id;
        bodies[i] = all->events[i].body;
    }
    all->index = bb_add(
        rq, tx, &enqueue_all,
        BB_ARGS(bb_t(all->events[0].name), all->organization ? bb_i(all->organization) : bb_null(),
                bb_texts(NULL, 0), bb_texts(ids, all->count), bb_texts(bodies, all->count),
                bb_texts(all->keys, all->count), bb_t(all->events[0].trace)));
    return enqueue_after(rq, tx, all);
}

/* Returns whether an event may have more deliveries than a transaction should insert. */
static bool enqueue_is_wide(const struct webhook *webhook)
{
    struct sender_counters counters;

    sender_count(webhook->sender, &counters);
    return counters.webhooks[WEBHOOK_ACTIVE] > AT_ONCE;
}

/* Returns 1 if the event was gathered, 0 if it needs a separate statement, or -1 on failure. */
static int enqueue_gather(struct bb_request *rq, struct bb_tx *tx, struct webhook *webhook,
                          const struct bb_audience *audience, const struct sender_event *event,
                          const char *key)
{
    struct gathered *gathered = bb_before(rq, tx, enqueue_gathered, sizeof(*gathered));
    bool alone = event->length >= LARGE_BODY || (audience->emails && audience->emails[0]) ||
                 enqueue_is_wide(webhook);

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
    gathered->keys[gathered->count] = key;
    gathered->events[gathered->count++] = *event;
    return 1;
}

/*
 * ---- the key of an event: what it is about, such as a conversation or a device ----
 *
 * A webhook with `ordering` gets the events of a key in order. The field of a payload that has the
 * key is marked with BB_KEY.
 */

enum { KEY_MAX = 128 }; /* bytes of a key's value; an event with a longer value has no order */

/* Returns the object's key or NULL. `parent`: the object's name, or NULL if it is the payload. */
static const char *enqueue_find_key(struct bb_request *rq, const struct bb_table *fields,
                                    const json_t *object, const char *parent)
{
    const char *key = NULL;

    for (size_t i = 0; i < fields->count && !key && json_is_object(object); i++) {
        const struct bb_field *field = BB_ROW(bb_field, *fields, i);
        bool is_key = field->flags & BB_KEY;
        const json_t *value =
            is_key || field->type == BB_OBJECT ? json_object_get(object, field->name) : NULL;
        const char *text = json_string_value(value);

        if (field->type == BB_OBJECT)
            key = enqueue_find_key(rq, &field->fields, value, field->name);
        if (!is_key || (!text && !json_is_integer(value)))
            continue;
        /* "conversationId" and the "id" of "conversation" are the same key */
        bool whole = parent && !strcmp(field->name, "id");
        const char *name = whole ? parent : field->name;
        size_t length = strlen(field->name);
        int shown = whole ? INT_MAX : (int)(length > 2 ? length - 2 : length);

        if (!text)
            key = bb_format(rq, "%.*s:%lld", shown, name, (long long)json_integer_value(value));
        else if (strlen(text) <= KEY_MAX)
            key = bb_format(rq, "%.*s:%s", shown, name, text);
    }
    return key;
}

const struct bb_event_descriptor *webhook_event(struct bb_request *rq, const char *name)
{
    const struct bb_module *module;

    for (size_t i = 0; (module = bb_module_at(rq->host, i)); i++)
        for (size_t k = 0; k < module->events.count; k++) {
            const struct bb_event_descriptor *row = BB_ROW(bb_event_descriptor, module->events, k);

            if (!strcmp(row->name, name))
                return row;
        }
    return NULL;
}

int webhook_within(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                   void *state)
{
    struct webhook *webhook = state;
    struct sender_event raised = {
        .name = event->name, .id = event->id, .trace = bb_traceparent(rq)};

    raised.body = bb_json(rq, event->payload, &raised.length);
    const json_t *about =
        strncmp(event->name, WEBHOOK_EVENTS_ABOUT, strlen(WEBHOOK_EVENTS_ABOUT)) != 0
            ? NULL
            : json_object_get(event->payload, "webhookId");
    const struct bb_event_descriptor *row = webhook_event(rq, event->name);
    const char *key = row ? enqueue_find_key(rq, &row->payload, event->payload, NULL) : NULL;
    int gathered = about ? 0 : enqueue_gather(rq, tx, webhook, event->audience, &raised, key);

    if (gathered)
        return gathered < 0 ? -1 : 0;
    struct gathered *one = bb_alloc(rq, offsetof(struct gathered, events[1]));
    const char *const *to = event->audience->emails;
    size_t count = 0;

    while (to && to[count])
        count++;
    bool large = raised.length >= LARGE_BODY;
    int64_t organization = event->audience->organization;
    const struct bb_value name = bb_t(event->name), id = bb_t(event->id), body = bb_t(raised.body),
                          trace = bb_t(raised.trace),
                          of = organization ? bb_i(organization) : bb_null(),
                          emails = bb_texts(to, count);

    one->webhook = webhook;
    one->count = 1;
    one->events[0] = raised;
    if (about)
        one->index = bb_add(rq, tx, &enqueue_about,
                            BB_ARGS(name, bb_i(json_integer_value(about)), id, body, trace));
    else if (large || enqueue_is_wide(webhook))
        one->index = bb_add(rq, tx, &enqueue_any,
                            BB_ARGS(name, of, emails, id, body, trace, bb_b(large),
                                    bb_i(rq->principal ? rq->principal->account : 0),
                                    bb_b(raised.length >= SLOW_BODY), bb_t(key)));
    else
        one->index =
            bb_add(rq, tx, &enqueue.one, BB_ARGS(name, of, emails, id, body, trace, bb_t(key)));
    return enqueue_after(rq, tx, one);
}
