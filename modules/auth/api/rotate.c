/*
 * Creates a new signing key: POST /api/admin/rotate-secret and `busbar rotate-secret`. The old key
 * is kept as retired, so that its tokens are reported as revoked and not as forged.
 */
#include "modules/auth/api/api.h"

struct fresh {
    char kid[TOKEN_KID + 1];
    unsigned char *sealed;
    size_t length;
};

static int replace(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    /* Serializes rotations; readers are not blocked. */
    static const struct bb_sql lock = {"LOCK TABLE auth_key IN SHARE ROW EXCLUSIVE MODE", 0};
    static const struct bb_sql retire = {
        "UPDATE auth_key SET retired = now() WHERE retired IS NULL", 0};
    static const struct bb_sql insert = {"INSERT INTO auth_key (kid, sealed) VALUES ($1, $2)", 0};
    const struct fresh *fresh = arg;

    if (!bb_tx_query(rq, tx, &lock, BB_NO_ARGS) || !bb_tx_query(rq, tx, &retire, BB_NO_ARGS) ||
        !bb_tx_query(rq, tx, &insert,
                     BB_ARGS(bb_t(fresh->kid), bb_bytes(fresh->sealed, fresh->length))) ||
        bb_notify(rq, tx, AUTH_CHANNEL, "keys"))
        return bb_failed(rq);
    return bb_reply(rq, 200,
                    json_pack("{ss ss}", "message", "Signing key replaced", "kid", fresh->kid));
}

int auth_rotate(struct bb_request *rq)
{
    struct fresh *fresh = bb_alloc(rq, sizeof(*fresh));

    if (auth_key_make(rq->state, fresh->kid, &fresh->sealed, &fresh->length))
        return bb_fail(rq, 503, "Cannot create a signing key");
    bb_defer(rq, free, fresh->sealed);

    int status = bb_transaction(rq, replace, fresh);

    auth_changed(rq->state, "keys");
    return status;
}

int auth_command_rotate(struct bb_request *rq)
{
    int status = auth_rotate(rq);

    if (status >= 400) {
        bb_print(rq, "the signing key was not replaced (status %d)\n", status);
        return 1;
    }
    bb_print(rq, "signing key replaced: all earlier tokens are revoked\n");
    return 0;
}
