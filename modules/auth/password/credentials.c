/*
 * Checks an e-mail and a password: throttle, look-up, hash; the result is counted once the response
 * is known. An unknown account is handled with a hash that nothing matches, so that it takes the
 * same time.
 */
#include "modules/auth/password/password.h"

static void decref(void *json)
{
    json_decref(json);
}

const char *auth_username(struct bb_request *rq)
{
    static const struct bb_field fields[] = {{.name = "username", .type = BB_EMAIL}};
    static const struct bb_table table = BB_TABLE(fields);
    const char *given = bb_text(rq, "username");
    json_t *object = given ? json_pack("{ss}", "username", given) : NULL;
    json_t *problems = json_array();
    json_t *checked = object && problems ? bb_check(rq, &table, object, problems) : NULL;
    const char *email = json_string_value(json_object_get(checked, "username"));

    json_decref(object);
    json_decref(problems);
    if (checked)
        bb_defer(rq, decref, checked);
    return email ? email : given;
}

int auth_credentials(struct bb_request *rq, struct auth *auth, const char *email,
                     const char *password, struct auth_account *account, bool *good)
{
    int64_t crowded_ms = 0;
    int status = auth_throttle_check(rq, auth, email, &crowded_ms);

    if (status)
        return status;

    int found = auth_account_find(rq, email, auth_throttle_network(rq), account);

    if (found < 0)
        return bb_failed(rq);
    if (crowded_ms > 0 && !account->known_here)
        return auth_throttle_refuse(rq, crowded_ms);
    /* if the account has logged in from here, attempts from elsewhere do not slow it down */
    uint64_t target = account->known_here ? 0 : auth_throttle_target(email);

    status =
        auth_password_check(rq, target, password, found ? account->password : auth->dummy, good);
    *good = *good && found;
    return status;
}

/* Keeps the 16 most recent client networks of an account. */
static void remember_network(struct bb_request *rq, const struct auth_account *account)
{
    static const struct bb_sql remember = {
        "WITH seen AS (INSERT INTO auth_origin AS o (account, network) VALUES ($1::bigint, $2) "
        "ON CONFLICT (account, network) DO UPDATE SET seen = now()) "
        "DELETE FROM auth_origin WHERE account = $1::bigint AND network IN (SELECT network FROM "
        "auth_origin WHERE account = $1::bigint AND network <> $2 ORDER BY seen DESC OFFSET 15)",
        BB_SQL_WRITE};

    if (account->seen_here)
        return;
    if (!bb_query(rq, &remember, BB_ARGS(bb_i(account->id), bb_t(auth_throttle_network(rq)))))
        bb_log(rq, BB_WARN, "cannot store the network of a login: %s", bb_sqlstate(rq));
}

int auth_credentials_settle(struct bb_request *rq, struct auth *auth, const char *email,
                            const struct auth_account *account, int status)
{
    if (status == 401 || status == 403)
        auth_throttle_failed(rq, auth, email);
    if (status >= 300)
        return status;
    auth_throttle_passed(rq, auth, email);
    remember_network(rq, account);
    return status;
}
