#include "core/main/sd_notify.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "core/lib/service_manager.h"
#include "core/lib/supervised.h"

/* The service manager knows the supervisor's process, so the supervisor passes messages on. */
static void tell(const char *text)
{
    if (supervised())
        supervised_tell(text);
    else
        service_manager_tell(text);
}

void sd_notify_ready(void)
{
    tell("READY=1");
}

/* The time lets a manager that waits (Type=notify-reload) identify the reload. */
void sd_notify_reloading(void)
{
    struct timespec now;
    char text[64];

    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
             (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    tell(text);
}

void sd_notify_alive(void)
{
    tell("WATCHDOG=1");
}

void sd_notify_stopping(void)
{
    tell("STOPPING=1");
}
