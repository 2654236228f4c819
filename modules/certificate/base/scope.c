/*
 * Which entries a caller sees: the entries of the organizations in which it acts; Admins see all.
 * organizationId narrows this to one organization.
 */
#include "modules/certificate/base/certificate.h"

static const int64_t none = 0;

int certificate_scope(struct bb_request *rq, int64_t asked, struct certificate_scope *scope)
{
    const struct bb_principal *who = rq->principal;
    bool admin = who->role == BB_ROLE_ADMIN;
    int64_t organisation;
    int refused = bb_organisation(rq, asked, &organisation);

    if (refused)
        return refused;
    *scope = (struct certificate_scope){.all = admin && !organisation, .organisations = &none};
    if (organisation) {
        int64_t *one = bb_alloc(rq, sizeof(*one));

        *one = organisation;
        scope->organisations = one;
        scope->count = 1;
    } else if (who->organisation_count > 0) {
        scope->organisations = who->organisations;
        scope->count = who->organisation_count;
    }
    return 0;
}

/* An organization named by an Admin must exist; other callers can only name existing ones. */
static int admin_home(struct bb_request *rq, int64_t asked)
{
    const struct certificate *certificate = rq->state;
    int known = certificate->accounts->organisation_known(certificate->accounts_state, rq, asked);

    if (known < 0)
        return bb_failed(rq);
    return known ? 0 : bb_fail(rq, 404, "Organization not found");
}

int certificate_home(struct bb_request *rq, int64_t asked, int64_t *organisation)
{
    int refused = bb_home(rq, asked, organisation);

    return refused || rq->principal->role != BB_ROLE_ADMIN ? refused
                                                           : admin_home(rq, *organisation);
}
