/*
 * The sender: delivers events to webhooks. It lives as long as the generation; its thread runs from
 * `start` until a little after `quiesce`. Before and after that, hand-offs are dropped, and the
 * deliveries wait in the database. If another generation follows, its sender is the successor and
 * gets the waiting deliveries; see worker.c.
 *
 * A delivery is a row of webhook_delivery in the state 'queued'. Its owner is the host that has it
 * in memory or was about to; NULL: no owner. The sender must find the deliveries that are in
 * nobody's memory by itself: rows without an owner, rows of dead hosts, and its own rows that were
 * never handed to it (a commit whose response was lost). Memory may be lost at any time, rows
 * never.
 *
 * All functions except sender_run() may be called on any thread and do not block.
 */
#ifndef WEBHOOK_SENDER_H
#define WEBHOOK_SENDER_H

#include "modules/webhook/base/webhook.h"

/* Borrows the settings, which live as long as the generation. NULL: out of memory. */
struct sender *sender_new(struct bb_host *host, const struct webhook_settings *settings);
void sender_free(struct sender *sender);

/* The worker's function (struct bb_worker). */
void sender_run(struct bb_worker_context *context);

/* Returns the id in webhook_host that may be inserted as the owner of deliveries; 0: none now. */
int64_t sender_host(struct sender *sender);

#define SENDER_FULL_MAX 256 /* the array is on a fiber's stack */

/*
 * Writes the webhooks whose memory is used up, or whose deliveries wait in the database; new
 * deliveries to them must be inserted without an owner. Returns the number written to `webhooks`.
 */
size_t sender_full(struct sender *sender, int64_t webhooks[SENDER_FULL_MAX]);

/* An event with its body, all borrowed until the call returns. */
struct sender_event {
    const char *name;
    const char *id; /* UUID in the header webhook-id */
    const char *body;
    size_t length;
    int64_t body_id;   /* in webhook_body; 0: in the delivery's row */
    const char *trace; /* traceparent of the request that raised it; NULL: none */
};

struct sender_item {
    int64_t id;
    int64_t webhook;
};

/*
 * Hands over deliveries of one event that are in the database and owned by `host`, the result of
 * sender_host(). The sender soon gives back (owner NULL) the deliveries for which it has no room,
 * or all if its host id has changed. Takes ownership of `outcome` (or NULL; else count is 1), which
 * is reported exactly once in any case.
 */
void sender_hand_off(struct sender *sender, int64_t host, const struct sender_event *event,
                     const struct sender_item *items, size_t count,
                     struct webhook_outcome *outcome);

/*
 * The webhook (0: any) was changed or deleted, and this is committed. Once this returns, no attempt
 * for it starts before the sender has read it again.
 */
void sender_changed(struct sender *sender, int64_t webhook);

/*
 * Deliveries of the webhook (0: any) wait in the database without an owner: the sender reads them
 * soon.
 */
void sender_scan(struct sender *sender, int64_t webhook);

/* Events that need expanding (webhook_expansion) were committed. */
void sender_expand(struct sender *sender);

/* Returns the number of active webhooks in the database a few seconds ago. */
int64_t sender_active(struct sender *sender);

/* Call when the pause switch has changed. After a call with `paused` true no attempt starts. */
void sender_pause(struct sender *sender, bool paused);

enum { WEBHOOK_ACTIVE, WEBHOOK_OFF, WEBHOOK_NOT_ADMITTED, WEBHOOK_STATES };

/*
 * Returns one row: webhooks by state (active, off, owner not admitted), the number of events to be
 * expanded, and the age of the oldest of them in milliseconds.
 */
extern const struct bb_sql sender_states_sql;

/* Totals since the sender was created, except for the first five, which are current. */
struct sender_counters {
    int64_t waiting; /* in memory */
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
