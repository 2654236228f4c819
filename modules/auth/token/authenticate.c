/*
 * The service "authenticator": the principal of a bearer token.
 *
 * The cached identity is used while three conditions hold: there is an entry, the token has not
 * expired, and the host guarantees that it has received every notification (bb_signals_fresh_ms()).
 * Otherwise the signature is verified and PostgreSQL is queried once for everything. Role, status
 * and organizations always come from the database, never from the token.
 */
#include "modules/auth/token/session.h"

#include <string.h>

#define ROOM 512 /* for an identity with a dozen organizations */
#define REVOKED "Token revoked. Please log in again."

/*
 * Fills *who, or sends a response that refuses the identity. *who points to the identity, which is
 * in the request's memory.
 */
static int admit(struct bb_request *rq, const struct auth_identity *identity,
                 struct bb_principal *who)
{
    if (identity->verdict == AUTH_REVOKED)
        return auth_unauthorized(rq, REVOKED);
    if (identity->verdict == AUTH_PENDING)
        return auth_account_may_act(rq, "Pending");
    if (identity->verdict == AUTH_SUSPENDED)
        return auth_account_may_act(rq, "Suspended");
    if (identity->verdict == AUTH_GONE)
        return auth_unauthorized(rq, "Unauthorized");
    *who = (struct bb_principal){
        .size = sizeof(*who),
        .account = identity->account,
        .email = (const char *)(identity->organizations + identity->organization_count),
        .role = identity->role,
        .client = identity->client,
        .organization = identity->organization,
        .organizations = identity->organizations,
        .organization_count = identity->organization_count,
        .session = identity->session,
        .approved_ms = identity->approved_ms,
    };
    return 0;
}

/* Returns a copy of the cached identity in the request's memory, or NULL if it must be queried. */
static struct auth_identity *cached(struct bb_request *rq, struct auth *auth, const char *token,
                                    size_t length)
{
    size_t room = ROOM;

    if (bb_signals_fresh_ms(auth->host) <= 0)
        return NULL;
    for (;;) {
        void *block = bb_alloc(rq, room);
        size_t size = auth_cache_get(auth->cache, token, length, block, room);

        if (size == 0)
            return NULL;
        if (size <= room)
            return block;
        room = size;
    }
}

enum column { ENDED, ACCOUNT, STATUS, ROLE, EMAIL, ORGANIZATION, CLIENT, ORGANIZATIONS, APPROVED };

static enum auth_verdict verdict_of(struct bb_request *rq, const struct bb_rows *rows)
{
    const char *status = bb_cell(rq, rows, 0, STATUS);

    if (bb_cell_int(rq, rows, 0, ENDED))
        return AUTH_REVOKED;
    if (strcmp(status, "Active") == 0)
        return AUTH_GOOD;
    if (strcmp(status, "Pending") == 0)
        return AUTH_PENDING;
    return strcmp(status, "Suspended") == 0 ? AUTH_SUSPENDED : AUTH_GONE;
}

static struct auth_identity *identity_of(struct bb_request *rq, const struct bb_rows *rows,
                                         const struct token_claims *claims)
{
    const char *email = bb_cell(rq, rows, 0, EMAIL);
    const char *list = bb_cell(rq, rows, 0, ORGANIZATIONS);
    size_t count = bb_cell_ints(list, NULL);
    size_t size = sizeof(struct auth_identity) + count * sizeof(int64_t) + strlen(email) + 1;

    size = (size + 7) & ~(size_t)7;

    struct auth_identity *identity = bb_alloc(rq, size);

    identity->size = size;
    identity->verdict = verdict_of(rq, rows);
    identity->role = auth_role_bit(bb_cell(rq, rows, 0, ROLE));
    identity->client = bb_cell_int(rq, rows, 0, CLIENT) != 0;
    memcpy(identity->session, claims->jti, sizeof(identity->session));
    identity->account = bb_cell_int(rq, rows, 0, ACCOUNT);
    identity->organization = bb_cell_int(rq, rows, 0, ORGANIZATION);
    identity->expires_s = claims->expires_s;
    identity->approved_ms = bb_cell_int(rq, rows, 0, APPROVED);
    identity->organization_count = bb_cell_ints(list, identity->organizations);
    memcpy(identity->organizations + count, email, strlen(email) + 1);
    return identity;
}

#define EVERYTHING(jti, kid, account)                                                              \
    "SELECT s.revoked IS NOT NULL OR s.expires <= now() OR k.kid IS NULL OR"                       \
    " k.retired IS NOT NULL OR c.deleted IS NOT NULL AS ended, a.id, a.status, a.role, a.email,"   \
    " a.organisation, s.client IS NOT NULL AS of_client, " ACCOUNT_ORGANIZATIONS                   \
    " AS organisations, " ACCOUNT_APPROVED " AS approved"                                          \
    " FROM auth_session s JOIN auth_account a ON a.id = s.account"                                 \
    " LEFT JOIN auth_key k ON k.kid = s.kid LEFT JOIN auth_client c ON c.id = s.client"            \
    " WHERE s.jti = " jti " AND s.kid = " kid " AND s.account = " account

#define TOKENS BB_KEYS_3("uuid", "text", "bigint")
#define EVERYTHING_OF_TOKEN EVERYTHING("w.jti", "w.kid", "w.account")

static const struct bb_keyed everything = {
    {EVERYTHING("$1::uuid", "$2::text", "$3::bigint"), BB_SQL_KEYED},
    {"SELECT e.*, w.i FROM " TOKENS " w(jti, kid, account, i)"
     " CROSS JOIN LATERAL (" EVERYTHING_OF_TOKEN " OFFSET 0) e",
     0},
};

/* The steps that a cache hit skips. */
static int ask(struct bb_request *rq, struct auth *auth, const char *text, size_t length,
               struct auth_identity **found)
{
    uint64_t epoch = auth_cache_epoch(auth->cache);
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
    /* Signed by this service, but its session is gone: it was ended and cleaned up. */
    if (bb_count(rq, rows) == 0)
        return auth_unauthorized(rq, REVOKED);
    *found = identity_of(rq, rows, &claims);
    auth_cache_put(auth->cache, text, length, *found, epoch);
    return 0;
}

static int authenticate(void *state, struct bb_request *rq, const char *text,
                        struct bb_principal *who)
{
    struct auth *auth = state;
    size_t length = strnlen(text, TOKEN_MAX + 1);

    if (length > TOKEN_MAX)
        return auth_unauthorized(rq, "Unauthorized");

    struct auth_identity *identity = cached(rq, auth, text, length);

    if (!identity) {
        int status = ask(rq, auth, text, length, &identity);

        if (status || !identity)
            return status;
    } else if (identity->expires_s <= bb_wall_ms(auth->host) / 1000) {
        return auth_unauthorized(rq, "Unauthorized");
    }
    return admit(rq, identity, who);
}

const struct bb_authenticator auth_authenticator = {
    .size = sizeof(auth_authenticator),
    .authenticate = authenticate,
};
