/*
 * Checks whether a job may continue: its sender may have been suspended, or may have lost the role
 * or organization.
 */
#include "modules/bulk/run/run.h"

static bool acts_in(const struct bb_account_scope *scope, int64_t organisation)
{
    for (size_t i = 0; i < scope->organisation_count; i++)
        if (scope->organisations[i] == organisation)
            return true;
    return scope->role == BB_ROLE_ADMIN;
}

/* The operator's command has no account and is always permitted. */
int bulk_permitted(struct bb_request *rq, const struct bulk_job *job, const struct bulk_type *type,
                   const char **reason)
{
    struct bb_service found = bb_service(rq->host, "accounts");
    const struct bb_accounts *accounts = found.interface;
    struct bb_account_scope scope = {.size = sizeof(scope)};

    if (!accounts || !job->account)
        return 1;
    int known = accounts->scope_of(found.state, rq, job->account, &scope);

    if (known < 0)
        return -1;
    if (!known || !scope.active)
        *reason = "the account that sent it is suspended or deleted";
    else if (!(type->rows->roles & scope.role))
        *reason = "the role of the account that sent it may not upload rows of this type any more";
    else if (!acts_in(&scope, job->organisation))
        *reason = "the account that sent it does not act in this organization any more";
    else
        return 1;
    return 0;
}
