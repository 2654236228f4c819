/* The organizations whose data a request may use. Also checks whether an organization exists. */
#ifndef COMMON_SCOPE_H
#define COMMON_SCOPE_H

#include <busbar/busbar.h>

struct scope {
    bool all; /* all organizations, because the request is an Admin's and names none */
    const int64_t *organizations;
    size_t count;
};

/* The scope as two parameters of a statement, a boolean and a bigint[]. */
#define SCOPE_ARGS(scope) bb_b((scope)->all), bb_ints((scope)->organizations, (scope)->count)

/*
 * Sets the scope to the organization `asked` (organizationId), if bb_organization() accepts it. If
 * `asked` is 0, sets the scope to all organizations for an Admin, and to the organizations of the
 * account otherwise. Returns 0, or the status of the response sent.
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

/* Returns the scope for the query's organizationId. Ends the request if scope_set() fails. */
static inline struct scope scope_asked(struct bb_request *rq)
{
    struct scope scope;
    int refused = scope_set(rq, bb_arg_int(rq, "organizationId", 0), &scope);

    if (refused)
        bb_end(rq, refused);
    return scope;
}

/* Returns 1 if the organization exists or no module has accounts, 0 if it is unknown, or -1. */
static inline int organization_known(struct bb_request *rq, int64_t organization)
{
    struct bb_service found = bb_service(rq->host, "accounts");
    const struct bb_accounts *accounts = found.interface;

    return accounts ? accounts->organization_known(found.state, rq, organization) : 1;
}

/* Ends the request with 404 unless the organization exists. */
static inline void organization_check(struct bb_request *rq, int64_t organization)
{
    int known = organization_known(rq, organization);

    if (known <= 0)
        bb_end(rq, known ? bb_failed(rq) : bb_fail(rq, 404, "Organization not found"));
}

#endif
