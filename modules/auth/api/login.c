/* POST /api/auth/login and POST /api/auth/logout: create and end a session. */
#include "modules/auth/api/api.h"

int auth_count_login(struct bb_request *rq, int status)
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

int auth_reply_token(struct bb_request *rq, const struct auth_issued *issued)
{
    bb_reply_header(rq, "Pragma", "no-cache"); /* RFC 6749, 5.1; the host adds no-store */
    return bb_reply(rq, 200,
                    json_pack("{ss ss ss sI ss}", "accessToken", issued->token, "access_token",
                              issued->token, "token_type", "Bearer", "expires_in",
                              (json_int_t)issued->life_s, "expiresAt",
                              bb_time_text(rq, issued->expires_s * 1000)));
}

static int login(struct bb_request *rq)
{
    struct auth *auth = rq->state;
    struct auth_account account = {0};
    struct auth_issued *issued = bb_alloc(rq, sizeof(*issued));
    const char *email = auth_username(rq);
    bool good = false;
    int status = auth_credentials(rq, auth, email, bb_text(rq, "password"), &account, &good);

    if (status)
        return status;
    status = good ? auth_account_may_act(rq, account.status) : bb_fail(rq, 401, "Unauthorized");
    if (!status)
        status = auth_session_issue(rq, auth, &account, 0, issued);
    if (!status)
        status = auth_reply_token(rq, issued);
    return auth_credentials_settle(rq, auth, email, &account, status);
}

int auth_login(struct bb_request *rq)
{
    return auth_count_login(rq, login(rq));
}

int auth_logout(struct bb_request *rq)
{
    static const struct bb_sql revoke = {"WITH ended AS (UPDATE auth_session SET revoked = now() "
                                         "WHERE jti = $1::uuid AND revoked IS NULL RETURNING jti) "
                                         "SELECT pg_notify('" AUTH_CHANNEL
                                         "', $2::text) FROM ended",
                                         BB_SQL_WRITE};
    const char *payload = bb_format(rq, "session:%s", rq->principal->session);

    if (!bb_query(rq, &revoke, BB_ARGS(bb_t(rq->principal->session), bb_t(payload))))
        return bb_failed(rq);
    auth_changed(rq->state, payload);
    return bb_reply(rq, 200, json_pack("{ss}", "message", "Logout successful"));
}
