#include "core/lib/activity.h"

#include <stddef.h>

static _Thread_local struct activity noted;
static bool (*of_request)(struct activity *);

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

void activity_source(bool (*request)(struct activity *))
{
    of_request = request;
}

struct activity activity_now(void)
{
    struct activity now = noted;

    if (of_request)
        of_request(&now);
    return now;
}
