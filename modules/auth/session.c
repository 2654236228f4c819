/*
 * Sessions, and the service "authenticator", which returns the principal of a bearer token.
 *
 * A cached identity is used only while the host guarantees that it has received every notification
 * (bb_signals_fresh_ms()), because a notification drops the entries that have changed. Otherwise
 * the signature is verified, and one query returns the session, the account and its organizations.
 * Role, status and organizations always come from the database, never from the token.
 */
#include <stdio.h>
#include <string.h>

#include "modules/auth/auth.h"

#define ROOM 512 /* enough for an identity with a dozen organizations */
#define REVOKED "Token revoked. Please log in again."

/*
 * ---- the cache of principals ----
 *
 * An identity is one block that can be copied: the organizations and the e-mail with its NUL follow
 * the struct, and the pointers of `who` are set only when the identity is used.
 */

struct identity {
    struct bb_principal who;
    char status[16]; /* status of the account; "" if the token is revoked */
    char session[37];
    int64_t expires_s;
    int64_t organizations[];
};

char *auth_account_payload(struct bb_request *rq, int64_t account)
{
    return bb_format(rq, "account:%lld", (long long)account);
}

static void session_committed(struct bb_request *rq, struct bb_tx *tx, void *payload)
{
    (void)tx;
    auth_changed(rq->state, payload);
}

void auth_notify(struct bb_request *rq, struct bb_tx *tx, int64_t account)
{
    char *payload = account ? auth_account_payload(rq, account) : bb_format(rq, "keys");

    if (bb_notify(rq, tx, AUTH_CHANNEL, payload))
        bb_end(rq, bb_failed(rq));
    bb_after(rq, tx, session_committed, payload);
}

/* A payload that names no account drops the whole cache and the keys, which is always safe. */
void auth_changed(void *state, const char *payload)
{
    struct auth *auth = state;
    uint64_t account =
        payload && !strncmp(payload, "account:", 8) ? strtoull(payload + 8, NULL, 10) : 0;

    if (!account)
        auth_keys_stale(auth->keys);
    cache_drop(auth->cache, account);
}

/* ---- reading ---- */

#define SESSION_EXPIRES BB_SQL_MS("least(s.expires, c.expires)")
#define EVERYTHING(jti, kid, account)                                                              \
    "SELECT s.revoked IS NOT NULL OR s.expires <= now() OR k.kid IS NULL OR"                       \
    " k.retired IS NOT NULL OR c.deleted IS NOT NULL AS ended, a.id, a.status, a.role, a.email,"   \
    " a.organisation, s.client IS NOT NULL AS of_client, " ACCOUNT_ORGANIZATIONS                   \
    " AS organisations, " ACCOUNT_APPROVED " AS approved, " SESSION_EXPIRES " AS expires"          \
    " FROM auth_session s JOIN auth_account a ON a.id = s.account"                                 \
    " LEFT JOIN auth_key k ON k.kid = s.kid LEFT JOIN auth_client c ON c.id = s.client"            \
    " WHERE s.jti = " jti " AND s.kid = " kid " AND s.account = " account

static const struct bb_keyed everything = {
    {EVERYTHING("$1::uuid", "$2::text", "$3::bigint"), BB_SQL_KEYED},
    {"SELECT e.*, w.i FROM " BB_KEYS_3("uuid", "text", "bigint") " w(jti, kid, account, i)"
                                                                 " CROSS JOIN LATERAL (" EVERYTHING(
                                                                     "w.jti", "w.kid",
                                                                     "w.account") " OFFSET 0) e",
     0},
};

