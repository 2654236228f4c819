/* The JSON of webhooks. */
#include "modules/webhook/api/api.h"

#include <openssl/crypto.h>
#include <string.h>

#define SHORT_SECRET 16

int webhook_unknown(struct bb_request *rq)
{
    return bb_fail(rq, 404, "Webhook not found");
}

static const struct bb_keyed find_id = WEBHOOK_KEYED("SELECT h.id");

int webhook_check_mine(struct bb_request *rq)
{
    const struct bb_rows *rows = bb_query(rq, &find_id.one, BB_ARGS(WEBHOOK_MINE_ARGS(rq)));

    if (!rows)
        return bb_failed(rq);
    return bb_count(rq, rows) ? 0 : webhook_unknown(rq);
}

/*
 * If the secret's key is missing from secrets.keys, it is masked completely, and the webhook is
 * logged. NULL: out of memory.
 */
static const char *masked(struct bb_request *rq, int64_t id, const char *cell)
{
    char *secret;
    int opened = webhook_secret_open(rq->host, id, cell, &secret);

    if (opened == SECRET_NO_MEMORY)
        return NULL;
    if (opened == SECRET_LOCKED) {
        bb_log(rq, BB_ERROR, "the secret of webhook %lld cannot be opened with secrets.keys",
               (long long)id);
        return "****";
    }
    const char *mask = webhook_secret_mask(rq, secret);

    OPENSSL_cleanse(secret, strlen(secret));
    free(secret);
    return mask;
}

json_t *webhook_json(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                     const char *secret)
{
    int64_t id = bb_cell_int(rq, rows, row, 0);
    const char *shown = secret ? secret : masked(rq, id, bb_cell(rq, rows, row, 4));
    json_t *events = shown ? bb_json_read(rq, bb_cell(rq, rows, row, 3)) : NULL;

    if (!events)
        return NULL;
    return json_pack("{s:I, s:I, s:s, s:o, s:s, s:b, s:s}", "id", (json_int_t)id, "userId",
                     (json_int_t)bb_cell_int(rq, rows, row, 1), "url", bb_cell(rq, rows, row, 2),
                     "events", events, "secret", shown, "active",
                     bb_cell_int(rq, rows, row, 5) != 0, "createdAt",
                     bb_cell_time(rq, rows, row, 6));
}

json_t *webhook_warn(json_t *json, const char *secret)
{
    if (!json || webhook_characters(secret) >= SHORT_SECRET)
        return json;
    json_t *warnings = json_pack("[s]", "secret: shorter than 16 characters, so it may be guessed");

    if (json_object_set_new(json, "warnings", warnings) == 0)
        return json;
    json_decref(json);
    return NULL;
}
