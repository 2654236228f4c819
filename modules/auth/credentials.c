/*
 * An e-mail and a password: throttled, then looked up, then hashed, then counted. An unknown
 * account goes the same way with a hash that nothing fits, so that it takes the same time.
 */
#include "auth.h"

int auth_credentials(struct bb_request *rq, struct auth *auth, const char *email,
                     const char *password, struct auth_account *account, bool *good)
{
    int status = auth_throttle_check(rq, auth, email);

    if (status)
        return status;

    int found = auth_account_find(rq, email, account);

    if (found < 0)
        return bb_failed(rq);
    status = auth_password_check(rq, password, found ? account->password : auth->dummy, good);
    if (status)
        return status;
    *good = *good && found;
    if (*good)
        auth_throttle_passed(rq, auth, email);
    else
        auth_throttle_failed(rq, auth, email);
    return 0;
}
