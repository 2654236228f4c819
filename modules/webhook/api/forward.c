/*
 * Webhooks of kind "poll" with a destination: the service "event log" reads their events like a
 * client, and passes them to the service "destination:NAME" of another module. The consumer with
 * the name of the destination has the offset. Only events up to the cursor of the shard are read,
 * because no further event can appear below the cursor.
 */
#include <string.h>

#include "modules/webhook/api/api.h"

#define EVENTS 100 /* maximum passed at a time */

/* $1 destination, $2 maximum number of events. The webhook that has waited longest comes first. */
static const struct bb_sql next = {
    "SELECT h.id, c.after, l.last, CASE WHEN c.committed < h.dropped_to THEN h.dropped_to END,"
    " (SELECT busbar_timeline())"
    " FROM webhook_hook h JOIN webhook_shard s ON s.shard = webhook_shard_of(h.id)"
    " LEFT JOIN LATERAL (SELECT * FROM webhook_consumer c WHERE c.webhook = h.id"
    " AND c.name = h.destination) k ON true"
    " CROSS JOIN LATERAL (SELECT coalesce(k.committed, 0) AS after,"
    " nullif(k.committed, 0) AS committed) c"
    " CROSS JOIN LATERAL (SELECT max(d.id) AS last FROM (SELECT d.id"
    " FROM webhook_delivery d WHERE d.webhook = h.id AND d.id > c.after AND d.id <= s.cursor"
    " ORDER BY d.id LIMIT $2::bigint) d) l"
    " WHERE h.destination = $1 AND h.active AND h.admitted AND l.last IS NOT NULL"
    " ORDER BY k.committed_at NULLS FIRST LIMIT 1",
    0,
};
enum { HOOK, AFTER, LAST, DROPPED, TIMELINE };

/*
 * $1 webhook, $2 destination, $3 offset (of the last published event, or the previous offset), $4
 * the timeline on which $3 was read. On another timeline, another event may have the offset $3.
 */
static const struct bb_sql commit = {
    "INSERT INTO webhook_consumer (webhook, name, committed) SELECT id, $2, $3::bigint"
    " FROM webhook_hook WHERE id = $1::bigint AND busbar_timeline() = $4::bigint FOR KEY SHARE"
    " ON CONFLICT (webhook, name) DO UPDATE"
    " SET committed = greatest(webhook_consumer.committed, excluded.committed),"
    " committed_at = now()",
    BB_SQL_WRITE,
};

/* Finds the service of a destination; returns false if no loaded module provides it. */
static bool forward_find(struct bb_host *host, const char *name, struct bb_given *given)
{
    for (size_t i = 0; bb_service_at(host, BB_DESTINATION, i, given); i++)
        if (!strcmp(given->name + strlen(BB_DESTINATION), name))
            return true;
    return false;
}

struct batch {
    const struct bb_destination *to;
    const struct bb_logged_event *events;
    size_t count, published;
};

static int forward_publish(struct bb_request *rq, void *arg)
{
    struct batch *batch = arg;

    batch->published = batch->to->publish(rq, batch->events, batch->count);
    return 0;
}

static int forward_failed(struct bb_request *rq, const char *destination)
{
    bb_log(rq, BB_WARN, "events cannot be passed to the destination %s: %s", destination,
           bb_sqlstate(rq));
    return -1;
}

static int forward(void *state, struct bb_request *rq, const char *destination)
{
    struct bb_given given = {.size = sizeof(given)};

    if (!forward_find(((const struct webhook *)state)->host, destination, &given))
        return 0;
    const struct bb_rows *rows = bb_query(rq, &next, BB_ARGS(bb_t(destination), bb_i(EVENTS)));

    if (!rows)
        return forward_failed(rq, destination);
    if (!bb_count(rq, rows))
        return 0;
    int64_t hook = bb_cell_int(rq, rows, 0, HOOK), offset = bb_cell_int(rq, rows, 0, AFTER);
    int64_t dropped_to = bb_cell_int(rq, rows, 0, DROPPED); /* 0: no event was dropped */
    int64_t timeline = bb_cell_int(rq, rows, 0, TIMELINE);

    if (dropped_to)
        bb_log(rq, BB_ERROR,
               "events of webhook %lld were dropped before they were passed to %s, because they "
               "were older than webhook.retention_days",
               (long long)hook, destination);
    rows = bb_query(
        rq, &poll_page,
        BB_ARGS(bb_i(hook), bb_i(offset), bb_i(bb_cell_int(rq, rows, 0, LAST)), bb_i(EVENTS)));
    if (!rows)
        return forward_failed(rq, destination);
    struct batch batch = {.to = given.interface, .count = bb_count(rq, rows)};
    struct bb_logged_event *events = bb_alloc(rq, (batch.count + 1) * sizeof(*events));

    for (size_t i = 0; i < batch.count; i++)
        events[i] = (struct bb_logged_event){.size = sizeof(events[i]),
                                             .id = bb_cell(rq, rows, i, 1),
                                             .name = bb_cell(rq, rows, i, 2),
                                             .payload = bb_cell(rq, rows, i, 4),
                                             .created_ms = bb_cell_int(rq, rows, i, 3)};
    batch.events = events;
    bb_call_as(rq, given.host, forward_publish, &batch);
    if (batch.published)
        offset = bb_cell_int(rq, rows, batch.published - 1, 0);
    else if (dropped_to)
        offset = dropped_to; /* so that the loss is logged only once */
    /* Commit even an unchanged offset: the new committed_at lets other webhooks come first. */
    if (!bb_query(rq, &commit,
                  BB_ARGS(bb_i(hook), bb_t(destination), bb_i(offset), bb_i(timeline))))
        return forward_failed(rq, destination);
    return batch.published && batch.published == batch.count;
}

const struct bb_event_log webhook_event_log = {.size = sizeof(webhook_event_log),
                                               .forward = forward};

/* ---- the member of a webhook ---- */

void destination_take(struct bb_request *rq, json_t *value, json_t *columns)
{
    const char *name = json_string_value(value), *names = "";
    struct bb_given given = {.size = sizeof(given)};

    if (name && rq->principal->role != BB_ROLE_ADMIN)
        bb_end(rq, bb_fail(rq, 403, "Only an Admin may set the destination of a webhook"));
    if (!name || forward_find(rq->host, name, &given)) {
        bb_set(rq, columns, "destination", json_incref(value));
        return;
    }
    for (size_t i = 0; bb_service_at(rq->host, BB_DESTINATION, i, &given); i++)
        names =
            bb_format(rq, "%s%s%s", names, *names ? ", " : "", given.name + strlen(BB_DESTINATION));
    if (!*names)
        bb_end(rq, bb_invalid(rq, "destination",
                              "is not possible: no loaded module provides a destination"));
    bb_end(rq, bb_invalid(rq, "destination", "must be one of: %s", names));
}
