/* POST /api/chat/webhooks: besides rotate-secret the only response that shows a secret in full. */
#include "modules/webhook/api/api.h"

struct creation {
    int64_t id;
    const char *url;
    const char *events; /* a JSON array */
    const char *secret;
    unsigned char *sealed;
    size_t sealed_length;
};

/* $1 id, $2 account, $3 url, $4 events, $5 secret, $6 to $9 the scope, $10 limit per account */
static const struct bb_sql insert = {
    "INSERT INTO webhook_hook AS h (id, account, url, events, secret, admitted, sees_all,"
    " organisations, email) SELECT $1::bigint, $2::bigint, $3,"
    " ARRAY(SELECT jsonb_array_elements_text($4::jsonb)), $5::bytea, $6::boolean, $7::boolean,"
    " $8::bigint[], $9 WHERE (SELECT count(*) FROM webhook_hook WHERE account = $2::bigint)"
    " < $10::bigint RETURNING " WEBHOOK_COLUMNS,
    0,
};

/* Serializes creations of an account: two that count at the same time would both find room. */
static const struct bb_sql lock = {
    "SELECT pg_advisory_xact_lock(hashtextextended('busbar.webhook.account.' || $1::bigint, 0))",
    0};

static int store(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct webhook *webhook = rq->state;
    const struct creation *new = arg;
    struct bb_account_scope scope = webhook_scope_of_caller(rq->principal);
    int64_t account = rq->principal->account;

    if (!bb_tx_query(rq, tx, &lock, BB_ARGS(bb_i(account))))
        return bb_failed(rq);
    const struct bb_rows *rows =
        bb_tx_query(rq, tx, &insert,
                    BB_ARGS(bb_i(new->id), bb_i(account), bb_t(new->url), bb_t(new->events),
                            bb_bytes(new->sealed, new->sealed_length), WEBHOOK_SCOPE_ARGS(&scope),
                            bb_i((int64_t)webhook->settings.per_account)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 409, "An account may have %zu webhooks at most",
                       webhook->settings.per_account);
    return bb_reply(rq, 201, webhook_warn(webhook_json(rq, rows, 0, new->secret), new->secret));
}

int webhook_create(struct bb_request *rq)
{
    struct creation new = {.url = bb_text(rq, "url"), .secret = bb_text(rq, "secret")};
    int refused = webhook_check_url(rq, &new.url);

    if (!refused)
        refused = webhook_check_events(rq, json_object_get(bb_body(rq), "events"), &new.events);
    if (!refused)
        refused = webhook_check_secret(rq, new.secret);
    if (refused)
        return refused;
    if (!new.secret)
        new.secret = bb_random_hex(rq, WEBHOOK_SECRET_BYTES);
    new.id = bb_next_id(rq, "webhook_hook_id");
    if (new.id < 0)
        return bb_failed(rq);
    if (!new.secret ||
        webhook_secret_seal(rq->host, new.id, new.secret, &new.sealed, &new.sealed_length))
        return bb_fail(rq, 503, "The secret could not be stored");
    bb_defer(rq, free, new.sealed);
    return bb_transaction(rq, store, &new);
}