/* Authenticates without the cache: verifies the signature and queries the identity. */
static int session_query(struct bb_request *rq, struct auth *auth, const char *text, size_t length,
                         uint64_t epoch, struct identity **found)
{
    struct token token;
    struct token_claims claims;

    if (token_open(&token, text, length))
        return auth_unauthorized(rq, "Unauthorized");

    int refused = auth_keys_verify(rq, auth, &token);

    if (refused)
        return refused;
    if (token_claims(&token, bb_wall_ms(auth->host) / 1000, &claims))
        return auth_unauthorized(rq, "Unauthorized");

    struct bb_rows *rows = bb_query(
        rq, &everything.one, BB_ARGS(bb_t(claims.jti), bb_t(token.kid), bb_i(claims.account)));

    if (!rows)
        return bb_failed(rq);
    /* The signature is valid, but the session has ended, and its row was deleted. */
    if (bb_count(rq, rows) == 0)
        return auth_unauthorized(rq, REVOKED);
    bool ended = bb_cell_int(rq, rows, 0, 0) != 0;
    const char *email = bb_cell(rq, rows, 0, 4), *list = bb_cell(rq, rows, 0, 7);
    size_t count = bb_cell_ints(list, NULL);
    size_t size = sizeof(struct identity) + count * sizeof(int64_t) + strlen(email) + 1;
    struct identity *identity = bb_alloc(rq, size);

    identity->who = (struct bb_principal){
        .size = sizeof(identity->who),
        .account = claims.account,
        .role = auth_role_bit(bb_cell(rq, rows, 0, 3)),
        .organization = bb_cell_int(rq, rows, 0, 5),
        .client = bb_cell_int(rq, rows, 0, 6) != 0,
        .organization_count = bb_cell_ints(list, identity->organizations),
        .approved_ms = bb_cell_int(rq, rows, 0, 8),
    };
    snprintf(identity->status, sizeof(identity->status), "%s",
             ended ? "" : bb_cell(rq, rows, 0, 2));
    memcpy(identity->session, claims.jti, sizeof(identity->session));
    identity->expires_s = bb_cell_int(rq, rows, 0, 9) / 1000;
    memcpy(identity->organizations + count, email, strlen(email) + 1);
    cache_put(auth->cache, token.text, length, identity, size, (uint64_t)claims.account, epoch);
    *found = identity;
    return 0;
}

/*
 * Finds the account of a token, in the cache or in the database, and sets *who, whose texts are in
 * the request's memory. Returns 0 or the status of the response.
 */
static int session_authenticate(void *state, struct bb_request *rq, const char *text,
                                struct bb_principal *who)
{
    struct auth *auth = state;
    size_t length = strnlen(text, TOKEN_MAX + 1);

    if (length > TOKEN_MAX)
        return auth_unauthorized(rq, "Unauthorized");

    bool fresh = bb_signals_fresh_ms(auth->host) > 0;
    struct identity *identity;
    uint64_t epoch;

    for (size_t size, room = ROOM;; room = size) {
        identity = bb_alloc(rq, room);
        size = cache_get(auth->cache, text, length, identity, room, &epoch);
        if (!size || (size <= room && !fresh))
            identity = NULL; /* the database must be queried */
        if (size <= room)
            break;
    }
    int status = identity ? 0 : session_query(rq, auth, text, length, epoch, &identity);

    if (status || !identity)
        return status;
    if (identity->expires_s <= bb_wall_ms(auth->host) / 1000) /* the token or client has expired */
        return auth_unauthorized(rq, "Unauthorized");
    if (!*identity->status)
        return auth_unauthorized(rq, REVOKED);
    status = auth_account_may_act(rq, identity->status);
    if (status)
        return status;
    *who = identity->who;
    who->email = (const char *)(identity->organizations + who->organization_count);
    who->organizations = identity->organizations;
    who->session = identity->session;
    return 0;
}

const struct bb_authenticator auth_authenticator = {
    .size = sizeof(auth_authenticator),
    .authenticate = session_authenticate,
};

/* ---- creating ---- */

/*
 * Each login, and each token of an API client, has a row, so that it can be revoked separately. The
 * row is inserted only if the signing key is still active (otherwise the token would be revoked at
 * once), and if the account's password or the client's secret is still the one that was checked. (A
 * renewed hash of the same password has the same salt, see password.c.) This statement and a change
 * of the password or secret lock the same rows. So a login is refused if the change came first, and
 * otherwise the change revokes its session.
 *
 * k has the login of one request, or the logins of several requests (struct bb_keyed).
 */
