/*
 * Staying logged in: a cookie with which a browser gets new access tokens, and the list of a
 * person's sessions.
 *
 * A login with `remember` has a row in auth_refresh. Its cookie is "ID.SECRET"; the row has the
 * SHA-256 of the secret. Each use replaces the secret. If a cookie is stolen, its owner and the
 * thief both use it sooner or later. The second one sends a replaced secret, which ends the login
 * with all its access tokens.
 *
 * Two tabs may send the same cookie at the same time, and a response may be lost. So a replaced
 * secret is still accepted for GRACE_S seconds, and the response has the same next secret as the
 * first time: HMAC-SHA256 of the secret that was sent, with a key from the row. To compute a next
 * secret, both the cookie and the database are needed.
 *
 * Cross-site requests: the cookie is SameSite=Strict, so browsers do not send it with requests of
 * other sites. Requests of other origins of the same site (Sec-Fetch-Site) get 403. No other origin
 * can read the access token in the response, because no response allows credentials by CORS. The
 * cookie's Path excludes all other routes; they need the access token in a header, which browsers
 * do not add by themselves.
 */
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "modules/auth/auth.h"

#define COOKIE "busbar_refresh"
/* Browsers accept Secure cookies from http://localhost; on other addresses without TLS they ignore
 * the cookie, and the person has to log in again after a reload. */
#define ATTRIBUTES "Path=/api/auth/refresh; HttpOnly; Secure; SameSite=Strict"
#define SECRET_TEXT BASE64_ROOM(SHA256_DIGEST_LENGTH)

enum {
    KEY = 32, /* bytes of the key and of the secret */
    UUID = 36,
    SECRET_LENGTH = 43,
    AGENT_MAX = 200 /* bytes of the stored User-Agent */
};

#define GRACE_S "60" /* longer than a failover of PostgreSQL, during which responses are lost */

static void refresh_set_cookie(struct bb_request *rq, const char *id, const char *secret)
{
    const struct auth *auth = rq->state;

    bb_reply_header(rq, "Set-Cookie",
                    bb_format(rq, COOKIE "=%s.%s; Max-Age=%lld; " ATTRIBUTES, id, secret,
                              (long long)auth->session_s));
}

static void refresh_forget(struct bb_request *rq)
{
    bb_reply_header(rq, "Set-Cookie", COOKIE "=; Max-Age=0; " ATTRIBUTES);
}

/* ---- the login ---- */

/*
 * This statement and a change of the password wait for each other, because they lock the account.
 * If the password was changed first, the session is revoked, and this statement inserts nothing.
 */
int auth_refresh_begin(struct bb_request *rq, const struct auth_account *account, const char *jti)
{
    static const struct bb_sql insert = {
        "WITH a AS (SELECT id FROM auth_account WHERE id = $3::bigint FOR SHARE), "
        "s AS (UPDATE auth_session s SET login = $2::uuid FROM a WHERE s.jti = $1::uuid "
        "AND s.account = a.id AND s.revoked IS NULL RETURNING s.account, s.kid) "
        "INSERT INTO auth_refresh (id, account, kid, key, hash, expires, agent, network) "
        "SELECT $2::uuid, account, kid, $4::bytea, $5::bytea, "
        "now() + make_interval(secs => $6::bigint), $7, $8 FROM s RETURNING id",
        BB_SQL_WRITE};
    const struct auth *auth = rq->state;
    const char *id = bb_new_uuid(rq), *agent = bb_header(rq, "User-Agent");
    unsigned char key[KEY], random[KEY];
    char secret[SECRET_TEXT];
    size_t length = 0;

    /* a header may have any bytes; the database accepts only UTF-8 */
    while (agent && length < AGENT_MAX && agent[length] >= ' ' && agent[length] <= '~')
        length++;
    if (bb_random(rq->host, key, sizeof(key)) || bb_random(rq->host, random, sizeof(random)))
        return auth_no_random(rq);
    base64_encode(BASE64_URL, random, sizeof(random), secret);

    const struct bb_rows *rows =
        bb_query(rq, &insert,
                 BB_ARGS(bb_t(jti), bb_t(id), bb_i(account->id), bb_bytes(key, sizeof(key)),
                         auth_sha256(rq, secret), bb_i(auth->session_s),
                         bb_t(bb_format(rq, "%.*s", (int)length, agent ? agent : "")),
                         bb_t(auth_throttle_network(rq))));

    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows)) /* the password was changed meanwhile */
        return auth_unauthorized(rq, "Unauthorized");
    refresh_set_cookie(rq, id, secret);
    return 0;
}

/* ---- POST /api/auth/refresh ---- */

