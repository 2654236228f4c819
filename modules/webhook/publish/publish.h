/*
 * From an event to deliveries: finds the matching webhooks, and writes the rows for them in the
 * publisher's transaction. Everything runs on the fiber of a request.
 */
#ifndef WEBHOOK_PUBLISH_H
#define WEBHOOK_PUBLISH_H

#include "modules/webhook/base/webhook.h"
#include "modules/webhook/sender/sender.h"

/* ---- scope.c: the events that owners may see ---- */

/* The scope of an account or principal as parameters: admitted, sees_all, organizations, email. */
#define WEBHOOK_SCOPE_ARGS(active, who)                                                            \
    bb_b(active), bb_b((who)->role == BB_ROLE_ADMIN),                                              \
        bb_ints((who)->organizations,                                                              \
                webhook_scope_count((who)->role, (who)->organization_count)),                      \
        bb_t((who)->email)
size_t webhook_scope_count(unsigned role, size_t organizations);
void webhook_auth_heard(void *state, const char *payload);
void webhook_refresh_owners(struct bb_request *rq); /* a job */

/* ---- enqueue.c ---- */

/* Returns the declaration of an event; NULL: no module declares it. */
const struct bb_event_descriptor *webhook_event(struct bb_request *rq, const char *name);

/* Enqueues an event's deliveries in the transaction that raises the event. Returns 0 or -1. */
int webhook_within(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                   void *state);

#endif
