/*
 * From an event to deliveries: the matching webhooks, and the rows that a publisher's transaction
 * writes for them. Everything runs on the fiber of a request.
 */
#ifndef WEBHOOK_PUBLISH_H
#define WEBHOOK_PUBLISH_H

#include "modules/webhook/base/webhook.h"
#include "modules/webhook/sender/sender.h"

/* ---- scope.c: the events that owners may see ---- */

/* A scope as parameters: admitted, sees_all, organizations, email. */
#define WEBHOOK_SCOPE_ARGS(scope)                                                                  \
    bb_b((scope)->active), bb_b((scope)->role == BB_ROLE_ADMIN),                                   \
        bb_ints((scope)->organizations, webhook_scope_count(scope)), bb_t((scope)->email)
size_t webhook_scope_count(const struct bb_account_scope *scope);
struct bb_account_scope webhook_scope_of_caller(const struct bb_principal *who);
void webhook_auth_heard(void *state, const char *payload);
void webhook_refresh_owners(struct bb_request *rq); /* a job */

/* ---- enqueue.c: the within hook, and pings ---- */

enum { WEBHOOK_LARGE_BODY = 2048 }; /* larger bodies are stored once, not in each delivery */
enum { WEBHOOK_AT_ONCE = 128 };     /* most deliveries of an event in a transaction */
#define WEBHOOK_AT_ONCE_TEXT "128"

/*
 * The webhooks h that get the event, and the initial owner of the delivery to each. $1 event, $3
 * organization or null, $4 e-mails, $5 host or null, $6 full webhooks
 */
#define WEBHOOK_MATCHING_OF(event, organization, emails)                                           \
    " FROM webhook_hook h WHERE h.active AND h.admitted"                                           \
    " AND h.events && ARRAY[" event ", '" WEBHOOK_ALL_EVENTS "']"                                  \
    " AND (h.sees_all OR h.organisations @> ARRAY[" organization "] OR h.email = ANY(" emails "))"
#define WEBHOOK_OWNER_OF(full, host) " CASE WHEN h.id = ANY(" full ") THEN NULL ELSE " host " END"
#define WEBHOOK_MATCHING WEBHOOK_MATCHING_OF("$1::text", "$3::bigint", "$4::text[]")
#define WEBHOOK_OWNER WEBHOOK_OWNER_OF("$6::bigint[]", "$5::bigint")

/* Formats texts, up to NULL, as a PostgreSQL array: {"a","b"}. */
char *webhook_array(struct bb_request *rq, const char *const *texts);

int webhook_within(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                   void *state);

/* ---- gather.c: enqueues many events of one transaction in one statement ---- */

/*
 * Keeps an event for the statement. Returns 1; 0 if it needs a separate statement; -1:
 * `bb_failed(rq)`.
 */
int webhook_gather(struct bb_request *rq, struct bb_tx *tx, struct webhook *webhook,
                   const struct bb_audience *audience, const struct sender_event *event);

#endif
