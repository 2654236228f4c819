/* POST /api/auth/login and getAccess, which create a session. */
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>
#include <strings.h>

#include "modules/auth/auth.h"

/* Counts a login by the status of its response, and returns that status. */
static int login_count(struct bb_request *rq, int status)
{
    enum auth_login_outcome outcome = AUTH_LOGIN_FAILED;

    if (status < 300)
        outcome = AUTH_LOGIN_DONE;
    else if (status == 400 || status == 401)
        outcome = AUTH_LOGIN_REFUSED;
    else if (status == 403)
        outcome = AUTH_LOGIN_NOT_ADMITTED;
    else if (status == 429)
        outcome = AUTH_LOGIN_THROTTLED;
    bb_metric_add(rq->host, AUTH_METRIC_LOGINS, outcome, 1);
    return status;
}

int auth_login_reply(struct bb_request *rq, const struct auth_issued *issued)
{
    bb_reply_header(rq, "Pragma", "no-cache"); /* RFC 6749, 5.1; the host adds no-store */
    return bb_reply(rq, 200,
                    json_pack("{ss ss ss sI ss}", "accessToken", issued->token, "access_token",
                              issued->token, "token_type", "Bearer", "expires_in",
                              (json_int_t)issued->life_s, "expiresAt",
                              bb_time_text(rq, issued->expires_s * 1000)));
}

/*
 * Returns the body's `username` in the stored form of e-mails. A username that is not an e-mail is
 * returned unchanged, and matches no account.
 */
static const char *login_username(struct bb_request *rq)
{
    static const struct bb_field fields[] = {{.name = "username", .type = BB_EMAIL}};
    static const struct bb_table table = BB_TABLE(fields);
    const char *given = bb_text(rq, "username");
    json_t *object = bb_hold(rq, json_pack("{ss*}", "username", given));
    json_t *checked = bb_json_hold(rq, bb_check(rq, &table, object, bb_hold(rq, json_array())));
    const char *email = json_string_value(json_object_get(checked, "username"));

    return email ? email : given;
}

int auth_login(struct bb_request *rq)
{
    struct auth *auth = rq->state;
    struct auth_account account = {0};
    struct auth_issued *issued = bb_alloc(rq, sizeof(*issued));
    const char *email = login_username(rq);
    bool good = false, remember = json_is_true(json_object_get(bb_body(rq), "remember"));
    int status = auth_credentials(rq, auth, email, bb_text(rq, "password"), &account, &good);

    if (status)
        return login_count(rq, status);
    status = good ? auth_account_may_act(rq, account.status) : bb_fail(rq, 401, "Unauthorized");
    issued->life_s = remember ? AUTH_REFRESHED_S : 0;
    if (!status)
        status = auth_session_issue(rq, auth, &account, 0, issued);
    if (!status && remember)
        status = auth_refresh_begin(rq, &account, issued->jti);
    if (!status)
        status = auth_login_reply(rq, issued);
    return login_count(rq, auth_credentials_settle(rq, auth, email, &account, status));
}

/*
 * ---- getAccess: tokens for programs, in two forms ----
 *
 * With OAuth 2.0 client credentials, a client authenticates with HTTP Basic or in the body (form or
 * JSON), and gets a client's token, which is valid for client_minutes. With the e-mail and password
 * of an ApiUser, getAccess creates a session like a login. Errors have the names of RFC 6749: the
 * host moves the value of the header X-OAuth-Error to the member `error` of the body.
 *
 * A client's id and secret select the first form, with or without grant_type. An Authorization
 * header with a scheme other than Basic, which many clients send with every request, is ignored.
 */

static int login_invalid_client(struct bb_request *rq)
{
    bb_reply_header(rq, "WWW-Authenticate", "Basic realm=\"busbar\"");
    bb_reply_header(rq, "X-OAuth-Error", "invalid_client");
    return bb_fail(rq, 401, "Unauthorized");
}

static int login_bad_request(struct bb_request *rq, const char *error, const char *text)
{
    bb_reply_header(rq, "X-OAuth-Error", error);
    return bb_fail(rq, 400, "%s", text);
}

/* Sends a token to an active ApiUser, and an error to others. `life_s`: see struct auth_issued. */
static int login_issue(struct bb_request *rq, const struct auth_account *account, int64_t client,
                       int64_t life_s)
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
    issued->life_s = life_s;
    status = auth_session_issue(rq, rq->state, account, client, issued);
    if (status == 401)
        return login_invalid_client(rq);
    return status ? status : auth_login_reply(rq, issued);
}

/* Returns the Authorization header if its scheme is Basic, or NULL. */
static const char *login_basic_header(struct bb_request *rq)
{
    const char *header = bb_header(rq, "Authorization");

    return header && strncasecmp(header, "Basic", 5) == 0 && strchr(" ", header[5]) ? header : NULL;
}

/*
 * Splits "Basic base64(id:secret)". Returns 0, or -1 if the header is malformed, or if the id is
 * not hexadecimal: no client has such an id, and PostgreSQL would fail on an id that is not UTF-8.
 */
