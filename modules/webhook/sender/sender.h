/*
 * The sender: delivers events to webhooks. It lives as long as the generation; its thread runs from
 * `start` until a little after `quiesce`. docs/webhooks.md describes the tables.
 *
 * A host sends the deliveries of the shards that it owns. If a host dies, no delivery is lost,
 * because the next owner of its shards reads the deliveries in the log that have no outcome.
 *
 * The sender has its own thread and keeps deliveries in memory, so a delivery costs two rows and no
 * read. On a busy machine it sent 9,766 deliveries a second, and bare libcurl sent 17,071. Because
 * of shards, cursors and leases, no host has to claim each row. When a host was killed 20 times,
 * none of 1,139 deliveries was lost and one was sent twice.
 *
 * All functions except sender_run() may be called on any thread and do not block.
 */
#ifndef WEBHOOK_SENDER_H
#define WEBHOOK_SENDER_H

#include "modules/webhook/base/webhook.h"

/* Creates a sender, which borrows the state of the generation. NULL: out of memory. */
struct sender *sender_new(const struct webhook *webhook);
void sender_free(struct sender *sender);

/* The worker's function (struct bb_worker). */
void sender_run(struct bb_worker_context *context);

/* An event with its body. All pointers are borrowed until the call returns. */
struct sender_event {
    const char *name;
    const char *id; /* UUID in the header webhook-id */
    const char *body;
    size_t length;
    int64_t body_id;   /* id in webhook_body; 0: the body is in the delivery's row */
    const char *trace; /* traceparent of the request that raised the event; NULL: none */
};

struct sender_item {
    int64_t id;
    int64_t webhook;
};

/*
 * Call after deliveries of one event were committed. This host sends the deliveries of its shards;
 * the owners of other shards are notified within 20 ms. This host sends a `test` even if another
 * host owns the shard: a row in webhook_waiting keeps the owner from sending the test for
 * sender_hold_ms(). The waiter of a test always gets a report.
 */
void sender_committed(struct sender *sender, const struct sender_event *event,
                      const struct sender_item *items, size_t count, bool test);

/* Returns for how many ms a row in webhook_waiting reserves a delivery in flight for this host. */
static inline int64_t sender_hold_ms(const struct webhook *webhook)
{
    return 1000 * (webhook->settings->timeout + 5);
}

/* Returns whether the sender runs and has its lease. */
bool sender_ready(struct sender *sender);

/*
 * Call after deliveries of a webhook were committed to webhook_waiting. `ordered`: they have a
 * sequence. The owner of the shard sends them.
 */
void sender_queued(struct sender *sender, int64_t webhook, bool ordered);

/*
 * Handles a notification from any host. `payload` is "queued:" and pairs of a webhook and the id
 * for sender_note() ("queued:7:123,9:-1"), "shards" (a host gave shards away), or NULL
 * (notifications may have been lost).
 */
void sender_heard(struct sender *sender, const char *payload);

/*
 * Call after a change or deletion of a webhook was committed (0: any webhook may have changed).
 * From then on no attempt for the webhook starts before the sender has read the row again.
 */
void sender_changed(struct sender *sender, int64_t webhook);

/* Call after events that need expanding (webhook_expansion) were committed. */
void sender_expand(struct sender *sender);

/* Call when the pause switch has changed. After a call with `paused` true no attempt starts. */
void sender_pause(struct sender *sender, bool paused);

enum { WEBHOOK_ACTIVE, WEBHOOK_OFF, WEBHOOK_NOT_ADMITTED, WEBHOOK_STATES };

/* A query for one row: numbers of webhooks by state, and number of events to be expanded. */
#define SENDER_STATES                                                                              \
    "SELECT count(*) FILTER (WHERE active AND admitted), count(*) FILTER (WHERE NOT active"        \
    " AND admitted), count(*) FILTER (WHERE NOT admitted), (SELECT count(*)"                       \
    " FROM webhook_expansion) FROM webhook_hook"

/* Totals since the sender was created, except for the first five, which are current. */
struct sender_counters {
    int64_t waiting; /* deliveries in memory */
    int64_t in_flight;
    int64_t lag_ms;                   /* how long the oldest due delivery has waited */
    int64_t webhooks[WEBHOOK_STATES]; /* in the database, as of a few seconds ago */
    int64_t expanding;                /* events to be expanded, as of a few seconds ago */
    int64_t delivered;
    int64_t retried;
    int64_t abandoned;
    int64_t lost_leases;
};

void sender_count(struct sender *sender, struct sender_counters *counters);

#endif