struct turn {
    const char *id, *secret, *next; /* next: the new secret; NULL if the cookie is invalid */
    const char *reused;             /* the account's e-mail if an old secret was sent, or NULL */
    struct auth_account account;
};

/* Reads the cookie. Returns -1 if it has not exactly the form that was sent to the browser. */
static int refresh_read(struct bb_request *rq, struct turn *turn)
{
    const char *header = bb_header(rq, "Cookie");
    const char *at = header ? strstr(header, COOKIE "=") : NULL;
    char id[UUID + 1], secret[SECRET_LENGTH + 2]; /* room to detect a longer secret */

    while (at && at > header && !strchr("; ,", at[-1])) /* skips longer names that end in COOKIE */
        at = strstr(at + 1, COOKIE "=");
    if (!at || sscanf(at + strlen(COOKIE "="), "%36[0-9a-f-].%44[A-Za-z0-9_-]", id, secret) != 2 ||
        !bb_is_uuid(id) || strlen(secret) != SECRET_LENGTH)
        return -1;
    turn->id = bb_format(rq, "%s", id);
    turn->secret = bb_format(rq, "%s", secret);
    return 0;
}

/* Ends the login or the session (by its jti) with this id. Returns whether there was one. */
static bool refresh_end(struct bb_request *rq, struct bb_tx *tx, int64_t account, const char *id)
{
    static const struct bb_sql forget = {
        "DELETE FROM auth_refresh WHERE id = $1::uuid AND account = $2::bigint", 0};
    /* `forget` waited for a refresh in progress, so this also revokes that refresh's session. */
    static const struct bb_sql revoke = {
        "UPDATE auth_session SET revoked = now() WHERE account = $2::bigint "
        "AND (login = $1::uuid OR jti = $1::uuid) AND revoked IS NULL",
        0};
    const struct bb_rows *forgotten =
        bb_tx_query_or_end(rq, tx, &forget, BB_ARGS(bb_t(id), bb_i(account)));
    const struct bb_rows *revoked =
        bb_tx_query_or_end(rq, tx, &revoke, BB_ARGS(bb_t(id), bb_i(account)));

    auth_notify(rq, tx, account);
    return bb_affected(rq, forgotten) + bb_affected(rq, revoked) > 0;
}

static int refresh_turn(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql find = {
        "SELECT a.id, a.role, a.status, r.key, r.hash = $2::bytea AS current, r.previous = "
        "$2::bytea AND r.rotated > now() - interval '" GRACE_S " seconds' AS recent, "
        "a.email "
        "FROM auth_refresh r JOIN auth_account a ON a.id = r.account "
        "JOIN auth_key k ON k.kid = r.kid AND k.retired IS NULL "
        "WHERE r.id = $1::uuid AND r.expires > now() FOR UPDATE OF r",
        0};
    static const struct bb_sql rotate = {
        "UPDATE auth_refresh SET previous = hash, hash = $2::bytea, rotated = now(), "
        "expires = now() + make_interval(secs => $3::bigint) WHERE id = $1::uuid",
        0};
    const struct auth *auth = rq->state;
    struct turn *turn = arg;
    struct bb_rows *rows =
        bb_tx_query_or_end(rq, tx, &find, BB_ARGS(bb_t(turn->id), auth_sha256(rq, turn->secret)));
    unsigned char key[KEY], mac[SHA256_DIGEST_LENGTH];
    char *next = bb_alloc(rq, SECRET_TEXT);

    if (!bb_count(rq, rows))
        return 0;
    turn->account = (struct auth_account){
        .id = bb_cell_int(rq, rows, 0, 0),
        .role = bb_cell(rq, rows, 0, 1),
        .status = bb_cell(rq, rows, 0, 2),
    };
    bool current = bb_cell_int(rq, rows, 0, 4) != 0;

    if (!current && !bb_cell_int(rq, rows, 0, 5)) {
        bb_log(rq, BB_WARN, "ended a login whose old refresh token was used again");
        refresh_end(rq, tx, turn->account.id, turn->id);
        turn->reused = bb_cell(rq, rows, 0, 6);
        return 0;
    }
    if (bb_cell_bytes(bb_cell(rq, rows, 0, 3), key, sizeof(key)) != sizeof(key) ||
        !HMAC(EVP_sha256(), key, sizeof(key), (const unsigned char *)turn->secret, SECRET_LENGTH,
              mac, NULL))
        return bb_fail(rq, 500, "The refresh token cannot be replaced");
    base64_encode(BASE64_URL, mac, sizeof(mac), next);
    if (current)
        bb_tx_query_or_end(rq, tx, &rotate,
                           BB_ARGS(bb_t(turn->id), auth_sha256(rq, next), bb_i(auth->session_s)));
    turn->next = next;
    return 0;
}

