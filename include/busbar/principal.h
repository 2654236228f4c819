/*
 * The caller of a request: the account to which the bearer token belongs. The module that provides
 * the service "authenticator" fills in the struct, which lives as long as the request.
 */
#ifndef BUSBAR_PRINCIPAL_H
#define BUSBAR_PRINCIPAL_H

#include <busbar/abi.h>

/* Roles are bits, so that a route can name several. */
enum bb_role {
    BB_ROLE_ADMIN = 1,
    BB_ROLE_ORGANIZATION_ADMIN = 2,
    BB_ROLE_DEVICE_OWNER = 4,
    BB_ROLE_BUYER = 8,
    BB_ROLE_USER = 16,
    BB_ROLE_API_USER = 32,
    BB_ANY_ROLE = 63,   /* every active account */
    BB_ANYONE = 1 << 30 /* public: tokens are ignored */
};

/* Returns the name of a role in the API and the database; NULL if it is not a role. */
static inline const char *bb_role_name(unsigned role)
{
    switch (role) {
    case BB_ROLE_ADMIN:
        return "Admin";
    case BB_ROLE_ORGANIZATION_ADMIN:
        return "OrganizationAdmin";
    case BB_ROLE_DEVICE_OWNER:
        return "DeviceOwner";
    case BB_ROLE_BUYER:
        return "Buyer";
    case BB_ROLE_USER:
        return "User";
    case BB_ROLE_API_USER:
        return "ApiUser";
    default:
        return NULL;
    }
}

struct bb_principal {
    size_t size;
    int64_t account;      /* id of the account */
    const char *email;    /* in lower case */
    unsigned role;        /* one bit of enum bb_role */
    bool client;          /* the token is of an API client (client credentials), not a session */
    int64_t organization; /* the account's own organization, 0: none */
    /* the organizations in which the account may act: its own, and those that an ApiUser owns */
    const int64_t *organizations;
    size_t organization_count;
    const char *session; /* jti of the token */
    /* When an Admin first approved the account, milliseconds since 1970. */
    int64_t approved_ms;
};

#endif
