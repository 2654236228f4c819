/* `busbar user add`: creates the first Admin, and other accounts from the machine itself. */
#include "modules/auth/api/api.h"

static int store(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct bb_rows *rows = NULL;
    int status = auth_account_insert(rq, tx, arg, &rows);

    return status ? status : bb_reply(rq, 201, auth_account_json(rq, rows, 0));
}

static const char *text_or(struct bb_request *rq, const char *name, const char *absent)
{
    const char *text = bb_text(rq, name);

    return text ? text : absent;
}

int auth_command_user_add(struct bb_request *rq)
{
    struct auth_new_account account = {
        .email = bb_text(rq, "email"),
        .first_name = text_or(rq, "first-name", ""),
        .last_name = text_or(rq, "last-name", ""),
        .role = text_or(rq, "role", "Admin"),
        .status = "Active",
        .organization = bb_text(rq, "organization"),
        .organization_type = "Developer",
        .join = true,
    };
    struct auth_account found;
    int there = auth_account_find(rq, account.email, "", &found);

    if (there > 0 && json_is_true(json_object_get(bb_body(rq), "if-absent"))) {
        bb_print(rq, "%s already exists\n", account.email);
        return 0;
    }
    if (there) {
        if (there > 0)
            bb_print(rq, "%s already exists\n", account.email);
        else
            bb_failed(rq); /* the host prints the error */
        return 1;
    }

    int status =
        auth_password_hash(rq, rq->state, "hash", bb_text(rq, "password"), &account.password);

    if (!status)
        status = bb_transaction(rq, store, &account);
    if (status >= 400) {
        bb_print(rq, "%s was not added (status %d)\n", account.email, status);
        return 1;
    }
    bb_print(rq, "%s added: %s, active\n", account.email, account.role);
    return 0;
}
