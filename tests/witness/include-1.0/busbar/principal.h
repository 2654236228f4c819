#ifndef BUSBAR_PRINCIPAL_H
#define BUSBAR_PRINCIPAL_H 
#include <busbar/abi.h>
enum bb_role {
    BB_ROLE_ADMIN = 1,
    BB_ROLE_ORGANIZATION_ADMIN = 2,
    BB_ROLE_DEVICE_OWNER = 4,
    BB_ROLE_BUYER = 8,
    BB_ROLE_USER = 16,
    BB_ROLE_API_USER = 32,
    BB_ANY_ROLE = 63,
    BB_ANYONE = 1 << 30
};
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
    int64_t account;
    const char *email;
    unsigned role;
    bool client;
    int64_t organization;
    const int64_t *organizations;
    size_t organization_count;
    const char *session;
    int64_t approved_ms;
};
#endif