#define SESSIONS(keys)                                                                             \
    "WITH k(jti, account, client, kid, issued, expires, password, i) AS MATERIALIZED (" keys "), " \
    "a AS (SELECT a.id, k.i FROM k JOIN auth_account a ON a.id = k.account "                       \
    "AND a.status = 'Active' "                                                                     \
    "AND (k.client <> 0 OR k.password IS NULL OR "                                                 \
    "split_part(a.password, '$', 5) = split_part(k.password, '$', 5)) "                            \
    "ORDER BY a.id FOR SHARE OF a), "                                                              \
    "c AS (SELECT k.i FROM k JOIN auth_client c ON c.id = k.client AND c.deleted IS NULL "         \
    "AND c.secret::text = k.password ORDER BY c.id FOR SHARE OF c), "                              \
    "made AS (INSERT INTO auth_session (jti, account, client, kid, issued, expires) "              \
    "SELECT k.jti, a.id, nullif(k.client, 0), y.kid, to_timestamp(k.issued), "                     \
    "to_timestamp(k.expires) FROM k JOIN a USING (i) LEFT JOIN c USING (i) "                       \
    "JOIN auth_key y ON y.kid = k.kid AND y.retired IS NULL "                                      \
    "WHERE k.client = 0 OR c.i IS NOT NULL RETURNING jti) "                                        \
    "SELECT a.i IS NOT NULL AND (k.client = 0 OR c.i IS NOT NULL), made.jti IS NOT NULL"
#define AND_WHO " FROM k LEFT JOIN a USING (i) LEFT JOIN c USING (i) LEFT JOIN made USING (jti)"

static const struct bb_keyed session = {
    {SESSIONS("SELECT $1::uuid, $2::bigint, $3::bigint, $4::text, $5::bigint, $6::bigint, "
              "$7::text, 1") AND_WHO,
     BB_SQL_WRITE | BB_SQL_KEYED},
    {SESSIONS("SELECT * FROM " BB_KEYS_7("uuid", "bigint", "bigint", "text", "bigint", "bigint",
                                         "text")) ", k.i" AND_WHO,
     BB_SQL_WRITE},
};

int auth_session_issue(struct bb_request *rq, struct auth *auth, const struct auth_account *account,
                       int64_t client, struct auth_issued *issued)
{
    struct token_claims claims = {
        .account = account->id,
        .issued_s = bb_wall_ms(auth->host) / 1000,
        .client = client != 0,
    };

    if (!issued->life_s)
        issued->life_s = client ? auth->client_s : auth->session_s;
    issued->expires_s = claims.expires_s = claims.issued_s + issued->life_s;
    snprintf(claims.jti, sizeof(claims.jti), "%s", bb_new_uuid(rq));
    memcpy(issued->jti, claims.jti, sizeof(issued->jti));
    snprintf(claims.role, sizeof(claims.role), "%s", account->role);
    /* Tries several times, because the key may be retired between signing and the insert. */
    for (int attempt = 0; attempt < 5; attempt++) {
        char kid[TOKEN_KID + 1];
        int status = auth_keys_active(rq, auth, kid);

        if (status)
            return status;
        /* Signs before the insert, so that a retry after a failure cannot insert the jti twice. */
        if (auth_keys_sign(auth, kid, &claims, issued->token)) {
            struct bb_rows *rows = bb_query(
                rq, &session.one,
                BB_ARGS(bb_t(claims.jti), bb_i(claims.account), bb_i(client), bb_t(kid),
                        bb_i(claims.issued_s), bb_i(claims.expires_s), bb_t(account->password)));

            if (!rows)
                return bb_failed(rq);
            if (!bb_cell_int(rq, rows, 0, 0)) /* the account or client has changed */
                return auth_unauthorized(rq, "Unauthorized");
            if (bb_cell_int(rq, rows, 0, 1))
                return 0;
        }
        auth_keys_stale(auth->keys);
    }
    return bb_fail(rq, 503, "The signing key is being replaced. Please try again.");
}
