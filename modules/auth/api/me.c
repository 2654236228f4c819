/* GET /api/auth/me and PUT /api/user/password: an account's operations on itself. */
#include "modules/auth/api/api.h"

static json_t *organizations(const struct bb_principal *who)
{
    json_t *list = json_array();

    for (size_t i = 0; i < who->organization_count; i++) {
        if (json_array_append_new(list, json_integer(who->organizations[i]))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

int auth_me(struct bb_request *rq)
{
    static const struct bb_sql find = {
        "SELECT " ACCOUNT_COLUMNS " FROM auth_account a WHERE a.id = $1::bigint", 0};
    struct bb_rows *rows = bb_query(rq, &find, BB_ARGS(bb_i(rq->principal->account)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 401, "Unauthorized");

    json_t *me = auth_account_json(rq, rows, 0);

    if (me && json_object_set_new(me, "organizationIds", organizations(rq->principal))) {
        json_decref(me);
        me = NULL;
    }
    return bb_reply(rq, 200, me);
}

struct change {
    const char *old, *encoded; /* hashes */
    const char *payload;
};

/*
 * Stores the new hash if the old one is still there, and ends the account's other sessions. Two
 * statements, so that the second sees the session of a login that held the account's lock until
 * now.
 */
static int store(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql write = {"UPDATE auth_account SET password = $3, updated = now() "
                                        "WHERE id = $1::bigint AND password = $2 RETURNING id",
                                        0};
    static const struct bb_sql end = {
        "UPDATE auth_session SET revoked = now() WHERE account = $1::bigint AND revoked IS NULL "
        "AND client IS NULL AND jti <> $2::uuid",
        0};
    const struct change *change = arg;
    struct bb_value account = bb_i(rq->principal->account);
    struct bb_rows *rows =
        bb_tx_query(rq, tx, &write, BB_ARGS(account, bb_t(change->old), bb_t(change->encoded)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 409, "The password was changed meanwhile");
    if (!bb_tx_query(rq, tx, &end, BB_ARGS(account, bb_t(rq->principal->session))) ||
        bb_notify(rq, tx, AUTH_CHANNEL, change->payload))
        return bb_failed(rq);
    return bb_reply(rq, 200, json_pack("{ss}", "message", "Password changed"));
}

int auth_change_password(struct bb_request *rq)
{
    struct auth *auth = rq->state;
    struct auth_account account = {0};
    struct change change = {.payload =
                                bb_format(rq, "account:%lld", (long long)rq->principal->account)};
    bool good = false;

    if (rq->principal->client)
        return bb_fail(rq, 403, "Forbidden");

    int status =
        auth_credentials(rq, auth, rq->principal->email, bb_text(rq, "current"), &account, &good);

    if (status)
        return status;
    if (!good || account.id != rq->principal->account)
        return auth_credentials_settle(rq, auth, rq->principal->email, &account,
                                       bb_fail(rq, 401, "Unauthorized"));
    auth_credentials_settle(rq, auth, rq->principal->email, &account, 200);
    change.old = account.password;
    status = auth_password_hash(rq, auth, "hash", bb_text(rq, "new"), &change.encoded);
    if (status)
        return status;
    status = bb_transaction(rq, store, &change);
    auth_changed(auth, change.payload);
    return status;
}
