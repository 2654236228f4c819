/* The organizations in whose data a caller acts. */
#ifndef COMMON_SCOPE_H
#define COMMON_SCOPE_H

#include <busbar/busbar.h>

struct scope {
    bool all; /* an Admin who names no organization */
    const int64_t *organizations;
    size_t count;
};

/* Two parameters of a statement: boolean and bigint[]. */
#define SCOPE_ARGS(scope) bb_b((scope)->all), bb_ints((scope)->organizations, (scope)->count)

/*
 * Sets the scope: the organization `asked` (organizationId), or if this is 0, all organizations for
 * an Admin, and otherwise the organizations of the account. Returns 0, or the status of the
 * response sent.
 */
static inline int scope_set(struct bb_request *rq, int64_t asked, struct scope *scope)
{
    const struct bb_principal *who = rq->principal;
    int64_t *organization = bb_alloc(rq, sizeof(*organization));
    int refused = bb_organization(rq, asked, organization);

    if (*organization)
        *scope = (struct scope){false, organization, 1};
    else
        *scope =
            (struct scope){who->role == BB_ROLE_ADMIN, who->organizations, who->organization_count};
    return refused;
}

#endif
