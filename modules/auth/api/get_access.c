/*
 * POST /api/auth/getAccess: tokens for programs, in two forms.
 *
 * OAuth 2.0 client credentials: the client authenticates with HTTP Basic or in the body, form or
 * JSON, and gets a client's token (one hour). Or the e-mail and password of an ApiUser: this
 * creates a session like a login. Errors have the names of RFC 6749: the host turns the header
 * X-OAuth-Error into `error` and removes the header.
 *
 * A client's id and secret select the first form, with or without grant_type. An Authorization
 * header of another scheme than Basic, which many clients send with every request, is ignored.
 */
#include "modules/auth/api/api.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>
#include <strings.h>

#include "modules/auth/token/base64.h"

#define CREDENTIALS_MAX 512 /* decoded credentials of the Basic scheme */

static int invalid_client(struct bb_request *rq)
{
    bb_reply_header(rq, "WWW-Authenticate", "Basic realm=\"busbar\"");
    bb_reply_header(rq, "X-OAuth-Error", "invalid_client");
    return bb_fail(rq, 401, "Unauthorized");
}

static int invalid_request(struct bb_request *rq, const char *text)
{
    bb_reply_header(rq, "X-OAuth-Error", "invalid_request");
    return bb_fail(rq, 400, "%s", text);
}

/* Issues a token, only to an ApiUser that may act. */
static int issue(struct bb_request *rq, const struct auth_account *account, int64_t client)
{
    struct auth_issued *issued = bb_alloc(rq, sizeof(*issued));
    bool fits = strcmp(account->role, "ApiUser") == 0;

    if (!fits || strcmp(account->status, "Active") != 0)
        bb_reply_header(rq, "X-OAuth-Error", "unauthorized_client");

    int status = auth_account_may_act(rq, account->status);

    if (status)
        return status;
    if (!fits)
        return bb_fail(rq, 403, "Forbidden");
    status = auth_session_issue(rq, rq->state, account, client, issued);
    if (status == 401)
        return invalid_client(rq);
    return status ? status : auth_reply_token(rq, issued);
}

/* Returns the HTTP Basic header, or NULL. */
static const char *basic_header(struct bb_request *rq)
{
    const char *header = bb_header(rq, "Authorization");

    return header && strncasecmp(header, "Basic", 5) == 0 && strchr(" ", header[5]) ? header : NULL;
}

/*
 * Splits "Basic base64(id:secret)". Returns 0, or -1 if it is malformed or the id is not
 * hexadecimal like all ids; other bytes might not be text, which the database would refuse.
 */
static int read_basic(struct bb_request *rq, const char *header, const char **id,
                      const char **secret)
{
    char *text = bb_alloc(rq, CREDENTIALS_MAX + 1);
    const char *coded = header + 5;

    coded += strspn(coded, " ");

    size_t length = strcspn(coded, "=");

    if (strspn(coded + length, "=") > 2 || coded[length + strspn(coded + length, "=")])
        return -1;

    ptrdiff_t count =
        base64_decode(BASE64_PLAIN, coded, length, (unsigned char *)text, CREDENTIALS_MAX);
    char *colon = count > 0 ? memchr(text, ':', (size_t)count) : NULL;

    if (!colon || memchr(text, 0, (size_t)count))
        return -1;
    *colon = '\0';
    *id = text;
    *secret = colon + 1;
    return strspn(text, "0123456789abcdef") == strlen(text) ? 0 : -1;
}

/* Returns whether the secret's SHA-256 equals the cell "\x…". */
static bool is_secret(const char *secret, const char *cell)
{
    unsigned char digest[SHA256_DIGEST_LENGTH], stored[SHA256_DIGEST_LENGTH];

    if (bb_cell_bytes(cell, stored, sizeof(stored)) != sizeof(stored))
        return false;
    SHA256((const unsigned char *)secret, strlen(secret), digest);
    return CRYPTO_memcmp(digest, stored, sizeof(digest)) == 0;
}

static int by_client(struct bb_request *rq, const char *id, const char *secret)
{
    static const struct bb_sql find = {
        "SELECT c.id, c.secret, a.id, a.role, a.status FROM auth_client c "
        "JOIN auth_account a ON a.id = c.account WHERE c.client_id = $1 AND c.deleted IS NULL",
        0};
    struct bb_rows *rows = bb_query(rq, &find, BB_ARGS(bb_t(id)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0 || !is_secret(secret, bb_cell(rq, rows, 0, 1)))
        return invalid_client(rq);

    struct auth_account account = {
        .id = bb_cell_int(rq, rows, 0, 2),
        .role = bb_cell(rq, rows, 0, 3),
        .status = bb_cell(rq, rows, 0, 4),
    };

    return issue(rq, &account, bb_cell_int(rq, rows, 0, 0));
}

static int client_credentials(struct bb_request *rq)
{
    const char *header = basic_header(rq);
    const char *id = bb_text(rq, "client_id");
    const char *secret = bb_text(rq, "client_secret");
    const char *named = id;

    if (header && secret)
        return invalid_request(rq, "The client authenticates in two ways at once");
    if (header && read_basic(rq, header, &id, &secret))
        return invalid_client(rq);
    if (header && named && strcmp(named, id) != 0)
        return invalid_request(rq,
                               "client_id differs from the client id in the Authorization header");
    if (!id || !secret)
        return invalid_request(rq, "client_id and client_secret are required");
    return by_client(rq, id, secret);
}

static int by_password(struct bb_request *rq)
{
    struct auth *auth = rq->state;
    const char *email = auth_username(rq);
    const char *password = bb_text(rq, "password");
    struct auth_account account = {0};
    bool good = false;

    if (!email)
        return invalid_request(rq, "username and password, or client_id and client_secret, are "
                                   "required");
    if (!password)
        password = ""; /* an empty password was parsed as absent, but is a wrong password */

    int status = auth_credentials(rq, auth, email, password, &account, &good);

    if (status)
        return status;
    status = good ? issue(rq, &account, 0) : invalid_client(rq);
    return auth_credentials_settle(rq, auth, email, &account, status);
}

static int get_access(struct bb_request *rq)
{
    const char *grant = bb_text(rq, "grant_type");
    bool client = basic_header(rq) || (bb_text(rq, "client_id") && bb_text(rq, "client_secret"));

    if (!grant && !client)
        return by_password(rq);
    if (!grant || strcmp(grant, "client_credentials") == 0)
        return client_credentials(rq);
    bb_reply_header(rq, "X-OAuth-Error", "unsupported_grant_type");
    return bb_fail(rq, 400, "grant_type must be client_credentials");
}

int auth_get_access(struct bb_request *rq)
{
    return auth_count_login(rq, get_access(rq));
}
