/*
 * The routes and commands of webhook, and the handlers of its channels. Functions that take a
 * request run on its fiber.
 */
#ifndef WEBHOOK_API_H
#define WEBHOOK_API_H

#include "modules/webhook/publish/publish.h"

/* ---- webhook_json.c: webhooks as JSON ---- */

/* The columns of webhook_hook AS h, in the order in which webhook_json() reads them. */
#define WEBHOOK_COLUMNS                                                                            \
    "h.id, h.account, h.url, to_json(h.events)::text, h.secret, h.active,"                         \
    " " BB_SQL_MS("h.created_at")
#define WEBHOOK_COLUMN_COUNT 7

/* The caller owns the result; NULL: out of memory. `secret` is shown in full; NULL: masked. */
json_t *webhook_json(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                     const char *secret);

/*
 * Adds `warnings` for a short secret. Takes ownership of `json` (or NULL). The caller owns the
 * result; NULL: out of memory.
 */
json_t *webhook_warn(json_t *json, const char *secret);

/*
 * The condition on a webhook h that the caller may access, and its parameters: the webhook in the
 * path, whether the caller is an Admin, its account.
 */
#define WEBHOOK_MINE "h.id = $1::bigint AND ($2::boolean OR h.account = $3::bigint)"
#define WEBHOOK_MINE_ARGS(rq)                                                                      \
    bb_i(bb_segment_int((rq), "id")), bb_b((rq)->principal->role == BB_ROLE_ADMIN),                \
        bb_i((rq)->principal->account)

/*
 * Selects from a webhook h with these parameters: a statement for one request, and one for several
 * (struct bb_keyed).
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

/* ---- fields.c: the fields of POST and PATCH; return 0, or the status of the 400 sent ---- */

int webhook_check_url(struct bb_request *rq, const char **url); /* also encodes it, see target.h */
int webhook_check_secret(struct bb_request *rq, const char *secret); /* NULL: valid */

/* *events is the names of the JSON array, each once, as JSON text in the request's memory. */
int webhook_check_events(struct bb_request *rq, const json_t *list, const char **events);

/* ---- signal.c: payloads of notify.c, from this host or another. Any thread. ---- */

void webhook_changed(struct webhook *webhook, const char *payload);
void webhook_heard(void *state, const char *payload);
void webhook_pause_heard(void *state, const char *payload);

/* ---- routes and commands, one or two per file ---- */

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
