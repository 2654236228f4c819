/*
 * POST /api/user/register: requests an account and an organization without authentication; an Admin
 * approves.
 */
#include "modules/auth/api/api.h"

#include <string.h>

/* Refuses duplicates before anything is hashed; the unique indexes have the final say. */
static int refuse_duplicates(struct bb_request *rq, const struct auth_new_account *account)
{
    static const struct bb_sql look = {
        "SELECT EXISTS (SELECT FROM auth_account WHERE email = $1), EXISTS (SELECT FROM "
        "auth_organisation WHERE busbar_fold(name) = busbar_fold(btrim($2)))",
        0};
    struct bb_rows *rows =
        bb_query(rq, &look, BB_ARGS(bb_t(account->email), bb_t(account->organization)));

    if (!rows)
        return bb_failed(rq);
    if (bb_cell_int(rq, rows, 0, 0))
        return bb_fail(rq, 409, "An account with this e-mail already exists");
    if (bb_cell_int(rq, rows, 0, 1))
        return bb_fail(rq, 409, "An organization with this name already exists");
    return 0;
}

/*
 * With register_silent every registration gets this response, so that it does not reveal which
 * e-mails exist.
 */
static int heard(struct bb_request *rq)
{
    return bb_reply(rq, 202,
                    json_pack("{ss}", "message",
                              "The registration was received. An administrator has to approve "
                              "it."));
}

static int store(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct auth *auth = rq->state;
    struct bb_rows *rows = NULL;
    int status = auth_account_insert(rq, tx, arg, &rows);

    if (status)
        return status;
    if (auth->settings->register_silent)
        return heard(rq);
    return bb_reply(rq, 201, auth_account_json(rq, rows, 0));
}

int auth_register(struct bb_request *rq)
{
    struct auth *auth = rq->state;
    const char *type = bb_text(rq, "organizationType");
    struct auth_new_account account = {
        .email = bb_text(rq, "email"),
        .first_name = bb_text(rq, "firstName"),
        .last_name = bb_text(rq, "lastName"),
        .organization = bb_text(rq, "orgName"),
        .organization_type = type ? type : "Developer",
        .role = type && strcmp(type, "Developer") ? type : "OrganizationAdmin",
        .status = "Pending",
    };
    bool silent = auth->settings->register_silent;
    int status = auth_throttle_register(rq, auth);

    /* silent: the same work, including the hash, whether the account exists or not */
    if (!status && !silent)
        status = refuse_duplicates(rq, &account);
    if (!status)
        status =
            auth_password_hash(rq, auth, "register", bb_text(rq, "password"), &account.password);
    if (status)
        return status;
    status = bb_transaction(rq, store, &account);
    return silent && status == 409 ? heard(rq) : status;
}
