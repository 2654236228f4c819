/* Names of roles, as the database and the API write them. Pure. */
#include "modules/auth/account/auth.h"

#include <string.h>

static const struct {
    unsigned bit;
    const char *name;
} roles[] = {
    {BB_ROLE_ADMIN, "Admin"},
    {BB_ROLE_ORGANIZATION_ADMIN, "OrganizationAdmin"},
    {BB_ROLE_DEVICE_OWNER, "DeviceOwner"},
    {BB_ROLE_BUYER, "Buyer"},
    {BB_ROLE_USER, "User"},
    {BB_ROLE_API_USER, "ApiUser"},
};

unsigned auth_role_bit(const char *name)
{
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
        if (strcmp(roles[i].name, name) == 0)
            return roles[i].bit;
    return 0;
}

const char *auth_role_name(unsigned bit)
{
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
        if (roles[i].bit == bit)
            return roles[i].name;
    return "User";
}
