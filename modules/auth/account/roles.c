/* The roles by their names in the database. Pure. */
#include "modules/auth/account/auth.h"

#include <string.h>

unsigned auth_role_bit(const char *name)
{
    for (unsigned bit = 1; bit < BB_ANY_ROLE; bit <<= 1)
        if (strcmp(bb_role_name(bit), name) == 0)
            return bit;
    return 0;
}
