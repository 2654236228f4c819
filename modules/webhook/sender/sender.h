/*
 * The sender: what delivers. It lives as long as the generation, its thread from `start` until a
 * little after `quiesce`; before and after, hand-offs are let go of and wait in the database. Where
 * another generation follows, its sender is the successor: it gets what waits, see worker.c.
 *
 * A delivery is a row of webhook_delivery in the state 'queued'. Its owner is the host that has it
 * in memory or was about to; NULL: nobody. The sender must find by itself what is in nobody's
 * memory: rows without an owner, rows of hosts that are dead, and rows of its own that never were
 * handed to it (a commit whose answer was lost). Memory may be lost at any time, rows never.
 *
 * All functions but sender_run() are for any thread and do not wait.
 */
#ifndef WEBHOOK_SENDER_H
#define WEBHOOK_SENDER_H

#include "modules/webhook/base/webhook.h"

/* Borrows the settings, which live as long as the generation. NULL: no memory. */
struct sender *sender_new(struct bb_host *host, const struct webhook_settings *settings);
void sender_free(struct sender *sender);

/* The worker's function (struct bb_worker). */
void sender_run(struct bb_worker_context *context);

/* The id in webhook_host under which deliveries may be inserted as owned; 0: none now. */
int64_t sender_host(struct sender *sender);

#define SENDER_FULL_MAX 256 /* it lies on a fiber's stack */

/*
 * The webhooks whose memory is used up, or whose deliveries wait in the database: new deliveries of
 * these are inserted without an owner. Returns how many were written to `webhooks`.
 */
size_t sender_full(struct sender *sender, int64_t webhooks[SENDER_FULL_MAX]);

/* An event with its body, all borrowed until the call returns. */
struct sender_event {
    const char *name;
    const char *id; /* UUID: the header webhook-id */
    const char *body;
    size_t length;
    int64_t body_id;   /* in webhook_body; 0: in the delivery's row */
    const char *trace; /* traceparent of what raised it; NULL: none */
};

struct sender_item {
    int64_t id;
    int64_t webhook;
};

/*
 * Deliveries of one event that are in the database and owned by `host`, which sender_host() gave.
 * What finds no room, or another host id by now, is for the sender to give back to nobody (owner
 * NULL) soon. `outcome` (or NULL; then count is 1) is taken: said exactly once, whatever happens.
 */
void sender_hand_off(struct sender *sender, int64_t host, const struct sender_event *event,
                     const struct sender_item *items, size_t count,
                     struct webhook_outcome *outcome);

/*
 * The webhook (0: any) was changed or deleted, and that is committed. Once this returns no attempt
 * for it starts before the sender has read it anew.
 */
void sender_changed(struct sender *sender, int64_t webhook);

/* Deliveries of the webhook (0: any) wait in the database without an owner: they are read soon. */
void sender_scan(struct sender *sender, int64_t webhook);

/* Events that were committed are to be expanded (webhook_expansion). */
void sender_expand(struct sender *sender);

/* How many active webhooks the database had a few seconds ago. */
int64_t sender_active(struct sender *sender);

/* The switch was turned: no attempt starts once this returns with true. */
void sender_pause(struct sender *sender, bool paused);

enum { WEBHOOK_ACTIVE, WEBHOOK_OFF, WEBHOOK_NOT_ADMITTED, WEBHOOK_STATES };

/* One row: webhooks by state (active, off, of owners who are not admitted), the events that are to
 * be expanded, and for how many milliseconds the oldest of them has been. */
extern const struct bb_sql sender_states_sql;

/* Since the sender was made, but for the first five, which are now. */
struct sender_counters {
    int64_t waiting; /* in memory */
    int64_t in_flight;
    int64_t lag_ms;                   /* how long the one that is due the longest has waited */
    int64_t webhooks[WEBHOOK_STATES]; /* of the database, as of a few seconds ago */
    int64_t expanding;                /* events to be expanded, likewise */
    int64_t delivered;
    int64_t retried;
    int64_t abandoned;
    int64_t lost_leases;
};

void sender_count(struct sender *sender, struct sender_counters *counters);

#endif
