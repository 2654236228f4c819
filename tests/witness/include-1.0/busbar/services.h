/*
 * Services that the shipped modules give each other and the host. A service is an interface, a
 * const struct of functions that take the provider's state.
 */
#ifndef BUSBAR_SERVICES_H
#define BUSBAR_SERVICES_H

#include <busbar/request.h>

/*
 * "authenticator" 1: who is behind a bearer token. The host calls it for every route that is not
 * public, before the body is read.
 */
struct bb_authenticator {
    size_t size;
    /*
     * Fills *who from the token (the text behind "Bearer "). Returns 0, or the status of the answer
     * it gave with bb_fail(). May park. Memory of *who lives until the request's end.
     */
    int (*authenticate)(void *state, struct bb_request *rq, const char *token,
                        struct bb_principal *who);
};

/* What an account may see, whatever it owns. Lives as long as the request. */
struct bb_account_scope {
    size_t size;
    const char *email;            /* in lower case */
    unsigned role;                /* one bit of enum bb_role */
    bool active;                  /* may act at all */
    const int64_t *organisations; /* as in struct bb_principal */
    size_t organisation_count;
};

/* "accounts" 3: what other modules may know of accounts. */
struct bb_accounts {
    size_t size;
    /*
     * The organisation of the account with this e-mail (lower case): 1 with *organisation (0: has
     * none), 0: no such account, -1: failed (bb_failed()). Parks.
     */
    int (*organisation_of)(void *state, struct bb_request *rq, const char *email,
                           int64_t *organisation);
    /*
     * The scope of an account by its id, as the database knows it now: 1 with *scope, 0: no such
     * account, -1: failed (bb_failed()). Parks. Since version 2. The channel busbar_auth tells of
     * changes: "account:<id>".
     */
    int (*scope_of)(void *state, struct bb_request *rq, int64_t account,
                    struct bb_account_scope *scope);
    /* Whether there is such an organisation: 1, 0, or -1: failed. Parks. Since version 3. */
    int (*organisation_known)(void *state, struct bb_request *rq, int64_t organisation);
};

#endif
