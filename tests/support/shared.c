#include "shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "process.h"

char *shared_cases(const char *name)
{
    const char *root = getenv("BUSBAR_SHARED");
    char *path = text("%s/cases/%s", root ? root : "../shared", name);

    if (!access(path, R_OK))
        return path;
    test_skipped(text("there is no %s; set BUSBAR_SHARED", path));
    return NULL;
}
