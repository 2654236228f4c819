#include "core/lib/activity.h"

#include <stddef.h>

static _Thread_local struct activity noted;
static bool (*of_request)(struct activity *);
static bool (*of_fiber)(const void *);

struct activity activity_enter(struct activity now)
{
    struct activity before = noted;

    noted = now;
    return before;
}

void activity_leave(struct activity before)
{
    noted = before;
}

void activity_sources(bool (*request)(struct activity *), bool (*guards)(const void *))
{
    of_request = request;
    of_fiber = guards;
}

struct activity activity_now(void)
{
    struct activity now = noted;

    if (of_request)
        of_request(&now);
    return now;
}

bool activity_guards(const void *address)
{
    return of_fiber && of_fiber(address);
}
