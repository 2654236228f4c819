/* POST /api/user/register: anybody asks for an account and an organisation; an Admin approves. */
#include "auth.h"

#include <string.h>

static const char *role_of(const char *type)
{
    if (strcmp(type, "Buyer") == 0)
        return "Buyer";
    return strcmp(type, "ApiUser") == 0 ? "ApiUser" : "OrganizationAdmin";
}

/* Tells duplicates before anything is hashed; the unique indexes decide. */
static int refuse_duplicates(struct bb_request *rq, const struct auth_new_account *account)
{
    static const struct bb_sql look = {
        "SELECT EXISTS (SELECT FROM auth_account WHERE email = $1), EXISTS (SELECT FROM "
        "auth_organisation WHERE lower(name) = lower(btrim($2)))",
        0};
    struct bb_rows *rows =
        bb_query(rq, &look, BB_ARGS(bb_t(account->email), bb_t(account->organisation)));

    if (!rows)
        return bb_failed(rq);
    if (bb_cell_int(rq, rows, 0, 0))
        return bb_fail(rq, 409, "An account with this e-mail exists already");
    if (bb_cell_int(rq, rows, 0, 1))
        return bb_fail(rq, 409, "An organisation with this name exists already");
    return 0;
}

static int store(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct bb_rows *rows = NULL;
    int status = auth_account_insert(rq, tx, arg, &rows);

    return status ? status : auth_reply(rq, 201, auth_account_json(rq, rows, 0));
}

int auth_register(struct bb_request *rq)
{
    const char *type = bb_text(rq, "organizationType");
    struct auth_new_account account = {
        .email = bb_text(rq, "email"),
        .first_name = bb_text(rq, "firstName"),
        .last_name = bb_text(rq, "lastName"),
        .organisation = bb_text(rq, "orgName"),
        .organisation_type = type ? type : "Developer",
        .status = "Pending",
    };

    account.role = role_of(account.organisation_type);

    int status = refuse_duplicates(rq, &account);

    if (status)
        return status;
    status = auth_password_hash(rq, rq->state, bb_text(rq, "password"), &account.password);
    return status ? status : bb_transaction(rq, store, &account);
}
