/*
 * The organizations in which a caller acts: an Admin in all, others in the organizations of their
 * account. `organizationId` narrows this to one organization; it never moves a device.
 */
#include "modules/device/record/device.h"

int device_scope(struct bb_request *rq, int64_t asked, struct device_scope *scope)
{
    const struct bb_principal *who = rq->principal;
    int64_t organisation;
    int refused = bb_organisation(rq, asked, &organisation);

    if (refused)
        return refused;
    *scope = (struct device_scope){
        .all = who->role == BB_ROLE_ADMIN && !organisation,
        .organisations = who->organisations,
        .count = who->organisation_count,
    };
    if (!organisation)
        return 0;
    int64_t *only = bb_alloc(rq, sizeof(*only));

    *only = organisation;
    scope->organisations = only;
    scope->count = 1;
    return 0;
}

int device_home(struct bb_request *rq, int64_t asked, int64_t *organisation)
{
    const struct bb_principal *who = rq->principal;
    int refused = bb_organisation(rq, asked, organisation);

    if (refused || *organisation)
        return refused;
    *organisation = who->organisation;
    if (who->role == BB_ROLE_API_USER && who->organisation_count > 1)
        return bb_invalid(rq, "organizationId", "is required: you act for several organizations");
    if (!*organisation && who->organisation_count == 1)
        *organisation = who->organisations[0];
    return *organisation ? 0 : bb_fail(rq, 403, "Your account belongs to no organization");
}
