/*
 * Sessions: each login, and each token of a client, is a row, so that it can be ended by itself.
 * The row is only written while the signing key is active, so no token is born revoked; and while
 * the account is what it was when its password was checked: a login under way does not survive the
 * change of the password, which waits for the lock that is taken here, or is waited for.
 */
#include "modules/auth/token/session.h"

#include <stdio.h>
#include <string.h>

/* Keys that are tried: each may be retired between its signature and the row. */
#define ATTEMPTS 5

enum written { WRITTEN, KEY_RETIRED, ACCOUNT_CHANGED, WRITE_FAILED };

static enum written insert(struct bb_request *rq, const struct token_claims *claims,
                           const struct auth_account *account, int64_t client, const char *kid)
{
    static const struct bb_sql session = {
        "WITH a AS (SELECT id FROM auth_account WHERE id = $2::bigint AND status = 'Active' "
        "AND password = coalesce($7, password) FOR SHARE), "
        "made AS (INSERT INTO auth_session (jti, account, client, kid, issued, expires) "
        "SELECT $1::uuid, a.id, nullif($3::bigint, 0), k.kid, to_timestamp($5::bigint), "
        "to_timestamp($6::bigint) FROM a, auth_key k WHERE k.kid = $4 AND k.retired IS NULL "
        "RETURNING jti) SELECT EXISTS (SELECT FROM a), EXISTS (SELECT FROM made)",
        BB_SQL_WRITE};
    struct bb_rows *rows =
        bb_query(rq, &session,
                 BB_ARGS(bb_t(claims->jti), bb_i(claims->account), bb_i(client), bb_t(kid),
                         bb_i(claims->issued_s), bb_i(claims->expires_s), bb_t(account->password)));

    if (!rows)
        return WRITE_FAILED;
    if (!bb_cell_int(rq, rows, 0, 0))
        return ACCOUNT_CHANGED;
    return bb_cell_int(rq, rows, 0, 1) ? WRITTEN : KEY_RETIRED;
}

int auth_session_issue(struct bb_request *rq, struct auth *auth, const struct auth_account *account,
                       int64_t client, struct auth_issued *issued)
{
    struct token_claims claims = {
        .account = account->id,
        .issued_s = bb_wall_ms(auth->host) / 1000,
        .client = client != 0,
    };

    issued->life_s = client ? auth->client_s : auth->session_s;
    issued->expires_s = claims.expires_s = claims.issued_s + issued->life_s;
    snprintf(claims.jti, sizeof(claims.jti), "%s", bb_new_uuid(rq));
    snprintf(claims.role, sizeof(claims.role), "%s", account->role);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        char kid[TOKEN_KID + 1];
        int status = auth_keys_active(rq, auth, kid);

        if (status)
            return status;

        /* Signed first: a row that no token was made for would be in the next attempt's way. */
        if (auth_keys_sign(auth, kid, &claims, issued->token)) {
            enum written written = insert(rq, &claims, account, client, kid);

            if (written == WRITTEN)
                return 0;
            if (written == WRITE_FAILED)
                return bb_failed(rq);
            if (written == ACCOUNT_CHANGED)
                return auth_unauthorized(rq, "Unauthorized");
        }
        auth_keys_stale(auth->keys);
    }
    return bb_fail(rq, 503, "The signing key is being replaced. Please try again.");
}
