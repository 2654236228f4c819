/* GET /api/auth/me and PUT /api/user/password: what an account does with itself. */
#include "auth.h"

static json_t *organisations(const struct bb_principal *who)
{
    json_t *list = json_array();

    for (size_t i = 0; i < who->organisation_count; i++) {
        if (json_array_append_new(list, json_integer(who->organisations[i]))) {
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

    if (me && json_object_set_new(me, "organizationIds", organisations(rq->principal))) {
        json_decref(me);
        me = NULL;
    }
    return auth_reply(rq, 200, me);
}

/* The new hash, only where the old one is still there; ends the account's other sessions. */
static int store(struct bb_request *rq, const char *old, const char *encoded)
{
    static const struct bb_sql change = {
        "WITH changed AS (UPDATE auth_account SET password = $3, updated = now() "
        "WHERE id = $1::bigint AND password = $2 RETURNING id), "
        "ended AS (UPDATE auth_session s SET revoked = now() FROM changed "
        "WHERE s.account = changed.id AND s.revoked IS NULL AND s.client IS NULL "
        "AND s.jti <> $4::uuid) "
        "SELECT pg_notify('" AUTH_CHANNEL "', $5::text) FROM changed",
        BB_SQL_WRITE};
    const char *payload = bb_format(rq, "account:%lld", (long long)rq->principal->account);
    struct bb_rows *rows = bb_query(rq, &change,
                                    BB_ARGS(bb_i(rq->principal->account), bb_t(old), bb_t(encoded),
                                            bb_t(rq->principal->session), bb_t(payload)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 409, "The password was changed meanwhile");
    auth_changed(rq->state, payload);
    return 0;
}

int auth_change_password(struct bb_request *rq)
{
    struct auth *auth = rq->state;
    struct auth_account account = {0};
    const char *encoded = NULL;
    bool good = false;

    if (rq->principal->client)
        return bb_fail(rq, 403, "Forbidden");

    int status =
        auth_credentials(rq, auth, rq->principal->email, bb_text(rq, "current"), &account, &good);

    if (status)
        return status;
    if (!good || account.id != rq->principal->account)
        return bb_fail(rq, 401, "Unauthorized");
    status = auth_password_hash(rq, auth, bb_text(rq, "new"), &encoded);
    if (status)
        return status;
    status = store(rq, account.password, encoded);
    if (status)
        return status;
    return auth_reply(rq, 200, json_pack("{ss}", "message", "Password changed"));
}