int auth_refresh(struct bb_request *rq)
{
    /* Assigns the session to the login, unless the login ended or the signing key was replaced. */
    static const struct bb_sql attach = {
        "WITH r AS (SELECT id, kid FROM auth_refresh WHERE id = $1::uuid FOR SHARE) "
        "UPDATE auth_session s SET login = r.id FROM r WHERE s.jti = $2::uuid AND s.kid = r.kid "
        "RETURNING s.jti",
        BB_SQL_WRITE};
    struct turn turn = {.next = NULL};
    struct auth_issued *issued = bb_alloc(rq, sizeof(*issued));
    const char *from = bb_header(rq, "Sec-Fetch-Site");

    if (from && strcmp(from, "same-origin") != 0 && strcmp(from, "none") != 0)
        return bb_fail(rq, 403, "Forbidden");
    if (refresh_read(rq, &turn))
        return bb_reply(rq, 204, NULL);

    int status = bb_transaction(rq, refresh_turn, &turn);

    if (status)
        return status;
    if (!turn.next) {
        if (turn.reused)
            bb_audit(rq, turn.reused);
        refresh_forget(rq);
        return auth_unauthorized(rq, "Unauthorized");
    }
    refresh_set_cookie(rq, turn.id, turn.next); /* even if an error follows: `next` is stored */
    status = auth_account_may_act(rq, turn.account.status);
    issued->life_s = AUTH_REFRESHED_S;
    if (!status)
        status = auth_session_issue(rq, rq->state, &turn.account, 0, issued);
    if (status)
        return status;
    return bb_count(rq, bb_query_or_end(rq, &attach, BB_ARGS(bb_t(turn.id), bb_t(issued->jti))))
               ? auth_login_reply(rq, issued)
               : auth_unauthorized(rq, "Unauthorized");
}

/* ---- logout, and the list of sessions ---- */

/* Ends the login or session with the id `arg`. NULL: ends the caller's, and deletes the cookie. */
static int refresh_leave(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql own = {
        "SELECT coalesce(login, jti) FROM auth_session WHERE jti = $1::uuid", 0};
    const char *id = arg;

    if (!id) {
        struct bb_rows *rows =
            bb_tx_query_or_end(rq, tx, &own, BB_ARGS(bb_t(rq->principal->session)));

        id = bb_count(rq, rows) ? bb_cell(rq, rows, 0, 0) : rq->principal->session;
    }
    bool ended = refresh_end(rq, tx, rq->principal->account, id);

    if (arg)
        return ended ? bb_reply(rq, 200, json_pack("{sb}", "success", 1))
                     : bb_fail(rq, 404, "Session not found");
    refresh_forget(rq);
    return bb_reply(rq, 200, json_pack("{ss}", "message", "Logout successful"));
}

int auth_logout(struct bb_request *rq)
{
    return bb_transaction(rq, refresh_leave, NULL);
}

int auth_session_delete(struct bb_request *rq)
{
    return rq->principal->client
               ? bb_fail(rq, 403, "Forbidden")
               : bb_transaction(rq, refresh_leave, (void *)(uintptr_t)bb_segment(rq, "id"));
}

/* Lists logins with a refresh token, and sessions without one, but no sessions of API clients. */
int auth_session_list(struct bb_request *rq)
{
    // clang-format off
    static const struct bb_sql list = {
        "SELECT s.id, " BB_SQL_MS("s.created") ", " BB_SQL_MS("s.used") ", "
        BB_SQL_MS("s.expires") ", s.agent, s.network, s.id = (SELECT coalesce(login, jti)"
        " FROM auth_session WHERE jti = $2::uuid) FROM (SELECT id, kid, created, rotated AS used,"
        " expires, agent, network FROM auth_refresh WHERE account = $1::bigint UNION ALL"
        " SELECT jti, kid, issued, issued, expires, NULL, NULL FROM auth_session"
        " WHERE account = $1::bigint AND client IS NULL AND login IS NULL AND revoked IS NULL) s"
        " JOIN auth_key k ON k.kid = s.kid AND k.retired IS NULL WHERE s.expires > now()"
        " ORDER BY s.used DESC, s.id LIMIT $3::bigint",
        BB_SQL_LONG};
    // clang-format on
    const struct bb_principal *who = rq->principal;

    return auth_reply_list(
        rq,
        bb_query_or_end(rq, &list,
                        BB_ARGS(bb_i(who->account), bb_t(who->session), bb_i(AUTH_PAGE_MAX))),
        auth_session_fields, 7);
}
