/* Finds the path of the control socket. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/host/control.h"
#include "core/settings/host_settings.h"

char *control_path(const struct settings *settings)
{
    const char *environment = getenv("BUSBAR_CONTROL");
    const char *path = settings ? settings_text(settings, "control", "socket") : CONTROL_SOCKET;
    char *joined;

    if (environment && *environment)
        return strdup(environment);
    if (!path || !*path)
        return NULL;
    if (*path == '/' || !settings)
        return strdup(path);
    return asprintf(&joined, "%s/%s", settings_directory(settings), path) < 0 ? NULL : joined;
}
