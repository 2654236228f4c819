#include "core/lib/reports.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* crash-2026-11-24T00-11-22.123Z-4711.txt: sorted by name, the oldest is first. */
static int is_report(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);

    return length > 10 && !strncmp(entry->d_name, "crash-2", 7) &&
           !strcmp(entry->d_name + length - 4, ".txt");
}

static void drop(const char *directory, const char *name)
{
    char path[512];

    if (snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path)
        unlink(path);
}

static void keep_newest(const char *directory)
{
    struct dirent **found = NULL;
    int count = scandir(directory, &found, is_report, alphasort);

    for (int i = 0; i < count; i++) {
        if (i < count - REPORTS_KEPT)
            drop(directory, found[i]->d_name);
        free(found[i]);
    }
    free(found);
}

int reports_open(const char *directory)
{
    if (mkdir(directory, 0700) && errno != EEXIST)
        return -1;
    if (access(directory, W_OK | X_OK))
        return -1;
    keep_newest(directory);
    return 0;
}
