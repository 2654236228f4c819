/*
 * The routes and commands of webhook, and the handlers of its channels. Functions that take a
 * request run on its fiber.
 */
#ifndef WEBHOOK_API_H
#define WEBHOOK_API_H

#include "modules/webhook/publish/publish.h"

/*
 * The condition on a webhook h that the caller may access. Its parameters are the webhook in the
 * path, whether the caller is an Admin, and the caller's account.
 */
#define WEBHOOK_MINE "h.id = $1::bigint AND ($2::boolean OR h.account = $3::bigint)"
#define WEBHOOK_MINE_ARGS(rq)                                                                      \
    bb_i(bb_segment_int((rq), "id")), bb_b((rq)->principal->role == BB_ROLE_ADMIN),                \
        bb_i((rq)->principal->account)

/*
 * WEBHOOK_MINE and WEBHOOK_CALLERS with WEBHOOK_THEIRS are the same condition: the first for a
 * statement of one request, the other two for a keyed statement of several (struct bb_keyed).
 */
#define WEBHOOK_CALLERS BB_KEYS_3("bigint", "boolean", "bigint") " k(id, everything, account, i)"
#define WEBHOOK_THEIRS "h.id = k.id AND (k.everything OR h.account = k.account)"
#define WEBHOOK_KEYED(selected)                                                                    \
    {                                                                                              \
        {selected " FROM webhook_hook h WHERE " WEBHOOK_MINE, BB_SQL_KEYED},                       \
            {selected ", k.i FROM " WEBHOOK_CALLERS " CROSS JOIN LATERAL"                          \
                      " (SELECT * FROM webhook_hook h WHERE " WEBHOOK_THEIRS " OFFSET 0) h",       \
             0},                                                                                   \
    }

int webhook_unknown(struct bb_request *rq);    /* sends the 404 */
int webhook_check_mine(struct bb_request *rq); /* parks the fiber */

/* ---- webhooks.c: channels; any thread ---- */

void webhook_changed(void *state, const char *payload);
void webhook_pause_heard(void *state, const char *payload);

/* ---- routes and commands ---- */

int webhook_create(struct bb_request *rq);
int webhook_list(struct bb_request *rq);
int webhook_events(struct bb_request *rq);
int webhook_get(struct bb_request *rq);
int webhook_change(struct bb_request *rq);
int webhook_delete(struct bb_request *rq);
int webhook_test(struct bb_request *rq);
int webhook_deliveries(struct bb_request *rq);
int webhook_delivery(struct bb_request *rq);
int webhook_statistics(struct bb_request *rq);
int webhook_resend(struct bb_request *rq);
int webhook_recover(struct bb_request *rq);
int webhook_rotate(struct bb_request *rq);
int webhook_command_status(struct bb_request *rq);

#endif
