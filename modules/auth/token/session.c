/*
 * Sessions: each login, and each token of a client, is a row, so that it can be ended separately.
 * The row is only written while the signing key is active, so that no token is revoked from the
 * start, and only if the account is still as it was when its password was checked. A login in
 * progress cannot survive a change of the password: the row locks make one wait for the other.
 */
#include "modules/auth/token/session.h"

#include <stdio.h>
#include <string.h>

/* Number of keys tried: each may be retired between the signature and the row. */
#define ATTEMPTS 5

enum written { WRITTEN, KEY_RETIRED, ACCOUNT_CHANGED, WRITE_FAILED };

/* k: the login; one request, or several at a time (struct bb_keyed). */
#define ASKED "jti, account, client, kid, issued, expires, password, i"
#define SESSIONS(keys)                                                                             \
    "WITH k(" ASKED ") AS MATERIALIZED (" keys "), "                                               \
    "a AS (SELECT a.id, k.i FROM k JOIN auth_account a ON a.id = k.account "                       \
    "AND a.status = 'Active' AND a.password = coalesce(k.password, a.password) "                   \
    "ORDER BY a.id FOR SHARE OF a), "                                                              \
    "made AS (INSERT INTO auth_session (jti, account, client, kid, issued, expires) "              \
    "SELECT k.jti, a.id, nullif(k.client, 0), y.kid, to_timestamp(k.issued), "                     \
    "to_timestamp(k.expires) FROM k JOIN a USING (i) "                                             \
    "JOIN auth_key y ON y.kid = k.kid AND y.retired IS NULL RETURNING jti) "                       \
    "SELECT a.i IS NOT NULL, made.jti IS NOT NULL"
#define AND_WHO " FROM k LEFT JOIN a USING (i) LEFT JOIN made USING (jti)"
#define CALLER                                                                                     \
    "SELECT $1::uuid, $2::bigint, $3::bigint, $4::text, $5::bigint, $6::bigint, $7::text, 1"
#define CALLERS                                                                                    \
    "SELECT * FROM " BB_KEYS_7("uuid", "bigint", "bigint", "text", "bigint", "bigint", "text")

static const struct bb_keyed session = {
    {SESSIONS(CALLER) AND_WHO, BB_SQL_WRITE | BB_SQL_KEYED},
    {SESSIONS(CALLERS) ", k.i" AND_WHO, BB_SQL_WRITE},
};

static enum written insert(struct bb_request *rq, const struct token_claims *claims,
                           const struct auth_account *account, int64_t client, const char *kid)
{
    struct bb_rows *rows =
        bb_query(rq, &session.one,
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

        /* Sign first, because a row without a token would make the next attempt fail. */
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
