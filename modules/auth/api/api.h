/* The routes and commands of auth. Each runs on the fiber of its request. */
#ifndef AUTH_API_H
#define AUTH_API_H

#include "modules/auth/password/password.h"
#include "modules/auth/token/session.h"

/* ---- login.c: metrics, in the order of module.c's table */

enum auth_metric { AUTH_METRIC_LOGINS };
enum auth_login_outcome {
    AUTH_LOGIN_DONE,
    AUTH_LOGIN_REFUSED,
    AUTH_LOGIN_NOT_ADMITTED,
    AUTH_LOGIN_THROTTLED,
    AUTH_LOGIN_FAILED
};

/* Counts a login by the status of its response, and returns that status. */
int auth_count_login(struct bb_request *rq, int status);

/* Sends the response of login and getAccess. */
int auth_reply_token(struct bb_request *rq, const struct auth_issued *issued);

/* ---- lists ---- */

#define AUTH_PAGE_MAX 200

/* Returns the number of rows of a page. Query one more, and respond with bb_reply_rows(). */
static inline int64_t auth_page_limit(struct bb_request *rq)
{
    return bb_arg_int(rq, "limit", AUTH_PAGE_MAX);
}

/* ---- handlers and commands ---- */

int auth_register(struct bb_request *rq);
int auth_login(struct bb_request *rq);
int auth_logout(struct bb_request *rq);
int auth_me(struct bb_request *rq);
int auth_change_password(struct bb_request *rq);
int auth_get_access(struct bb_request *rq);
int auth_client_create(struct bb_request *rq);
int auth_client_list(struct bb_request *rq);
int auth_client_delete(struct bb_request *rq);
int auth_organization_create(struct bb_request *rq);
int auth_organization_link(struct bb_request *rq);
int auth_organization_list(struct bb_request *rq);
int auth_user_list(struct bb_request *rq);
int auth_user_get(struct bb_request *rq);
int auth_user_change(struct bb_request *rq);
int auth_rotate(struct bb_request *rq);
int auth_command_user_add(struct bb_request *rq);
int auth_command_rotate(struct bb_request *rq);

#endif