static int login_read_basic(struct bb_request *rq, const char *header, const char **id,
                            const char **secret)
{
    enum { CREDENTIALS_MAX = 512 };
    char *text = bb_alloc(rq, CREDENTIALS_MAX + 1);
    const char *coded = header + 5 + strspn(header + 5, " ");
    size_t length = strcspn(coded, "="), padding = strspn(coded + length, "=");

    if (padding > 2 || coded[length + padding])
        return -1;

    ptrdiff_t count = base64_decode(BASE64_PLAIN, coded, length, text, CREDENTIALS_MAX);
    char *colon = count > 0 ? memchr(text, ':', (size_t)count) : NULL;

    if (!colon || memchr(text, 0, (size_t)count))
        return -1;
    *colon = '\0';
    *id = text;
    *secret = colon + 1;
    return strspn(text, "0123456789abcdef") == strlen(text) ? 0 : -1;
}

static int login_by_client(struct bb_request *rq)
{
    static const struct bb_sql find = {
        "SELECT c.id, c.secret, a.id, a.role, a.status, a.email, "
        "least($2::bigint, ceil(extract(epoch FROM c.expires - now()))::bigint), "
        "c.used IS NULL OR c.used < now() - interval '1 hour' FROM auth_client c "
        "JOIN auth_account a ON a.id = c.account WHERE c.client_id = $1 AND c.deleted IS NULL",
        0};
    static const struct bb_sql use = {"UPDATE auth_client SET used = now() WHERE id = $1::bigint",
                                      BB_SQL_WRITE};
    const struct auth *auth = rq->state;
    const char *header = login_basic_header(rq);
    const char *id = bb_text(rq, "client_id");
    const char *secret = bb_text(rq, "client_secret");
    const char *named = id;
    int64_t limit = auth->settings->login_failures_per_address;
    unsigned char stored[SHA256_DIGEST_LENGTH];

    if (header && secret)
        return login_bad_request(rq, "invalid_request",
                                 "Send the client credentials either in the Authorization header "
                                 "or in the body, not in both");
    if (header && login_read_basic(rq, header, &id, &secret))
        return login_invalid_client(rq);
    if (header && named && strcmp(named, id) != 0)
        return login_bad_request(
            rq, "invalid_request",
            "client_id differs from the client id in the Authorization header");
    if (!id || !secret)
        return login_bad_request(rq, "invalid_request", "client_id and client_secret are required");

    struct bb_rows *rows = bb_query(rq, &find, BB_ARGS(bb_t(id), bb_i(auth->client_s)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0) /* not audited: anybody can send any number of unknown ids */
        return login_invalid_client(rq);
    bool right = bb_cell_bytes(bb_cell(rq, rows, 0, 1), stored, sizeof(stored)) == sizeof(stored) &&
                 CRYPTO_memcmp(auth_sha256(rq, secret).data, stored, sizeof(stored)) == 0 &&
                 bb_cell_int(rq, rows, 0, 6) > 0; /* the client has not expired */
    int refused = right ? 0 : auth_throttle_count(rq, 'c', limit, "failed logins");

    if (refused)
        return refused;
    bb_audit(rq, bb_cell(rq, rows, 0, 5));
    if (!right)
        return login_invalid_client(rq);

    struct auth_account account = {
        .id = bb_cell_int(rq, rows, 0, 2),
        .role = bb_cell(rq, rows, 0, 3),
        .status = bb_cell(rq, rows, 0, 4),
        .password = bb_cell(rq, rows, 0, 1),
    };
    int64_t client = bb_cell_int(rq, rows, 0, 0);
    bool used_lately = !bb_cell_int(rq, rows, 0, 7);
    int status = login_issue(rq, &account, client, bb_cell_int(rq, rows, 0, 6));

    if (status == 200 && !used_lately && !bb_query(rq, &use, BB_ARGS(bb_i(client))))
        bb_log(rq, BB_WARN, "cannot store when a client was used: %s", bb_sqlstate(rq));
    return status;
}

static int login_by_password(struct bb_request *rq)
{
    struct auth *auth = rq->state;
    const char *email = login_username(rq);
    const char *password = bb_text(rq, "password");
    struct auth_account account = {0};
    bool good = false;

    if (!email)
        return login_bad_request(
            rq, "invalid_request",
            "username and password, or client_id and client_secret, are required");
    if (!password)
        password = ""; /* "" is parsed as absent, but must be refused as a wrong password */

    int status = auth_credentials(rq, auth, email, password, &account, &good);

    if (status)
        return status;
    status = good ? login_issue(rq, &account, 0, 0) : login_invalid_client(rq);
    return auth_credentials_settle(rq, auth, email, &account, status);
}

int auth_get_access(struct bb_request *rq)
{
    const char *grant = bb_text(rq, "grant_type");
    bool client =
        login_basic_header(rq) || (bb_text(rq, "client_id") && bb_text(rq, "client_secret"));

    if (!grant && !client)
        return login_count(rq, login_by_password(rq));
    if (!grant || strcmp(grant, "client_credentials") == 0)
        return login_count(rq, login_by_client(rq));
    return login_count(rq, login_bad_request(rq, "unsupported_grant_type",
                                             "grant_type must be client_credentials"));
}
