/*
 * In which organisations one acts: Admin in all, others in those of their account. `organizationId`
 * narrows it to one of them; it never moves a device.
 */
#include "device.h"

static bool acts_in(const struct bb_principal *who, int64_t organisation)
{
    for (size_t i = 0; i < who->organisation_count; i++)
        if (who->organisations[i] == organisation)
            return true;
    return who->organisation == organisation;
}

static int refused(struct bb_request *rq)
{
    return bb_fail(rq, 403, "You may not act in this organisation");
}

int device_scope(struct bb_request *rq, int64_t asked, struct device_scope *scope)
{
    const struct bb_principal *who = rq->principal;
    bool admin = who->role == BB_ROLE_ADMIN;

    *scope = (struct device_scope){
        .all = admin && !asked,
        .organisations = who->organisations,
        .count = who->organisation_count,
    };
    if (!asked)
        return 0;
    if (!admin && !acts_in(who, asked))
        return refused(rq);
    int64_t *only = bb_alloc(rq, sizeof(*only));

    *only = asked;
    scope->organisations = only;
    scope->count = 1;
    return 0;
}

int device_home(struct bb_request *rq, int64_t asked, int64_t *organisation)
{
    const struct bb_principal *who = rq->principal;

    *organisation = asked ? asked : who->organisation;
    if (asked)
        return acts_in(who, asked) ? 0 : refused(rq);
    if (who->role == BB_ROLE_API_USER && who->organisation_count > 1)
        return bb_invalid(rq, "organizationId", "is required: you act for several organisations");
    if (!*organisation && who->organisation_count == 1)
        *organisation = who->organisations[0];
    return *organisation ? 0 : bb_fail(rq, 403, "Your account belongs to no organisation");
}
