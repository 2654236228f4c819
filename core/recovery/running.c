#include "core/recovery/running.h"

#include <signal.h>
#include <stddef.h>

static _Thread_local struct running noted;
static _Thread_local volatile sig_atomic_t reloads;
static bool (*of_request)(struct running *);
static bool (*of_fiber)(const void *);

struct running running_enter(struct running now)
{
    struct running before = noted;

    noted = now;
    return before;
}

void running_leave(struct running before)
{
    noted = before;
}

void running_reload(bool begun)
{
    reloads = begun;
}

bool running_reloads(void)
{
    return reloads;
}

void running_sources(bool (*request)(struct running *), bool (*guards)(const void *))
{
    of_request = request;
    of_fiber = guards;
}

struct running running_now(void)
{
    struct running now = noted;

    if (of_request)
        of_request(&now);
    return now;
}

bool running_guards(const void *address)
{
    return of_fiber && of_fiber(address);
}
